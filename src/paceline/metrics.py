"""Known metrics: what unit a number has, and whether less or more of it is better.

Only the last part of a name counts, what follows its last dot. The first of these that knows it decides:

1. The name is known by itself: the metrics Paceline takes of every run, and those of stages, which may also end a
   longer name.
2. The name ends with an aggregate (`_mean`, `_p99`, …): the name before it tells. A spread (`_std`) has no direction,
   and a sum only has the direction of a time.
3. The name matches a pattern, of which the first counts.

A unit or a direction that the script gives wins over the one found here, and a unit speaks for a name that nothing else
knows: times are better low, rates better high. What the suite says under `metrics` wins over all. A metric with no
direction is recorded and drawn, and never judged.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from paceline.model import Direction, Measurement, Metric, is_case, is_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Names that match `pattern` have this unit and direction; a unit may use the pattern's groups."""

    pattern: str
    unit: str | None
    direction: Direction | None
    note: str

    def match(self, name: str) -> Metric | None:
        found = re.search(self.pattern, name)
        if found is None:
            return None
        unit = found.expand(self.unit) if self.unit else None
        return Metric(name=name, unit=unit, direction=self.direction)


def _known(name: str, unit: str | None, direction: Direction | None, meaning: str) -> tuple[str, Rule]:
    return name, Rule(pattern=f"^{re.escape(name)}$", unit=unit, direction=direction, note=meaning)


def _rule(example: str, pattern: str, unit: str | None, direction: Direction | None) -> Rule:
    return Rule(pattern=pattern, unit=unit, direction=direction, note=example)


KNOWN: dict[str, Rule] = dict(
    (
        _known("exec_time_s", "s", "lower", "wall time of the command"),
        _known("cpu_user_s", "s", "lower", "CPU time of its processes in user mode"),
        _known("cpu_system_s", "s", "lower", "CPU time of its processes in the kernel"),
        _known("peak_memory_bytes", "bytes", "lower", "most memory its processes held together, where known"),
        _known("mean_memory_bytes", "bytes", "lower", "memory its processes held on average"),
        _known("io_read_bytes", "bytes", None, "read from storage"),
        _known("io_write_bytes", "bytes", None, "written to storage"),
        _known("voluntary_context_switches", None, None, "times a process waited for something"),
        _known("involuntary_context_switches", None, None, "times a process was made to wait for the CPU"),
        _known("load_before", None, None, "the machine's load average before the run"),
        _known("other_cpu_cores", "cores", None, "CPU cores that other processes used during the run"),
        _known("cpu_pressure_pct", "%", None, "share of the run in which something waited for a CPU"),
        _known("io_pressure_pct", "%", None, "share of the run in which something waited for storage"),
        _known("memory_pressure_pct", "%", None, "share of the run in which something waited for memory"),
        _known("gpu_peak_memory_bytes", "bytes", "lower", "most memory in use on a GPU"),
        _known("gpu_mean_utilization_pct", "%", None, "how busy the GPUs were on average"),
        _known("gpu_peak_temperature_c", "°C", None, "the hottest a GPU became"),
        _known("is_success", None, None, "whether the script says it did what it should"),
        _known("exit_code", None, None, "what the command returned (for requirements)"),
        _known("returncode", None, None, "the same"),
        _known("process_time", "s", "lower", "time a stage took for its batches"),
        _known("actor_idle_time", "s", None, "time a stage's workers waited for input"),
        _known("input_data_size_mb", "MB", None, "size of a stage's input"),
        _known("num_items_processed", None, None, "items a stage processed"),
    )
)

AUTOMATIC = frozenset(
    {
        *("exec_time_s", "cpu_user_s", "cpu_system_s"),
        *("peak_memory_bytes", "mean_memory_bytes", "gpu_peak_memory_bytes"),
    }
)
"""Of the metrics that Paceline takes of every run, those with a direction: nobody asked for them."""

_SECOND = "(?:s|sec|secs|second|seconds)"
_TIME = "(?:time|latency|duration|elapsed|runtime|walltime)"
_COUNT = "^(?:num|total|count|n)_"
_SIZE = "(bytes|[kmgt]i?b)"
_GIVEN = (
    "(?:^|_)(?:input|batch|data|dataset|chunk|block|page|buffer|sample|step|window|queue|pool|world|vocab)"
)
"""Sizes that a benchmark is given, and so are none of its results."""

RULES: tuple[Rule, ...] = (
    _rule("docs_per_sec", f"(?:^|_)([a-z]+)_per_{_SECOND}$", r"\1/s", "higher"),
    _rule("pages_per_hour", "(?:^|_)([a-z]+)_per_(min|minute|hour|h|day)$", r"\1/\2", "higher"),
    _rule("throughput_mb_s", "(?:^|_)([kmgt]i?b)_?(?:ps|s)$", r"\1/s", "higher"),
    _rule("read_iops", "(?:^|_)(ops|qps|rps|tps|fps|iops|flops)$", r"\1", "higher"),
    _rule("throughput", "(?:^|_)throughput(?:_|$)", None, "higher"),
    _rule("ns_per_op", "^(s|ms|us|ns)_per_([a-z]+)$", r"\1/\2", "lower"),
    _rule("time_per_doc", f"^(?:{_TIME}|seconds)_per_([a-z]+)$", r"s/\1", "lower"),
    _rule("total_time", f"^total_{_TIME[:-1]}|cpu)(?:_taken)?(?:_{_SECOND})?$", "s", "lower"),
    _rule("total_time_ms", f"^total_{_TIME[:-1]}|cpu)_(ms|us|ns)$", r"\1", "lower"),
    _rule("total_audio_s", rf"{_COUNT}\w+_{_SECOND}$", "s", None),
    _rule("total_output_mb", rf"{_COUNT}\w+_{_SIZE}$", r"\1", None),
    _rule("num_documents", _COUNT, None, None),
    _rule("f1_score", "(?:^|_)(?:accuracy|precision|recall|f1|auc|bleu|rouge)(?:_|$)", None, "higher"),
    _rule("speedup", "(?:^|_)(?:speedup|efficiency|goodput|hit_rate)(?:_|$)", None, "higher"),
    _rule("plan_overhead", "(?:^|_)(?:overhead|slowdown)$", None, "lower"),
    _rule("instructions", "(?:^|_)(?:instructions?|cycles|syscalls|page_faults)(?:_count)?$", None, "lower"),
    _rule("cache_misses", "(?:^|_)(?:cache|branch|tlb|l1d?|llc)_misses$", None, "lower"),
    _rule("allocations", "(?:^|_)(?:allocations?|allocs|calls)(?:_count)?$", None, "lower"),
    _rule("allocated_bytes", f"(?:^|_)(?:allocated|leaked)_{_SIZE}$", r"\1", "lower"),
    _rule("input_size_bytes", rf"{_GIVEN}_size_{_SIZE}$", r"\1", None),
    _rule("binary_size_bytes", rf"(?:^|_)size_{_SIZE}$", r"\1", "lower"),
    _rule("batch_size", rf"{_GIVEN}_size$", None, None),
    _rule("binary_size", "(?:^|_)(?:binary|code|wheel|image|archive|compressed|bundle)_size$", None, "lower"),
    _rule("eval_loss", "(?:^|_)(?:loss|perplexity|wer|cer)$", None, "lower"),
    _rule("error_rate", "(?:^|_)(?:errors?|failures?)(?:_count|_rate)?$", None, "lower"),
    _rule("rows_processed", "_(?:count|processed|total)$", None, None),
    _rule("worker_memory_gb", rf"(?:^|_)(?:memory|mem|rss|vram)(?:_\w+)?_{_SIZE}$", r"\1", "lower"),
    _rule("peak_memory", "(?:^|_)(?:peak|average|mean|max)_memory$", None, "lower"),
    _rule("output_bytes", f"_{_SIZE}$", r"\1", None),
    _rule("first_token_ms", "_(ms|us|ns)$", r"\1", "lower"),
    _rule("audio_hours", "_(hours|minutes)$", r"\1", None),
    _rule("sort_s", f"_{_SECOND}$", "s", "lower"),
    _rule("time_taken", f"(?:^|_){_TIME}(?:_taken)?$", "s", "lower"),
    _rule("cache_pct", "_(?:pct|percent|percentage)$", "%", None),
)

_STEADY_UNITS = re.compile(r"(?i)bytes|[kmgt]i?b|%")
_STEADY_NAMES = re.compile(
    "(?:^|_)(?:accuracy|precision|recall|f1|auc|bleu|rouge|hit_rate|loss|perplexity|wer|cer|errors?|failures?|"
    "instructions?|allocations?|allocs|calls)(?:_|$)"
)


def is_steady(name: str, unit: str | None) -> bool:
    """Whether a number is the same however busy the machine is: sizes and qualities, unlike times and rates."""
    if unit and _STEADY_UNITS.fullmatch(unit):
        return True
    return unit is None and bool(_STEADY_NAMES.search(name.rpartition(".")[2]))


_AGGREGATE = re.compile(r"_(sum|mean|avg|std|stdev|var|min|max|median|p\d{1,3})$")
_LONGEST = 200
_MOST_NAMED = 5
_SPREADS = frozenset({"std", "stdev", "var"})
_TIME_UNITS = frozenset({"s", "sec", "seconds", "ms", "us", "µs", "ns", "min", "h"})
_SIZES = {
    "kb": "kB",
    "mb": "MB",
    "gb": "GB",
    "tb": "TB",
    "kib": "KiB",
    "mib": "MiB",
    "gib": "GiB",
    "tib": "TiB",
}


@lru_cache(maxsize=4096)
def describe(
    name: str,
    unit: str | None = None,
    direction: Direction | None = None,
    said: tuple[Metric, ...] = (),
) -> Metric:
    """What is known of a metric: by the suite (`said`, by name or glob), by the script (the others), by its name."""
    words = [one for one in said if is_case(one.name, name)]
    unit = next((one.unit for one in words if one.unit), unit)
    direction = next((one.direction for one in words if one.direction), direction)
    label = next((one.label for one in words if one.label), None)
    found = _by_name(name) or Metric(name=name, direction=_direction_of_unit(unit))
    return Metric(
        name=name,
        unit=unit or _spelled(found.unit),
        direction=direction or found.direction,
        label=label,
    )


def unheard_of(measured: Mapping[str, Measurement], said: tuple[Metric, ...] = ()) -> Iterator[str]:
    """The metrics of which nobody has said which way is better or that neither is, not even by a name that is known."""
    for name, one in measured.items():
        is_known = one.direction is not None or not is_number(one.value) or _by_name(name) is not None
        if not is_known and not any(is_case(word.name, name) for word in said):
            yield name


def ask_for_directions(names: Collection[str]) -> str:
    """What to tell a user about metrics that nobody knows."""
    more = len(names) - _MOST_NAMED
    shown = ", ".join([*names][:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"nobody says which way is better for {shown}, so no change of it is judged: "
        'emit.metric(name, value, direction="lower") says it, or `metrics: {name: {direction: lower}}` in the suite'
    )


def _by_name(name: str) -> Metric | None:
    leaf = name.rpartition(".")[2].lower()
    if len(leaf) > _LONGEST:
        return None
    if leaf in KNOWN:
        return KNOWN[leaf].match(leaf)
    aggregate = _AGGREGATE.search(leaf)
    if aggregate:
        found = _by_name(leaf[: aggregate.start()])
        return found and _aggregated(found, aggregate[1])
    inner = next((known for known in KNOWN if leaf.endswith(f"_{known}")), None)
    if inner is not None:
        return KNOWN[inner].match(inner)
    return next((found for rule in RULES if (found := rule.match(leaf))), None)


def _aggregated(found: Metric, aggregate: str) -> Metric:
    is_rate = bool(found.unit) and "/" in str(found.unit)
    keeps = aggregate not in _SPREADS and not (aggregate == "sum" and (is_rate or found.direction != "lower"))
    return Metric(name=found.name, unit=found.unit, direction=found.direction if keeps else None)


def _direction_of_unit(unit: str | None) -> Direction | None:
    if unit is None:
        return None
    if unit in _TIME_UNITS:
        return "lower"
    return "higher" if unit.endswith(("/s", "/sec", "/min", "/h")) else None


def _spelled(unit: str | None) -> str | None:
    """A unit found in a name, where sizes are written small."""
    if unit is None:
        return None
    amount, slash, rest = unit.partition("/")
    return f"{_SIZES.get(amount, amount)}{slash}{rest}"

"""What the runs of a case come to: a status with a reason, and a measurement a metric."""

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline import metrics as known
from paceline.model import Case, Measurement, Scalar, Status, is_number
from paceline.run.local.process import Exit, Usage, describe_death
from paceline.run.output import OutputLog
from paceline.run.script_output import ScriptOutput

_FIGURES = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a case's command: a warm-up, a repetition, or the only one."""

    exit: Exit
    output: ScriptOutput
    collected: Mapping[str, float]
    warnings: tuple[str, ...]
    status: Status
    reason: str


def verdict(case: Case, ended: Exit, output: ScriptOutput, tail: Sequence[str]) -> tuple[Status, str]:
    """What an exit means, before any requirement is looked at."""
    if ended.reason == "timeout":
        return Status.TIMEOUT, f"exceeded its timeout of {case.timeout_s:g} s"
    if ended.reason != "exited":
        statuses = {
            "launch_error": Status.LAUNCH_ERROR,
            "stopped": Status.INTERRUPTED,
            "lost": Status.INFRA_ERROR,
        }
        return statuses.get(ended.reason, Status.FAILED), ended.message
    if ended.returncode:
        said = f": {tail[0].strip()}" if tail and tail[0].strip() else ""
        code = ended.returncode
        return Status.FAILED, f"{describe_death(code) if code < 0 else f'exit code {code}'}{said}"
    if case.metrics_required and not output.has_metrics:
        why = f" ({'; '.join(output.problems)})" if output.problems else ""
        where = "the directory given by --benchmark-results-path"
        return Status.FAILED, f"exited 0 but left no usable metrics.json in {where}{why}"
    if output.metrics.get("is_success") is False:
        return Status.FAILED, "exited 0 but its metrics.json says is_success: false"
    return Status.PASSED, ""


def notes(ended: Exit, output: ScriptOutput, log: OutputLog) -> tuple[str, ...]:
    said = list(output.problems)
    if ended.leftovers:
        said.append(f"background processes outlived the command and were ended: {', '.join(ended.leftovers)}")
    if log.warning:
        said.append(log.warning)
    return tuple(said)


def merged_warnings(runs: Sequence[Run]) -> tuple[str, ...]:
    """Each warning once, with how many further runs had it; figures in it may differ from run to run."""
    first: dict[str, str] = {}
    runs_with: Counter[str] = Counter()
    for run in runs:
        kinds = {_FIGURES.sub("#", text): text for text in run.warnings}
        runs_with.update(list(kinds))
        first = {**first, **{kind: text for kind, text in kinds.items() if kind not in first}}
    return tuple(_with_count(text, runs_with[kind] - 1) for kind, text in first.items())


def _with_count(text: str, further: int) -> str:
    return f"{text} (and in {further} more runs)" if further else text


def usage_metrics(usage: Usage) -> dict[str, float]:
    return {
        "exec_time_s": round(usage.wall_s, 6),
        "cpu_user_s": usage.cpu_user_s,
        "cpu_system_s": usage.cpu_system_s,
        "peak_memory_bytes": usage.peak_memory_bytes,
        "mean_memory_bytes": usage.mean_memory_bytes,
        "io_read_bytes": usage.io_read_bytes,
        "io_write_bytes": usage.io_write_bytes,
        "voluntary_context_switches": usage.voluntary_context_switches,
        "involuntary_context_switches": usage.involuntary_context_switches,
    }


def measurements(runs: Sequence[Run]) -> dict[str, Measurement]:
    """All samples of each metric over the runs; what the script says wins over what we measured."""
    samples: dict[str, list[Scalar]] = {}
    units: dict[str, str] = {}
    for run in runs:
        units.update(run.output.units)
        for name, value in {**run.collected, **run.output.metrics}.items():
            samples.setdefault(name, []).extend(value if isinstance(value, tuple) else (value,))
    return {name: _measurement(name, values, units.get(name)) for name, values in samples.items()}


def _measurement(name: str, samples: Sequence[Scalar], unit: str | None) -> Measurement:
    metric = known.describe(name, unit)
    return Measurement(
        value=_representative(samples), unit=metric.unit, direction=metric.direction, samples=tuple(samples)
    )


def _representative(samples: Sequence[Scalar]) -> Scalar:
    """The median of numbers; a flag only if all agree it is set; of anything else the last."""
    if not samples:
        return None
    if all(isinstance(value, bool) for value in samples):
        return all(samples)
    numbers = [value for value in samples if is_number(value)]
    if len(numbers) < len(samples):
        return samples[-1]
    if any(number != number for number in numbers):
        return float("nan")  # sorting would hide it
    return numbers[0] if len(numbers) == 1 else statistics.median(numbers)

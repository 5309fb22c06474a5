"""The types that flow: config → plan → record → series → finding → report; none is changed after it was made.

The text beside a field says what it holds; the JSON Schemas of the files have it from here.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard

from paceline.finding import Finding as Finding
from paceline.finding import Since as Since
from paceline.finding import State as State
from paceline.finding import Verdict as Verdict

RUN_DIR = "\x00run_dir\x00"
"""Stands, in a case's strings, for the directory of one run of it; `Case.at` puts the directory in."""

_LARGEST = sys.float_info.max
RECORD_SCHEMA = 1
REPORT_SCHEMA = 1

Scalar = str | int | float | bool | None
Direction = Literal["lower", "higher"]
Severity = Literal["fail", "warn"]
CheckKind = Literal["exact_value", "min_value", "max_value", "max_regression"]
CaseKind = Literal["entry", "data_setup"]
Disturbed = Literal["mark", "void", "ignore"]
"""What becomes of a run that others disturbed: marked and not judged, not counted, or taken as it is."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether this is a number, which a flag is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether this is a number that can be computed with: neither NaN nor infinite nor too large for a float."""
    return is_number(value) and -_LARGEST <= value <= _LARGEST


def as_float(value: Scalar) -> float | None:
    """A number or a flag as a float; None for anything else, and for a number that is too large for one."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


class Status(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    REQUIREMENT_FAILED = "requirement_failed"
    TIMEOUT = "timeout"
    LAUNCH_ERROR = "launch_error"
    INFRA_ERROR = "infra_error"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"

    @property
    def ok(self) -> bool:
        return self is Status.PASSED

    @property
    def finished(self) -> bool:
        """Whether the benchmark itself came to an end, so that a resumed session keeps the record."""
        return self in _FINISHED


_FINISHED = frozenset({Status.PASSED, Status.FAILED, Status.REQUIREMENT_FAILED, Status.TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where in the configuration something was written."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a case takes while it runs; the scheduler never hands out more than the machine has.

    `labels` are those that a node of a pool must have.
    """

    cpus: Annotated[float, "CPU cores."] = 1
    gpus: Annotated[int, "GPUs."] = 0
    memory_bytes: Annotated[int, "Memory in bytes; 0: not accounted for."] = 0
    exclusive: Annotated[bool, "Whether nothing may run beside it."] = False
    labels: Annotated[Mapping[str, str], "Labels that its node must have."] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a case's process tree may not exceed; it is ended when it does."""

    processes: int = 4096
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One bound on one metric; `tolerance` is relative and widens the bound."""

    metric: Annotated[str, "The metric that is bounded."]
    kind: Annotated[CheckKind, "The kind of bound."]
    bound: Annotated[Scalar, "The bound."]
    tolerance: Annotated[float, "The share of the bound by which it is widened."] = 0.0
    severity: Annotated[Severity, "What an unmet one does to the case."] = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A requirement held against what was measured; a negative `margin` lies outside the bound."""

    metric: Annotated[str, "The metric that is bounded."]
    kind: Annotated[CheckKind, "The kind of bound."]
    bound: Annotated[Scalar, "The bound."]
    actual: Annotated[Scalar, "What was measured; null when it was not."]
    margin: Annotated[float | None, "How far the value lies inside the bound; negative: outside."]
    ok: Annotated[bool, "Whether the requirement is met."]
    severity: Annotated[Severity, "What an unmet one does to the case."] = "fail"
    reason: Annotated[str, "Why it is not met, or what it was held against."] = ""
    judged: Annotated[bool, "False where there was nothing to hold it against; then `ok` says nothing."] = (
        True
    )


def name_case(entry: str, params: Mapping[str, Scalar]) -> str:
    """`entry[executor=local,size=10]`, parameters sorted by name; the entry's own name without any."""
    if not params:
        return entry
    inner = ",".join(f"{name}={write_scalar(value)}" for name, value in sorted(params.items()))
    return f"{entry}[{inner}]"


def one_spelling(name: str) -> str:
    """The name of a case as `name_case` spells it, in whatever order its parameters were given."""
    entry, parts = _split_case(name)
    return f"{entry}[{','.join(sorted(parts, key=_param_name))}]" if parts else name


def is_case(pattern: str, name: str) -> bool:
    """Whether a name or glob means this case; parameters may come in any order, and a `*` at the end covers the rest.

    Only `*` and `?` are special, since names of cases have brackets.
    """
    if pattern == name or _glob(pattern).fullmatch(name):
        return True
    (wanted_entry, wanted), (entry, parts) = _split_case(pattern), _split_case(name)
    if not wanted or not parts or not _glob(wanted_entry).fullmatch(entry):
        return False
    named = [part for part in wanted if part != "*"]
    left = {_param_name(part): part for part in parts}
    for part in named:
        found = left.pop(_param_name(part), None)
        if found is None or not _glob(part).fullmatch(found):
            return False
    return not left or len(named) < len(wanted) or named[-1].endswith("*")


def _split_case(name: str) -> tuple[str, list[str]]:
    """Entry and `param=value` parts of a case's name; a part without `=` belongs to the value before it."""
    entry, bracket, rest = name.partition("[")
    if not bracket or not rest.endswith("]"):
        return name, []
    parts: list[str] = []
    for part in rest[:-1].split(","):
        if parts and "=" not in part and part != "*":
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return entry, parts


def _param_name(part: str) -> str:
    return part.partition("=")[0]


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def write_scalar(value: Scalar) -> str:
    """A scalar as text, the way YAML spells it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One benchmark with all its parameters set: an entry, a cell of a matrix, a step of a data set-up.

    `former_fingerprint` is the one by formula 1, which records of before have. Cases of one `process` share it: the
    words of `joins` add a case to the command of another, with the directory for its results as that of the run.
    """

    name: Annotated[
        str, "The case's name, unique in the session; the entry's name and, of a matrix, the cell."
    ]
    entry: Annotated[str, "The entry of the configuration that the case comes from."]
    key: Annotated[str, "The case's identity in history, as its entry and its parameters make it."]
    fingerprint: Annotated[
        str, "A hash of all that decides the result; a resumed session keeps equal ones."
    ] = ""
    formula: Annotated[int, "By which formula the fingerprint was made."] = 1
    former_fingerprint: str = ""
    params: Annotated[Mapping[str, Scalar], "The parameters that the matrix set."] = field(
        default_factory=dict
    )
    variant: Annotated[str | None, "The arm of a comparison, if it is one's."] = None
    version: Annotated[str, "Changes when the benchmark's meaning does."] = "1"
    kind: Annotated[CaseKind, "A benchmark, or a step that prepares data."] = "entry"
    script: str | None = None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    results_path: str = f"{RUN_DIR}/benchmark_results"
    metrics_required: bool = True
    timeout_s: Annotated[float, "Seconds after which the command is ended."] = 7200
    grace_s: float = 5
    resources: Annotated[Resources, "What the case takes while it runs."] = Resources()
    limits: Limits = Limits()
    cluster: Mapping[str, Any] | None = None
    requirements: Annotated[tuple[Requirement, ...], "Bounds on its metrics."] = ()
    repeat: int = 1
    warmup: int = 0
    disturbed: Disturbed = "mark"
    retries: int = 0
    tags: Annotated[tuple[str, ...], "The tags of the entry."] = ()
    watch: Annotated[
        tuple[str, ...], "Of the metrics that are taken of every case, those to raise alarms about."
    ] = ()
    metrics: "tuple[Metric, ...]" = ()
    needs: tuple[str, ...] = ()
    process: str = ""
    joins: tuple[str, ...] = ()
    delete_scratch: bool = True
    gpu_mem_use_warning_threshold: float | None = None
    sink_data: Mapping[str, Any] = field(default_factory=dict)
    blocked: Annotated[str | None, "What keeps the case from running."] = None
    source: Source = Source()

    @property
    def declared_name(self) -> str:
        """The name with its parameters in the order of the matrix, as it was spelled before there was one order."""
        entry, parts = _split_case(self.name)
        by_param = {_param_name(part): part for part in parts}
        ordered = [by_param.pop(param) for param in self.params if param in by_param]
        return self.name if by_param or not ordered else f"{entry}[{','.join(ordered)}]"

    @property
    def runs(self) -> int:
        """How many times its command runs for one record."""
        return self.warmup + self.repeat

    def is_same_work(self, stored: "Case") -> bool:
        """Whether a case of a record is this one, by the formula that made its fingerprint."""
        own = self.fingerprint if stored.formula == self.formula else self.former_fingerprint
        return stored.fingerprint == own

    def at(self, text: str, run_dir: Path) -> str:
        """One of the case's strings, with the directory of this run put in."""
        return text.replace(RUN_DIR, str(run_dir))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an experiment changes around a suite's cases; what is not given is as in any other session.

    `path` goes in front of PATH. `repo_dir` holds a revision of the repository at `repo_top`, if that is given.
    `args` are by the name of an entry, `params` by that of a parameter; arguments that
    begin with a flag follow the entry's own, others replace them. `details` are kept in every record. In fingerprints
    `placeholders` stand for paths that say only where something was built; `inherited` are variables that count for
    nothing in them, as those of the user's shell. `blocked` are cases that cannot run, with the reason; `wrapped` has
    the words to put before the commands of others, such as a profiler.
    """

    variant: str | None = None
    python: str | None = None
    path: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    repo_dir: str | None = None
    repo_top: str | None = None
    args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    params: Mapping[str, Scalar] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)
    blocked: Mapping[str, str] = field(default_factory=dict)
    wrapped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """A sink as the plan has it: which class, its label, its options (with secrets; redacted when written).

    `only` says which records it gets, all if empty; `live` whether it gets them while the session runs. One call
    may take `timeout_s`, its process `memory_bytes`, and the end of the session waits `wait_s` for it.
    """

    type: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    required: bool = False
    only: tuple[str, ...] = ()
    live: bool = True
    timeout_s: float = 60.0
    wait_s: float = 30.0
    memory_bytes: int = 1 << 30
    blocked: str | None = None
    source: Source = Source()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """A pool of machines to run on, as `pool:` of a configuration describes it."""

    address: str = "auto"
    ship: Literal["auto", "always", "never"] = "auto"
    ship_limit: int = 200 << 20
    files: Sequence[str] = ()
    exclude: Sequence[str] = ()
    node_retries: int = 3
    wait_for_node_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a plan says about the session as a whole.

    `results_url` is the object store that keeps the session, if one does; `capture_env` names variables to keep with
    it; `private` keeps other users out of its directory; `errors` say why cases and sinks are blocked.
    """

    run_reason: str | None = None
    viewer_url: str | None = None
    results_url: str = ""
    gpu_stats_interval_s: float = 1.0
    pool: PoolSettings | None = None
    config_files: tuple[str, ...] = ()
    capture_env: tuple[str, ...] = ()
    private: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a session will do, fully resolved.

    `secret_names` are the variables that the suite marks as secret, and with a `!` those that it says are not;
    `sink_variables` those that the options of sinks use.
    """

    session: str
    directory: Path
    artifacts_dir: Path | None = None
    setups: tuple[Case, ...] = ()
    cases: tuple[Case, ...] = ()
    sinks: tuple[SinkSpec, ...] = ()
    secret_names: tuple[str, ...] = ()
    secret_values: tuple[str, ...] = field(default=(), repr=False)
    sink_variables: tuple[str, ...] = ()
    settings: Settings = Settings()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What a number means. A metric with no direction is never judged; `label` is what reports call it."""

    name: str
    unit: str | None = None
    direction: Direction | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A metric's value in one record, with every sample it came from."""

    value: Annotated[Scalar, "The median of the samples if they are numbers."]
    unit: Annotated[str | None, "The unit, such as s or bytes."] = None
    direction: Annotated[Direction | None, "Which way is better; null: neither."] = None
    samples: Annotated[tuple[Scalar, ...], "Every value measured."] = ()
    label: Annotated[str | None, "What reports call it, if the suite says so."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What happened when a case ran. Whether its numbers are good is a finding.

    `details` holds what only some kinds of cases know: a test's outcomes and source, a run's node in a pool.
    """

    session: Annotated[str, "The session's name."]
    case: Annotated[Case, "What ran."]
    attempt: Annotated[int, "Which attempt at the case this was."]
    status: Annotated[Status, "How the case ended."]
    reason: Annotated[str, "Why it ended so; empty when it passed."] = ""
    started_at: Annotated[str, "When it started: UTC, ISO 8601."] = ""
    exec_time_s: Annotated[float, "Wall time of the command in seconds, the median if it was repeated."] = 0.0
    timings_s: Annotated[Mapping[str, float], "Seconds of each phase: cluster_start, run, …"] = field(
        default_factory=dict
    )
    returncode: Annotated[
        int | None, "Its exit code; negative: ended by that signal; null: never started."
    ] = None
    command: Annotated[tuple[str, ...], "The command line that ran, secrets masked."] = ()
    metrics: Annotated[Mapping[str, Measurement], "What was measured, by name."] = field(default_factory=dict)
    params: Annotated[Mapping[str, Any], "What the benchmark itself wrote of them."] = field(
        default_factory=dict
    )
    requirements: Annotated[tuple[Check, ...], "Every requirement, checked."] = ()
    environment: Annotated[str, "The id of the environment in environment.json."] = ""
    revision: Annotated[str, "The git revision of the suite."] = ""
    warnings: Annotated[tuple[str, ...], "What was noticed and did not decide the status."] = ()
    artifacts: Annotated[tuple[str, ...], "Files kept with the record, relative to its directory."] = ()
    disturbed: Annotated[
        tuple[str, ...], "What disturbed each run that counts, empty for none; no list if none was disturbed."
    ] = ()
    details: Annotated[Mapping[str, Any], "What only some kinds of cases know."] = field(default_factory=dict)

    @property
    def disturbance(self) -> str:
        """What disturbed at least half of its runs, so that its numbers may tell of others; empty if nothing did."""
        hit = [text for text in self.disturbed if text]
        if not hit or 2 * len(hit) < len(self.disturbed):
            return ""
        return f"{hit[0]} ({len(hit)} of {len(self.disturbed)} runs)" if len(self.disturbed) > 1 else hit[0]

    @property
    def is_measurable(self) -> bool:
        """Whether a run of it was undisturbed, as far as that is known."""
        return not self.disturbed or not all(self.disturbed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A session's outcome; it decides the exit code.

    `records` may be read from disk one by one. `unfinished` says why the session ended before all cases had
    run, `undelivered` names required sinks that did not get everything, `unjudged` counts the requirements that
    could not be judged, and `inconclusive` says why no requirement that is relative to the history could. Cases in
    `done_before` have results of an earlier session, and where these are. `database` is the history that has it.
    """

    plan: Plan
    records: Sequence[Record]
    findings: tuple[Finding, ...] = ()
    counts: Mapping[Status, int] = field(default_factory=dict)
    interrupted: bool = False
    unfinished: str = ""
    undelivered: tuple[str, ...] = ()
    unjudged: int = 0
    inconclusive: str = ""
    done_before: Mapping[str, str] = field(default_factory=dict)
    database: str = ""

    @property
    def ok(self) -> bool:
        # A case is skipped because it says so, or because of another, which is counted itself.
        harmless = (Status.PASSED, Status.SKIPPED)
        no_failure = all(status in harmless for status, count in self.counts.items() if count)
        complete = not self.interrupted and not self.unfinished and not self.undelivered
        return no_failure and complete and not any(finding.fails for finding in self.findings)

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if not self.ok else 2 if self.inconclusive else 0


Before = Callable[[Record, str], Since | None]
"""How a record's metric compares with the results before it; None if there are none."""
ReadBefore = Callable[[], Before | None]
"""Reads the results before a session; None if there are none, or too many to read."""

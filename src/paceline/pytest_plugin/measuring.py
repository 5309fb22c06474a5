"""What one test measures: marked regions, rounds of functions, and what its fixtures set.

An arm of an A/B test has this without Paceline's packages, and may have an older Python: so here, in `__init__`, in
`failures` and in `dask`, nothing but the standard library, pytest and Dask is imported.
"""

import numbers
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from time import perf_counter_ns, time
from typing import TYPE_CHECKING, Any

import pytest

from paceline.timing.bench import Settings

if TYPE_CHECKING:
    from paceline.model import Case
    from paceline.pytest_plugin.profiles import Profiling
    from paceline.timing.bench import Timed

NS = 1e-9
SETTINGS = Settings()


class Measured:
    """One run of one test: what was measured in it, and the words that go with it."""

    __slots__ = (
        "case",
        "details",
        "ended_s",
        "metrics",
        "profiling",
        "regions",
        "reports",
        "rounds",
        "started_s",
        "values",
        "warnings",
    )

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}
        self.details: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.regions: list[float] = []
        self.rounds: list[Timed] = []
        self.started_s = 0.0
        self.ended_s = 0.0
        self.reports: dict[str, pytest.TestReport] = {}
        self.case: Case | None = None
        self.profiling: Profiling | None = None

    def note(self, started_s: float, duration_s: float) -> None:
        """Widen the time span in which something was measured."""
        self.started_s = min(self.started_s or started_s, started_s)
        self.ended_s = max(self.ended_s, started_s + duration_s)

    def keep(self, timed: "Timed") -> None:
        """Take what a call of `bench` has measured."""
        self.rounds.append(timed)
        self.note(timed.started_s, timed.duration_s)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def is_empty(self) -> bool:
        return not (self.regions or self.rounds or self.metrics or self.values)


MEASURED = pytest.StashKey[Measured]()

COLUMNS = frozenset(
    {
        *("id", "session_id", "name", "originalname", "path", "start", "end", "ci_run_url", "platform"),
        *(
            "setup_outcome",
            "call_outcome",
            "teardown_outcome",
            "coiled_runtime_version",
            "coiled_software_name",
        ),
        *("dask_version", "dask_expr_version", "distributed_version", "python_version"),
        *("duration", "average_memory", "peak_memory", "compute_time", "disk_spill_time", "serializing_time"),
        *(
            "transfer_time",
            "scheduler_cpu_avg",
            "scheduler_memory_max",
            "worker_max_tick",
            "scheduler_max_tick",
        ),
        *("cluster_name", "cluster_id", "cluster_details_url", "performance_report_url", "cluster_dump_url"),
        *("memray_profiles_url", "py_spy_profiles_url"),
    }
)
"""Those of the view `test_run`."""

# Attributes that say which, not how much.
_LABELS = frozenset({"cluster_id", "session_id", "id"})


def samples_of(measured: Measured) -> dict[str, Sequence[Any]]:
    """The samples of each metric; what a fixture of the user's sets wins."""
    found: dict[str, Sequence[Any]] = {name: (value,) for name, value in measured.metrics.items()}
    if measured.regions:
        found["duration"] = measured.regions
    for name, timed in rounds_of(measured).items():
        found[name] = timed.rounds.samples_s
        if timed.rounds.peak_bytes is not None:
            found[name.replace("duration", "peak_allocated_bytes")] = (timed.rounds.peak_bytes,)
    for name, value in measured.values.items():
        if is_metric(name, value):
            found[name] = value if isinstance(value, list | tuple) else (value,)
    return found


def rounds_of(measured: Measured) -> "dict[str, Timed]":
    """What each call of `bench` has measured, by the name of its metric."""
    prefix = "bench_duration" if measured.regions else "duration"
    calls = enumerate(measured.rounds, start=1)
    return {prefix if number == 1 else f"{prefix}_{number}": timed for number, timed in calls}


def how_measured(measured: Measured) -> dict[str, dict[str, Any]]:
    """How each call of `bench` went about it, by the name of its metric."""
    told = {}
    for name, timed in rounds_of(measured).items():
        rounds = timed.rounds
        told[name] = {
            "loops": rounds.loops,
            "laps": rounds.laps,
            "warmups": rounds.warmups,
            "gc": timed.settings.gc,
            **({"loop_cost_s": rounds.loop_cost_s} if rounds.loop_cost_s else {}),
        }
    return told


def warn_of_rounds(measured: Measured) -> None:
    """Warn of rounds that were too short for the clock, and of functions that did not settle."""
    for name, timed in rounds_of(measured).items():
        rounds = timed.rounds
        if rounds.is_too_short:
            from paceline.numbers import duration

            measured.warn(
                f"{name}: a round is so short that reading the clock ({duration(rounds.clock_cost_s)}) counts; "
                "leave out rounds, or let the function do its work many times"
            )
        if not rounds.is_settled:
            measured.warn(f"{name}: the function still got faster when the time for its warm-up was over")


def is_metric(name: str, value: object) -> bool:
    if name in _LABELS:
        return False
    many = value if isinstance(value, list | tuple) and value else (value,)
    return all(isinstance(one, numbers.Real) and not isinstance(one, bool) for one in many)


class Stage:
    """The test that a run of pytest with `--benchmark` is at; no session's id if nothing is recorded."""

    __slots__ = ("item", "session_id", "settings")

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.item: pytest.Item | None = None
        self.settings = settings
        self.session_id = ""


STAGES: list[Stage | None] = []
"""One for each run of pytest in this process, None for one without `--benchmark`: tests of plugins run pytest inside.

The fixtures look here because asking for `request` costs a test half as much as the fixture itself.
"""


def current() -> Measured | None:
    """What the test that is running measures; None without `--benchmark`."""
    stage = STAGES[-1]
    if stage is None or stage.item is None:
        return None
    stash = stage.item.stash
    found = stash.get(MEASURED, None)
    if found is None:
        found = stash[MEASURED] = Measured()
    return found


def settings_of_run() -> Settings:
    """What the options of this run of pytest say about `bench`."""
    stage = STAGES[-1]
    return SETTINGS if stage is None else stage.settings


class Region:
    """`with benchmark_time:` times what it encloses; each further use in the same test is one more sample."""

    __slots__ = ("_measured", "_open")

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._open: list[tuple[float, int]] = []

    def __enter__(self) -> None:
        self._open.append((time(), perf_counter_ns()))

    def __exit__(self, *_: object) -> None:
        ended_ns = perf_counter_ns()
        started_s, started_ns = self._open.pop()
        duration_s = (ended_ns - started_ns) * NS
        self._measured.regions.append(duration_s)
        self._measured.note(started_s, duration_s)


class ProfiledRegion:
    """The same in the pass under profilers, where time is not taken."""

    def __init__(self, profiling: "Profiling") -> None:
        self._profiling = profiling
        self._open: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._open.append(self._profiling.around(None))
        self._open[-1].__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._open.pop().__exit__(*raised)


class TestRun:
    """What `test_run_benchmark` gives: every number set on it becomes a metric, everything else a detail.

    It reads as the test's row in `test_run` will: a column of which nothing is known is None. Falsy without
    `--benchmark`, when it forgets what is set.
    """

    __test__ = False
    __slots__ = ("_stage", "_values")

    def __init__(self, measured: Measured | None) -> None:
        object.__setattr__(self, "_values", None if measured is None else measured.values)
        object.__setattr__(self, "_stage", STAGES[-1])

    def __bool__(self) -> bool:
        return self._values is not None

    def __setattr__(self, name: str, value: object) -> None:
        if self._values is not None:
            self._values[name] = value

    def __getattr__(self, name: str) -> Any:
        values: Mapping[str, Any] = object.__getattribute__(self, "_values") or {}
        if name in values:
            return values[name]
        if name not in COLUMNS:
            raise AttributeError(f"{name!r} was not set on test_run_benchmark, and is no column of test_run")
        if not self or not self._stage.session_id:
            return None
        from paceline.pytest_plugin.database import labels_of

        return labels_of(self._stage.item, self._stage.session_id).get(name)

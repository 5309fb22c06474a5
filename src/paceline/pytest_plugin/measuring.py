"""What one test measures: marked regions, rounds of functions, and what its fixtures set."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from time import perf_counter_ns, time
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from paceline.model import Case
    from paceline.pytest_plugin.profiles import Profiling

R = TypeVar("R")

NS = 1e-9


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
        self.rounds: list[list[float]] = []
        self.started_s = 0.0
        self.ended_s = 0.0
        self.reports: dict[str, pytest.TestReport] = {}
        self.case: Case | None = None
        self.profiling: Profiling | None = None

    def note(self, started_s: float, duration_s: float) -> None:
        """Widen the time span in which something was measured."""
        self.started_s = min(self.started_s or started_s, started_s)
        self.ended_s = max(self.ended_s, started_s + duration_s)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def is_empty(self) -> bool:
        return not (self.regions or self.rounds or self.metrics or self.values)


MEASURED = pytest.StashKey[Measured]()


class Stage:
    """The test that a run of pytest with `--benchmark` is at."""

    __slots__ = ("item",)

    def __init__(self) -> None:
        self.item: pytest.Item | None = None


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

    Falsy without `--benchmark`, when it forgets what is set.
    """

    __test__ = False
    __slots__ = ("_values",)

    def __init__(self, measured: Measured | None) -> None:
        object.__setattr__(self, "_values", None if measured is None else measured.values)

    def __bool__(self) -> bool:
        return self._values is not None

    def __setattr__(self, name: str, value: object) -> None:
        if self._values is not None:
            self._values[name] = value

    def __getattr__(self, name: str) -> Any:
        values: Mapping[str, Any] = object.__getattribute__(self, "_values") or {}
        try:
            return values[name]
        except KeyError:
            raise AttributeError(f"{name!r} was not set on test_run_benchmark") from None


def run_rounds(
    measured: Measured,
    func: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    rounds: int,
    warmup: int,
) -> R:
    """Call a function `warmup` and then `rounds` times, keep the time of each round, return the last result."""
    if rounds < 1 or warmup < 0:
        raise ValueError(
            f"bench needs rounds of 1 or more and warmup of 0 or more, not {rounds} and {warmup}"
        )
    for _ in range(warmup):
        func(*args, **kwargs)
    samples: list[float] = []
    measured.rounds.append(samples)
    started_s, first_ns = time(), perf_counter_ns()
    for _ in range(rounds):
        result = None  # The end of the last round's result must not fall into this one's time.
        started_ns = perf_counter_ns()
        result = func(*args, **kwargs)
        samples.append((perf_counter_ns() - started_ns) * NS)
    measured.note(started_s, (perf_counter_ns() - first_ns) * NS)
    return result  # type: ignore[return-value]  # at least one round has set it

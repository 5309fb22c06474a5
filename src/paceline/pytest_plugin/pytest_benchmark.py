"""The fixture `benchmark` for tests that were written for pytest-benchmark, where that is not installed.

With `--benchmark` what it measures is recorded as what `bench` measures is; without it the function is called once.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from paceline.pytest_plugin.measuring import current, settings_of_run
from paceline.timing.bench import Bench, Settings, Timed

if TYPE_CHECKING:
    from paceline.timing.functions import Rounds

R = TypeVar("R")

MARK = "benchmark"
_OF_MARK = {
    "group": "",
    "disable_gc": "gc",
    "max_time": "seconds",
    "min_rounds": "least_rounds",
    "min_time": "lap_s",
    "timer": "timer",
}
"""The options of the mark, with what they are called in our settings. `warmup` is heeded: there always is one."""
_WITHOUT_EFFECT = (
    *("calibration_precision", "confidence", "precision", "warmup_iterations"),
    *("cprofile", "cprofile_loops", "cprofile_dump"),
)
THEIR_OPTIONS: Mapping[str, type | str] = {
    "--benchmark-max-time": float,
    "--benchmark-min-time": float,
    "--benchmark-min-rounds": int,
    "--benchmark-disable-gc": "flag",
    "--benchmark-only": "flag",
    **dict.fromkeys(("--benchmark-skip", "--benchmark-disable", "--benchmark-enable"), "flag"),
    **dict.fromkeys(("--benchmark-autosave", "--benchmark-save-data"), "flag"),
    **dict.fromkeys(("--benchmark-verbose", "--benchmark-quiet"), "flag"),
    **dict.fromkeys(
        ("--benchmark-warmup", "--benchmark-compare", "--benchmark-histogram"), "may have a value"
    ),
    "--benchmark-cprofile-dump": "may have a value",
    **dict.fromkeys(
        (
            *("--benchmark-precision", "--benchmark-confidence", "--benchmark-calibration-precision"),
            *("--benchmark-timer", "--benchmark-warmup-iterations", "--benchmark-save", "--benchmark-json"),
            *("--benchmark-compare-fail", "--benchmark-cprofile", "--benchmark-cprofile-loops"),
            *("--benchmark-cprofile-top", "--benchmark-storage", "--benchmark-netrc", "--benchmark-sort"),
            *("--benchmark-group-by", "--benchmark-columns", "--benchmark-name", "--benchmark-time-unit"),
        ),
        str,
    ),
}
"""Options of pytest-benchmark that a suite may have in its configuration; the first five are heeded."""


def register(config: pytest.Config) -> None:
    """Offer the fixture, and know its mark."""
    options = ", ".join(f"{name}=…" for name in _OF_MARK)
    config.addinivalue_line(
        "markers", f"{MARK}({options}): how the fixture 'benchmark' measures, as in pytest-benchmark"
    )
    config.pluginmanager.register(_Fixtures(), "paceline-pytest-benchmark")


class _Fixtures:
    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Iterator["Benchmark"]:
        """Time a function: `benchmark(func, *args, **kwargs)`; as in pytest-benchmark, once in a test."""
        fixture = Benchmark(request.node)
        yield fixture
        fixture.finish()


class Benchmark:
    """What tests for pytest-benchmark use of its fixture."""

    def __init__(self, node: pytest.Item) -> None:
        self._measured = current()
        self._used = ""
        callspec = getattr(node, "callspec", None)
        self.name, self.fullname = node.name, node.nodeid
        self.param: str | None = callspec and callspec.id
        self.params: Mapping[str, Any] | None = callspec and callspec.params
        self.extra_info: dict[str, Any] = {}
        self.stats: Stats | None = None
        self.enabled = self._measured is not None
        self.disabled = not self.enabled
        self.group: str | None = None
        self._bench = Bench(self._keep if self._measured else None, self._settings(node))

    def __call__(self, function_to_benchmark: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        self._use("benchmark(...)")
        return self._bench.run(function_to_benchmark, args, kwargs)

    def pedantic(self, target: Callable[..., R], *args: Any, **options: Any) -> R:
        """Exactly so many rounds; takes what `bench.pedantic` takes."""
        self._use("benchmark.pedantic(...)")
        return self._bench.pedantic(target, *args, **options)

    def weave(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            "Paceline's fixture 'benchmark' has no weave: call benchmark(func) in the test"
        )

    patch = weave

    def finish(self) -> None:
        """Keep what the test said about its benchmark."""
        if self._measured is not None:
            told = {"group": self.group, "extra_info": dict(self.extra_info)}
            self._measured.details.update({name: value for name, value in told.items() if value})

    def _use(self, how: str) -> None:
        if self._used:
            raise RuntimeError(
                f"the fixture 'benchmark' may be used once in a test: {how} comes after {self._used}"
            )
        self._used = how

    def _keep(self, timed: Timed) -> None:
        assert self._measured is not None
        self._measured.keep(timed)
        self.stats = Stats(timed.rounds)

    def _settings(self, node: pytest.Item) -> Settings:
        """By the marks of the test, its class and its module; the nearest wins."""
        given: dict[str, Any] = {}
        for mark in reversed([*node.iter_markers(MARK)]):
            unknown = [*map(repr, mark.args), *(set(mark.kwargs) - {*_OF_MARK, *_WITHOUT_EFFECT, "warmup"})]
            if unknown:
                raise pytest.UsageError(
                    f"the mark 'benchmark' of {node.nodeid} has {', '.join(unknown)}: not known"
                )
            given |= mark.kwargs
        self.group = given.pop("group", None)
        # Theirs leaves the garbage collector on unless it is told not to.
        without_gc = getattr(node.config.option, "benchmark_disable_gc", False)
        settings = replace(settings_of_run(), gc=not given.pop("disable_gc", without_gc))
        for name in set(given) & {*_WITHOUT_EFFECT}:
            if self._measured is not None:
                self._measured.warn(f"{name} of the mark 'benchmark' has no effect here")
        return replace(
            settings, **{_OF_MARK[name]: value for name, value in given.items() if name in _OF_MARK}
        )


class Stats:
    """The times of one call, as tests read them: `benchmark.stats["mean"]`, `benchmark.stats.stats.mean`."""

    def __init__(self, rounds: "Rounds") -> None:
        times = sorted(rounds.samples_s)
        quarters = statistics.quantiles(times, method="inclusive") if len(times) > 1 else [times[0]] * 3
        self.stats = self
        self.data, self.rounds, self.iterations = list(rounds.samples_s), len(times), rounds.loops
        self.min, self.max, self.total = times[0], times[-1], sum(times)
        self.mean, self.median = statistics.fmean(times), statistics.median(times)
        self.stddev = statistics.stdev(times) if len(times) > 1 else 0.0
        self.q1, _, self.q3 = quarters
        self.iqr = self.q3 - self.q1
        self.ops = 1 / self.mean if self.mean else 0.0

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

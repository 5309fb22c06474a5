"""Tests as benchmarks, remembered in the history.

Each fixture is ready without `--benchmark` too, when it measures nothing and costs nothing.
"""

# What this module imports is paid by every pytest run in an environment that has Paceline; the rest is imported when it
# is used.

import argparse
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import pytest

from paceline.pytest_plugin.database import benchmark_db_engine, benchmark_db_session, database_table_schema
from paceline.pytest_plugin.measuring import (
    STAGES,
    Measured,
    ProfiledRegion,
    Region,
    Stage,
    TestRun,
    current,
    settings_of_run,
)
from paceline.timing.bench import Bench, Settings

__all__ = [
    "bench",
    "benchmark_all",
    "benchmark_db_engine",
    "benchmark_db_session",
    "benchmark_gpu",
    "benchmark_memory",
    "benchmark_task_durations",
    "benchmark_time",
    "database_table_schema",
    "get_cluster_info",
    "test_run_benchmark",
]

Context = AbstractContextManager[None]

PROFILERS = ("dask", "py-spy", "memray")
GPU_INTERVAL_S = 0.1
_FIXTURES = frozenset({*__all__, "benchmark"}) - {"benchmark_db_engine", "benchmark_db_session"}
_OWNERS_OF_BENCHMARK = ("benchmark", "codspeed")
"""Plugins whose fixture `benchmark` is: pytest-benchmark and pytest-codspeed. Where they are absent, ours is."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The options; those of pytest-benchmark begin with the same word and mean other things."""
    group = _option_group(parser)
    group.addoption(
        "--paceline",
        action="store_true",
        dest="paceline_always",
        help="The same as --benchmark, also in a suite that has an option --benchmark of its own.",
    )
    group.addoption(
        "--benchmark-db",
        metavar="URL",
        dest="paceline_db",
        help="With --benchmark: the database to record into, a file or postgresql://…. "
        "Default: $PACELINE_DB, else $DB_NAME if that ends with .db, else benchmark.db in pytest's rootdir, "
        "or in its results if only that is there.",
    )
    group.addoption(
        "--benchmark-seconds",
        metavar="SECONDS",
        dest="paceline_seconds",
        type=_parse_seconds,
        default=1.0,
        help="With --benchmark: how long 'bench' measures a function whose rounds are not given. Default: %(default)s.",
    )
    group.addoption(
        "--benchmark-profile",
        metavar="KINDS",
        dest="paceline_profile",
        type=_parse_profilers,
        default=(),
        help="With --benchmark: run each benchmark that passed once more under profilers, after its timed pass. "
        f"One or more of {', '.join(PROFILERS)}, separated by commas.",
    )
    group.addoption(
        "--benchmark-profile-dir",
        metavar="DIR",
        dest="paceline_profile_dir",
        default="benchmark-profiles",
        help="Where profiles are kept. Default: %(default)s.",
    )

    if any(name.endswith("conftest.py") for name, _ in pluginmanager.list_name_plugin()):
        _add_benchmark_flag(parser)  # One of them names this plugin.


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, None, None]:
    """Add `--benchmark` last, and only if it is given: a suite may have one of its own, which stays what it was."""
    yield
    if not {"--benchmark", "-h", "--help"}.isdisjoint(args):
        _add_benchmark_flag(parser)


def _option_group(parser: pytest.Parser) -> pytest.OptionGroup:
    return parser.getgroup("paceline", "benchmarks remembered by Paceline")


def _add_benchmark_flag(parser: pytest.Parser) -> None:
    try:
        _, unknown = parser.parse_known_and_unknown_args(["--benchmark"])
    except pytest.UsageError:
        return  # Theirs wants a value.
    if unknown:
        _option_group(parser).addoption(
            "--benchmark",
            action="store_true",
            dest="paceline_benchmark",
            help="Measure what the benchmark fixtures mark, and add it to the history.",
        )


def _parse_profilers(text: str) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [kind for kind in kinds if kind not in PROFILERS]
    if unknown or not kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: give one or more of {', '.join(PROFILERS)}")
    return kinds


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0")
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    is_wanted = getattr(config.option, "paceline_benchmark", False) or config.option.paceline_always
    is_active = is_wanted and not config.option.collectonly
    STAGES.append(Stage(Settings(seconds=config.option.paceline_seconds)) if is_active else None)
    if not any(config.pluginmanager.hasplugin(name) for name in _OWNERS_OF_BENCHMARK):
        from paceline.pytest_plugin import pytest_benchmark

        pytest_benchmark.register(config)
    if is_active:
        from paceline.pytest_plugin.session import activate

        activate(config)


def pytest_unconfigure() -> None:
    STAGES.pop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say so if `--benchmark` was given and was not ours."""
    is_ours = hasattr(config.option, "paceline_benchmark") or config.option.paceline_always
    if not is_ours and config.getoption("--benchmark", None):
        terminalreporter.write_line(
            "paceline: this suite has an option --benchmark of its own, which was used; "
            "with --paceline, Paceline measures and records too"
        )


@pytest.fixture
def test_run_benchmark() -> TestRun:
    """The record that is being made: every number set on it is kept as a metric, everything else as a detail.

    For fixtures of your own. Without `--benchmark` it is falsy and keeps nothing.
    """
    return TestRun(current())


@pytest.fixture
def benchmark_time() -> Context:
    """Record the wall time of a block: `with benchmark_time: …`. Each further use is one more sample."""
    measured = current()
    if measured is None:
        return nullcontext()
    return Region(measured) if measured.profiling is None else ProfiledRegion(measured.profiling)


@pytest.fixture
def bench() -> Bench:
    """Time a function: `bench(func, *args, rounds=None, warmup=None, **kwargs)` returns what the function returns.

    Without `rounds` it is called in loops that are long enough for the clock, for about a second. Every round is a
    sample. Without `--benchmark` the function is called once.
    """
    measured = current()
    return Bench(None if measured is None else measured.keep, settings_of_run())


@pytest.fixture
def benchmark_memory() -> Callable[[Any], Context]:
    """Record the memory of a Dask cluster's workers: `with benchmark_memory(client): …`."""
    return _dask_fixture("memory")


@pytest.fixture
def benchmark_task_durations() -> Callable[[Any], Context]:
    """Record what a Dask cluster's workers spent computing, transferring, spilling and serialising."""
    return _dask_fixture("task_durations")


@pytest.fixture
def get_cluster_info() -> Callable[[Any], Context]:
    """Record a cluster's name and, where it has them, its id and page: `with get_cluster_info(cluster): …`."""
    return _dask_fixture("cluster_info")


@pytest.fixture
def benchmark_all() -> Callable[[Any], Context]:
    """Record all of it for a Dask client: `with benchmark_all(client): …`. Time is taken innermost."""
    return _dask_fixture("everything")


@pytest.fixture
def benchmark_gpu() -> Context:
    """Record memory, utilisation and temperature of NVIDIA GPUs: `with benchmark_gpu: …`."""
    measured = current()
    if measured is None or measured.profiling is not None:
        return nullcontext()
    return GpuRegion(measured)


class GpuRegion:
    """`with benchmark_gpu:`; of several uses in one test the last one's figures stay."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._stack = ExitStack()

    def __enter__(self) -> None:
        from pathlib import Path

        from paceline.run.collectors import gpu_collectors

        # The curve is not kept: a test has no directory of its own.
        self._collectors = gpu_collectors(Path("/dev/null"), GPU_INTERVAL_S)
        if not self._collectors:
            self._measured.warn(
                "benchmark_gpu: there is no NVIDIA driver, or no nvidia-ml-py (paceline[gpu])"
            )
        for collector in self._collectors:
            self._stack.enter_context(collector)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for collector in self._collectors:
            self._measured.metrics.update(collector.metrics())
            self._measured.warnings.extend(collector.warnings())


def asks_for_ours(item: pytest.Item) -> bool:
    """Whether a test has one of these fixtures, directly or through another."""
    return not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _dask_fixture(what: str) -> Callable[[Any], Context]:
    measured = current()

    def enter(client_or_cluster: Any) -> Context:
        if measured is None:
            return nullcontext()
        if measured.profiling is not None:
            client = None if what == "cluster_info" else client_or_cluster
            return measured.profiling.around(client)
        from paceline.pytest_plugin.dask import collectors

        made: Context = getattr(collectors, what)(measured, client_or_cluster)
        return made

    return enter

"""The pytest plugin: tests as benchmarks, remembered in the history. Does nothing without `--benchmark`.

What this module imports is paid by every pytest run in an environment that has Paceline; the rest is imported when it
is used.
"""

import argparse
from typing import TYPE_CHECKING

from paceline.pytest_plugin.fixtures import (
    bench,
    benchmark_all,
    benchmark_gpu,
    benchmark_memory,
    benchmark_task_durations,
    benchmark_time,
    get_cluster_info,
    test_run_benchmark,
)
from paceline.pytest_plugin.measuring import STAGES, Stage

if TYPE_CHECKING:
    import pytest

__all__ = [
    "bench",
    "benchmark_all",
    "benchmark_gpu",
    "benchmark_memory",
    "benchmark_task_durations",
    "benchmark_time",
    "get_cluster_info",
    "test_run_benchmark",
]

PROFILERS = ("dask", "py-spy", "memray")


def pytest_addoption(parser: "pytest.Parser") -> None:
    """The options; those of pytest-benchmark begin with the same word and mean other things."""
    group = parser.getgroup("paceline", "benchmarks remembered by Paceline")
    group.addoption(
        "--benchmark",
        action="store_true",
        dest="paceline_benchmark",
        help="Measure what the benchmark fixtures mark, and add it to the history.",
    )
    group.addoption(
        "--benchmark-db",
        metavar="URL",
        dest="paceline_db",
        help="With --benchmark: the database to record into, a file or postgresql://…. "
        "Default: $PACELINE_DB, else benchmark.db.",
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


def _parse_profilers(text: str) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [kind for kind in kinds if kind not in PROFILERS]
    if unknown or not kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: give one or more of {', '.join(PROFILERS)}")
    return kinds


def pytest_configure(config: "pytest.Config") -> None:
    is_active = config.option.paceline_benchmark and not config.option.collectonly
    STAGES.append(Stage() if is_active else None)
    if is_active:
        from paceline.pytest_plugin.session import activate

        activate(config)


def pytest_unconfigure() -> None:
    STAGES.pop()

"""The pytest plugin: tests as benchmarks, remembered in the history. Does nothing without `--benchmark`.

What this module imports is paid by every pytest run in an environment that has Paceline; the rest is imported when it
is used.
"""

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
from paceline.pytest_plugin.options import add_options

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


def pytest_addoption(parser: "pytest.Parser") -> None:
    add_options(parser)


def pytest_configure(config: "pytest.Config") -> None:
    is_active = config.option.paceline_benchmark and not config.option.collectonly
    STAGES.append(Stage() if is_active else None)
    if is_active:
        from paceline.pytest_plugin.activation import activate

        activate(config)


def pytest_unconfigure() -> None:
    STAGES.pop()

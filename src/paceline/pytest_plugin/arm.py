"""What the tests of one target measure in an arm of an A/B test, emitted for the runner.

Runs with the Python of the arm, which may be older than ours and has none of Paceline's packages: nothing but pytest is
needed. The fixtures are those of Paceline's plugin, unless the suite has its own. A suite with its own `--benchmark`
keeps its measurements in the database that DB_NAME names, in a table `test_run`.
"""

import argparse
import os
import sqlite3
from contextlib import closing
from importlib.util import find_spec
from typing import Any

import pytest

from paceline import emit, pytest_plugin
from paceline.pytest_plugin.measuring import MEASURED, STAGES, Stage, samples_of

NOTHING_COLLECTED = 5
SOME_FAILED = 1

# Columns of a table `test_run` that are measured.
_COLUMNS = (
    *("duration", "average_memory", "peak_memory"),
    *("compute_time", "disk_spill_time", "serializing_time", "transfer_time"),
    *("scheduler_cpu_avg", "scheduler_memory_max", "worker_max_tick", "scheduler_max_tick"),
)


class Collector:
    """A pytest plugin: what each test that passed has measured, by the test's name."""

    def __init__(self, target: str) -> None:
        self._place = target.partition("::")[0].rstrip("/")
        self._stage = Stage()
        self.metrics: dict[str, dict[str, list[float]]] = {}
        self.failed: set[str] = set()
        self.warnings: list[str] = []
        self._calls: dict[str, float] = {}
        self._labels: dict[tuple[str, str], str] = {}

    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        config.option.paceline_benchmark = False  # Nothing is recorded here: that is for the runner to do.

    def pytest_collection(self) -> None:
        STAGES[-1] = self._stage

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._stage.item = item

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        label = self._label(report.nodeid)
        if report.failed:
            self.failed.add(label)
        elif report.when == "call" and report.passed:
            self._calls[label] = report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        label = self._label(item.nodeid)
        self._labels[item.path.as_posix(), item.name] = label
        measured = item.stash.get(MEASURED, None)
        if measured is not None:
            found = {name: [float(one) for one in values] for name, values in samples_of(measured).items()}
            self.metrics[label] = found
            self.warnings += [f"{label}: {text}" for text in measured.warnings]

    def take(self, database: str) -> None:
        """Add what the suite's own fixtures have kept in a database; its paths are relative to some folder."""
        for row in read_runs(database):
            for (path, name), label in self._labels.items():
                if row["name"] == name and f"/{path}".endswith(f"/{row.get('path') or ''}"):
                    values = {
                        column: [float(row[column])]
                        for column in _COLUMNS
                        if isinstance(row.get(column), int | float)
                    }
                    self.metrics[label] = {**values, **self.metrics.get(label, {})}

    def emit(self) -> None:
        """Tell the runner; a test that marks nothing is measured as a whole."""
        passed = {label: seconds for label, seconds in self._calls.items() if label not in self.failed}
        flat: dict[str, Any] = {"num_tests": len(passed), "failures": len(self.failed)}
        for label, seconds in passed.items():
            found = self.metrics.get(label) or {"call_duration": [seconds]}
            flat |= {f"{label}.{name}": values for name, values in found.items()}
        emit.metrics(flat)
        for name, values in flat.items():
            if name.rpartition(".")[2].endswith(("_memory", "_memory_max")):
                emit.metric(name, values, unit="bytes")

    def _label(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        return name if self._place.endswith(".py") else f"{path.removeprefix(f'{self._place}/')}::{name}"


def read_runs(database: str) -> list[dict[str, Any]]:
    """The rows of the table `test_run` of a database; none if there is no such thing."""
    if not os.path.exists(database):  # noqa: PTH110
        return []
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            rows = connection.execute("SELECT * FROM test_run WHERE call_outcome = 'passed'").fetchall()
        except sqlite3.Error as error:
            print(f"{database}: {error}")
            return []
    return [dict(row) for row in rows]


def main() -> int:
    """Run the tests of one target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", dest="markers", default="")
    parser.add_argument("--benchmark-results-path", required=True)
    parser.add_argument("target")
    options = parser.parse_args()
    database = os.path.join(emit.results_path(), "benchmark.db")  # noqa: PTH118
    os.environ["DB_NAME"] = database  # Each run has its own.
    collector = Collector(options.target)
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:paceline",
        "-p",
        "paceline.pytest_plugin",
        "--benchmark",
    ]
    if find_spec("xdist"):
        words += ["-n", "0"]  # Tests that run side by side disturb each other.
    if options.markers:
        words += ["-m", options.markers]
    code = int(pytest.main([*words, options.target], plugins=[pytest_plugin, collector]))
    print(*collector.warnings, sep="\n")
    collector.take(database)
    collector.emit()
    if code == NOTHING_COLLECTED or (code == SOME_FAILED and collector.metrics):
        return 0
    return code

"""The plugin beside others: pytest-xdist, with workers that die, and pytest-benchmark."""

import json
import sqlite3

import pytest

from paceline.findings.order import read_order
from paceline.history import open_store
from paceline.model import Status
from pytest_plugin.benchmark_suite import INSTALLED, Suite
from stored_records import series_of


def test_workers_lose_nothing_and_are_one_session(suite: Suite) -> None:
    suite.write(
        """
import pytest

@pytest.mark.parametrize("number", range(12))
def test_it(bench, number, testrun_uid, test_run_benchmark):
    bench(int, rounds=5)
    test_run_benchmark.uid = testrun_uid
    test_run_benchmark.odd = float("nan")
"""
    )
    done = suite.run_apart("-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    (session,) = suite.sessions()
    records = suite.records().values()
    assert {record.case.params["number"] for record in records} == set(range(12))
    assert {record.details["uid"] for record in records} == {session.id}
    assert {record.details["worker"] for record in records} <= {"gw0", "gw1"}
    words = "measured beside 1 other worker of pytest-xdist: its times are not comparable"
    assert all(any(words in text for text in record.warnings) for record in records)
    assert all(len(record.metrics["duration"].samples) == 5 for record in records)
    assert all(record.metrics["odd"].value != record.metrics["odd"].value for record in records)
    assert "2 workers ran tests side by side: times are not comparable" in done.stdout
    assert suite.journals() == []


def test_one_worker_alone_is_comparable(suite: Suite) -> None:
    suite.write("def test_it(benchmark_time):\n    with benchmark_time:\n        sum(range(9999))\n")
    assert suite.run_apart("-n", "1").returncode == 0
    assert suite.record("test_it").warnings == ()


@pytest.mark.parametrize(("workers", "judged"), [("2", 0), ("1", 1)])
def test_what_is_measured_beside_others_does_not_join_the_series(
    workers: str, judged: int, suite: Suite
) -> None:
    suite.write("def test_it(benchmark_time):\n    with benchmark_time:\n        sum(range(9999))\n")
    assert suite.run_apart("-n", workers, PACELINE_DISTURBED="mark").returncode == 0
    with open_store(suite.path / "benchmark.db") as store:
        (series,) = [one for one in store.iter_columns() if one.metric == "duration"]
        assert len(series.points) == 1 and len(read_order(store).points(series)) == judged


def test_a_worker_that_dies_leaves_the_records_of_all_tests(suite: Suite) -> None:
    suite.write(
        """
import os
import pytest

@pytest.mark.parametrize("number", range(10))
def test_it(bench, number):
    bench(int, rounds=5)
    if number == 4:
        os._exit(3)
"""
    )
    done = suite.run_apart("-n", "2", "--testrunuid", "nightly 7")
    assert done.returncode == 1, done.stdout + done.stderr
    records = suite.records()
    assert {record.case.params["number"] for record in records.values()} == set(range(10))
    crashed = records.pop("test_it[4]")
    assert crashed.status is Status.FAILED and "crashed while running" in crashed.reason
    assert {record.status for record in records.values()} == {Status.PASSED}


BOTH = """
def test_ours(bench):
    bench(int, rounds=1)

def test_theirs(benchmark):
    benchmark.pedantic(int, rounds=1, iterations=1)

def test_both(benchmark, benchmark_time):
    with benchmark_time:
        benchmark.pedantic(int, rounds=1, iterations=1)
"""


def test_beside_pytest_benchmark(suite: Suite) -> None:
    suite.write(BOTH)
    result = suite.run("--benchmark-json", "theirs.json", "--benchmark-columns=min", "--benchmark-disable-gc")
    result.assert_outcomes(passed=3)
    assert set(suite.records()) == {"test_ours", "test_both"}
    theirs = json.loads((suite.path / "theirs.json").read_text())
    assert {one["name"] for one in theirs["benchmarks"]} == {"test_theirs", "test_both"}


@pytest.mark.parametrize(
    ("option", "recorded"), [("--benchmark-skip", {"test_ours"}), ("--benchmark-only", {"test_both"})]
)
def test_their_options_keep_their_meaning(suite: Suite, option: str, recorded: set[str]) -> None:
    suite.write(BOTH)
    assert suite.run(option).ret == 0
    assert set(suite.records()) == recorded


def test_their_options_alone_switch_nothing_on(suite: Suite) -> None:
    suite.write(BOTH)
    suite.plain("--benchmark-disable").assert_outcomes(passed=3)
    suite.plain("--benchmark-db", "benchmark.db").assert_outcomes(passed=3)
    assert not (suite.path / "benchmark.db").exists()


def test_without_pytest_benchmark(suite: Suite) -> None:
    suite.write("def test_it(bench):\n    bench(int, rounds=5)\n")
    assert suite.run("-p", "no:benchmark", "-p", "no:xdist").ret == 0
    assert set(suite.records()) == {"test_it"}


def test_the_history_is_plain_sqlite(suite: Suite) -> None:
    suite.write(BOTH)
    suite.run()
    suite.run()
    with sqlite3.connect(suite.path / "benchmark.db") as connection:
        query = "select dask_version, average_memory, duration from test_run where name = 'test_ours'"
        rows = connection.execute(query).fetchall()
    connection.close()
    assert len(rows) == 2 and all(row[2] > 0 for row in rows)
    with open_store(suite.path / "benchmark.db") as store:
        (series,) = series_of(store, "test_it.py::test_ours", "duration")
    assert len(series.points) == 2 and series.points[0].source_hash


THEIRS = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--benchmark", {kind}, help="collect data in a way of our own")

@pytest.fixture
def collects(request):
    return request.config.getoption("--benchmark")
"""
OWN_OPTION = "this suite has an option --benchmark of its own, which was used; with --paceline, "


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [("action='store_true'", "--benchmark", True), ("default=None", "--benchmark=all", "all")],
)
def test_an_option_of_the_suites_own_wins_and_a_line_says_so(
    suite: Suite, kind: str, given: str, value: object
) -> None:
    suite.write(THEIRS.format(kind=kind), "conftest.py")
    body = f"    assert collects == {value!r}\n    with benchmark_time:\n        pass\n"
    suite.write(f"def test_it(collects, benchmark_time):\n{body}")
    result = suite.plain(given, "-q")
    result.assert_outcomes(passed=1)
    assert OWN_OPTION in result.stdout.str() and not (suite.path / "benchmark.db").exists()

    result = suite.plain(given, "--paceline")
    result.assert_outcomes(passed=1)
    assert OWN_OPTION not in result.stdout.str() and set(suite.records()) == {"test_it"}


def test_a_suites_own_option_in_a_folder_that_is_seen_late_is_left_alone(suite: Suite) -> None:
    suite.write(THEIRS.format(kind="action='store_true'"), "deep/down/conftest.py")
    suite.write("def test_it(collects):\n    pass\n", "deep/down/test_it.py")
    suite.plain("deep").assert_outcomes(passed=1)
    assert "fixtures mark, and add it to" in suite.plain("--help").stdout.str()


def test_a_conftest_may_name_the_plugin(suite: Suite) -> None:
    suite.write("pytest_plugins = ['paceline.pytest_plugin']\n", "conftest.py")
    suite.write("def test_it(bench):\n    bench(int)\n")
    done = suite.run_apart(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1") if INSTALLED else suite.run_apart()
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(suite.records()) == {"test_it"}

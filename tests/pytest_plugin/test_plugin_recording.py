"""A test that uses a benchmark fixture leaves one record: what it measured, how it ended, what it is."""

import subprocess
from datetime import datetime

import pytest

from paceline.history import open_store
from paceline.model import Status
from pytest_plugin.benchmark_suite import PLUGIN, Suite

EVERY_FIXTURE = """
def test_it(bench, benchmark_time, benchmark_memory, benchmark_task_durations, get_cluster_info, benchmark_all,
            benchmark_gpu, test_run_benchmark):
    calls = []
    assert bench(calls.append, 1, rounds=3) is None
    assert calls == [1]
    with benchmark_time, benchmark_gpu, benchmark_memory(None), benchmark_task_durations(None):
        with get_cluster_info(None), benchmark_all(None):
            pass
    with benchmark_time:
        pass
    assert not test_run_benchmark
    test_run_benchmark.rows = 5
    assert not hasattr(test_run_benchmark, "rows")
"""


def test_without_the_option_nothing_is_measured(suite: Suite) -> None:
    suite.write(EVERY_FIXTURE)
    suite.plain().assert_outcomes(passed=1)
    assert list(suite.path.glob("benchmark*")) == []


def test_without_the_option_nothing_heavy_is_imported(suite: Suite) -> None:
    suite.write(EVERY_FIXTURE)
    suite.write(
        """
import sys

def pytest_unconfigure():
    print("IMPORTED", *sorted(name for name in sys.modules if name.startswith("paceline")))
    heavy = {"sqlalchemy", "distributed", "dask", "psutil", "pydantic", "orjson", "pynvml"}
    print("HEAVY", *sorted(heavy & set(sys.modules)))
""",
        "conftest.py",
    )
    # Others' plugins may import what they like.
    command = suite.command("-p", "no:hypothesispytest", "-p", "no:benchmark", "-p", "no:typeguard", "-s")
    done = subprocess.run(command, cwd=suite.path, capture_output=True, text=True, check=True)
    imported = next(line for line in done.stdout.splitlines() if line.startswith("IMPORTED"))
    parts = (
        "pytest_plugin",
        "pytest_plugin.database",
        "pytest_plugin.measuring",
        "pytest_plugin.pytest_benchmark",
        "timing",
        "timing.bench",
    )
    assert imported.split()[1:] == ["paceline", *(f"paceline.{part}" for part in parts)]
    assert "HEAVY\n" in done.stdout


def test_only_the_marked_region_is_measured(suite: Suite) -> None:
    suite.write(
        """
import time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.05)
    yield
    time.sleep(0.05)

def test_it(slow, benchmark_time, test_run_benchmark):
    test_run_benchmark.before = time.time()
    with benchmark_time:
        time.sleep(0.01)
    test_run_benchmark.after = time.time()
"""
    )
    suite.run().assert_outcomes(passed=1)
    record = suite.record("test_it")
    before, after = (record.metrics[name].value for name in ("before", "after"))
    assert isinstance(before, float) and isinstance(after, float)
    duration = record.metrics["duration"]
    assert isinstance(duration.value, float)
    assert 0.01 <= duration.value <= after - before + 0.001
    assert (duration.unit, duration.direction, duration.samples) == ("s", "lower", (duration.value,))
    started, ended = (
        datetime.fromisoformat(record.details[name]).timestamp() for name in ("started", "ended")
    )
    assert before - 0.001 <= started <= ended <= after + 0.001
    assert record.timings_s["setup"] >= 0.05 and record.timings_s["teardown"] >= 0.05


def test_a_region_may_be_used_again_and_inside_itself(suite: Suite) -> None:
    suite.write(
        """
def test_it(benchmark_time):
    for _ in range(3):
        with benchmark_time:
            pass
    with benchmark_time, benchmark_time:
        pass
"""
    )
    suite.run().assert_outcomes(passed=1)
    duration = suite.record("test_it").metrics["duration"]
    assert len(duration.samples) == 5
    assert duration.value == sorted(map(float, duration.samples))[2]  # type: ignore[arg-type]


EVERY_WAY_TO_BENCH = """
import pytest

def test_keywords(bench, test_run_benchmark):
    calls = []
    def work(a, *, b):
        calls.append((a, b))
        return len(calls)
    assert bench(work, 1, b=2, rounds=5) == 6
    assert calls == [(1, 2)] * 6
    test_run_benchmark.calls = len(calls)

def test_rounds(bench):
    assert bench(lambda *, func: func, func=3, rounds=2, warmup=0) == 3

def test_several(bench):
    bench(int, rounds=1)
    bench(int, rounds=2)

def test_both(bench, benchmark_time):
    with benchmark_time:
        bench(int, rounds=3)

def test_wrong(bench):
    with pytest.raises(ValueError, match="rounds must be a whole number of 1 or more"):
        bench(int, rounds=0)

def test_broken(bench):
    left = [1, 1]
    bench(left.pop, rounds=5, warmup=0)
"""


def test_bench_calls_and_returns(suite: Suite) -> None:
    suite.write(EVERY_WAY_TO_BENCH)
    suite.run().assert_outcomes(passed=5, failed=1)
    found = suite.records()
    samples = {
        name: {metric: len(value.samples) for metric, value in record.metrics.items()}
        for name, record in found.items()
    }
    assert samples == {
        "test_keywords": {"duration": 5, "calls": 1},
        "test_rounds": {"duration": 2},
        "test_several": {"duration": 1, "duration_2": 2},
        "test_both": {"duration": 1, "bench_duration": 3},
        "test_wrong": {},
        "test_broken": {"duration": 2},
    }
    meaning = found["test_several"].metrics["duration_2"]
    assert (meaning.unit, meaning.direction) == ("s", "lower")
    assert any("reading the clock" in text for text in found["test_rounds"].warnings)


EVERY_OUTCOME = """
import pytest

@pytest.fixture
def broken_before():
    raise RuntimeError("no cluster today")

@pytest.fixture
def broken_after():
    yield
    raise OSError("cannot clean up")

def test_setup(broken_before, benchmark_time):
    pass

def test_call(benchmark_time):
    with benchmark_time:
        assert 1 == 2, "wrong sum"

def test_teardown(benchmark_time, broken_after):
    with benchmark_time:
        pass

def test_skipped(benchmark_time):
    pytest.skip("not here")

@pytest.mark.xfail(reason="known")
def test_xfailed(benchmark_time):
    assert False

@pytest.mark.skip
def test_never(benchmark_time):
    pass

def test_unused(benchmark_time):
    pass

def test_other():
    pass
"""


def test_outcomes_of_all_phases_and_the_error_are_kept(suite: Suite) -> None:
    suite.write(EVERY_OUTCOME)
    suite.run().assert_outcomes(passed=3, failed=1, errors=2, skipped=2, xfailed=1)
    found = suite.records()
    outcomes = {
        name: (
            record.status,
            *(record.details.get(f"{when}_outcome") for when in ("setup", "call", "teardown")),
        )
        for name, record in found.items()
    }
    assert outcomes == {
        "test_setup": (Status.FAILED, "failed", None, "passed"),
        "test_call": (Status.FAILED, "passed", "failed", "passed"),
        "test_teardown": (Status.FAILED, "passed", "passed", "failed"),
        "test_skipped": (Status.SKIPPED, "passed", "skipped", "passed"),
        "test_xfailed": (Status.SKIPPED, "passed", "skipped", "passed"),
        "test_unused": (Status.PASSED, "passed", "passed", "passed"),
    }
    assert found["test_setup"].reason == "setup: RuntimeError: no cluster today"
    assert found["test_call"].reason == "call: AssertionError: wrong sum"
    assert found["test_teardown"].reason == "teardown: OSError: cannot clean up"
    assert found["test_skipped"].reason == "not here"
    assert found["test_xfailed"].reason == "failed as expected: known"
    assert 'assert 1 == 2, "wrong sum"' in found["test_call"].details["error"]
    assert "cannot clean up" in found["test_teardown"].details["error"]
    assert "duration" in found["test_call"].metrics and "duration" in found["test_teardown"].metrics
    assert any("nothing was measured" in text for text in found["test_unused"].warnings)


def test_parameters_are_data(suite: Suite) -> None:
    suite.write(
        """
import enum
import pathlib
import pytest

class Color(enum.Enum):
    RED = 1

class Plain:
    pass

@pytest.fixture(params=["disk", "memory"])
def store(request):
    return request.param

class TestGroup:
    @pytest.mark.parametrize("size", [10, 2.5])
    @pytest.mark.parametrize("flag", [True])
    def test_one(self, store, size, flag, bench):
        bench(int, rounds=1)

@pytest.mark.parametrize("value", [None, Color.RED, len, Plain(), Plain(), [1, 2], pathlib.PurePath("a/b"), "x" * 999])
def test_two(value, bench):
    bench(int, rounds=1)
"""
    )
    suite.run().assert_outcomes(passed=12)
    records = suite.records().values()
    one = [record for record in records if record.details["original_name"] == "test_one"]
    assert {record.case.key for record in one} == {
        f"test_it.py::TestGroup::test_one[flag=true,size={size},store={store}]"
        for size in ("10", "2.5")
        for store in ("disk", "memory")
    }
    assert {"flag": True, "size": 10, "store": "disk"} in [dict(record.case.params) for record in one]
    assert {record.case.entry for record in one} == {"test_it.py::TestGroup::test_one"}
    two = [record.case.params["value"] for record in records if record.details["original_name"] == "test_two"]
    assert two[:3] == [None, "RED", "builtins.len"] and two[5:7] == ["[1, 2]", "a/b"]
    assert len(set(two)) == 8 and all("0x" not in str(value) for value in two)
    assert {record.details["path"] for record in records} == {"test_it.py"}


def test_a_changed_body_changes_the_hash(suite: Suite) -> None:
    body = """
import pytest

@pytest.mark.parametrize("size", [{sizes}])
def test_it(bench, size):
    bench(sum, range({amount}), rounds=5)
"""
    suite.write(body.format(sizes="1", amount="10"))
    suite.run()
    first = suite.record("test_it[1]").details
    assert first["source"].startswith('@pytest.mark.parametrize("size", [1])\ndef test_it(bench, size):\n')
    suite.write(body.format(sizes="1, 2", amount="10"))
    suite.run()
    assert suite.record("test_it[1]").details["source_hash"] == first["source_hash"]
    suite.write(body.format(sizes="1, 2", amount="11"))
    suite.run()
    changed = suite.records()
    assert changed["test_it[1]"].details["source_hash"] != first["source_hash"]
    assert changed["test_it[1]"].details["source_hash"] == changed["test_it[2]"].details["source_hash"]


def test_what_a_fixture_sets_is_a_metric_or_a_detail(suite: Suite) -> None:
    suite.write(
        """
import datetime
import fractions
import pytest

@pytest.fixture
def scored(test_run_benchmark):
    assert test_run_benchmark
    yield
    test_run_benchmark.rows_per_s = 7
    test_run_benchmark.latency_ms = [1.0, 3.0, 2.0]
    test_run_benchmark.half = fractions.Fraction(1, 2)
    test_run_benchmark.duration = 1.5
    test_run_benchmark.compression = "zstd"
    test_run_benchmark.local = True
    test_run_benchmark.cluster_id = 12
    test_run_benchmark.start = datetime.datetime(2026, 1, 2, 3, 4, 5)
    test_run_benchmark.nothing = None
    assert test_run_benchmark.compression == "zstd"

def test_it(scored, benchmark_time):
    with benchmark_time:
        pass
"""
    )
    suite.run().assert_outcomes(passed=1)
    record = suite.record("test_it")
    assert {name: (value.value, value.unit, value.direction) for name, value in record.metrics.items()} == {
        "rows_per_s": (7, "rows/s", "higher"),
        "latency_ms": (2.0, "ms", "lower"),
        "half": (0.5, None, None),
        "duration": (1.5, "s", "lower"),
    }
    assert record.metrics["latency_ms"].samples == (1.0, 3.0, 2.0)
    told = {name: record.details.get(name) for name in ("compression", "local", "cluster_id", "nothing")}
    assert told == {"compression": "zstd", "local": True, "cluster_id": 12, "nothing": None}
    assert record.details["started"] == "2026-01-02T03:04:05"


def test_secrets_are_masked(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "hunter2-hunter2")
    suite.write(
        """
import pytest

@pytest.mark.parametrize("word", ["hunter2-hunter2"], ids=["word"])
def test_it(bench, word, test_run_benchmark):
    test_run_benchmark.address = f"https://me:{word}@host"
    assert word == 1
"""
    )
    suite.run().assert_outcomes(failed=1)
    record = suite.record("test_it[word]")
    assert record.details["address"] == "https://me:***@host"
    assert "hunter2" not in str(record)
    assert record.case.key == "test_it.py::test_it[word=***]"


def test_a_test_that_is_run_again_has_an_attempt_for_each(suite: Suite) -> None:
    suite.write(
        """
tries = []

def test_it(bench):
    tries.append(1)
    bench(int, rounds=5)
    assert len(tries) == 3
"""
    )
    # What pytest-rerunfailures does: of an attempt that is repeated, the failed phase is the last that is reported.
    suite.write(
        """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for attempt in range(3):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            again = report.failed and attempt < 2
            if again:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
            if again:
                break
    return True

def pytest_report_teststatus(report):
    return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None
""",
        "conftest.py",
    )
    suite.run()
    (session,) = suite.sessions()
    with open_store(suite.path / "benchmark.db") as store:
        found = store.records(session)
    assert [(record.attempt, record.status) for record in found] == [
        (1, Status.FAILED),
        (2, Status.FAILED),
        (3, Status.PASSED),
    ]
    assert "assert 1 == 3" in found[0].details["error"]


def test_a_run_of_pytest_inside_a_benchmark_is_its_own(suite: Suite) -> None:
    suite.write(
        """
import pytest

pytest_plugins = ["pytester"]

def test_it(pytester, bench, test_run_benchmark):
    pytester.makepyfile(test_inside="def test_inner(bench, test_run_benchmark): bench(int); test_run_benchmark.x = 1")
    pytester.runpytest_inprocess(*{plugin}).assert_outcomes(passed=1)
    bench(int, rounds=2)
""".replace("{plugin}", repr(PLUGIN))
    )
    suite.run().assert_outcomes(passed=1)
    metrics = suite.record("test_it").metrics
    assert {name: len(value.samples) for name, value in metrics.items()} == {"duration": 2}

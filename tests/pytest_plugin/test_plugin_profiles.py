"""Profiles come of passes of their own, after the timed one; a profiler that fails is a warning."""

import sys
from pathlib import Path

import pytest

from paceline.model import Status
from pytest_plugin.benchmark_suite import Suite

COUNTED = """
import pytest

@pytest.fixture(scope="module")
def module_log(tmp_path_factory):
    log = []
    yield log
    print("MODULE", *log)

@pytest.fixture
def each(module_log):
    module_log.append("before")
    yield
    module_log.append("after")

def test_first(each, module_log, bench):
    module_log.append("first")
    bench(int, rounds=5)

def test_failing(each, module_log, bench):
    module_log.append("failing")
    assert False

def test_last(each, module_log, benchmark_time):
    module_log.append("last")
    with benchmark_time:
        pass

def test_plain(module_log):
    module_log.append("plain")
"""


def test_what_passed_runs_again_and_wider_fixtures_stay(suite: Suite) -> None:
    suite.write(COUNTED)
    suite.write("def test_in_another_module(bench):\n    bench(int, rounds=5)\n", "test_zzz.py")
    result = suite.run("--benchmark-profile", "memray,dask", "-s")
    result.assert_outcomes(passed=4, failed=1)
    passes = [
        *["before first after"] * 3,
        "before failing after",
        *["before last after"] * 3,
        "plain",
    ]
    result.stdout.fnmatch_lines([f"*MODULE {' '.join(passes)}*"])
    assert result.stdout.str().count("MODULE") == 1
    records = suite.records()
    assert len(records) == 4
    assert len(records["test_first"].metrics["duration"].samples) == 5
    page = Path(records["test_first"].details["memray_profiles_url"])
    assert page.is_relative_to(suite.path / "benchmark-profiles" / suite.sessions()[0].id)
    assert sorted(path.name for path in page.iterdir()) == ["memray.bin", "memray.html", "profile.json"]
    assert str(page / "memray.html") in records["test_last"].artifacts or records["test_last"].artifacts
    assert "memray_profiles_url" not in records["test_failing"].details
    assert records["test_last"].warnings[-1] == "dask: no report of a region in which no Dask client is there"


@pytest.mark.skipif(sys.platform != "linux", reason="needs ptrace")
def test_py_spy_draws_this_process(suite: Suite) -> None:
    suite.write(
        """
def work_hard():
    return sum(number * number for number in range(3_000_000))

def test_it(bench):
    bench(work_hard, rounds=2)
"""
    )
    done = suite.run_apart("--benchmark-profile", "py-spy", "--benchmark-profile-dir", "kept")
    assert done.returncode == 0, done.stdout + done.stderr
    record = suite.record("test_it")
    assert record.warnings == ()
    page = Path(record.details["py_spy_profiles_url"])
    assert page.is_relative_to(suite.path / "kept") and "work_hard" in page.read_text()


def test_a_profiler_that_is_missing_or_fails_is_a_warning(suite: Suite) -> None:
    suite.write(
        """
import sys

runs = []

def test_it(bench, monkeypatch):
    runs.append(1)
    bench(int, rounds=5)

def test_second_pass_fails(bench):
    runs.append(1)
    assert len(runs) < 5
"""
    )
    suite.write(
        """
import sys
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    sys.modules["memray"] = None
    from paceline.pytest_plugin import profiles
    profiles._program = lambda name: "/not/there/py-spy"
""",
        "conftest.py",
    )
    done = suite.run_apart("--benchmark-profile", "py-spy,memray")
    assert done.returncode == 0, done.stdout + done.stderr
    records = suite.records()
    assert {record.status for record in records.values()} == {Status.PASSED}
    warnings = records["test_it"].warnings
    assert any(text.startswith("py-spy: FileNotFoundError") for text in warnings)
    assert any(text.startswith("memray: ") for text in warnings)
    assert "py-spy: the profiled pass failed in its call" in records["test_second_pass_fails"].warnings


def test_a_module_that_fails_to_end_is_reported(suite: Suite) -> None:
    suite.write(
        """
import pytest

@pytest.fixture(scope="module")
def wide():
    yield
    raise OSError("does not end")

def test_it(wide, bench):
    bench(int, rounds=5)
"""
    )
    result = suite.run("--benchmark-profile", "dask")
    result.assert_outcomes(passed=1, errors=1)
    assert suite.record("test_it").status is Status.PASSED


def test_an_unknown_profiler_is_refused(suite: Suite) -> None:
    suite.write("")
    result = suite.run("--benchmark-profile", "perf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'perf': give one or more of dask, py-spy, memray*"])

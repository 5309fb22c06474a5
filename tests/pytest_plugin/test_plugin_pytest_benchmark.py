"""Tests that were written for pytest-benchmark run without it."""

import pytest

from pytest_plugin.benchmark_suite import Suite

WRITTEN_FOR_IT = """
import time
import pytest

pytestmark = pytest.mark.benchmark(group="all", max_time=0.02)

def test_plain(benchmark):
    assert benchmark(sorted, [2, 1], reverse=True) == [2, 1]

class TestGroup:
    @pytest.mark.benchmark(group="own", min_rounds=7, timer=time.perf_counter, disable_gc=True, warmup=False)
    @pytest.mark.parametrize("size", [3])
    def test_marked(self, benchmark, size):
        assert (benchmark.param, benchmark.params) == ("3", {"size": 3})
        benchmark.extra_info["size"] = size
        benchmark(lambda rounds: rounds, rounds=1)
        if benchmark.enabled:
            assert benchmark.stats["rounds"] >= 7 and benchmark.stats.stats.mean > 0
            assert benchmark.stats["min"] <= benchmark.stats["median"] <= benchmark.stats["max"]

def test_pedantic(benchmark):
    made = []
    def setup():
        made.append(1)
        return (len(made),), {}
    result = benchmark.pedantic(lambda number: number, setup=setup, rounds=3, warmup_rounds=1)
    assert result == (4 if benchmark.enabled else 1)
    assert benchmark.name == "test_pedantic"
"""


@pytest.mark.parametrize("measures", [False, True])
def test_its_fixture_and_marks_work(suite: Suite, measures: bool) -> None:
    suite.write(WRITTEN_FOR_IT)
    options = ("-p", "no:benchmark", "--strict-markers", *(["--benchmark"] if measures else []))
    suite.plain(*options).assert_outcomes(passed=3)
    assert (suite.path / "benchmark.db").exists() == measures
    if not measures:
        return
    found = suite.records()
    marked = found["TestGroup::test_marked[3]"]
    assert (marked.details["group"], marked.details["extra_info"]) == ("own", {"size": 3})
    assert len(marked.metrics["duration"].samples) >= 7 and marked.details["bench"]["duration"]["gc"] is False
    assert found["test_plain"].details["group"] == "all"
    assert found["test_plain"].details["bench"]["duration"]["gc"] is True
    assert len(found["test_pedantic"].metrics["duration"].samples) == 3


def test_theirs_stays_where_it_is_installed(suite: Suite) -> None:
    pytest.importorskip("pytest_benchmark")
    suite.write(
        "def test_it(benchmark): assert type(benchmark).__module__ == 'pytest_benchmark.fixture'; benchmark(int)"
    )
    suite.plain("--benchmark-max-time=0.001", "--benchmark-min-rounds=1").assert_outcomes(passed=1)


def test_what_it_cannot_do_is_refused_by_name(suite: Suite) -> None:
    suite.write(
        """
import pytest

def test_twice(benchmark):
    benchmark.pedantic(int)
    benchmark(int)

def test_weave(benchmark):
    benchmark.weave("json.dumps")

@pytest.mark.benchmark(groop="a")
def test_mark(benchmark):
    benchmark(int)

@pytest.mark.benchmark(cprofile=True)
def test_profile(benchmark):
    benchmark.pedantic(int)
"""
    )
    done = suite.run("-p", "no:benchmark")
    done.assert_outcomes(passed=1, failed=2, errors=1)
    done.stdout.fnmatch_lines(
        [
            "*mark 'benchmark' of test_it.py::test_mark has groop: not known",
            "*may be used once in a test*",
            "*has no weave*",
        ]
    )
    assert "cprofile of the mark 'benchmark' has no effect here" in suite.record("test_profile").warnings

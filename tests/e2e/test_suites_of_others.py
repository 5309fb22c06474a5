"""Tests of pytest and benchmarks of asv as cases: run as they are, selected, compared and searched like any others."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from git_commands import git
from workplace import Workplace

TESTS = """
import os
import pytest

def note(what):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(f"{what} {os.getpid()}\\n")

@pytest.mark.quick
@pytest.mark.parametrize("size", [10, 1000])
def test_sort(bench, size):
    note("sort")
    bench(sorted, list(range(size)), rounds=3)

@pytest.mark.benchmark(min_rounds=3)
def test_theirs(benchmark):
    note("theirs")
    assert benchmark(sum, range(100)) == 4950

def test_plain():
    note("plain")

def test_count(test_run_benchmark):
    note("count")
    test_run_benchmark.items = 7

def test_wrong():
    assert 1 + 1 == 3, "the sum is wrong"

def test_elsewhere():
    pytest.skip("not on this machine")
"""
ENTRY = "entries:\n  - {name: speed, pytest: tests, tags: [ours]}\n"

BENCHMARKS = """
import os
import pathlib

class Cached:
    params = ([1, 2], ["a", "b"])
    param_names = ["n", "kind"]
    rounds, warmup_time = 2, 0

    def setup_cache(self):
        with open(os.environ["LEDGER"], "a") as ledger:
            ledger.write("cache\\n")
        pathlib.Path("left.txt").write_text("3")
        return [1, 2, 3]

    def setup(self, cache, n, kind):
        if (n, kind) == (2, "b"):
            raise NotImplementedError("not for two b")

    def time_it(self, cache, n, kind):
        assert cache == [1, 2, 3] and pathlib.Path("left.txt").read_text() == "3"

    def track_it(self, cache, n, kind):
        return n * len(cache)

    track_it.unit = "things"
    track_it.version = "7"

def mem_it():
    return [0] * 100

def peakmem_it():
    return [0] * 100

def timeraw_it():
    return "pass"

timeraw_it.warmup_time = 0

def time_wrong():
    raise ValueError("it broke")
"""


@pytest.fixture
def suite(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("LEDGER", str(place.path / "ledger"))
    place.write(
        "pytest.ini", "[pytest]\naddopts = --benchmark-autosave --benchmark-max-time=0.05\nmarkers = quick\n"
    )
    place.write("tests/test_speed.py", TESTS)
    return place


def by_case(place: Workplace, session: str) -> dict[str, dict[str, Any]]:
    return {record["case"]["name"]: record for record in place.records(session).values()}


def test_each_test_is_a_case(suite: Workplace) -> None:
    suite.write("paceline.yaml", ENTRY)
    done = suite.run("run", "--session-name", "s", "--no-history")
    assert done.returncode == 1, done.stderr
    records = by_case(suite, "s")
    path = "tests/test_speed.py::"
    assert {name.removeprefix(path): one["status"] for name, one in records.items()} == {
        "test_sort[size=10]": "passed",
        "test_sort[size=1000]": "passed",
        "test_theirs": "passed",
        "test_plain": "passed",
        "test_count": "passed",
        "test_wrong": "failed",
        "test_elsewhere": "skipped",
    }
    sorting = records[f"{path}test_sort[size=1000]"]
    assert sorting["case"]["params"] == {"size": 1000}
    assert sorting["case"]["entry"] == "speed"
    assert sorting["case"]["tags"] == ["ours", "quick"]
    assert len(sorting["metrics"]["duration"]["samples"]) == 3
    assert sorting["metrics"]["duration"]["direction"] == "lower"
    assert len(records[f"{path}test_theirs"]["metrics"]["duration"]["samples"]) >= 3
    assert records[f"{path}test_plain"]["metrics"]["call_duration"]["unit"] == "s"
    assert records[f"{path}test_count"]["metrics"]["items"]["value"] == 7
    assert "the sum is wrong (test_speed.py:" in records[f"{path}test_wrong"]["reason"]
    assert records[f"{path}test_elsewhere"]["reason"] == "not on this machine"
    pids = {line.split()[1] for line in suite.ran()}
    assert len(pids) == len(suite.ran()) == 5


def test_what_is_skipped_fails_no_session(suite: Workplace) -> None:
    suite.write("paceline.yaml", ENTRY)
    done = suite.run("run", "--session-name", "s", "--no-history", "--exclude", "*test_wrong")
    assert done.returncode == 0, done.stderr


def test_tests_are_selected_by_name_mark_and_entry(suite: Workplace) -> None:
    suite.write("paceline.yaml", ENTRY)

    def chosen(*terms: str) -> list[str]:
        done = suite.run("plan", "--json", *(word for term in terms for word in ("--only", term)))
        assert done.returncode == 0, done.stderr
        return [case["name"].partition("::")[2] for case in json.loads(done.stdout)["cases"]]

    both = ["test_sort[size=10]", "test_sort[size=1000]"]
    assert chosen("tests/test_speed.py::test_sort") == both
    assert chosen("tag:quick") == both
    assert chosen("*test_plain") == ["test_plain"]
    assert len(chosen("speed")) == 7


def test_tests_may_share_a_process_in_each_repetition(suite: Workplace) -> None:
    suite.write("paceline.yaml", ENTRY.replace("tags: [ours]", "share_process: true, repeat: 2"))
    done = suite.run("run", "--session-name", "s", "--no-history")
    assert done.returncode == 1, done.stderr
    records = by_case(suite, "s")
    statuses = sorted(one["status"] for one in records.values())
    assert statuses == ["failed", *["passed"] * 5, "skipped"]
    lines = [line.split() for line in suite.ran()]
    assert len({pid for _, pid in lines}) == 2
    assert len(lines) == 10
    assert len(records["tests/test_speed.py::test_sort[size=10]"]["metrics"]["duration"]["samples"]) == 6
    assert not (suite.path / "results/s/.shared").exists()


def test_a_test_that_kills_its_process_takes_no_other_along(suite: Workplace) -> None:
    text = TESTS.replace('assert 1 + 1 == 3, "the sum is wrong"', "os.kill(os.getpid(), 9)")
    suite.write("tests/test_speed.py", f"{text}\ndef test_last():\n    note('last')\n")
    suite.write("paceline.yaml", ENTRY.replace("tags: [ours]", "share_process: true"))
    assert suite.run("run", "--session-name", "s", "--no-history").returncode == 1
    records = by_case(suite, "s")
    bad = {name for name, one in records.items() if one["status"] == "failed"}
    assert bad == {"tests/test_speed.py::test_wrong"}
    assert "SIGKILL" in records["tests/test_speed.py::test_wrong"]["reason"]
    assert records["tests/test_speed.py::test_last"]["status"] == "passed"


def test_a_file_that_cannot_be_imported_is_named_and_the_others_run(suite: Workplace) -> None:
    suite.write("tests/test_bad.py", "\nimport there_is_no_such_module\n")
    suite.write("paceline.yaml", ENTRY)
    planned = suite.run("plan")
    assert planned.returncode == 2
    told = f"{suite.path}/tests/test_bad.py:2: ModuleNotFoundError: No module named 'there_is_no_such_module'"
    assert told in planned.stderr
    done = suite.run("run", "--session-name", "s", "--no-history", "--exclude", "*test_wrong")
    assert done.returncode == 1
    records = by_case(suite, "s")
    assert records["speed"]["status"] == "launch_error" and records["speed"]["reason"] == told
    assert len(records) == 7


def test_an_entry_without_tests_says_so(suite: Workplace) -> None:
    suite.write(
        "paceline.yaml", "entries:\n  - {name: speed, pytest: tests, args: -k nothing_of_that_name}\n"
    )
    planned = suite.run("plan")
    assert planned.returncode == 2 and "there are no tests in it" in planned.stderr
    suite.write("paceline.yaml", "entries:\n  - {name: speed, pytest: nowhere}\n")
    planned = suite.run("plan")
    assert planned.returncode == 2 and "nowhere is not there; name a file or a directory" in planned.stderr


def test_the_history_knows_a_test_by_the_name_that_the_plugin_gives_it(
    suite: Workplace, pytestconfig: pytest.Config
) -> None:
    import subprocess
    import sys

    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:benchmark",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--paceline",
    ]
    db = ["--benchmark-db", "all.db", "-k", "test_sort", "tests"]
    subprocess.run(
        [sys.executable, *words, *db], cwd=suite.path, check=True, capture_output=True, timeout=120
    )
    done = suite.run(
        "run", "tests/test_speed.py", "--only", "*test_sort*", "--session-name", "s", "--db", "all.db"
    )
    assert done.returncode == 0, done.stderr
    shown = suite.run("history", "export", "-", "--format", "csv", "--db", "all.db", "--metric", "duration")
    rows = [line for line in shown.stdout.splitlines() if "test_sort[size=10]" in line]
    assert len(rows) == 2, shown.stdout + shown.stderr


@pytest.fixture
def asv_suite(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("LEDGER", str(place.path / "ledger"))
    place.write("asv.conf.json", '{"project": "words", "repo": ".", "benchmark_dir": "perf", /* mine */}')
    place.write("perf/__init__.py", "")
    place.write("perf/all.py", BENCHMARKS)
    return place


def test_an_asv_suite_runs_without_a_word_of_ours(asv_suite: Workplace) -> None:
    done = asv_suite.run("run", "--session-name", "s", "--no-history")
    assert done.returncode == 1, done.stderr
    records = by_case(asv_suite, "s")
    assert len(records) == 12
    timed = records["all.Cached.time_it[kind=a,n=2]"]
    assert timed["case"]["params"] == {"n": 2, "kind": "a"} and timed["case"]["tags"] == ["time"]
    assert len(timed["metrics"]["duration"]["samples"]) == 10
    assert timed["case"]["entry"] == "words"
    for kind in ("time", "track"):
        skipped = records[f"all.Cached.{kind}_it[kind=b,n=2]"]
        assert (skipped["status"], skipped["reason"]) == ("skipped", "not for two b")
    tracked = records["all.Cached.track_it[kind=b,n=1]"]
    assert tracked["metrics"]["value"] == {"value": 3, "unit": "things", "direction": None, "samples": [3]}
    assert tracked["case"]["version"] == "7"
    assert records["all.mem_it"]["metrics"]["memory"]["unit"] == "bytes"
    assert records["all.peakmem_it"]["metrics"]["peak_memory"]["value"] > 1 << 20
    assert records["all.timeraw_it"]["metrics"]["duration"]["value"] < 1
    wrong = records["all.time_wrong"]
    assert wrong["status"] == "failed" and wrong["reason"].startswith("ValueError: it broke (all.py:")
    assert asv_suite.ran() == ["cache"]
    assert not (asv_suite.path / "results/s/.shared").exists()


def test_a_cache_that_cannot_be_made_fails_all_who_need_it_once(asv_suite: Workplace) -> None:
    asv_suite.write(
        "perf/all.py", BENCHMARKS.replace("return [1, 2, 3]", "raise OSError('the disk is gone')")
    )
    asv_suite.write("more.yaml", "entries:\n  - {name: words, asv: ., repeat: 1}\n")
    done = asv_suite.run(
        "run", "more.yaml", "--session-name", "s", "--no-history", "--only", "all.Cached.track_it"
    )
    assert done.returncode == 1
    reasons = {record["reason"].partition(" (all.py")[0] for record in by_case(asv_suite, "s").values()}
    assert reasons == {"RuntimeError: setup_cache failed: OSError: the disk is gone"}
    assert asv_suite.ran() == ["cache"]


CACHED = """
import os, pathlib

class Cached:
    def setup_cache(self):
        with open(os.environ["LEDGER"], "a") as ledger:
            ledger.write(os.getcwd() + "\\n")
        return 3

    def track_it(self, cache):
        assert "MENDED" in os.environ
        return cache
"""


def test_a_cache_that_lies_in_a_session_already_is_not_read(asv_suite: Workplace) -> None:
    """Reading one runs what it says, and a session may come from anybody."""
    asv_suite.write("perf/all.py", CACHED)
    run = ("run", "--no-history", "--only", "all.Cached.track_it")
    assert asv_suite.run(*run, "--session-name", "s").returncode == 1
    (place,) = map(Path, asv_suite.ran())
    place.mkdir(parents=True)
    pwned = asv_suite.path / "pwned"
    (place / "cache.pickle").write_bytes(pickle.dumps(Planted(pwned)))
    Path(f"{place}.ended").write_text("")
    done = asv_suite.run(*run, "--resume", "s", "--rerun-failed", MENDED="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert asv_suite.ran() == [str(place)] * 2 and not pwned.exists()


class Planted:
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_variables_of_the_matrix_are_parameters(asv_suite: Workplace) -> None:
    conf = {"benchmark_dir": "perf", "matrix": {"env_nobuild": {"MODE": ["fast", "slow"]}}, "colour": 1}
    asv_suite.write("asv.conf.json", json.dumps(conf))
    asv_suite.write(
        "perf/all.py", "import os\ndef track_it():\n    return len(os.environ['MODE'] + 'x' * 3)\n"
    )
    asv_suite.write("perf/more.py", "def time_it(): pass\n")
    done = asv_suite.run("run", "--session-name", "s", "--no-history", "--only", "all.track_it")
    assert done.returncode == 0, done.stderr
    assert {*by_case(asv_suite, "s")} == {"all.track_it[MODE=fast]", "all.track_it[MODE=slow]"}
    assert "unknown key 'colour'" in done.stdout + done.stderr


LIBRARY = "def work():\n    return {}\n"
SUITES = {
    "pytest": (
        "def test_it(test_run_benchmark):\n    test_run_benchmark.cost = lib.work()\n",
        "perf/test_lib.py",
    ),
    "asv": ("def track_it():\n    return lib.work()\n", "perf/lib_cost.py"),
}


@pytest.mark.parametrize("kind", ["pytest", "asv"])
def test_a_bisection_finds_the_commit(place: Workplace, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
    repo = place.path / "repo"
    for number, cost in enumerate((10, 10, 10, 25, 25, 25)):
        place.write("repo/src/lib/__init__.py", LIBRARY.format(cost))
        place.write("repo/number", str(number))
        if number == 0:
            git(repo, "init", "-q", "-b", "main")
            # What the benchmarks of today measure is the library of each revision: they came later.
            place.write("repo/.gitignore", "perf/\n" if kind == "asv" else "nothing\n")
        if kind == "pytest":
            place.write("repo/perf/test_lib.py", f"import lib\n{SUITES[kind][0]}")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", f"number {number}")
    code, file = SUITES[kind]
    place.write(f"repo/{file}", f"import lib\n{code}")
    place.write("repo/perf/__init__.py", "") if kind == "asv" else None
    metric, case = ("value", "lib_cost.track_it") if kind == "asv" else ("cost", "perf/test_lib.py::test_it")
    text = f"entries:\n  - {{name: it, {kind}: perf, metrics: {{{metric}: {{direction: lower}}}}}}\n"
    place.write("repo/suite.yaml", text)
    words = ["bisect", "suite.yaml", "--repo", ".", "--good", "main~5", "--bad", "main", "--case", case]
    words += ["--metric", metric, "--direction", "lower", "--json", "--out", str(place.path / "out")]
    # As for who has installed the library from this tree: each revision comes before it.
    done = Workplace(repo).run(*words, PYTHONPATH=str(repo / "src"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["culprit"] == git(repo, "rev-parse", "main~2")

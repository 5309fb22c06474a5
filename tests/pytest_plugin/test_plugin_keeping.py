"""What was measured reaches the history, whatever happens to the database or to pytest."""

import json
import os
from pathlib import Path

import pytest

from git_commands import git
from paceline.history import open_store
from paceline.model import Status
from paceline.pytest_plugin import journal
from paceline.pytest_plugin.session import uuid_hex
from pytest_plugin.benchmark_suite import Suite
from workplace import Workplace

ONE = "def test_it(bench):\n    bench(int, rounds=2)\n"


def test_a_session_knows_where_it_ran(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.write(ONE)
    for words in (("init", "-q", "-b", "trunk"), ("add", "."), ("commit", "-qm", "first")):
        git(suite.path, *words)
    monkeypatch.setenv("GITHUB_REPOSITORY", "a/b")
    monkeypatch.setenv("GITHUB_RUN_ID", "7")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    suite.run().assert_outcomes(passed=1)
    (session,) = suite.sessions()
    assert (session.kind, session.tool, session.branch) == ("pytest", "pytest", "trunk")
    assert session.revision == git(suite.path, "rev-parse", "HEAD") and session.name.startswith("pytest-2")
    assert session.ci_run_url == "https://github.com/a/b/actions/runs/7"
    record = suite.record("test_it")
    assert record.revision == session.revision and record.environment
    with open_store(suite.path / "benchmark.db") as store:
        (environment,) = store.environments(session)
        (row,) = store.query("SELECT name, path, duration, python_version FROM test_run")[1]
    assert environment["id"] == record.environment and "pytest" in environment["packages"]
    assert row[:2] == ("test_it", "test_it.py") and row[2] == record.metrics["duration"].value and row[3]


def test_the_database_is_the_option_then_the_variable_then_the_default(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(
        "import os\n\ndef test_it(bench, tmp_path):\n    bench(int, rounds=5)\n    os.chdir(tmp_path)\n"
    )
    for _ in range(2):
        suite.run().assert_outcomes(passed=1)
        os.chdir(suite.path)
    assert len(suite.sessions()) == 2
    monkeypatch.setenv("PACELINE_DB", "from_variable.db")
    suite.run()
    os.chdir(suite.path)
    suite.run("--benchmark-db", "sqlite:///from_option.db")
    os.chdir(suite.path)
    assert len(suite.sessions("from_variable.db")) == len(suite.sessions("from_option.db")) == 1
    assert suite.journals() == []


def test_a_run_without_benchmarks_leaves_nothing(suite: Suite) -> None:
    suite.write("def test_it():\n    pass\n")
    result = suite.run()
    result.assert_outcomes(passed=1)
    suite.run("--collect-only")
    assert not (suite.path / "benchmark.db").exists()
    result.stdout.no_fnmatch_line("*benchmarks:*")


def test_a_database_that_cannot_be_written_fails_no_test(suite: Suite) -> None:
    suite.write(ONE)
    (suite.path / "benchmark.db").mkdir()
    result = suite.run()
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["warning: nothing was added to the history: *benchmark.db*"])
    (kept,) = suite.journals()
    result.stdout.fnmatch_lines([f"*kept in {kept}*"])
    (suite.path / "benchmark.db").rmdir()
    place = Workplace(suite.path)
    imported = place.run("history", "import", kept, "--db", "imported.db")
    assert imported.returncode == 0, imported.stderr
    result = suite.run()
    result.stdout.fnmatch_lines(["1 results of a run that was cut short were taken in, too"])
    assert suite.journals() == []
    with open_store(suite.path / "benchmark.db") as store:
        sessions_ = store.sessions()
        assert [len(store.records(session)) for session in sessions_] == [1, 1]
    assert suite.sessions("imported.db") == sessions_[1:]


def test_an_unknown_kind_of_database_is_named_without_its_password(suite: Suite) -> None:
    suite.write(ONE)
    result = suite.run("--benchmark-db", "mysql://me:opensesame@host/db")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["warning: nothing was added to the history: *mysql://me:*"])
    result.stdout.no_fnmatch_line("*opensesame*")
    (kept,) = suite.journals()
    assert "opensesame" not in json.dumps(json.loads(kept.read_text().splitlines()[0])["database"])


def test_what_was_measured_before_a_kill_is_taken_in_by_the_next_run(suite: Suite) -> None:
    suite.write(
        """
import os
import signal

def test_before(bench):
    bench(int, rounds=5)

def test_killed(bench):
    bench(int, rounds=5)
    os.kill(os.getpid(), signal.SIGKILL)

def test_after(bench):
    bench(int, rounds=5)
"""
    )
    assert suite.run_apart().returncode == -9
    assert not (suite.path / "benchmark.db").exists() and len(suite.journals()) == 1
    suite.write(ONE, "test_other.py")
    suite.run("test_other.py").stdout.fnmatch_lines(
        ["2 results of a run that was cut short were taken in, too"]
    )
    with open_store(suite.path / "benchmark.db") as store:
        newest, killed = store.sessions()
        found = {record.details["test_name"]: record for record in store.records(killed)}
        assert len(store.records(newest)) == 1
    assert {name: record.status for name, record in found.items()} == {
        "test_before": Status.PASSED,
        "test_killed": Status.INTERRUPTED,
    }
    assert len(found["test_before"].metrics["duration"].samples) == 5
    assert found["test_killed"].reason == "the process ended while the test was running"
    assert suite.journals() == []


def test_an_interrupted_test_is_recorded_as_such(suite: Suite) -> None:
    suite.write("def test_it(bench):\n    bench(int, rounds=5)\n    raise KeyboardInterrupt\n")
    assert suite.run_apart().returncode == 2
    assert suite.record("test_it").status is Status.INTERRUPTED


def header(database: str) -> dict[str, object]:
    environment = {"id": "e", "class_id": "c"}
    session = {"id": "0" * 31 + "1", "name": "pytest-1", "kind": "pytest"}
    return {"database": database, "session": session, "environment": environment}


def test_journals_of_living_runs_and_of_other_databases_stay(tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")
    paths = list(journal.candidates(database, tmp_path, "1"))
    assert paths[0] == tmp_path / "a.db.1.jsonl"
    living = journal.Journal(paths, header(database))
    living.write(b'{"torn')
    other = journal.Journal(journal.candidates(database, tmp_path, "2"), header("elsewhere.db"))
    other.close()
    (tmp_path / "a.db.3.jsonl").write_text("not a journal\n")
    assert list(journal.abandoned(database, tmp_path)) == []
    living.close()
    ((path, told, kept),) = journal.abandoned(database, tmp_path)
    assert path == paths[0] and kept == []
    assert told["session"]["kind"] == "pytest"
    living.remove()
    assert not path.exists()


def test_what_others_left_under_a_journals_name_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "all"))
    (tmp_path / "all").mkdir()
    names = list(journal.candidates("postgresql://h/d", tmp_path, "1"))
    os.mkfifo(names[-1])
    names[-1].with_name(names[-1].name.replace(".1.", ".2.")).symlink_to("/dev/zero")
    assert names[-1].parent == tmp_path / "all"
    assert list(journal.abandoned("postgresql://h/d", tmp_path)) == []


def test_a_journal_goes_where_it_can(tmp_path: Path) -> None:
    missing = str(tmp_path / "not" / "there" / "a.db")
    made = journal.Journal(journal.candidates(missing, tmp_path, "1"), header(missing))
    assert made.path == tmp_path / "benchmark.1.jsonl"
    made.write(b"{}")
    made.close()
    ((path, _, kept),) = journal.abandoned(missing, tmp_path)
    assert path == made.path and kept == [{}]
    assert list(journal.records(kept)) == []
    nowhere = journal.Journal([Path(missing)], {})
    nowhere.write(b"{}")
    assert nowhere.path is None
    nowhere.remove()


def test_only_a_line_feed_ends_a_line_of_a_journal(tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")
    with_separators = {"ended": {"name": "a", "reason": "one\u2028two\x85three"}}
    left = journal.Journal(journal.candidates(database, tmp_path, "1"), header(database))
    left.write(json.dumps(with_separators, ensure_ascii=False).encode())
    left.close()
    ((_, _, kept),) = journal.abandoned(database, tmp_path)
    assert kept == [with_separators]


def test_the_summary_compares_with_the_time_before(suite: Suite) -> None:
    suite.write(
        """
import os
import pytest

@pytest.mark.parametrize("number", range(30))
def test_it(test_run_benchmark, number):
    test_run_benchmark.duration = [float(os.environ["SECONDS_TAKEN"]) * (1 + turn / 1000) for turn in range(9)]
    test_run_benchmark.peak_memory = 2 ** 20
"""
    )
    os.environ["SECONDS_TAKEN"] = "1"
    try:
        first = suite.run("--color=no")
        os.environ["SECONDS_TAKEN"] = "1.5"
        second = suite.run("--color=no")
        third = suite.run("--color=no")
    finally:
        del os.environ["SECONDS_TAKEN"]
    first.stdout.fnmatch_lines(["-* benchmarks: 30 recorded in benchmark.db -*"])
    second.stdout.fnmatch_lines(
        [
            "test*median*memory*since last",
            "test_it.py::test_it?number=0?*1.51 s ±0.27 %*1 MiB*worse: +50 % (+4?.? % to +50.? %)",
            "… and 5 more",
            "± is the standard deviation *",
        ]
    )
    third.stdout.fnmatch_lines(["test_it.py::test_it?number=0?*1.51 s ±0.27 %*1 MiB*same: 0 % (*"])
    assert "\x1b[" not in second.stdout.str()


def test_any_text_makes_an_id() -> None:
    known = "0123456789abcdef0123456789abcdef"
    assert uuid_hex(known) == known
    assert len(uuid_hex("nightly 7")) == 32
    assert uuid_hex("nightly 7") == uuid_hex("nightly 7")

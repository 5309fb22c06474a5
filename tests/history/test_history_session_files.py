"""A session's files are the truth: the history is rebuilt from them, as often as one likes."""

import json
import shutil
from pathlib import Path

import pytest

from paceline.errors import SessionError
from paceline.history import Added, open_store
from paceline.history.session_files import ci_run_url, find_sessions, read_session
from stored_records import series_of
from workplace import Workplace

SUITE = """\
entries:
  - name: sort
    script: sort.py
    repeat: 2
    requirements: [{metric: num_sorted, min_value: 1}]
  - {name: flaky, command: [python3, -c, "import os, sys; sys.exit(os.path.exists('broken'))"]}
"""
SCRIPT = """\
import json, os, pathlib
where = pathlib.Path(os.environ["PACELINE_RESULTS_PATH"])
where.mkdir(parents=True, exist_ok=True)
(where / "metrics.json").write_text(json.dumps({"num_sorted": 5, "label": "quick"}))
(where / "params.json").write_text(json.dumps({"size": 10}))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A results directory with two sessions, one of which was resumed after a failure."""
    place = Workplace(tmp_path_factory.mktemp("ran"))
    place.write("suite.yaml", SUITE)
    place.write("scripts/sort.py", SCRIPT)
    place.write("broken", "")
    assert place.run("run", "suite.yaml", "-q", "--session-name", "one").returncode == 1
    (place.path / "broken").unlink()
    assert place.run("run", "suite.yaml", "-q", "--rerun-failed", "--session-name", "one").returncode == 0
    assert place.run("run", "suite.yaml", "-q", "--session-name", "two").returncode == 0
    return place


def test_run_records_by_itself_and_files_rebuild_the_same(ran: Workplace, tmp_path: Path) -> None:
    rebuilt = tmp_path / "rebuilt.db"
    with open_store(rebuilt) as store:
        for _ in range(3):
            for path in find_sessions(ran.path / "results"):
                session, environment, records, _ = read_session(path)
                store.add(session, environment, records)
            assert store.size().records == 5
        made = {(one.case.key, one.attempt): one for one in store.records("one")}
    with open_store(ran.path / "results/benchmark.db") as store:
        recorded = {(one.case.key, one.attempt): one for one in store.records("one")}
        assert store.size().records == 5
        assert store.merge_from(rebuilt) == Added(known=5)
    assert recorded == made and set(made) == {("sort", 1), ("flaky", 1), ("flaky", 2)}
    assert [made["flaky", attempt].status for attempt in (1, 2)] == ["failed", "passed"]
    sort = made["sort", 1]
    assert sort.params == {"size": 10} and sort.metrics["label"].value == "quick"
    assert sort.metrics["num_sorted"].samples == (5.0, 5.0) and sort.requirements[0].ok
    assert sort.metrics["exec_time_s"].direction == "lower" and len(sort.metrics["exec_time_s"].samples) == 2


def test_series_use_the_last_attempt(ran: Workplace) -> None:
    with open_store(ran.path / "results/benchmark.db") as store:
        (series,) = series_of(store, "flaky", "exec_time_s")
        assert [(point.session, point.status) for point in series.points] == [
            ("one", "passed"),
            ("two", "passed"),
        ]
        (environment,) = store.environments("two")
        assert "pytest" in environment["packages"] and series.environment_class == environment["class_id"]


def test_a_moved_and_renamed_session_is_the_same(ran: Workplace, tmp_path: Path) -> None:
    moved = tmp_path / "archive" / "renamed"
    shutil.copytree(ran.path / "results" / "two", moved, symlinks=True)
    here, there = read_session(ran.path / "results" / "two"), read_session(moved)
    assert (here.session.id, here.session.name) == (there.session.id, "two")
    assert there.session.directory == str(moved)
    with open_store(tmp_path / "benchmark.db") as store:
        for found in (here, there):
            store.add(found.session, found.environment, found.records)
        assert store.size().records == 2


def test_a_session_that_was_cut_short_is_read_as_far_as_it_came(ran: Workplace, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(ran.path / "results" / "two", cut, symlinks=True)
    (cut / "flaky" / "record.json").write_text('{"schema": 1, "ca')
    for name in ("environment.json", "packages.txt", "report.json"):
        (cut / name).unlink()
    (cut / "events.jsonl").write_text("torn")
    found = read_session(cut)
    assert [one.case.name for one in found.records] == ["sort"]
    assert found.environment == {} and found.session.name == "cut" and found.session.started_at


@pytest.mark.parametrize(
    "text", ['{"git": 1, "variables": ["a"]}', "[]", "{", '{"python": [], "packages": 7}']
)
def test_an_environment_that_was_edited_badly_costs_no_record(
    ran: Workplace, tmp_path: Path, text: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ran.path / "results" / "two", copy, symlinks=True)
    (copy / "environment.json").write_text(text)
    found = read_session(copy)
    with open_store(tmp_path / "benchmark.db") as store:
        assert store.add(found.session, found.environment, found.records).records == 2


def test_nothing_outside_of_a_session_is_read_for_it(ran: Workplace, tmp_path: Path) -> None:
    session = shutil.copytree(
        next(iter(find_sessions(ran.path / "results"))), tmp_path / "copy", symlinks=True
    )
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/list.txt").write_text("private==1\n")
    (session / "packages.txt").unlink()
    (session / "packages.txt").symlink_to(tmp_path / "outside/list.txt")
    assert read_session(session).environment["packages"] == []
    (session / "packages.txt").unlink()
    with (session / "packages.txt").open("wb") as file:
        file.truncate(1 << 33)
    assert read_session(session).environment["packages"] == []
    before = len(list(read_session(session).records))
    entry = next(session.glob("*/record.json")).parent
    shutil.rmtree(entry / "attempts", ignore_errors=True)
    kept = json.loads((entry / "record.json").read_text())
    (tmp_path / "outside/attempt-9").mkdir()
    (tmp_path / "outside/attempt-9/record.json").write_text(json.dumps({**kept, "attempt": 9}))
    (entry / "attempts").symlink_to(tmp_path / "outside")
    assert len(list(read_session(session).records)) <= before
    assert 9 not in {record.attempt for record in read_session(session).records}


def test_where_there_are_no_sessions(tmp_path: Path) -> None:
    assert find_sessions(tmp_path) == [] == find_sessions(tmp_path / "missing")
    with pytest.raises(SessionError, match="no session at"):
        read_session(tmp_path)


def test_a_history_that_cannot_be_written_costs_a_line(place: Workplace) -> None:
    place.write("suite.yaml", 'entries: [{name: a, command: ["true"]}]\n')
    place.write("benchmark.db", "not a database\n" * 100)
    done = place.run("run", "suite.yaml", "--session-name", "s")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "in the history" in line]
    assert "not recorded in the history" in line and "file is not a database" in line
    assert f"'paceline history import {place.path / 'results' / 's'}'" in line
    later = place.run("history", "import", "results", "--db", "other.db", "--json")
    assert json.loads(later.stdout)["records"] == 1, later.stderr


@pytest.mark.parametrize(
    ("words", "config", "made"),
    [
        ((), "", ["results/benchmark.db"]),
        (("--no-history",), "", []),
        ((), "history: {enabled: false}\n", []),
        ((), "history: {url: data/all.db}\n", ["data/all.db"]),
        (("--db", "given.db"), "history: {url: data/all.db}\n", ["given.db"]),
    ],
    ids=["default", "option", "disabled", "configured", "given"],
)
def test_which_database_a_session_goes_to(
    words: tuple[str, ...], config: str, made: list[str], place: Workplace
) -> None:
    place.write("paceline.yaml", f'{config}entries: [{{name: a, command: ["true"]}}]\n')
    done = place.run("run", "-q", *words)
    assert done.returncode == 0, done.stderr
    assert sorted(str(path.relative_to(place.path)) for path in place.path.rglob("*.db")) == made
    if made and not words:
        assert "a " in place.run("history", "list").stdout


def test_a_database_that_can_never_be_is_an_error_before_anything_runs(place: Workplace) -> None:
    place.write("paceline.yaml", 'entries: [{name: a, command: ["true"]}]\n')
    done = place.run("run", PACELINE_DB="mysql://root:hunter2@host/db")
    assert done.returncode == 2 and "is no database that the history knows" in done.stderr
    assert "hunter2" not in done.stderr and not (place.path / "results").exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"GITHUB_SERVER_URL": "https://g", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"},
            "https://g/a/b/actions/runs/7",
        ),
        ({"GITHUB_REPOSITORY": "a/b"}, ""),
        ({"CI_JOB_URL": "https://lab/1"}, "https://lab/1"),
        ({"BUILD_URL": "https://j/2"}, "https://j/2"),
        ({}, ""),
    ],
    ids=["github", "part", "gitlab", "jenkins", "none"],
)
def test_the_page_of_the_ci_job(variables: dict[str, str], expected: str) -> None:
    assert ci_run_url(variables) == expected

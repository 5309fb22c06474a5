"""Records that found no database when they were made."""

import json
from pathlib import Path

from history.importers.golden import FILES, read_one
from paceline.history.importers import read, recognise
from paceline.model import Status

LINES = FILES / "records/unwritten.jsonl"


def test_lines() -> None:
    assert recognise(LINES) == "records"
    batch, records = read_one(LINES)
    assert batch.session.id == "0f8fad5bd9cb469fa16570867728950e"
    assert (batch.session.kind, batch.session.revision, batch.session.tool) == (
        "pytest",
        "abc1234",
        "paceline",
    )
    assert batch.environment["class_id"] == "c1"
    passed, failed = records.values()
    assert passed.metrics["duration"].samples == (0.24, 0.25, 0.26)
    assert (failed.status, failed.reason) == (Status.FAILED, "AssertionError")


def test_the_ending_does_not_matter(tmp_path: Path) -> None:
    copy = tmp_path / "left.txt"
    copy.write_bytes(LINES.read_bytes())
    assert recognise(copy) == "records"


def test_a_torn_line_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    first, second = LINES.read_text().splitlines()
    torn = tmp_path / "torn.jsonl"
    no_id = json.dumps({**json.loads(first), "session": {"id": "x", "name": "y"}})
    no_record = json.dumps({**json.loads(first), "record": {"status": "passed"}})
    torn.write_text("\n".join([first, no_id, "", no_record, second, second[:100]]))
    problems: list[str] = []
    (batch,) = read(torn, on_problem=lambda problem: problems.append(str(problem)))
    assert len(list(batch.records)) == 2
    assert [problem.removeprefix(str(torn))[:24] for problem in problems] == [
        ":2: session: has no id o",
        ":4: record: not a record",
        ":6: is no complete JSON ",
    ]


def test_sessions_that_alternate(tmp_path: Path) -> None:
    line = json.loads(LINES.read_text().splitlines()[0])
    other = {**line, "session": {**line["session"], "id": "1" * 32}}
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(map(json.dumps, [line, other, line])))
    assert [batch.session.id[:4] for batch in read(path)] == ["0f8f", "1111", "0f8f"]


def test_many_lines_come_in_parts(tmp_path: Path) -> None:
    line = LINES.read_text().splitlines()[0]
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join([line] * 2500))
    assert [len(list(batch.records)) for batch in read(path)] == [1000, 1000, 500]


JOURNAL = FILES / "records/journal.jsonl"


def test_a_journal_of_a_run_that_was_killed() -> None:
    assert recognise(JOURNAL) == "records"
    batch, records = read_one(JOURNAL)
    assert (batch.session.name, batch.session.tool) == ("pytest-20261116-055929", "pytest")
    assert batch.environment["class_id"] == "a437a5f4eed0b62d"
    assert {key: record.status.value for key, record in records.items()} == {
        "test_j.py::test_a[size=1]": "passed",
        "test_j.py::test_a[size=2]": "passed",
        "test_j.py::test_skip": "skipped",
        "test_j.py::test_killed": "interrupted",
    }
    measured, killed = records["test_j.py::test_a[size=1]"], records["test_j.py::test_killed"]
    assert measured.metrics["duration"].samples == (1.092e-6, 4.61e-7, 3.1e-7)
    assert (measured.session, measured.environment) == (batch.session.name, batch.environment["id"])
    assert killed.reason == "the process ended while the test was running"


def test_a_journal_with_other_endings(tmp_path: Path) -> None:
    lines = JOURNAL.read_text().splitlines()
    ended = {"name": "test_j.py::test_killed", "status": "failed", "reason": "worker died", "error": "text"}
    path = tmp_path / "journal.jsonl"
    path.write_text(
        "\n".join([*lines, lines[2], json.dumps({"ended": ended}), '{"started": {}}', '{"record'])
    )
    problems: list[str] = []
    (batch,) = read(path, on_problem=lambda problem: problems.append(str(problem)))
    records = list(batch.records)
    assert [record.attempt for record in records] == [1, 1, 1, 2, 1]
    assert (records[-1].status, records[-1].reason) == (Status.FAILED, "worker died")
    assert [problem.removeprefix(str(path))[:22] for problem in problems] == [
        ":11: started.name: is ",
        ":12: is no complete JS",
    ]

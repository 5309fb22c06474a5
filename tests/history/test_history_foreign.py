"""Database files, sessions and directories that somebody else made: data, whatever they hold."""

import csv
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from paceline.errors import HistoryError
from paceline.history import importers, open_store
from paceline.history.session_files import find_sessions, read_session
from paceline.history.store import foreign
from paceline.model import Plan
from paceline.record import codec
from paceline.record.directory import SessionDir
from stored_records import ENVIRONMENT, record, session

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"
COLUMNS = (
    "id, x'00' AS ident, '' AS name, '' AS kind, '' AS started_at, '' AS revision, '' AS branch, "
    "'' AS commit_time, '' AS directory, '' AS ci_run_url, '' AS tool, '' AS meta"
)
TRICKS = {
    "an endless view": [
        "DROP TABLE session",
        f"CREATE VIEW session AS {ENDLESS} AS {COLUMNS} FROM n",
    ],
    "an endless version": [
        "DROP TABLE history_version",
        f"CREATE VIEW history_version AS {ENDLESS} AS version_num FROM n",
    ],
    "another version table": ["ALTER TABLE history_version RENAME COLUMN version_num TO number"],
    "a virtual table": [
        "DROP TABLE session",
        "CREATE VIRTUAL TABLE session USING fts5(id, ident, name, kind, started_at, revision)",
    ],
    "a trigger": ["CREATE TRIGGER evil AFTER INSERT ON record BEGIN DELETE FROM record; END"],
    "a generated column": ["ALTER TABLE session ADD COLUMN more AS (zeroblob(1000000000))"],
    "a column less": [
        *(f"DROP VIEW {name}" for name in ("sample", "measurement", "test_run")),
        "ALTER TABLE record DROP COLUMN outcome",
    ],
    "a column of text": [
        "DROP TABLE source",
        "CREATE TABLE source (id TEXT PRIMARY KEY, hash TEXT, text TEXT)",
    ],
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with open_store(tmp_path / "theirs.db") as store:
        store.add(session(), ENVIRONMENT, [record()])
    return tmp_path / "theirs.db"


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_file_that_is_not_ours_is_refused_in_a_line(database: Path, tmp_path: Path, trick: str) -> None:
    change(database, *TRICKS[trick])
    for open_it in (
        lambda: open_store(database),
        lambda: open_store(database, read_only=True),
        lambda: open_store(tmp_path / "ours.db").merge_from(database),
    ):
        with pytest.raises(HistoryError, match="not a history that paceline made") as caught:
            open_it()
        assert "\n" not in str(caught.value)


def test_views_and_tables_of_a_user_stay_allowed(database: Path) -> None:
    change(
        database,
        "CREATE VIEW mine AS SELECT name FROM session",
        "CREATE TABLE notes (text TEXT)",
        "CREATE INDEX by_start ON record (started_at)",
    )
    with open_store(database) as store:
        assert store.query("SELECT * FROM mine")[1] == [("night-1",)]


def test_a_view_of_ours_that_is_anothers_is_not_used(database: Path, tmp_path: Path) -> None:
    change(database, "DROP VIEW sample", f"CREATE VIEW sample AS {ENDLESS} AS series_id FROM n")
    with open_store(database) as store:
        assert store.export(tmp_path / "all.csv", samples=True) == 1


def test_a_statement_has_an_end(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_FEWEST_STEPS", 1_000_000)
    with open_store(database, read_only=True) as store:
        with pytest.raises(HistoryError, match="longer than its size explains"), store.database.reading():
            store.database.rows(f"{ENDLESS} FROM n")
        with store.database.reading():
            assert store.database.rows("SELECT count(*) FROM record") == [(1,)]


def test_a_limit_grows_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_FEWEST_STEPS", 0)
    monkeypatch.setattr(foreign, "_STEPS_BETWEEN_LOOKS", 100)
    with open_store(tmp_path / "new.db") as store:
        for number in range(3):
            store.add(session(number), ENVIRONMENT, [record(f"case-{n}", number=number) for n in range(200)])
        assert len(store.records("night-2")) == 200


def test_a_wrong_row_is_named_when_a_file_is_merged(database: Path, tmp_path: Path) -> None:
    change(database, "UPDATE record SET attempt = 'many'")
    said = r"theirs.db holds.*record.*attempt is not a whole number"
    with open_store(tmp_path / "ours.db") as ours, pytest.raises(HistoryError, match=said):
        ours.merge_from(database)


@pytest.mark.parametrize("value", ["7", "[]", "{", "null"])
def test_json_of_another_shape_is_named_when_a_file_is_merged(
    database: Path, tmp_path: Path, value: str
) -> None:
    change(database, f"UPDATE environment SET data = '{value}'")
    said = r"theirs.db holds.*environment.*data is not an object in JSON"
    with open_store(tmp_path / "ours.db") as ours, pytest.raises(HistoryError, match=said):
        ours.merge_from(database)


def test_a_file_of_a_format_to_come_is_said(database: Path) -> None:
    with database.open("r+b") as file:
        file.seek(44)  # the number of the format of its tables
        file.write(b"\0\0\0\x09")
    with pytest.raises(HistoryError, match=r"theirs.db: unsupported file format: a later version"):
        open_store(database)


def test_text_that_is_not_utf8_is_said(database: Path) -> None:
    change(database, "UPDATE session SET name = CAST(x'ff' AS TEXT)")
    with pytest.raises(HistoryError, match="holds what is not text"), open_store(database) as store:
        store.sessions()


def test_a_table_whose_words_are_not_text_is_said(database: Path) -> None:
    broken = database.read_bytes().replace(b'CREATE TABLE "case_alias"', b'CR\xd2\xf3TE TABLE "case_alias"')
    database.write_bytes(broken)
    with pytest.raises(HistoryError, match=r"words that are not text: the file is damaged"):
        open_store(database)


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.db.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HistoryError, match="cannot lock"):
        open_store(tmp_path / "new.db")
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 100  # It would wait for a writer that never comes.


def make_session(path: Path) -> SessionDir:
    made = SessionDir.create(Plan(session=path.name, directory=path))
    made.prepare(record().case)
    made.write_record(record())
    return made


@pytest.mark.usefixtures("in_time")
def test_pipes_in_a_session_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results" / "night"
    make_session(path)
    for name in ("events.jsonl", "environment.json", "packages.txt", "pip-freeze.txt", "plan.json"):
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
    (path / "trap").mkdir()
    os.mkfifo(path / "trap" / "record.json")
    (tmp_path / "results" / "other").mkdir()
    os.mkfifo(tmp_path / "results" / "other" / ".lock")
    assert find_sessions(tmp_path / "results") == [path]
    found = read_session(path)
    assert [one.case.name for one in found.records] == ["sort"]


def test_links_in_a_session_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "results" / "night"
    make_session(path)
    make_session(tmp_path / "private" / "secret")
    (path / "stolen").symlink_to(tmp_path / "private" / "secret" / "sort")
    (path / "data_setup").symlink_to(tmp_path / "private" / "secret")
    (path / "sort" / "attempts").symlink_to(tmp_path / "private")
    (path / "environment.json").symlink_to(tmp_path / "private" / "key.json")
    (tmp_path / "private" / "key.json").write_text('{"key": 1}')
    (tmp_path / "results" / "link").symlink_to(tmp_path / "private" / "secret")
    assert find_sessions(tmp_path / "results") == [path]
    found = read_session(path)
    assert len(list(found.records)) == 1 and found.environment == {}


@pytest.mark.usefixtures("in_time")
def test_pipes_and_links_in_a_directory_keep_no_import_waiting(tmp_path: Path) -> None:
    place = tmp_path / "given"
    make_session(place / "night")
    os.mkfifo(place / "pipe.json")
    os.mkfifo(place / "pipe.db")
    (place / "device.json").symlink_to("/dev/zero")
    (place / "link.json").symlink_to(tmp_path / "outside.json")
    (tmp_path / "outside.json").write_bytes(codec.dump({"benchmarks": []}))
    (place / "entry").mkdir()
    os.mkfifo(place / "entry" / "results.json")
    problems: list[HistoryError] = []
    batches = list(importers.read(place, on_problem=problems.append))
    assert [batch.session.name for batch in batches] == ["night"]
    assert {str(one).partition(":")[0].rpartition("/")[2] for one in problems} == {
        *("pipe.json", "pipe.db", "results.json")
    }
    for name in ("pipe.json", "device.json"):
        with pytest.raises(HistoryError, match="not a regular file"):
            list(importers.read(place / name))


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(HistoryError, match="no format that can be imported"):
        list(importers.read(tmp_path / "link.json"))


def test_a_view_is_not_another_tools_table(tmp_path: Path) -> None:
    change(tmp_path / "coiled.db", f"CREATE VIEW test_run AS {ENDLESS} AS session_id, i AS name FROM n")
    with pytest.raises(HistoryError, match="no table test_run"):
        list(importers.read(tmp_path / "coiled.db", "coiled"))


@pytest.mark.parametrize("column", ["big AS (zeroblob(1000000000))", '"x"" FROM sqlite_master --"'])
def test_columns_of_another_tool_are_data(tmp_path: Path, column: str) -> None:
    change(
        tmp_path / "coiled.db",
        f"CREATE TABLE test_run (session_id, name, {column})",
        "INSERT INTO test_run (session_id, name) VALUES (1, 'a')",
    )
    (batch,) = importers.read(tmp_path / "coiled.db", "coiled")
    assert [one.case.name for one in batch.records] == ["a"]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t"])
def test_no_cell_of_a_table_is_a_formula(tmp_path: Path, begin: str) -> None:
    trick = f"{begin}cmd|' /C calc'!A0"
    with open_store(tmp_path / "ours.db") as store:
        store.add(session(name=trick), ENVIRONMENT, [record(trick, -1.5)])
        store.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["case_key"] == row["session"] == f"'{trick}"
    assert row["value"] == "-1.5"

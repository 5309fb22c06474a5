"""A file that others made, or a disk damaged, is named as the cause; a mistake of ours keeps its traceback."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from paceline.history import HistoryError, open_store
from stored_records import ENVIRONMENT, record, session


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "benchmark.db"
    with open_store(path) as store:
        store.add(session(1), ENVIRONMENT, [record("sort")])
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


DAMAGES = {
    "DROP TABLE case_alias": "the table case_alias is not there",
    'ALTER TABLE "case" RENAME COLUMN kind TO gone': "the table case has no column kind",
    "ALTER TABLE history_version RENAME COLUMN version_num TO gone": "the table history_version has no column",
    "UPDATE environment SET data = x'7b7d'": "the column data of environment holds what does not belong there",
    "UPDATE environment SET data = '{'": "the column data of environment holds what does not belong there",
    """UPDATE environment SET data = '["\\ud800"]'""": "the column data of environment holds what does not",
    "UPDATE environment SET platform = CAST(x'ff' AS TEXT)": "Could not decode to UTF-8",
}


def read_all(path: Path) -> None:
    with open_store(path) as store:
        store.cases()
        list(store.iter_series())
        for info in store.sessions():
            store.environments(info.id)


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_damaged_file_is_said_in_one_line(history: Path, statement: str) -> None:
    change(history, statement)
    with pytest.raises(HistoryError) as raised:
        read_all(history)
    assert DAMAGES[statement] in str(raised.value) and str(history) in str(raised.value)
    assert "\n" not in str(raised.value) and "history import" in str(raised.value)


def test_a_view_in_the_place_of_the_version_is_said(history: Path) -> None:
    evil = "CREATE VIEW history_version AS SELECT load_extension('/x') AS version_num"
    change(history, "DROP TABLE history_version", evil)
    with pytest.raises(HistoryError, match="the table history_version is not there"):
        open_store(history)


def test_a_damaged_file_that_is_imported_is_the_one_named(history: Path, tmp_path: Path) -> None:
    change(history, 'DROP TABLE "case"')
    with open_store(tmp_path / "other.db") as store, pytest.raises(HistoryError) as raised:
        store.merge_from(history)
    assert str(raised.value).startswith(f"{history}: the table case is not there")


def test_a_mistake_of_ours_keeps_its_traceback(history: Path) -> None:
    with pytest.raises(TypeError, match="ours"), open_store(history):
        raise TypeError("ours")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM session", "a record leads to a session that is not there"),
        (
            "UPDATE record SET status = '/dev/zero'",
            "the column status of record holds what does not belong there",
        ),
    ],
)
def test_the_cause_is_found_wherever_a_reader_fails(history: Path, statement: str, said: str) -> None:
    change(history, statement)
    with pytest.raises(HistoryError, match=said), open_store(history):
        raise KeyError(1)  # as a reader does that stumbles over it

"""Databases of every schema there has been are brought to the newest, by whoever comes first, or left as they are."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import HistoryError
from paceline.history import Store, open_store
from paceline.history.store import schema
from paceline.history.store.database import Database, connect
from paceline.history.store.migrate import REVISIONS, check_known
from paceline.history.urls import parse_target
from postgres_server import server
from stored_records import series_of

SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.sql"))
_POSTGRES = {"BLOB": "BYTEA", "DOUBLE": "DOUBLE PRECISION", "WITHOUT ROWID": ""}
_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"""
_CONSTRAINTS = """
SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"""
_INDEXES = (
    "SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public' AND indexname !~ '_(p?key|pkc)$'"
)


def load(dump: Path, path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text())
    return path


def at_revision(url: str, revision: str) -> Database:
    """An empty database of that schema; of the newest, what a new one has."""
    if revision == schema.HEAD:
        open_store(url).close()
        return connect(parse_target(url), create=True, read_only=False)
    dump = next(path for path in SCHEMAS if path.stem == revision)
    with closing(sqlite3.connect(":memory:")) as stored:
        stored.executescript(dump.read_text())
        tables = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL"
        made = [sql for (sql,) in stored.execute(tables)]
    database = connect(parse_target(url), create=True, read_only=False)
    with database.writing():
        for sql in made:
            database.rows(sql if database.is_sqlite else as_postgres(sql))
        database.rows(f"INSERT INTO {schema.VERSION_TABLE} VALUES (?)", (revision,))
    return database


def as_postgres(sql: str) -> str:
    for word, other in _POSTGRES.items():
        sql = re.sub(rf"\b{word}\b", other, sql)
    return sql


def shape(url: str) -> dict[str, Any]:
    """All tables with their columns and keys, and the names of the views, as the database itself tells them."""
    with closing(connect(parse_target(url), create=False, read_only=False)) as database, database.reading():
        rows = database.rows
        if not database.is_sqlite:
            return {"columns": rows(_COLUMNS), "keys": rows(_CONSTRAINTS), "indexes": sorted(rows(_INDEXES))}
        tables = [
            name for (name,) in rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return {
            "columns": {name: rows("SELECT * FROM pragma_table_info(?)", (name,)) for name in tables},
            "references": {
                name: rows("SELECT * FROM pragma_foreign_key_list(?)", (name,)) for name in tables
            },
            "indexes": {
                (name, index[1] if index[3] == "c" else ""): [
                    column[2] for column in rows("SELECT * FROM pragma_index_info(?)", (index[1],))
                ]
                for name in tables
                for index in rows("SELECT * FROM pragma_index_list(?)", (name,))
            },
            "kept in order": rows(
                "SELECT name FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%' ORDER BY 1"
            ),
            "views": rows("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"),
        }


def told(store: Store) -> dict[str, Any]:
    """What the stored databases have in them, in words of the interface."""
    series = {
        (one.case_key, one.metric, one.epoch): tuple(one.values)
        for one in store.iter_columns(all_epochs=True)
    }
    (duration,) = series_of(store, "sort", "duration")
    return {
        "series": series,
        "samples": duration.points[1].samples,
        "sources": [point.source_hash for point in duration.points],
        "texts": [record.details.get("source") for record in store.records("night-3")],
        "plain": [store.records(f"night-{n}")[2].details for n in (1, 2, 3)],
        "failed": [(one.status, one.reason, one.returncode, one.command) for one in store.records("night-3")][
            1
        ],
        "session": store.session("night-1"),
        "epochs": [(epoch.case_key, epoch.why) for epoch in store.epochs()],
        "dask": store.query("SELECT DISTINCT dask_version FROM test_run ORDER BY 1")[1],
    }


def check_told(store: Store) -> None:
    found = told(store)
    assert found["series"] == {
        ("join[n=1]", "wall_s", 0): (11.0, 12.0, 13.0, 14.0, 15.0, 99.0),
        ("plain", "wall_s", 0): (1.0, 2.0),
        ("plain", "wall_s", 1): (3.0, 4.0, 5.0),
        ("sort", "average_memory", 0): (1000.0, 2000.0, 3000.0, 4000.0, 5000.0),
        ("sort", "duration", 0): (1.0, 2.0, 3.0, 4.0, 5.0),
    }
    assert found["samples"] == (1.8, 2.0, 2.2)
    assert found["sources"] == ["aaaa"] * 3 + ["bbbb"] * 2
    assert found["texts"] == ["def test_sort():\n    assert sorted([2, 1]) == [1, 2]\n", None, "x = 1\n"]
    assert [set(details) for details in found["plain"]] == [set(), {"source_hash"}, {"source", "source_hash"}]
    assert found["failed"] == ("failed", "exit code 1", 1, ("python", "/data/results/night-3/join"))
    assert found["session"].branch == "main" and found["session"].meta == {"run_reason": "nightly"}
    assert found["epochs"] == [("plain", "counts twice as much")]
    assert found["dask"] == [("2026.8.0",), ("2026.9.0",)]


@pytest.mark.parametrize("dump", SCHEMAS, ids=lambda dump: dump.stem)
def test_a_database_of_every_schema_reads_the_same(dump: Path, tmp_path: Path) -> None:
    path = load(dump, tmp_path / "benchmark.db")
    with open_store(path) as store:
        check_told(store)
        before = store.size()
        assert store.database.rows("PRAGMA integrity_check") == [("ok",)]
        assert store.database.rows("PRAGMA foreign_key_check") == []
    fresh = tmp_path / "fresh.db"
    open_store(fresh).close()
    assert shape(str(path)) == shape(str(fresh))
    with open_store(path) as store:
        assert store.merge_from(load(dump, tmp_path / "again.db")).records == 0
        assert store.size() == before


@pytest.mark.parametrize("dump", SCHEMAS, ids=lambda dump: dump.stem)
def test_the_same_on_postgres(dump: Path, tmp_path: Path) -> None:
    url = server().new_database()
    source = load(dump, tmp_path / "source.db")
    with (
        closing(at_revision(url, dump.stem)) as database,
        closing(sqlite3.connect(source)) as rows,
        database.writing(),
    ):
        for name in (name for name in schema.TABLES if is_table(rows, name)):
            found = rows.execute(f'SELECT * FROM "{name}"')
            columns = ", ".join(column[0] for column in found.description)
            marks = ", ".join("?" * len(found.description))
            if name != schema.VERSION_TABLE:
                database.many(f'INSERT INTO "{name}" ({columns}) VALUES ({marks})', found.fetchall())
    with open_store(url) as store:
        check_told(store)
    fresh = server().new_database()
    open_store(fresh).close()
    assert shape(url) == shape(fresh)


def is_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    return found.fetchone() is not None


def test_every_schema_is_known_and_stored() -> None:
    assert tuple(path.stem for path in SCHEMAS) == REVISIONS
    assert REVISIONS[-1] == schema.HEAD


def test_the_newest_stored_database_has_the_newest_schema(tmp_path: Path) -> None:
    path = load(SCHEMAS[-1], tmp_path / "stored.db")
    open_store(tmp_path / "fresh.db").close()
    assert shape(str(path)) == shape(str(tmp_path / "fresh.db"))


def test_an_upgrade_is_what_a_new_database_has(url: str, tmp_path: Path) -> None:
    at_revision(url, REVISIONS[0]).close()
    open_store(url).close()
    fresh = str(tmp_path / "fresh.db") if "/" in url and "://" not in url else server().new_database()
    open_store(fresh).close()
    assert shape(url) == shape(fresh)


@pytest.mark.parametrize("kind", ["empty", "old"])
def test_processes_that_open_at_once_agree(kind: str, url: str) -> None:
    if kind == "old":
        at_revision(url, REVISIONS[0]).close()
    program = "import sys; from paceline.history import open_store; open_store(sys.argv[1]).close()"
    started = [
        subprocess.Popen([sys.executable, "-c", program, url], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate()[1] for process in started] == [""] * 4
    with open_store(url) as store:
        assert store.sessions() == []


def test_a_later_schema_is_refused(url: str) -> None:
    with open_store(url) as store, store.database.writing():
        store.database.rows("UPDATE history_version SET version_num = '9999'")
    with pytest.raises(HistoryError, match=r"has the schema 9999 .* update paceline"):
        open_store(url)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE test_run (id INTEGER PRIMARY KEY)")
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=r"another program's database .*test_run.* history import"):
        open_store(path)
    assert path.read_bytes() == before


def test_a_database_that_another_process_made_meanwhile_is_ours(url: str) -> None:
    open_store(url).close()
    with closing(connect(parse_target(url), create=False, read_only=False)) as database:
        check_known(database, None)  # what was stored when we looked first


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    path.write_text("name,value\n" * 100)
    with pytest.raises(HistoryError, match=r"benchmark.db: file is not a database.*--db"):
        open_store(path)


def test_reading_only_never_creates_nor_migrates(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(HistoryError, match=r"no history at .*benchmark.db"):
            open_store(path, **options)
    assert not path.exists()
    load(SCHEMAS[0], path)
    with pytest.raises(HistoryError, match="has the schema 0001"):
        open_store(path, read_only=True)
    open_store(path).close()
    with open_store(path, read_only=True) as store:
        check_told(store)
        with pytest.raises(HistoryError, match="for reading only"):
            store.alias("a", "b")


def test_no_lock_file_is_left(tmp_path: Path) -> None:
    open_store(tmp_path / "sub" / "benchmark.db").close()
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["benchmark.db"]

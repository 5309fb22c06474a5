"""Coiled's database, made of the columns that its migrations have left."""

import sqlite3
from pathlib import Path

import pytest

from history.importers.golden import FILES, read_all
from paceline.errors import HistoryError
from paceline.history import open_store
from paceline.history.importers import recognise
from paceline.model import Status

SQL = (FILES / "coiled/benchmark.sql").read_text()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make(tmp_path / "benchmark.db", SQL)


def make(path: Path, sql: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()
    return path


def test_sessions(database: Path) -> None:
    assert recognise(database) == "coiled"
    batches = read_all(database)
    assert [batch.session.meta["session_id"] for batch in batches] == ["aaaa0001", "aaaa0002", "bbbb0001"]
    assert [len(list(batch.records)) for batch in batches] == [3, 1, 1]
    first = batches[0].session
    assert (first.tool, first.kind) == ("coiled", "import")
    assert first.ci_run_url == "https://ci.example/runs/1"
    assert first.started_at == "2025-06-08T00:10:00.250Z"
    assert batches[0].environment["packages"] == {"dask": "2025.5.1", "distributed": "2025.5.1"}


def test_a_row(database: Path) -> None:
    record = next(
        record
        for record in read_all(database)[0].records
        if record.details["original_name"] == "test_anom_mean"
    )
    assert record.case.key == "benchmarks/test_array.py::test_anom_mean[id=uncompressible-p2p]"
    assert record.case.params == {"id": "uncompressible-p2p"}
    assert record.case.variant is None
    assert record.exec_time_s == 62.5
    assert record.metrics["duration"].samples == (62.5,)
    assert {name: (metric.unit, metric.direction) for name, metric in record.metrics.items()} == {
        **dict.fromkeys(
            ("duration", "compute_time", "disk_spill_time", "serializing_time", "transfer_time"),
            ("s", "lower"),
        ),
        **dict.fromkeys(("average_memory", "peak_memory", "scheduler_memory_max"), ("bytes", "lower")),
        **dict.fromkeys(("worker_max_tick", "scheduler_max_tick"), ("s", "lower")),
        "scheduler_cpu_avg": ("cores", "lower"),
    }
    assert record.details["test_name"] == "test_anom_mean[uncompressible-p2p]"
    assert record.details["cluster_id"] == "101"


def test_outcomes(database: Path) -> None:
    records = {record.details["original_name"]: record for record in read_all(database)[0].records}
    failed, skipped = records["test_set_index"], records["test_snowflake"]
    assert (failed.status, failed.reason) == (Status.FAILED, "the test's call failed")
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "skipped in setup")
    assert skipped.metrics == {}


def test_an_arm_is_a_variant(database: Path) -> None:
    *_, arm = read_all(database)
    (record,) = arm.records
    assert record.case.variant == "AB_baseline"
    assert arm.environment["class_id"] != read_all(database)[0].environment["class_id"]


def test_the_view_shows_what_was_there(database: Path, tmp_path: Path) -> None:
    texts = "name, originalname, path, call_outcome, dask_version, python_version, platform"
    columns = f"{texts}, start, duration, peak_memory"
    with sqlite3.connect(database) as connection:
        theirs = connection.execute(f"SELECT DISTINCT {columns} FROM test_run").fetchall()
    with open_store(tmp_path / "ours.db") as store:
        for batch in read_all(database):
            store.add(batch.session, batch.environment, batch.records)
        ours = store.query(f"SELECT {columns} FROM test_run")[1]
    skipped = {row[0]: row[7:] for row in theirs if row[3] is None}
    assert len(ours) == len(theirs) == 5
    for row in ours:
        if row[0] in skipped:
            continue  # a test that was skipped has no call there; here its status stands for it
        (same,) = (other for other in theirs if other[0] == row[0] and other[8] == row[8])
        assert row[:7] == same[:7]
        assert row[7][:19] == same[7][:19]
        assert row[8:] == same[8:]


def test_an_old_database_without_most_columns(tmp_path: Path) -> None:
    old = make(
        tmp_path / "old.db",
        "CREATE TABLE test_run (id INTEGER PRIMARY KEY, session_id, name, start, duration);"
        "INSERT INTO test_run VALUES (1, 's', 'test_a[x]', '2022-08-01 10:00:00', 1.5);"
        "INSERT INTO test_run VALUES (2, 's', 'test_b', NULL, NULL);",
    )
    (batch,) = read_all(old)
    passed, unknown = sorted(batch.records, key=lambda record: record.case.key)
    assert (passed.case.key, passed.status) == ("test_a[id=x]", Status.PASSED)
    assert (unknown.status, unknown.reason) == (Status.INTERRUPTED, "the test's outcome was not recorded")


def test_a_row_again_is_another_attempt(tmp_path: Path) -> None:
    again = make(
        tmp_path / "again.db",
        "CREATE TABLE test_run (id INTEGER PRIMARY KEY, session_id, name, start, duration);"
        "INSERT INTO test_run VALUES (1, 's', 't', '2022-08-01 10:00:00', 1.5);"
        "INSERT INTO test_run VALUES (2, 's', 't', '2022-08-01 10:05:00', 1.6);",
    )
    (batch,) = read_all(again)
    assert [(record.attempt, record.exec_time_s) for record in batch.records] == [(1, 1.5), (2, 1.6)]


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    odd = make(
        tmp_path / "odd.db",
        "CREATE TABLE test_run (session_id, name, duration);"
        "INSERT INTO test_run VALUES ('s', CAST(x'74657374ff00' AS TEXT), 'long'), (x'0102', 7, 2.5);",
    )
    records = [record for batch in read_all(odd) for record in batch.records]
    assert sorted(record.case.key for record in records)[0] == "7"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE TABLE test_run (id, name)", "the table test_run has no session_id; "),
        ("CREATE TABLE other (id)", "is of no format that can be imported; "),
    ],
)
def test_another_database(tmp_path: Path, sql: str, said: str) -> None:
    path = make(tmp_path / "other.db", sql)
    with pytest.raises(HistoryError) as caught:
        read_all(path)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("kept", [40, 120, 5000])
def test_a_damaged_database(database: Path, kept: int) -> None:
    database.write_bytes(database.read_bytes()[:kept])
    with pytest.raises(HistoryError, match="is no readable database"):
        read_all(database)


def test_it_is_only_read(database: Path) -> None:
    before = database.read_bytes()
    database.chmod(0o400)
    read_all(database)
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def test_our_own_database_is_for_merging(tmp_path: Path) -> None:
    open_store(tmp_path / "ours.db").close()
    assert recognise(tmp_path / "ours.db") == "paceline"
    with pytest.raises(HistoryError, match="is a history of Paceline's own; join it with"):
        read_all(tmp_path / "ours.db")

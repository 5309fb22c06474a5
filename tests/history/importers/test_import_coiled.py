"""Coiled's database, made of the columns that its migrations have left."""

import random
import sqlite3
import statistics
import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
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
    assert [len(list(batch.records)) for batch in batches] == [4, 1, 1]
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
        **dict.fromkeys(("duration", "compute_time", "transfer_time"), ("s", "lower")),
        **dict.fromkeys(("average_memory", "peak_memory"), ("bytes", "lower")),
        # Paceline's fixtures measure these in another way: they are no points of the same series.
        **dict.fromkeys(("coiled_disk_spill_time", "coiled_serializing_time"), ("s", "lower")),
        **dict.fromkeys(("coiled_worker_max_tick", "coiled_scheduler_max_tick"), ("s", "lower")),
        "coiled_scheduler_memory_max": ("bytes", "lower"),
        "coiled_scheduler_cpu_avg": ("cores", "lower"),
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
    texts = "name, originalname, path, call_outcome, coiled_runtime_version, dask_version, python_version, platform"
    numbers = (
        "duration, peak_memory, disk_spill_time, serializing_time, scheduler_memory_max, scheduler_cpu_avg"
    )
    columns = f"{texts}, {numbers}, worker_max_tick, scheduler_max_tick, substr(start, 1, 19)"
    with sqlite3.connect(database) as connection:
        theirs = connection.execute(f"SELECT DISTINCT {columns} FROM test_run").fetchall()
    connection.close()
    with open_store(tmp_path / "ours.db") as store:
        for batch in read_all(database):
            store.add(batch.session, batch.environment, batch.records)
        ours = store.query(f"SELECT {columns} FROM test_run WHERE name <> 'test_query_1'")[1]
    assert len(ours) == len(theirs) == 5
    # A test that was skipped has no call there; here its status stands for it.
    measured = [{row for row in rows if row[0] != "test_snowflake"} for rows in (ours, theirs)]
    assert measured[0] == measured[1] and len(measured[0]) == 4


TPCH = """
CREATE TABLE test_run (id INTEGER PRIMARY KEY, session_id, name, originalname, path, call_outcome, dask_version,
  python_version, platform, start, duration, rows_per_s, batch_id, note);
CREATE TABLE tpch_run (id INTEGER PRIMARY KEY, session_id, name, originalname, path, setup_outcome, call_outcome,
  teardown_outcome, dask_version, dask_expr_version, distributed_version, duckdb_version, pyspark_version,
  polars_version, python_version, platform, ci_run_url, start, "end", duration, average_memory, peak_memory,
  cluster_name, cluster_id, cluster_details_url, scale INTEGER, query INTEGER, local BOOLEAN, compression,
  partition_size, n_workers INTEGER, worker_vm_type, cluster_disk_size INTEGER);
CREATE TABLE notes (text);
INSERT INTO notes VALUES ('a'), ('b');
"""


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    """35 sessions of 20 queries each, as they are written: all but the first query has its row in `test_run` too."""
    path = make(tmp_path / "tpch.db", TPCH)
    with sqlite3.connect(path) as connection:
        for number in range(700):
            session, query = divmod(number, 20)
            name, place = f"test_query_{query + 1:02}", ("2025.1", "3.10.9.final.0", "linux")
            start = f"2025-01-01 {session // 2:02}:{query:02}:{session % 2:02}"
            connection.execute(
                "INSERT INTO tpch_run (session_id, name, originalname, path, dask_version, python_version, platform,"
                " duckdb_version, scale, query, local, n_workers)"
                " VALUES (?, ?, ?, 'tpch/test_dask.py', ?, ?, ?, '0.10', ?, ?, 0, 32)",
                (f"s{session}", name, name, *place, 1000 if session < 30 else 100, query + 1),
            )
            if query:
                connection.execute(
                    "INSERT INTO test_run (session_id, name, originalname, path, call_outcome, dask_version,"
                    " python_version, platform, start, duration, rows_per_s, batch_id, note)"
                    " VALUES (?, ?, ?, 'tpch/test_dask.py', 'passed', ?, ?, ?, ?, ?, 5.5, 7, 'warm')",
                    (f"s{session}", name, name, *place, start, query + 0.5),
                )
    connection.close()
    return path


def test_queries_of_tpch_are_records_with_what_was_measured(queries: Path) -> None:
    records = [record for batch in read_all(queries) for record in batch.records]
    assert len(records) == 700
    measured = [record for record in records if record.status is Status.PASSED]
    assert len(measured) == 665
    assert {record.reason for record in records if record.status is Status.INTERRUPTED} == {
        "the test's outcome was not recorded"
    }
    (first, *_) = [record for record in measured if record.params["query"] == 2]
    assert first.case.key == "tpch/test_dask.py::test_query_02[local=false,scale=1000]"
    assert first.params == {"scale": 1000, "query": 2, "local": False}
    assert first.metrics["duration"].value == 1.5 and first.details["n_workers"] == "32"
    assert len({record.case.key for record in records}) == 40  # data of another size are another series


def test_what_a_team_added_is_taken_and_what_is_not_is_named(queries: Path) -> None:
    (batch, *others) = read_all(queries)
    (record,) = [one for one in batch.records if one.params["query"] == 2]
    rate = record.metrics["rows_per_s"]
    assert (rate.value, rate.unit, rate.direction) == (5.5, "rows/s", "higher")
    assert (record.details["batch_id"], record.details["note"]) == ("7", "warm")
    assert batch.notes == (
        f"{queries}: the table notes with 2 rows is not one of Coiled's, and was not imported",
    )
    assert not any(other.notes for other in others)


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


def find_regressions(
    rows: Sequence[tuple[str, str, str, float | None, float | None]],
) -> dict[tuple[str, str], float]:
    """By a reader of the kind that teams have: a test is worse if its last three runs exceed the ten before by far."""
    series: dict[tuple[str, str], list[float]] = defaultdict(list)
    for runtime, python, name, duration, memory in rows:
        place = f"{runtime}-py{'.'.join(python.split('.')[:2])} {name}"
        for metric, value in (("duration", duration), ("peak_memory", memory)):
            if value is not None:
                series[place, metric].append(value)
    found = {}
    for key, values in series.items():
        before, last = values[-13:-3], values[-3:]
        if len(before) == 10 and min(last) > statistics.mean(before) + 3 * statistics.stdev(before):
            found[key] = statistics.mean(last)
    return found


def test_a_reader_of_their_table_finds_the_same_in_our_view(tmp_path: Path, url: str) -> None:
    noise = random.Random(5)
    path = make(
        tmp_path / "theirs.db",
        "CREATE TABLE test_run (id INTEGER PRIMARY KEY, session_id, name, originalname, path, call_outcome,"
        " coiled_runtime_version, python_version, platform, start, duration, peak_memory)",
    )
    with sqlite3.connect(path) as connection:
        for night in range(20):
            session = uuid.UUID(int=noise.getrandbits(128)).hex
            for number in range(6):
                start = datetime(2025, 1, 1, number) + timedelta(days=night)
                worse = 1.5 if night >= 17 and number in (1, 4) else 1.0
                values = (60 * worse * noise.gauss(1, 0.02), 1e9 * noise.gauss(1, 0.02))
                connection.execute(
                    "INSERT INTO test_run VALUES (NULL, ?, ?, ?, 'a/test_it.py', 'passed', 'upstream',"
                    " '3.10.9.final.0', 'linux', ?, ?, ?)",
                    (session, f"test_{number}", f"test_{number}", str(start), *values),
                )
        columns = "coiled_runtime_version, python_version, name, duration, peak_memory"
        query = f"SELECT {columns} FROM test_run WHERE platform = 'linux' AND call_outcome = 'passed'"
        theirs = connection.execute(query).fetchall()
    connection.close()
    with open_store(url) as store:
        for batch in read_all(path):
            store.add(batch.session, batch.environment, batch.records)
        ours = store.query(query)[1]
        by_id = store.query(f"{query} ORDER BY id")[1]
        ids = [number for (number,) in store.query("SELECT id FROM test_run")[1]]
    assert ours == by_id == theirs and ids == sorted(set(ids))
    places = ["upstream-py3.10 test_1", "upstream-py3.10 test_4"]
    assert sorted(find_regressions(ours)) == [(place, "duration") for place in places]

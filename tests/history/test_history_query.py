"""SQL that may only read, whatever it says."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import HistoryError
from paceline.history import open_store
from stored_records import ENVIRONMENT, measured, record, session

COLUMNS = [
    *(
        "id",
        "session_id",
        "name",
        "originalname",
        "path",
        "setup_outcome",
        "call_outcome",
        "teardown_outcome",
    ),
    *(
        "coiled_runtime_version",
        "coiled_software_name",
        "dask_version",
        "dask_expr_version",
        "distributed_version",
    ),
    *(
        "python_version",
        "platform",
        "ci_run_url",
        "start",
        "end",
        "duration",
        "average_memory",
        "peak_memory",
    ),
    *("compute_time", "disk_spill_time", "serializing_time", "transfer_time", "scheduler_cpu_avg"),
    *("scheduler_memory_max", "worker_max_tick", "scheduler_max_tick", "cluster_name", "cluster_id"),
    *("cluster_details_url", "performance_report_url", "cluster_dump_url", "memray_profiles_url"),
    "py_spy_profiles_url",
]

WRITES = [
    "DELETE FROM record",
    "UPDATE session SET name = 'x'",
    "INSERT INTO case_alias VALUES ('a', 'b', 'c')",
    "DROP TABLE record",
    "CREATE TABLE x (y INTEGER)",
    "SELECT 1; DELETE FROM record",
    "COMMIT; DELETE FROM record",
    "WITH x AS (SELECT 1) DELETE FROM record",
    "VACUUM",
]
SQLITE_WRITES = [
    "ATTACH DATABASE 'evil.db' AS evil",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "SELECT load_extension('x')",
    "VACUUM INTO 'copy.db'",
]
POSTGRES_WRITES = [
    "SET TRANSACTION READ WRITE",
    "WITH x AS (DELETE FROM record RETURNING id) SELECT * FROM x",
    "COPY record TO PROGRAM '{touch}'",
    "COPY (SELECT 1) TO PROGRAM '{touch}'",
    "/* SELECT */ COPY record TO PROGRAM '{touch}'",
    "EXPLAIN COPY record TO PROGRAM '{touch}'",
    "SELECT 1; COPY record TO PROGRAM '{touch}'",
    "SELECT query_to_xml('COPY record TO PROGRAM ''{touch}''', true, true, '')",
    "SELECT pg_read_file('/etc/passwd')",
    "DO 'BEGIN END'",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "TRUNCATE record",
]


def is_sqlite(url: str) -> bool:
    return "://" not in url


def test_columns_and_rows(url: str) -> None:
    with open_store(url) as store:
        store.add(session(), ENVIRONMENT, [record("a", 1.0), record("b", 2.0)])
        found = store.query("SELECT case_key, metric, value FROM measurement WHERE value > 1 ORDER BY 1")
        assert found == (["case_key", "metric", "value"], [("b", "wall_s", 2.0)])
        assert store.query("SELECT '%' AS percent, 1 AS one")[1] == [("%", 1)]
        assert len(store.query("SELECT id FROM record", limit=1)[1]) == 1


@pytest.fixture
def program_ran() -> Iterator[Path]:
    """A file that the server's user can make."""
    with tempfile.TemporaryDirectory(prefix="paceline-query-", dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory) / "was-here"


def test_what_describes_a_query_may_be_asked(url: str) -> None:
    with open_store(url) as store:
        assert store.query("WITH x AS (SELECT 1) SELECT * FROM x")[1] == [(1,)]
        assert store.query("VALUES (1), (2)")[1] == [(1,), (2,)]
        if not is_sqlite(url):
            assert store.query("EXPLAIN SELECT * FROM record")[1]
            assert store.query("show transaction_read_only")[1] == [("on",)]


def test_nothing_can_be_changed(
    url: str, tmp_path: Path, program_ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(url) as store:
        store.add(session(), ENVIRONMENT, [record()])
        before = store.query("SELECT count(*) FROM record"), sorted(path.name for path in tmp_path.iterdir())
        for sql in (*WRITES, *(SQLITE_WRITES if is_sqlite(url) else POSTGRES_WRITES)):
            with pytest.raises(HistoryError, match=r"the query failed|returns nothing"):
                store.query(sql.replace("{touch}", f"touch {program_ran}"))
            assert not program_ran.exists(), sql
        after = store.query("SELECT count(*) FROM record"), sorted(path.name for path in tmp_path.iterdir())
        assert before == after


def test_what_is_wrong_is_said_in_a_line(url: str) -> None:
    with open_store(url) as store:
        for sql, told in (
            ("SELEC 1", "syntax error"),
            ("SELECT * FROM nothing", "nothing"),
            ("  ", "no SQL given"),
        ):
            with pytest.raises(HistoryError, match=told) as caught:
                store.query(sql)
            assert "\n" not in str(caught.value)


def test_a_query_ends_in_time(url: str) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with open_store(url) as store, pytest.raises(HistoryError, match=r"longer than 0\.2 s.*--timeout"):
        store.query(endless, timeout_s=0.2)


def test_the_view_of_coiled_has_its_columns(url: str) -> None:
    details = {
        "test_name": "test_join[0.1]",
        "original_name": "test_join",
        "path": "benchmarks/test_join.py",
        "setup_outcome": "passed",
        "call_outcome": "passed",
        "teardown_outcome": "failed",
        "started": "2026-01-02T00:00:01.500Z",
        "ended": "2026-01-02T00:00:03Z",
        "cluster_name": "local",
        "performance_report_url": "reports/1.html",
    }
    metrics = {
        "duration": measured(1.5),
        "average_memory": measured(2e9, unit="bytes"),
        "compute_time": measured(9),
    }
    ci = {"ci_run_url": "https://ci/1"}
    with open_store(url) as store:
        store.add(session(**ci), ENVIRONMENT, [record("tests::join", metrics=metrics, details=details)])
        store.add(
            session(2),
            {},
            [record("plain", number=2, environment="", metrics={"exec_time_s": measured(0.25)})],
        )
        names, rows = store.query("SELECT * FROM test_run ORDER BY id")
        # The shape of the queries that the dashboards of the original make.
        assert store.query(
            "SELECT dask_version, average_memory FROM test_run WHERE name = 'test_join[0.1]'"
        ) == (["dask_version", "average_memory"], [("2026.8.0", 2e9)])
    assert sorted(names) == sorted(COLUMNS)
    first, second = (dict(zip(names, row, strict=True)) for row in rows)
    assert first["session_id"] == session().id and first["ci_run_url"] == "https://ci/1"
    assert (first["originalname"], first["path"]) == ("test_join", "benchmarks/test_join.py")
    assert (first["start"], first["end"]) == ("2026-01-02 00:00:01.500", "2026-01-02 00:00:03")
    assert (first["duration"], first["compute_time"], first["peak_memory"]) == (1.5, 9.0, None)
    assert (first["distributed_version"], first["python_version"], first["platform"]) == (
        "2026.8.1",
        "3.11.7",
        "linux",
    )
    assert (first["teardown_outcome"], first["performance_report_url"]) == ("failed", "reports/1.html")
    assert (second["name"], second["call_outcome"], second["duration"]) == ("plain", "passed", 0.25)
    assert second["dask_version"] is None and second["start"] == "2026-01-03 00:00:00.000"


@pytest.mark.parametrize("value", ["?", "%", "%s", "100%?", "it's 5 %"])
def test_questions_and_percents_in_statements_and_values_mean_themselves(url: str, value: str) -> None:
    with open_store(url) as store, store.database.reading():
        quoted = value.replace("'", "''")
        sql = f"""SELECT '{quoted}', 7 % 4, CAST(? AS TEXT), 'a?b' AS "50 % or ?" WHERE 'x%y' LIKE ?"""
        assert store.database.rows(sql, (value, "x%")) == [(value, 3, value, "a?b")]
        assert store.database.rows(f"SELECT '{quoted}', 7 % 4") == [(value, 3)]
        assert store.query(f"SELECT '{quoted}', 7 % 4")[1] == [(value, 3)]

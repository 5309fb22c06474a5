"""The fixtures and variables that users of Coiled's benchmarks know, used as they are documented there."""

import json
import random
import sqlite3
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from in_process import make_here
from pytest_plugin.benchmark_suite import Suite


def rows(suite: Suite, query: str, database: str = "benchmark.db") -> list[tuple[Any, ...]]:
    with sqlite3.connect(suite.path / database) as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


OWN = """
import sys

import pytest

@pytest.fixture
def auto_benchmark_rows(test_run_benchmark):
    # 1. ask for the row, 2. set up, 3. yield, 4. collect, 5. set its attributes
    before = 100
    yield
    if not test_run_benchmark:
        return
    test_run_benchmark.rows = 350 - before
    test_run_benchmark.cluster_name = "mine"

@pytest.mark.parametrize("kind", ["fast"])
def test_it(auto_benchmark_rows, benchmark_time, database_table_schema, test_run_benchmark, kind):
    with benchmark_time:
        pass
    for row in (database_table_schema, test_run_benchmark):
        assert row.peak_memory is None
        if row:
            assert (row.name, row.originalname, row.path) == ("test_it[fast]", "test_it", "test_it.py")
            assert (row.platform, row.python_version[:4]) == (sys.platform, "%d.%d" % sys.version_info[:2])
        with pytest.raises(AttributeError, match="no column of test_run"):
            row.colour
"""


def test_a_fixture_of_ones_own_sets_attributes_of_the_row(suite: Suite) -> None:
    suite.write(OWN)
    suite.plain().assert_outcomes(passed=1)
    suite.run().assert_outcomes(passed=1)
    query = 'select name, cluster_name, call_outcome, teardown_outcome, duration > 0, start <= "end" from test_run'
    assert rows(suite, query) == [("test_it[fast]", "mine", "passed", "passed", 1, 1)]
    assert suite.record("test_it[fast]").metrics["rows"].value == 250


DATABASE = """
import sqlalchemy
from sqlalchemy import Column, Integer, String
from sqlalchemy.orm import declarative_base

Base = declarative_base()

class QueryRun(Base):
    __tablename__ = "query_run"
    id = Column(Integer, primary_key=True)
    session_id = Column(String, nullable=False)
    query = Column(Integer, nullable=False)

class Impostor(Base):
    __tablename__ = "test_run"
    id = Column(Integer, primary_key=True)

def test_it(benchmark_db_engine, benchmark_db_session, test_run_benchmark, benchmark_time):
    with benchmark_time:
        pass
    if benchmark_db_engine is None:
        assert benchmark_db_session is None and not test_run_benchmark
        return
    with benchmark_db_engine.connect() as connection:
        earlier = connection.execute(sqlalchemy.text("select count(*) from test_run")).scalar()
    benchmark_db_session.add(QueryRun(session_id=test_run_benchmark.session_id, query=earlier))

def test_engine_alone(benchmark_db_engine):
    pass
"""


def test_rows_of_ones_own_tables_are_kept_beside(suite: Suite) -> None:
    suite.write(DATABASE)
    suite.plain().assert_outcomes(passed=2)
    assert not (suite.path / "benchmark.db").exists()
    for _ in range(2):
        assert suite.run_apart().returncode == 0
    sessions = [session for (session,) in rows(suite, "select session_id from test_run order by id")]
    assert rows(suite, "select session_id, query from query_run order by id") == list(
        zip(sessions, (0, 1), strict=True)
    )
    assert rows(suite, "select distinct name from test_run") == [("test_it",)]


def test_a_row_for_the_view_is_refused_in_words(suite: Suite) -> None:
    suite.write(
        DATABASE.replace("QueryRun(session_id=test_run_benchmark.session_id, query=earlier)", "Impostor()")
    )
    done = suite.run_apart("-k", "test_it", "-n", "1")
    assert done.returncode == 1 and "set attributes on test_run_benchmark instead" in done.stdout


SIMPLE = """
def test_it(benchmark_time):
    for _ in range(5):
        with benchmark_time:
            pass
"""


def test_the_database_and_the_arm_may_be_named_by_variables(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(SIMPLE)
    suite.run().assert_outcomes(passed=1)
    monkeypatch.setenv("DB_NAME", "AB_new-1.db")
    monkeypatch.setenv("AB_VERSION", "AB_new")
    result = suite.run()
    assert "recorded in AB_new-1.db" in result.stdout.str()
    assert suite.records("AB_new-1.db")["test_it"].case.variant == "AB_new"
    monkeypatch.setenv("PACELINE_DB", "benchmark.db")
    result = suite.run()
    assert "recorded in benchmark.db" in result.stdout.str()
    assert "since last" not in result.stdout.str()  # an arm is held against itself alone
    assert "since last" in suite.run().stdout.str()
    found = rows(suite, "select coiled_runtime_version, platform, path from test_run order by start")
    assert found == [("upstream", "linux", "test_it.py"), *[("AB_new", "linux", "test_it.py")] * 2]


@pytest.mark.parametrize("name", ["app.db", "app", "app.sqlite3"])
def test_a_database_of_another_program_is_left_alone(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    suite.write(SIMPLE)
    with sqlite3.connect(suite.path / name) as connection:
        connection.execute("create table users (name)")
    connection.close()
    before = (suite.path / name).read_bytes()
    monkeypatch.setenv("DB_NAME", name)
    result = suite.run()
    if name == "app.db":
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "app.db, which is another program's database: set PACELINE_DB" in result.stderr.str()
    else:
        assert "recorded in benchmark.db" in result.stdout.str()
    assert (suite.path / name).read_bytes() == before


GOING_ON = """
import os
import pytest

@pytest.mark.parametrize(("kind", "size"), [("fast", 1), ("slow", 2)])
def test_work(test_run_benchmark, kind, size):
    test_run_benchmark.duration = 60.0 * float(os.environ.get("FACTOR", 1)) + size
"""


def old_database(suite: Suite, python: str = ".".join(map(str, sys.version_info))) -> Path:
    """Forty nights of three tests, as Coiled's benchmarks keep them; one of them is gone since."""
    path = suite.path / "old.db"
    noise = random.Random(3)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE test_run (id INTEGER PRIMARY KEY, session_id, name, originalname, path, setup_outcome,"
            " call_outcome, coiled_runtime_version, python_version, platform, start, duration)"
        )
        for night in range(40):
            for test in ("fast-1", "slow-2", "gone-3"):
                start = datetime(2025, 1, 1) + timedelta(days=night)
                texts = (
                    f"test_work[{test}]",
                    "test_work",
                    "benchmarks/test_work.py",
                    "passed",
                    "passed",
                    "upstream",
                )
                values = (f"s{night}", *texts, python, "linux", str(start), noise.gauss(61, 0.3))
                connection.execute(f"INSERT INTO test_run VALUES (NULL, {', '.join('?' * 11)})", values)
    connection.close()
    return path


def test_an_imported_history_goes_on(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = make_here(suite.path, monkeypatch, capsys)
    suite.write(GOING_ON, "tests/benchmarks/test_work.py")
    suite.write("[pytest]\n", "pytest.ini")
    done = here.run("history", "import", old_database(suite), "--as-suite", "tests", "--machine", "here")
    assert done.returncode == 0 and "120 records" in done.stdout
    assert done.stderr == (
        "paceline: benchmarks/test_work.py::test_work[gone-3]: not in tests (any more), "
        "so what is in brackets stays one parameter 'id'\n"
    )
    assert here.run("regressions").stdout == "nothing changed\n"
    monkeypatch.setenv("FACTOR", "2")
    case = "tests/benchmarks/test_work.py::test_work[kind=fast,size=1]"
    (line,) = [line for line in suite.run("tests").outlines if line.startswith(case)]
    assert "worse: +9" in line
    for _ in range(2):
        suite.run("tests")
    done = here.run("regressions", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert {(one["case"], one["metric"], one["verdict"]) for one in found if one["case"] == case} == {
        (case, "duration", "worse")
    }
    assert [one["suspects"] for one in found if one["case"] == case] == [
        []
    ]  # what nobody knows is no suspect
    gone = "tests/benchmarks/test_work.py::test_work[id=gone-3]"
    assert len(here.run("history", "log", gone, "duration").stdout.splitlines()) > 20


def test_what_does_not_go_on_is_said(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = make_here(suite.path, monkeypatch, capsys)
    old = old_database(suite, python="3.8.1.final.0")
    done = here.run("history", "import", old, "--machine", "here")
    assert (
        "40 sessions ran under Python 3.8, which is not the one here: they are series of their own"
        in done.stderr
    )
    done = here.run("history", "import", old, "--db", "old.db")
    assert (
        done.returncode == 2
        and "old.db cannot be imported into itself: name the history by --db" in done.stderr
    )
    suite.write("import nowhere_to_be_found\n", "tests/test_broken.py")
    done = here.run("history", "import", old, "--as-suite", "tests")
    assert done.returncode == 2 and "No module named 'nowhere_to_be_found'" in done.stderr
    done = here.run("history", "import", old, "--as-suite", "test")
    assert (
        done.returncode == 2
        and "there is no directory test: name the one that holds the tests" in done.stderr
    )
    suite.write('{"results": [{"command": "true", "mean": 1.0, "times": [1.0]}]}', "hyperfine.json")
    suite.write("def test_it(): pass\n", "tests/test_broken.py")
    done = here.run("history", "import", "hyperfine.json", "--as-suite", "tests")
    assert done.returncode == 2 and "results of hyperfine have names already" in done.stderr

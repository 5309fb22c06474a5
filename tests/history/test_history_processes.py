"""Many writers at once lose nothing, and one that is killed leaves no half record."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from paceline.history import Added, open_store
from paceline.history.store.database import connect
from paceline.history.store.migrate import stored_revision
from paceline.history.urls import parse_target
from stored_records import series_of

WORKER = Path(__file__).with_name("history_worker.py")
WRITERS, RECORDS = 8, 300


def start(*words: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(WORKER.parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, WORKER, *words],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, "")


def test_eight_writers_lose_nothing(url: str) -> None:
    finish([start("write", url, str(number), str(RECORDS)) for number in range(WRITERS)])
    with open_store(url) as store:
        assert store.size() == Added(records=WRITERS * RECORDS, samples=WRITERS * RECORDS * 3)
        assert len(store.cases()) == WRITERS * RECORDS
        assert [info.name for info in store.sessions()] == ["night-1"]
        assert whole(url) == []


def whole(url: str) -> list[str]:
    """What is wrong in a database: records without all their metrics, rows that lead nowhere."""
    checks = {
        "records without their metrics": """
SELECT count(*) FROM record r WHERE NOT EXISTS (
  SELECT 1 FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id)""",
        "metrics of no record": "SELECT count(*) FROM metric WHERE record_id NOT IN (SELECT id FROM record)",
        "metrics of no series": "SELECT count(*) FROM metric WHERE series_id NOT IN (SELECT id FROM series)",
        "samples of no record": "SELECT count(*) FROM repeated_sample WHERE record_id NOT IN (SELECT id FROM record)",
        "records of no session": "SELECT count(*) FROM record WHERE session_id NOT IN (SELECT id FROM session)",
        "records of no case": 'SELECT count(*) FROM record WHERE case_id NOT IN (SELECT id FROM "case")',
        "records of no setting": "SELECT count(*) FROM record WHERE setting_id NOT IN (SELECT id FROM setting)",
    }
    with open_store(url) as store:
        return [what for what, sql in checks.items() if store.query(sql)[1] != [(0,)]]


def test_a_killed_import_leaves_no_half_record_and_goes_on(url: str) -> None:
    chance = random.Random(5)
    for round_ in range(5):
        first = 1 + round_ * 50
        process = start("fill", url, str(first))
        assert process.stdout is not None
        assert process.stdout.readline() == f"{first}\n"
        time.sleep(chance.uniform(0, 0.05))  # somewhere within the sessions after the first
        process.send_signal(signal.SIGKILL)
        told = [first, *map(int, process.communicate()[0].split())]
        with open_store(url) as store:
            counts = store.record_counts()
            names = {
                int(info.name.removeprefix("night-")): counts.get(info.id, 0) for info in store.sessions()
            }
        # All that it said is there; of what it did not say there is the whole session, or nothing.
        assert all(names[number] == 150 for number in told)
        assert set(names.values()) == {150}
        assert whole(url) == []


def test_a_killed_migration_leaves_the_old_schema_or_the_new_one(tmp_path: Path) -> None:
    old = (Path(__file__).parent / "schemas/0001.sql").read_text()
    chance = random.Random(6)
    seen = set()
    for round_ in range(5):
        path = tmp_path / f"{round_}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(old)
            # So many that moving their sources takes a while.
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                "INSERT INTO record SELECT i, randomblob(16), i, case_id, environment_id, setting_id, attempt, status, "
                "started_at, exec_time_s, revision, reason, outcome, i FROM n, record WHERE record.id = 1"
            )
            connection.commit()
        process = start("upgrade", str(path))
        assert process.stdout is not None
        assert process.stdout.readline() == "start\n"
        lock = path.with_name(f"{path.name}.lock")
        while not lock.exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 1))  # from the beginning to shortly after the end
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with closing(connect(parse_target(path), create=False, read_only=True)) as database:
            seen.add(stored_revision(database))
            ((sources,),) = database.rows("SELECT count(*) FROM record WHERE outcome LIKE '%\"source\"%'")
            assert sources == 0 or stored_revision(database) == "0001"
        with open_store(path) as store:
            (series,) = series_of(store, "sort", "duration")
            assert tuple(series.values) == (1.0, 2.0, 3.0, 4.0, 5.0)
            assert store.database.rows(
                "SELECT count(*) FROM record WHERE source_id IS NULL AND id >= 100"
            ) == [(0,)]
    assert seen <= {path.stem for path in (Path(__file__).parent / "schemas").glob("*.sql")}

"""The views say what the program itself reads and judges, and are answered by indexes."""

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.findings.order import read_order
from paceline.history import Store, open_store
from paceline.history.export import columns_of
from paceline.history.places import CommitPlace, read_revisions, write_places
from paceline.history.store import schema
from paceline.model import Status
from postgres_server import server
from stored_records import ENVIRONMENT, case, measured, record, session

COLUMNS = [
    *("case_key", "variant", "version", "metric", "unit", "direction", "environment_class", "epoch"),
    *("revision", "commit_time", "started_at", "session", "value", "sample_count", "record", "position"),
]
DAYS = [f"2026-0{1 + day // 28}-{1 + day % 28:02}T00:00:00.000Z" for day in range(84)]


def fill(store: Store, seed: int) -> None:
    """A history with whatever there may be: several machines, attempts, branches, renames, resets, unknown commits."""
    draw = random.Random(seed)
    add_nights(store, draw, range(draw.randint(1, 8)))
    revisions = read_revisions(store.database)
    places = {
        revision: CommitPlace(
            repository=draw.choice(["here", "there", "here"]),
            place=at,
            is_main=draw.random() < 0.8,
            commit_time=DAYS[draw.randint(0, 9)],
        )
        for at, revision in enumerate(draw.sample(revisions, draw.randint(0, len(revisions))))
    }
    with store.database.writing():
        write_places(store.database, places)
    read_order(store, searches=True)  # as who has a repository does
    add_nights(store, draw, range(8, 8 + draw.randint(0, 5)))
    for old, new in draw.sample([("sort", "order"), ("join[n=1]", "join[n=2]"), ("join", "merge")], 2):
        if draw.random() < 0.5:
            store.alias(old, new)
    for name in ("order", "join", "join[n=2]", "sort"):
        if draw.random() < 0.4:
            store.reset(name, "why", draw.choice(DAYS[:12]))


def add_nights(store: Store, draw: random.Random, numbers: range) -> None:
    commits = [f"{number:040x}" for number in range(8)]
    for number in numbers:
        revision = draw.choice(["", *commits])
        branch, base = draw.choice([("", ""), ("main", ""), ("topic", commits[0]), ("topic", "")])
        time = draw.choice(["", DAYS[commits.index(revision)] if revision else ""])
        about = session(number, revision=revision, branch=branch, merge_base=base, commit_time=time)
        place = {**ENVIRONMENT, "id": f"env-{draw.randint(1, 2)}", "class_id": draw.choice(["a", "b", "a"])}
        store.add(about, place, list(some_records(draw, number, str(place["id"]), commits)))


def some_records(draw: random.Random, number: int, place: str, commits: list[str]) -> Any:
    for key in draw.sample(["sort", "order", "join[n=1]", "join[n=2]"], draw.randint(0, 4)):
        for attempt in range(1, draw.choice([1, 1, 2]) + 1):
            metrics = {
                "wall_s": measured(draw.random(), draw.random(), 1.0),
                "peak": measured(float(draw.randint(1, 9)), unit="MiB"),
                "errors": measured(draw.choice([1.0, float("nan")]), unit=None, direction="lower"),
                "rows": measured(5, unit=None, direction=None),
            }
            yield record(
                key,
                number=number,
                attempt=attempt,
                status=draw.choice([*[Status.PASSED] * 4, Status.FAILED, Status.REQUIREMENT_FAILED]),
                case=case(key, variant=draw.choice([None, "fast"]), version=draw.choice(["1", "1", "2"])),
                environment=place,
                revision=draw.choice(["", "", commits[-1]]),
                disturbed=draw.choice([(), (), ("others used the CPU",)]),
                metrics=metrics,
            )


def judged(store: Store) -> list[tuple[Any, ...]]:
    """The points that the program judges, as the view would tell them."""
    order = read_order(store)
    found = (
        (
            *(series.case_key, series.variant, series.version, series.metric, series.unit),
            *(series.environment_class, series.epoch, position, point.revision or None, point.record_id),
            point.value,
        )
        for series in store.iter_columns(all_epochs=True, judged_only=True)
        for position, point in enumerate(order.points(series))
    )
    return sorted(found, key=key)


def told(store: Store) -> list[tuple[Any, ...]]:
    columns = "case_key, variant, version, metric, unit, environment_class, epoch, position, revision, record"
    return sorted(map(tuple, store.query(f"SELECT {columns}, value FROM point")[1]), key=key)


def key(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(str, row))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_points_are_exactly_what_is_judged(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_store(tmp_path_factory.mktemp("point") / "benchmark.db") as store:
        fill(store, seed)
        assert told(store) == judged(store)
        read_order(store, searches=True)  # and once a search has kept what it knows
        assert told(store) == judged(store)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_on_postgres(seed: int) -> None:
    with open_store(server().new_database()) as store:
        fill(store, seed)
        assert told(store) == judged(store)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_an_export_is_in_the_same_order(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_store(tmp_path_factory.mktemp("export") / "benchmark.db") as store:
        fill(store, seed)
        names = columns_of(samples=False)
        rows = [dict(zip(names, row, strict=True)) for row in store.export_rows()]
        order = read_order(store)
        for series in store.iter_columns(all_epochs=True):
            own = (series.case_key, series.variant, series.version, series.metric, series.unit)
            place = (*own, series.environment_class, series.epoch)
            points = {point.record_id: point for point in series.points}
            given_order = [
                row["record"]
                for row in rows
                if tuple(row[name] for name in (*COLUMNS[:5], *COLUMNS[6:8])) == place
                and row["record"] in points
            ]
            records = [
                row for row in rows if tuple(row[name] for name in (*COLUMNS[:5], *COLUMNS[6:8])) == place
            ]
            if len(records) == len(points):  # without attempts and values that are no points
                assert given_order == [point.record_id for point in order.sort(series.points)]


def test_columns_have_one_name_everywhere(url: str) -> None:
    with open_store(url) as store:
        store.add(
            session(), {}, [record(environment="", metrics={"rows": measured(5, unit=None, direction=None)})]
        )
        names, rows = store.query("SELECT * FROM measurement")
        assert names == columns_of(samples=False)
        first = dict(zip(names, rows[0], strict=True))
        unknown = {name for name, value in first.items() if value is None}
        assert unknown == {"variant", "unit", "direction", "text", "environment_class"}
        assert "" not in first.values()
        assert store.query("SELECT * FROM point")[0] == COLUMNS
        exported = set(columns_of(samples=True)) - {"sample"}
        assert exported == set(names) - {"sample_count"}


def test_a_new_name_has_the_points_of_the_old_one(url: str) -> None:
    with open_store(url) as store:
        store.add(session(1), ENVIRONMENT, [record("old", 1.0)])
        store.alias("old", "new")
        store.add(session(2), ENVIRONMENT, [record("old", 2.0, number=2)])
        store.add(session(3), ENVIRONMENT, [record("new", 3.0, number=3)])
        asked = "SELECT value FROM {} WHERE case_key = 'new' ORDER BY value"
        for view in ("measurement", "point"):
            assert store.query(asked.format(view))[1] == [(1.0,), (2.0,), (3.0,)]
        store.remove_alias("old")
        assert store.query(asked.format("point"))[1] == [(3.0,)]


@pytest.mark.parametrize("view", ["measurement", "point"])
def test_a_fresh_file_is_read_by_its_indexes(view: str, tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as outside:
        asked = f"EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE case_key = 'sort' AND metric = 'wall_s'"
        plan = [row[3] for row in outside.execute(asked)]
    for table in "cdmrse":
        (step,) = [line for line in plan if re.match(rf"(SEARCH|SCAN) {table} ", line)]
        assert step.startswith(f"SEARCH {table} USING"), step


def test_foreign_keys_are_declared_and_hold(url: str) -> None:
    with open_store(url) as store:
        fill(store, 3)
        if store.database.is_sqlite:
            assert store.database.rows("PRAGMA foreign_key_check") == []
            found = {
                (name, column[3], column[2])
                for name in schema.TABLES
                for column in store.database.rows(f'PRAGMA foreign_key_list("{name}")')
            }
        else:
            select = """
SELECT conrelid::regclass::text, a.attname, confrelid::regclass::text FROM pg_constraint f
JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1] WHERE f.contype = 'f'"""
            found = {tuple(name.strip('"') for name in row) for row in store.database.rows(select)}  # type: ignore[misc]
    every = {
        (table.name, column.name, column.to)
        for table in schema.TABLES.values()
        for column in table.columns
        if column.to and not (table.is_huge and "://" in url)
    }
    assert found == every
    named = {name for table in schema.TABLES.values() for name in table.names if name.endswith("_id")}
    assert named - {"class_id"} == {
        column for table in schema.TABLES.values() for column in [one.name for one in table.columns if one.to]
    }

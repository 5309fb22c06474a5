"""Joining databases: in any order, any number of times, with the same result; the sources are left as they are."""

import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import HistoryError
from paceline.history import Added, Store, open_store
from paceline.model import Record
from stored_records import ENVIRONMENT, record, records, series_of, session

Told = tuple[int, list[Record]]
"""The number of a session, and what is told of it."""


def content(store: Store) -> dict[str, Any]:
    """All that there is to know, whatever numbers the rows have."""
    return {
        "sessions": sorted(store.sessions(), key=lambda info: info.id),
        "records": {
            info.id: sorted(map(str, (comparable(one) for one in store.records(info))))
            for info in store.sessions()
        },
        "aliases": store.aliases(),
        "epochs": store.epochs(),
        "samples": sorted(store.query("SELECT value, text, position FROM sample")[1], key=str),
    }


def comparable(one: Record) -> Any:
    metrics = sorted((name, str(told.value), told.samples) for name, told in one.metrics.items())
    return one.case.key, one.case.variant, one.attempt, one.reason, one.status, one.details, metrics


def make(path: Path, parts: Sequence[Told]) -> Path:
    with open_store(path) as store:
        for number, told in parts:
            store.add(session(number), ENVIRONMENT, told)
    return path


_parts = st.lists(st.tuples(st.integers(1, 3), st.lists(records(), max_size=4)), min_size=1, max_size=3)


@settings(max_examples=15)
@given(databases=st.lists(_parts, min_size=2, max_size=3), data=st.data())
def test_the_order_does_not_matter_nor_doing_it_twice(
    databases: list[list[Told]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("merge")
    sources = [make(directory / f"{number}.db", parts) for number, parts in enumerate(databases)]
    orders = list(itertools.permutations(sources))
    order = data.draw(st.sampled_from(orders))
    results = []
    for name, given_order in (("one", sources), ("other", [*order, *order])):
        with open_store(directory / f"{name}.db") as store:
            for source in given_order:
                store.merge_from(source)
            results.append(content(store))
    assert results[0] == results[1]


def test_merging_again_changes_nothing(url: str, tmp_path: Path) -> None:
    one = make(tmp_path / "one.db", [(1, [record("a"), record("b")]), (2, [record("a", number=2)])])
    two = make(tmp_path / "two.db", [(2, [record("a", number=2), record("c", number=2)])])
    with open_store(url) as store:
        assert store.merge_from(one) == Added(records=3, samples=3)
        assert store.merge_from(two) == Added(records=1, samples=1, known=1)
        before = content(store)
        assert store.merge_from(one) == Added(known=3)
        assert store.merge_from(str(two)) == Added(known=2)
        assert content(store) == before and store.size() == Added(records=4, samples=4)


def test_from_one_kind_of_database_to_the_other(url: str, tmp_path: Path) -> None:
    with open_store(url) as store:
        told = record(
            details={"source": "x", "source_hash": "h", "nodeid": "n"}, warnings=("w",), command=("c",)
        )
        store.add(session(directory="/there"), ENVIRONMENT, [told])
        store.alias("old", "sort")
        store.reset("sort", "because")
        original = content(store)
    with open_store(tmp_path / "other.db") as other:
        other.merge_from(url)
        assert content(other) == original
        assert other.environments("night-1")[0]["packages"]["dask"] == "2026.8.0"
    with open_store(url) as store:
        assert store.merge_from(tmp_path / "other.db") == Added(known=1)


def test_the_later_of_two_tellings_counts(tmp_path: Path) -> None:
    earlier, later = record(value=1.0), record(value=2.0, started_at="2026-06-01T00:00:00.000Z")
    one, two = make(tmp_path / "one.db", [(1, [earlier])]), make(tmp_path / "two.db", [(1, [later])])
    for order in ((one, two), (two, one)):
        with open_store(tmp_path / f"{order[0].stem}-first.db") as store:
            for source in order:
                store.merge_from(source)
            assert [tuple(series.values) for series in series_of(store, "sort", "wall_s")] == [(2.0,)]


def test_aliases_and_resets_are_joined(tmp_path: Path) -> None:
    with open_store(tmp_path / "one.db") as one, open_store(tmp_path / "two.db") as two:
        one.alias("a", "b")
        two.alias("a", "c")  # told later
        one.reset("x", "first", at="2026-01-01")
        two.reset("x", "first", at="2026-01-01")
        two.reset("x", "second", at="2026-01-02")
        one.merge_from(tmp_path / "two.db")
        two.merge_from(tmp_path / "one.db")
        assert one.aliases() == two.aliases() == {"a": "c"}
        assert (
            [epoch.why for epoch in one.epochs("x")]
            == [epoch.why for epoch in two.epochs()]
            == ["first", "second"]
        )


def test_the_source_is_left_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "old.db"
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript((Path(__file__).parent / "schemas/0001.sql").read_text())
    before = source.read_bytes()
    with open_store(tmp_path / "new.db") as store:
        assert store.merge_from(source).records == 16
        assert store.merge_from(source) == Added(known=16)
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.db", "old.db"]


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE test_run (id INTEGER PRIMARY KEY)")
    with open_store(tmp_path / "new.db") as store:
        with pytest.raises(HistoryError, match=r"no history at .*missing\.db"):
            store.merge_from(tmp_path / "missing.db")
        with pytest.raises(HistoryError, match=r"other\.db is another program's database"):
            store.merge_from(tmp_path / "other.db")

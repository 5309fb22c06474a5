"""Old sessions go, with all that only they used; the rest stays."""

from pathlib import Path

import pytest

from paceline.errors import HistoryError
from paceline.history import Added, Store, open_store
from stored_records import ENVIRONMENT, measured, record, session


def five_nights(store: Store) -> None:
    for number in range(1, 6):
        environment = {**ENVIRONMENT, "id": f"env-{number}"}
        told = record(
            value=float(number),
            number=number,
            environment=f"env-{number}",
            command=(f"run{number}",),
            details={"source": f"text {number}", "source_hash": f"{number}"},
            metrics={"wall_s": measured(1.0, 1.0, 2.0)},
        )
        store.add(session(number), environment, [told])


def left(store: Store) -> list[str]:
    return [info.name for info in reversed(store.sessions())]


def test_by_age_number_and_name(url: str) -> None:
    with open_store(url) as store:
        five_nights(store)
        dry = store.prune(older_than="2026-01-04", dry_run=True)
        assert (len(dry.sessions), dry.records, dry.samples) == (2, 2, 4) and len(left(store)) == 5
        pruned = store.prune(older_than="2026-01-04", keep=4)
        assert [info.name for info in pruned.sessions] == ["night-1"]
        assert store.prune(keep=2).records == 2 and left(store) == ["night-4", "night-5"]
        store.prune(sessions=["night-4"])
        assert left(store) == ["night-5"] and store.size() == Added(records=1, samples=2)
        for table in ("environment", "setting", "source", "metric", "record"):
            assert store.database.rows(f"SELECT count(*) FROM {table}") == [(1,)], table
        assert store.database.rows("SELECT count(*) FROM repeated_sample") == [(2,)]
        assert store.database.rows("SELECT count(DISTINCT environment_id) FROM package") == [(1,)]


def test_what_was_pruned_can_be_added_again_by_another_process(url: str) -> None:
    with open_store(url) as store, open_store(url) as other:
        five_nights(store)
        other.prune(keep=0)
        five_nights(store)
        assert store.size() == other.size() == Added(records=5, samples=10)
        assert [one.revision for one in other.series("sort", "wall_s")[0].points] == [
            session(number).revision for number in range(1, 6)
        ]


def test_cases_without_records_are_not_listed(url: str) -> None:
    with open_store(url) as store:
        five_nights(store)
        store.reset("sort", "why")
        store.prune(keep=0)
        assert store.cases() == [] and list(store.iter_series()) == [] and len(store.epochs("sort")) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, "nothing to prune"), ({"older_than": "soon"}, "no time"), ({"sessions": ["x"]}, "no session 'x'")],
)
def test_what_cannot_be_pruned(url: str, options: dict[str, object], told: str) -> None:
    with open_store(url) as store, pytest.raises(HistoryError, match=told):
        store.prune(**options)  # type: ignore[arg-type]


def test_vacuum_gives_room_back(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    with open_store(path) as store:
        store.add(session(), ENVIRONMENT, [record(f"c{number}") for number in range(3000)])
        store.prune(keep=0)
        store.vacuum()
    assert path.stat().st_size < 700_000

"""Old sessions go, with all that only they used; the rest stays."""

from pathlib import Path

import pytest

from paceline.errors import HistoryError
from paceline.findings.detection import detect
from paceline.history import Added, Store, open_store
from paceline.history.store.prune import Pruned
from stored_records import ENVIRONMENT, measured, record, series_of, session


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
        assert [one.revision for one in series_of(other, "sort", "wall_s")[0].points] == [
            session(number).revision for number in range(1, 6)
        ]


def test_cases_without_records_are_not_listed(url: str) -> None:
    with open_store(url) as store:
        five_nights(store)
        store.reset("sort", "why")
        store.prune(keep=0)
        assert store.cases() == [] and list(store.iter_columns()) == [] and len(store.epochs("sort")) == 1


def findings_of(store: Store) -> list[str]:
    return [one.case for one in store.findings(withdrawn=True)]


def test_the_records_of_a_case_go_and_the_others_stay(url: str) -> None:
    with open_store(url) as store:
        for number in range(1, 41):
            values = {"sort": 1.0 if number < 20 else 2.0, "join": 1.0 if number < 20 else 2.0}
            told = [record(key, value + number % 3 / 100, number=number) for key, value in values.items()]
            store.add(session(number), ENVIRONMENT, told)
        detect(store)
        assert sorted(findings_of(store)) == ["join", "sort"]
        store.say(store.findings()[0].id, "expected", why="so", who="me")
        store.alias("sort", "order")
        assert store.remove(["order"], before=session(10).started_at, dry_run=True).records == 9
        assert store.remove(["order"], before=session(10).started_at).records == 9
        assert len(series_of(store, "sort", "wall_s")[0].points) == 31
        assert sorted(findings_of(store)) == ["join", "order"]
        assert store.remove(["order"]) == Pruned(records=31, samples=31)
        assert store.cases() == ["join"] and findings_of(store) == ["join"]
        assert len(series_of(store, "join", "wall_s")[0].points) == 40 and len(store.sessions()) == 40
        words = store.database.rows("SELECT finding_ident FROM human_verdict")
        assert {ident for (ident,) in words} <= {one.id for one in store.findings(withdrawn=True)}
        detect(store)
        assert findings_of(store) == ["join"]
        store.add(session(1), ENVIRONMENT, [record("sort", number=1)])
        assert store.cases() == ["join", "order"]


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, "nothing to prune"), ({"older_than": "soon"}, "no time"), ({"sessions": ["x"]}, "no session 'x'")],
)
def test_what_cannot_be_pruned(url: str, options: dict[str, object], told: str) -> None:
    with open_store(url) as store, pytest.raises(HistoryError, match=told):
        store.prune(**options)  # type: ignore[arg-type]


def test_a_time_that_is_none_removes_nothing(url: str) -> None:
    with open_store(url) as store:
        five_nights(store)
        with pytest.raises(HistoryError, match="no time"):
            store.remove(["sort"], before="soon")
        assert store.remove(["nothing"]).records == 0 and store.size().records == 5


def test_vacuum_gives_room_back(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    with open_store(path) as store:
        store.add(session(), ENVIRONMENT, [record(f"c{number}") for number in range(3000)])
        store.prune(keep=0)
        store.vacuum()
    assert path.stat().st_size < 700_000

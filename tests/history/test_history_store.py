"""What is added can be read, on SQLite and on PostgreSQL; adding it again changes nothing."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import HistoryError
from paceline.history import Added, SessionInfo, Store, open_store
from paceline.history.session_info import Batch
from paceline.model import Measurement, Record, Status
from stored_records import ENVIRONMENT, case, measured, record, records, series_of, session


def nights(store: Store, count: int, **fields: object) -> None:
    for number in range(1, count + 1):
        store.add(session(number), ENVIRONMENT, [record(value=float(number), number=number, **fields)])


def values(
    store: Store, key: str = "sort", metric: str = "wall_s", **wanted: object
) -> list[tuple[float, ...]]:
    return [tuple(series.values) for series in series_of(store, key, metric, **wanted)]  # type: ignore[arg-type]


def test_points_come_in_the_order_of_time_with_all_that_belongs_to_them(url: str) -> None:
    with open_store(url) as store:
        store.add(session(2), ENVIRONMENT, [record(value=2.0, number=2)])
        added = store.add(session(1), ENVIRONMENT, [record(value=1.0, number=1, revision="other")])
        (series,) = series_of(store, "sort", "wall_s")
    assert added == Added(records=1, samples=1, known=0)
    assert (series.case_key, series.version, series.variant, series.metric) == ("sort", "1", None, "wall_s")
    assert (series.unit, series.direction, series.environment_class, series.epoch) == (
        "s",
        "lower",
        "class-1",
        0,
    )
    first, second = series.points
    assert (first.value, first.samples, first.revision, first.session) == (1.0, (1.0,), "other", "night-1")
    assert (second.revision, second.time) == (session(2).revision, session(2).started_at)
    assert (second.status, second.environment_id, second.source_hash) == ("passed", "env-1", "")
    assert len(first.record_id) == 32 and first.session_id == session(1).id


def test_adding_again_changes_nothing(url: str) -> None:
    with open_store(url) as store:
        told = [record("a"), record("b", number=1)]
        assert store.add(session(), ENVIRONMENT, told) == Added(records=2, samples=2)
        assert store.add(session(), ENVIRONMENT, told) == Added(known=2)
    with open_store(url) as store:
        assert store.add(session(), ENVIRONMENT, reversed(told)) == Added(known=2)
        assert store.size() == Added(records=2, samples=2)


def test_what_is_told_anew_replaces_what_was(url: str) -> None:
    with open_store(url) as store:
        store.add(
            session(), ENVIRONMENT, [record(metrics={"wall_s": measured(1.0, 0.5, 1.5), "old": measured(1)})]
        )
        store.add(replace(session(), directory="/there"), ENVIRONMENT, [record(value=3.0, reason="again")])
        (stored,) = store.records("night-1")
        assert stored.reason == "again" and set(stored.metrics) == {"wall_s"}
        assert values(store) == [(3.0,)] and store.size() == Added(records=1, samples=1)
        assert [info.directory for info in store.sessions()] == ["/there"]


def test_a_series_has_the_last_attempt_of_each_session(url: str) -> None:
    with open_store(url) as store:
        store.add(session(1), ENVIRONMENT, [record(value=1.0)])
        retried = replace(record(value=5.0), attempt=2, started_at=session(9).started_at)
        store.add(session(1), ENVIRONMENT, [retried])
        store.add(session(2), ENVIRONMENT, [record(value=2.0, number=2)])
        assert values(store) == [(2.0, 5.0)]
        assert [tuple(series.values) for series in store.iter_columns()] == [(2.0, 5.0)]
        # One that failed without a number still takes the place of the one before it.
        failed = replace(retried, attempt=3, status=Status.FAILED, metrics={})
        store.add(session(1), ENVIRONMENT, [failed])
        assert values(store) == [(2.0,)]
        assert sorted(stored.attempt for stored in store.records("night-1")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1, 1.0),
        (True, 1.0),
        (2**60 + 1, 2**60 + 1),
        (10**400, None),
        ("fast", "fast"),
        (None, None),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
    ],
    ids=["int", "bool", "large", "huge", "text", "none", "inf", "-inf"],
)
def test_every_value_is_kept_and_only_numbers_are_points(url: str, value: object, kept: object) -> None:
    with open_store(url) as store:
        store.add(session(), ENVIRONMENT, [record(value=value)])  # type: ignore[arg-type]
        (stored,) = store.records("night-1")
        found = stored.metrics["wall_s"].value
        if value != 10**400:  # of which only the digits are left
            assert found == kept and stored.metrics["wall_s"].samples == (kept,)
        is_number = isinstance(kept, int | float) and math.isfinite(kept)
        assert len(series_of(store, "sort", "wall_s")) == (1 if is_number else 0)


def test_nan_is_kept_and_never_compared(url: str) -> None:
    with open_store(url) as store:
        store.add(session(), ENVIRONMENT, [record(metrics={"wall_s": measured(math.nan, 1.0, math.nan)})])
        (stored,) = store.records("night-1")
        assert math.isnan(stored.metrics["wall_s"].value)  # type: ignore[arg-type]
        assert stored.metrics["wall_s"].samples[0] == 1.0 and series_of(store, "sort", "wall_s") == []
        assert store.database.rows("SELECT value, text FROM metric") == [(None, "NaN")]


def test_every_sample_is_kept_and_can_be_read_by_sql(url: str) -> None:
    told = {"many": measured(2.0, 1.0, 2.0, 3.0), "one": measured(5.0), "none": Measurement(value=7.0)}
    told["other"] = Measurement(value=1.0, samples=(9.0,))
    with open_store(url) as store:
        added = store.add(session(), ENVIRONMENT, [record(metrics=told)])
        assert added.samples == 5
        _, rows = store.query(
            "SELECT d.name, p.position, p.value FROM sample p JOIN series d ON d.id = p.series_id ORDER BY 1, 2"
        )
        assert rows == [
            ("many", 0, 1.0),
            ("many", 1, 2.0),
            ("many", 2, 3.0),
            ("one", 0, 5.0),
            ("other", 0, 9.0),
        ]
        points = {name: series_of(store, "sort", name)[0].points[0] for name in told}
        assert {name: point.samples for name, point in points.items()} == {
            **{"many": (1.0, 2.0, 3.0), "one": (5.0,), "none": (), "other": (9.0,)}
        }


def test_versions_variants_units_and_machines_split_series(url: str) -> None:
    with open_store(url) as store:
        nights(store, 2)
        others = [
            replace(record(number=3), case=case(version="2")),
            replace(record(number=3), case=case(variant="arm")),
            replace(record(number=3), metrics={"wall_s": measured(3.0, unit="ms")}, attempt=2),
        ]
        store.add(session(3), ENVIRONMENT, others)
        elsewhere = {**ENVIRONMENT, "id": "env-2", "class_id": "class-2"}
        store.add(session(4), elsewhere, [record(value=4.0, number=4, environment="env-2")])
        found = series_of(store, "sort", "wall_s")
        kinds = [
            (one.version, one.variant, one.unit, one.environment_class, len(one.points)) for one in found
        ]
        assert sorted(kinds, key=str) == sorted(
            [
                ("1", None, "ms", "class-1", 1),
                ("1", None, "s", "class-1", 2),
                ("1", None, "s", "class-2", 1),
                ("1", "arm", "s", "class-1", 1),
                ("2", None, "s", "class-1", 1),
            ],
            key=str,
        )
        assert values(store, environment_class="class-2") == [(4.0,)]
        ordered = sorted(
            found, key=lambda one: (one.version, one.variant or "", one.unit or "", one.environment_class)
        )
        assert [(one.key, one.points) for one in store.iter_columns(samples=True)] == [
            (one.key, one.points) for one in ordered
        ]


def test_since_leaves_out_what_is_older(url: str) -> None:
    with open_store(url) as store:
        nights(store, 4)
        assert values(store, since="2026-01-04") == [(3.0, 4.0)]
        assert [len(one.points) for one in store.iter_columns(since="2026-01-05T00:00:00+00:00")] == [1]
        assert [info.name for info in store.sessions(since="2026-01-04")] == ["night-4", "night-3"]
        assert [info.name for info in store.sessions(limit=1)] == ["night-4"]


def test_cases_and_metrics_are_listed_and_chosen_by_name_or_glob(url: str) -> None:
    keys = ["join[n=1]", "join[n=2]", "sort"]
    with open_store(url) as store:
        store.add(
            session(), ENVIRONMENT, [*map(record, keys), record("load", case=case("load", kind="data_setup"))]
        )
        assert store.cases() == keys and store.metrics("sort") == ["wall_s"]
        assert store.cases("join*") == keys[:2] and store.cases("join[n=1]") == keys[:1]
        chosen = store.iter_columns(cases=["join[n=?]", "nothing"], metrics=["wall*"])
        assert [series.case_key for series in chosen] == keys[:2]
        assert list(store.iter_columns(metrics=["other"])) == []
        assert values(store, "data_setup/load") == [(1.0,)]


def test_names_that_databases_dislike(url: str) -> None:
    wild = "sort\0;DROP TABLE record--'\"\ud800%s{?"
    with open_store(url) as store:
        told = record(
            wild, reason="nul \0", details={"k\0": "v\0", "n": [1, {"x": "\0"}]}, warnings=("\ud800",)
        )
        assert store.add(session(name=wild), {"id": "\0e"}, [told]).records == 1
        assert store.add(session(name=wild), {"id": "\0e"}, [told]).known == 1
        (stored,) = store.records(store.sessions()[0])
        assert stored.reason == "nul �" and stored.details["n"] == [1, {"x": "�"}]
        assert len(store.cases()) == 1
        assert store.query("SELECT count(*) FROM test_run")[1] == [(1,)]


def test_records_without_an_environment(url: str) -> None:
    with open_store(url) as store:
        store.add(session(), {}, [record(environment="")])
        store.add(session(2), {}, [record(number=2, environment="named")])
        assert {stored.environment for name in ("night-1", "night-2") for stored in store.records(name)} == {
            *("", "named")
        }
        assert [series.environment_class for series in series_of(store, "sort", "wall_s")] == [""]
        # Once somebody describes it, its records are of that class.
        store.add(session(3), {"id": "named", "class_id": "fast"}, [record(number=3, environment="named")])
        assert sorted(series.environment_class for series in series_of(store, "sort", "wall_s")) == [
            "",
            "fast",
        ]


def test_an_unknown_session_is_an_error_with_a_way_on(url: str) -> None:
    with open_store(url) as store, pytest.raises(HistoryError, match=r"no session 'monday'.*history list"):
        store.records("monday")


def test_a_session_without_records_is_known(url: str) -> None:
    with open_store(url) as store:
        assert store.add(session(), ENVIRONMENT, []) == Added()
        assert store.session("night-1") == session() == store.session(session().id)


def test_environments_are_read_back_with_their_packages(url: str) -> None:
    with open_store(url) as store:
        nights(store, 1)
        (found,) = store.environments("night-1")
    assert found["packages"] == {
        **{"dask": "2026.8.0", "distributed": "2026.8.1", "mine": "0.1", "odd-name": "1"}
    }
    assert found["hostname"] == "box" and found["class_id"] == "class-1"


@settings(max_examples=40)
@given(told=st.lists(records(), max_size=6))
def test_records_come_back_as_they_were(told: list[Record], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("store") / "benchmark.db"
    last = {(one.case.key, one.case.variant, one.attempt): one for one in told}
    info = session(directory="/data/results/x")
    with open_store(path) as store:
        assert store.add(info, ENVIRONMENT, told).records == len(last)
        assert store.add(info, ENVIRONMENT, last.values()) == Added(known=len(last))
        stored = {(one.case.key, one.case.variant, one.attempt): one for one in store.records(info)}
    assert set(stored) == set(last)
    for key, one in stored.items():
        assert_same(one, last[key], info)


def assert_same(stored: Record, told: Record, info: SessionInfo) -> None:
    """All that the history promises to keep of a record; numbers come back as floats."""
    for field in (
        "attempt",
        "status",
        "reason",
        "started_at",
        "exec_time_s",
        "timings_s",
        "returncode",
        "command",
    ):
        assert getattr(stored, field) == getattr(told, field), field
    for field in ("params", "requirements", "environment", "warnings", "artifacts", "details"):
        assert getattr(stored, field) == getattr(told, field), field
    assert stored.revision == (told.revision or info.revision)
    assert stored.session == info.name
    for name, metric in told.metrics.items():
        kept = stored.metrics[name]
        assert (kept.value, kept.samples) == (metric.value, metric.samples)


def test_a_directory_is_not_stored_a_thousand_times(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for number in (1, 2):
            info = session(number, directory=f"/data/results/night-{number}")
            command = ("run", f"/data/results/night-{number}/sort/out")
            store.add(info, ENVIRONMENT, [record(number=number, command=command)])
        assert store.database.rows("SELECT count(*) FROM setting") == [(1,)]
        assert store.records("night-2")[0].command == ("run", "/data/results/night-2/sort/out")


def test_many_sessions_are_one_transaction(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction writes every series that it adds to, so one for each session writes a file many times over."""
    begun: list[str] = []
    with open_store(url) as store:
        writing = store.database.writing
        monkeypatch.setattr(store.database, "writing", lambda: (begun.append("once"), writing())[1])
        batches = [
            Batch(session=session(number), environment=ENVIRONMENT, records=[record(number=number)])
            for number in range(300)
        ]
        assert store.add_all(batches) == Added(records=300, samples=300)
        assert begun == ["once"]
        assert store.add_all(batches) == Added(known=300)
        monkeypatch.setattr("paceline.history.store.writer._ROWS_AT_ONCE", 50)
        later = [replace(batch, records=[record("join", number=at)]) for at, batch in enumerate(batches)]
        assert store.add_all(later).records == 300 and len(begun) == 2 + 300 // 25
        assert len(series_of(store, "join", "wall_s")[0].points) == 300


def test_a_session_that_comes_in_parts_is_one(url: str) -> None:
    with open_store(url) as store:
        first = Batch(session=session(), environment=ENVIRONMENT, records=[record("a"), record("b", 1.0)])
        again = replace(first, records=[record("b", 2.0), record("c")])
        assert store.add_all([first, again, first]) == Added(records=5, samples=5, known=1)
        assert [info.name for info in store.sessions()] == ["night-1"]
        assert [one.case.key for one in store.records("night-1")] == ["a", "b", "c"]
        assert series_of(store, "b", "wall_s")[0].values.tolist() == [1.0]

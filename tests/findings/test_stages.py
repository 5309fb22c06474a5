"""How far a finding was followed up is kept with it; what people said about it stays apart."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from findings_nights import add_nights, noisy
from paceline.finding import Finding
from paceline.findings.detection import detect
from paceline.findings.telling import session_findings, tell
from paceline.history import Store, open_store

SCHEMAS = Path(__file__).parents[1] / "history" / "schemas"
CULPRIT = {"kind": "commit", "revision": "c" * 40, "subject": "Sort twice", "probability": 0.97, "runs": 12}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "benchmark.db")
    nights = {"sort": noisy(40, (25, 1.3)), "sum": noisy(40, seed=3)}
    for part in (slice(20), slice(20, 40)):  # searched before, so that the change is news
        add_nights(
            store, {name: values[part] for name, values in nights.items()}, first=1 + (part.start or 0)
        )
        detect(store)
    return store


def test_the_newest_outcome_replaces_the_former_one(store: Store) -> None:
    (found,) = store.findings()
    assert (found.stage, found.culprit, found.kind, found.fails) == ("suspected", None, "step", True)
    store.settle(found, "confirmed")
    assert store.finding(found.id).stage == "confirmed"
    store.settle(found, "bisected", CULPRIT)
    store.settle(found, "confirmed")
    known = store.finding(found.id)
    assert (known.stage, known.culprit) == ("bisected", {**CULPRIT, "author": None})
    store.settle(found, "not_reproduced")
    known = store.finding(found.id)
    assert (known.stage, known.culprit, known.said) == ("not_reproduced", None, None)


def test_a_later_search_keeps_what_was_found_out(store: Store) -> None:
    (found,) = store.findings()
    store.settle(found, "bisected", CULPRIT)
    add_nights(store, {"sort": noisy(5, (0, 1.3), seed=9)}, first=41)
    detect(store)
    (known,) = store.findings()
    assert (known.id, known.stage, known.culprit and known.culprit["revision"]) == (
        found.id,
        "bisected",
        "c" * 40,
    )


def test_what_did_not_reproduce_is_no_alarm(store: Store) -> None:
    (found,) = store.findings()
    newest = found.found_in
    assert [one.verdict for one in session_findings(store, newest)] == ["worse"]
    store.settle(found, "not_reproduced")
    assert session_findings(store, newest) == ()
    (told,) = tell(store, store.findings())
    assert (told.verdict, told.word, told.fails) == ("inconclusive", "not reproduced", False)
    assert "did not reproduce" in told.message


def test_what_was_refuted_hides_nothing_that_comes_after_it(store: Store) -> None:
    """Runs have refuted one change; another close by, or a much larger one at its place, is another one."""
    (found,) = store.findings()
    store.settle(found, "not_reproduced")
    (refuted,) = store.findings()
    add_nights(store, {"sort": noisy(4, (0, 1.3), seed=8)}, first=41)
    detect(store)
    (same,) = store.findings()
    assert (same.id, same.stage) == (found.id, "not_reproduced"), "more of the same is no news"
    assert (same.effect, same.last_good, same.first_bad) == (
        refuted.effect,
        refuted.last_good,
        refuted.first_bad,
    ), "what is kept is what was refuted"


def test_a_change_next_to_one_that_was_refuted_is_news(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(30)})
        detect(store)
        add_nights(store, {"sort": noisy(4, (0, 1.05), seed=4)}, first=31)
        detect(store)
        (small,) = store.findings()
        store.settle(small, "not_reproduced")
        for first, count in ((35, 2), (37, 8)):
            add_nights(store, {"sort": noisy(count, (0, 1.3), seed=5 + count)}, first=first)
            detect(store)
        (large,) = store.findings()
        assert (large.stage, large.fails) == ("suspected", True) and (large.effect or 0) > 0.2


def test_once_the_cause_is_known_it_is_the_only_suspect(store: Store) -> None:
    (found,) = store.findings()
    store.settle(found, "bisected", CULPRIT)
    (told,) = tell(store, store.findings())
    assert [one["revision"] for one in told.suspects] == ["c" * 40]
    assert "culprit cccccccccc 'Sort twice' (97 % sure, 12 runs)" in told.message
    assert "suspects" not in told.message


def test_a_suspicion_that_the_history_does_not_have_is_added_when_it_holds(store: Store) -> None:
    new = Finding(id="beefbeef00", case="sum", metric="wall_s", verdict="worse", effect=0.1)
    assert store.settle(new, "not_reproduced").stage == "not_reproduced"
    assert "beefbeef00" not in {one.id for one in store.findings(withdrawn=True)}
    store.settle(new, "confirmed")
    add_nights(store, {"sum": noisy(1, seed=9)}, first=41)
    detect(store)
    # The detector does not see it, and the runs made for it did.
    known = {one.id: one for one in store.findings()}["beefbeef00"]
    assert (known.stage, known.stands) == ("confirmed", False)


def test_a_merge_takes_over_what_runs_have_shown(store: Store, tmp_path: Path) -> None:
    (found,) = store.findings()
    with open_store(tmp_path / "other.db") as other:
        other.merge_from(tmp_path / "benchmark.db")
        other.settle(found, "bisected", CULPRIT)
    assert store.finding(found.id).stage == "suspected"
    store.merge_from(tmp_path / "other.db")
    assert store.finding(found.id).stage == "bisected"
    store.settle(found, "not_reproduced")
    store.merge_from(tmp_path / "other.db")
    assert store.finding(found.id).stage == "not_reproduced"


@pytest.mark.parametrize(
    ("why", "stage", "revision"),
    [
        (
            "Commit cccccccccc (Sort (twice)) changed work_s of sort by +12 %: 97 % sure after 12 runs.",
            "bisected",
            "cccccccccc",
        ),
        ("Confirmed by 3 runs: +12 %. Nothing that can be searched changed.", "confirmed", None),
    ],
)
def test_what_a_night_had_said_becomes_the_stage(
    why: str, stage: str, revision: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / "0004.sql").read_text())
        words = (b"x" * 16, "f00df00df0", "new", why, "paceline nightly", "2026-01-08T00:00:00.000Z")
        connection.execute("INSERT INTO human_verdict VALUES (?, ?, ?, ?, ?, ?)", words)
        connection.commit()
    with open_store(path) as store:
        found = store.finding("f00d")
    assert (found.stage, (found.culprit or {}).get("revision")) == (stage, revision)
    assert found.said is not None and found.said.who == "ann"


def test_a_finding_may_have_no_size(store: Store) -> None:
    stopped = Finding(id="0123456789", case="sum", metric="wall_s", verdict="worse", kind="stopped")
    store.settle(stopped, "confirmed")
    assert replace(store.finding("0123456789"), stage="suspected") == stopped

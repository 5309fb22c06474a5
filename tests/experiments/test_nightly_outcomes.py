"""What a night finds out about a suspicion is kept with the finding, and the newest outcome replaces the former one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from findings_nights import add_nights, noisy
from paceline.experiments.nightly import investigation
from paceline.experiments.nightly.investigation import Followed, investigate
from paceline.experiments.nightly.suspicions import Suspected, find_suspicions
from paceline.finding import Finding
from paceline.findings.telling import session_findings
from paceline.history import Store, open_store

FOUND = {
    "ending": "found",
    "culprit": "c" * 40,
    "kind": "commit",
    "subject": "Sort twice",
    "confidence": 0.97,
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "benchmark.db")
    add_nights(store, {"sort": noisy(30)})
    find_suspicions(store, None, "", ["sort"])
    add_nights(store, {"sort": noisy(10, (0, 1.3), seed=2)}, first=31)
    return store


def suspicions(store: Store) -> list[Suspected]:
    newest = store.session("night-40")
    assert newest is not None
    return find_suspicions(store, None, newest.id, ["sort"])


def follow(store: Store, monkeypatch: pytest.MonkeyPatch, followed: Followed) -> Finding:
    """The finding of the one suspicion, when its runs end so."""
    monkeypatch.setattr(investigation, "_follow", lambda *given: followed)
    night: Any = SimpleNamespace(ends_at_s=float("inf"), note=lambda text: None, repository=None)
    (suspected,) = suspicions(store)
    return investigate(suspected, store, night)


def test_the_newest_outcome_replaces_the_former_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow(store, monkeypatch, Followed(holds=None, message="could not be run again"))
    assert (found.verdict, found.stage, found.said) == ("worse", "suspected", None)
    found = follow(store, monkeypatch, Followed(holds=True, message="Confirmed by 3 runs"))
    assert (found.verdict, store.finding(found.id).stage) == ("worse", "confirmed")
    outcome = Followed(holds=True, message="Commit c did it", bisection={**FOUND, "runs": 12}, out=Path("b"))
    found = follow(store, monkeypatch, outcome)
    kept = store.finding(found.id)
    assert kept.stage == "bisected" and kept.culprit == found.culprit
    assert kept.culprit is not None and (kept.culprit["revision"], kept.culprit["runs"]) == ("c" * 40, 12)
    assert [dict(one) for one in found.suspects] == [dict(kept.culprit)], "it is the only suspect"
    assert kept.said is None, "what the program found out is not what people said"
    found = follow(store, monkeypatch, Followed(holds=False, message="Does not reproduce"))
    kept = store.finding(found.id)
    assert (kept.stage, kept.culprit, kept.said) == ("not_reproduced", None, None)


def test_what_does_not_reproduce_is_told_once_and_not_followed_up_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = store.session("night-40")
    assert newest is not None
    found = follow(store, monkeypatch, Followed(holds=False, message="Does not reproduce"))
    assert (found.verdict, found.word, found.fails) == ("inconclusive", "not reproduced", False)
    assert suspicions(store) == []
    assert session_findings(store, newest.id) == ()

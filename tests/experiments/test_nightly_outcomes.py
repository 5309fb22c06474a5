"""What a night finds out about a suspicion is kept with the finding, and the newest outcome replaces the former one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from findings_nights import add_nights, noisy
from paceline.experiments.nightly import investigation
from paceline.experiments.nightly import night as night_module
from paceline.experiments.nightly.investigation import Followed, investigate
from paceline.experiments.nightly.suspicions import Suspected, find_suspicions
from paceline.finding import Finding
from paceline.findings.telling import session_findings, tell
from paceline.history import Store, open_store
from paceline.history.findings import write_findings
from paceline.model import Report

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


def test_what_is_bisected_takes_no_place_from_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {f"sort{number}": noisy(40, (30, 1.3), seed=number) for number in range(3)}
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {name: values[:20] for name, values in cases.items()})
        find_suspicions(store, None, "", list(cases))
        for number in range(20, 40):
            # Each on a day of its own, so that none speaks for another.
            add_nights(store, {name: [values[number]] for name, values in cases.items()}, first=number + 1)
        find_suspicions(store, None, "", list(cases))
        known = sorted(store.findings(), key=lambda one: one.case)
        assert [one.case for one in known] == list(cases)
        with store.database.writing():
            write_findings(store.database, [replace(one, incident=f"i{one.id}") for one in known])
        for one in known[:2]:
            store.settle(
                replace(one, incident=f"i{one.id}"), "bisected", {"kind": "commit", "revision": "c" * 40}
            )
    followed: list[str] = []

    def investigate(suspected: Suspected, store: Store, night: Any) -> Finding:
        followed.append(suspected.series.case)
        return store.finding(suspected.id)

    monkeypatch.setattr(night_module, "investigate", investigate)
    monkeypatch.setattr(night_module, "_own_class", lambda report: "")
    options = SimpleNamespace(metrics=(), suspects=1)
    night: Any = SimpleNamespace(options=options, repository=None, note=lambda text: None)
    plan: Any = SimpleNamespace(session="night-40", cases=[SimpleNamespace(key=name) for name in cases])
    report = Report(plan=plan, records=())
    found = night_module._follow_up(report, str(tmp_path / "benchmark.db"), night)
    assert followed == ["sort2"], "the one that nobody knows the cause of"
    assert {one.case: bool(one.culprit) for one in found.findings} == {
        "sort0": True,
        "sort1": True,
        "sort2": False,
    }


def test_runs_are_counted_over_nights_until_no_more_are_made(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(store, monkeypatch, Followed(holds=True, message="Confirmed", runs=18))
    (suspected,) = suspicions(store)
    assert (suspected.runs, suspected.runs_left(40)) == (18, 22)
    found = follow(store, monkeypatch, Followed(holds=None, message="Unsure", runs=22, undecided=True))
    kept = store.finding(found.id)
    assert (kept.stage, kept.runs, kept.fails) == ("undecided", 40, True)
    (told,) = tell(store, [kept])
    assert "; cause not decided after 40 runs" in told.message
    follow(store, monkeypatch, Followed(holds=True, message="Confirmed", runs=0))
    assert store.finding(found.id).stage == "undecided", "that it is there was known"


def test_a_change_in_a_known_incident_is_run_again_before_it_is_told(tmp_path: Path) -> None:
    """Two series changed at one place: that the one has a cause proves nothing of the other."""
    cases = {f"sort{number}": noisy(40, (30, 1.3), seed=number) for number in range(2)}
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {name: values[:20] for name, values in cases.items()})
        find_suspicions(store, None, "", list(cases))
        add_nights(store, {name: values[20:] for name, values in cases.items()}, first=21)
        newest = store.session("night-40")
        assert newest is not None
        first, second = find_suspicions(store, None, newest.id, list(cases))
        assert first.finding and second.finding and first.finding.incident == second.finding.incident
        store.settle(first.finding, "bisected", {"kind": "commit", "revision": "c" * 40})
        left = [
            one
            for one in find_suspicions(store, None, newest.id, list(cases))
            if one.finding and one.finding.stage not in night_module.SETTLED
        ]
        assert [one.series.case for one in left] == [second.series.case]


def test_what_runs_in_turns_have_not_shown_is_not_told_as_worse(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = follow(store, monkeypatch, Followed(holds=None, message="Unsure", runs=30, unseen=True))
    assert (found.verdict, found.stage, found.fails) == ("inconclusive", "suspected", False)
    (suspected,) = suspicions(store)
    assert suspected.runs_left(40) == 10, "another night may show it"


def test_runs_for_a_suspicion_that_did_not_reproduce_count_when_it_turns_out_to_be_true(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suspected,) = suspicions(store)
    refuted = replace(
        store.finding(suspected.id), id="refuted", verdict="inconclusive", stage="not_reproduced", runs=18
    )
    with store.database.writing():
        write_findings(store.database, [refuted])
    assert [one.runs for one in suspicions(store) if one.is_certain] == [18]

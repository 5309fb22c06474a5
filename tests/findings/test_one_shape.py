"""A finding is one type with one JSON, wherever it is read, and what earlier versions wrote is read as such."""

from dataclasses import fields
from typing import Any

import pytest

from paceline.errors import PacelineError
from paceline.finding import Finding, HumanVerdict, Place
from paceline.record.codec import finding_json, read_finding

BISECTED = Finding(
    id="f00df00df0",
    case="sort",
    metric="work_s",
    verdict="worse",
    stage="bisected",
    culprit={
        "kind": "commit",
        "revision": "c" * 40,
        "subject": "Sort twice",
        "probability": 0.97,
        "runs": 12,
    },
    effect=0.12,
    last_good=Place(revision="a" * 40, session="night-1"),
    said=HumanVerdict(state="acknowledged", why="known", who="Ann", at="2026-01-01T00:00:00Z"),
    values=(1.0, 1.12),
    index=1,
)


def test_the_json_of_a_finding_has_every_field_and_reads_back_the_same() -> None:
    told = finding_json(BISECTED)
    assert {one.name for one in fields(Finding)} | {"state", "evidence"} == set(told)
    assert (told["state"], told["last_good"]["session"]) == ("acknowledged", "night-1")
    assert read_finding(told) == BISECTED


def test_the_names_of_earlier_versions_stay() -> None:
    evidence = finding_json(BISECTED)["evidence"]
    assert (evidence["culprit"], evidence["confidence"], evidence["confirmed"]) == ("c" * 40, 0.97, True)
    assert (evidence["values"], evidence["index"]) == ([1.0, 1.12], 1)


FORMER: dict[str, Any] = {
    **{"judge": "nightly", "case": "sort", "metric": "work_s", "verdict": "worse", "effect": 0.12},
    **{"low": 0.1, "high": 0.14, "message": "Commit c changed work_s", "id": "f00d", "state": "new"},
}


@pytest.mark.parametrize(
    ("evidence", "stage", "culprit"),
    [
        (
            {"confirmed": True, "culprit": "c" * 40, "kind": "commit", "confidence": 0.97, "runs": 12},
            "bisected",
            "c" * 40,
        ),
        ({"confirmed": True, "culprit": None, "confidence": 0.0}, "confirmed", None),
        ({"confirmed": False}, "not_reproduced", None),
        ({"confirmed": None}, "suspected", None),
        ({"last_good": {"revision": "a", "session": "night-1", "time": ""}}, "suspected", None),
        ({}, "suspected", None),
    ],
)
def test_a_report_of_an_earlier_version_is_read(
    evidence: dict[str, Any], stage: str, culprit: str | None
) -> None:
    found = read_finding({**FORMER, "evidence": evidence})
    assert (found.stage, (found.culprit or {}).get("revision")) == (stage, culprit)
    assert (found.judge, found.effect, found.state) == ("nightly", 0.12, "new")
    assert found.last_good.session == evidence.get("last_good", {}).get("session", "")


def test_points_may_have_been_numbers_or_mappings() -> None:
    points = [{"value": 1, "session": "a"}, {"value": 2.5}, {"value": None}]
    found = read_finding({**FORMER, "evidence": {"points": points, "index": 1}})
    assert found.values == (1.0, 2.5) and found.index is None
    found = read_finding({**FORMER, "evidence": {"values": [1, 1.2], "index": 1}})
    assert found.values == (1.0, 1.2) and found.index == 1


@pytest.mark.parametrize("data", [None, [], {}, {**FORMER, "evidence": 3, "effect": "much"}])
def test_what_is_no_finding_is_refused(data: Any) -> None:
    with pytest.raises(PacelineError, match="not a finding"):
        read_finding(data)

"""The fingerprints of cases: another one would have every session of before run again when it is gone on with."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from frozen import WRITTEN, frozen_place
from paceline.model import one_spelling
from workplace import Workplace

FORMER = "former_fingerprint"
PLANS = json.loads((WRITTEN / "fingerprints.json").read_text())


@pytest.fixture
def place() -> Iterator[Workplace]:
    """A suite with everything in it that decides a fingerprint."""
    with frozen_place("fingerprints") as place:
        yield place


def fingerprints(
    place: Workplace, plan: dict[str, Any], **other: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Those of data set-ups, and those of cases, by the formula of then."""
    words = ("plan", *plan["words"], "--session-name", "frozen", "--json")
    done = place.run(*words, **{**plan["variables"], **other})
    found = json.loads(done.stdout)
    differ = [case["name"] for case in found["cases"] if case["fingerprint"] != case[FORMER]]
    assert set(differ) <= {"secret"}, "where no secret is, both formulas agree"
    setups, cases = ({case["name"]: case[FORMER] for case in found[kind]} for kind in ("setups", "cases"))
    return setups, cases


def spelled(plan: dict[str, Any]) -> dict[str, str]:
    """Those of its cases, which then had their parameters in the order of the matrix, by the names of now."""
    return {one_spelling(name): found for name, found in plan["cases"].items()}


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: " ".join(plan["words"]))
def test_they_are_those_of_then(place: Workplace, plan: dict[str, Any]) -> None:
    setups, cases = fingerprints(place, plan)
    assert setups == plan["setups"]
    assert cases == spelled(plan)


def test_they_depend_on_no_secret_session_or_results_directory(place: Workplace) -> None:
    plan = PLANS[0]
    others = {
        "FROZEN_API_KEY": "another-key",
        "FROZEN_DB_PASSWORD": "another-word",
        "FROZEN_RESULTS": "elsewhere",
    }
    moved = {**plan, "words": [*plan["words"], "--session-name", "other"]}
    assert fingerprints(place, moved, **others) == (plan["setups"], spelled(plan))


def test_all_of_them_differ() -> None:
    """Else equal ones would say little; of plans that share cases, some are the same."""
    for plan in PLANS:
        assert len(set(plan["cases"].values())) == len(plan["cases"])
    assert len(PLANS[1]["cases"]) > 45

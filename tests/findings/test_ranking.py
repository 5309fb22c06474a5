"""Incidents in the order in which somebody should look at them, and their number."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.finding import Finding, HumanVerdict, Place
from paceline.findings.ranking import CLASSES, count, days_between, kind_of, rank, size_of

NOW = "2026-06-30T00:00:00.000Z"


def finding(ident: str, effect: float | None = 0.2, *, day: str = "2026-06-20", **fields: Any) -> Finding:
    bounds = {} if effect is None else {"low": effect - 0.01, "high": effect + 0.01}
    usual = {
        "case": f"case-{ident}",
        "metric": "wall_s",
        "verdict": "worse",
        "p_value": 1e-6,
        "found_in": "s",
    }
    when = Place(time=f"{day}T00:00:00.000Z")
    return Finding(
        id=ident, incident=f"i{ident}", effect=effect, first_bad=when, **{**usual, **bounds, **fields}
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding("a", 0.3), finding("b", 0.1)),
        (finding("a", 0.3), finding("b", 0.35, low=0.02, high=0.9)),
        (finding("a", 0.1, stage="bisected"), finding("b", 0.1)),
        (finding("a", 0.1), finding("b", 0.2, day="2025-06-30")),
        (finding("a", 0.1), finding("b", 0.3, found_in="")),
        (finding("a", 0.02), finding("b", 5.0, verdict="better")),
        (finding("a", -0.02), finding("b", 5.0, own_state="fixed")),
        (finding("a", 0.02), finding("b", 5.0, ended="2020-01-01")),
        (finding("a", 0.02), finding("b", None, kind="stopped", verdict="inconclusive")),
    ],
    ids=["larger", "surer", "bisected", "newer", "found since", "worse", "open", "not ended", "not stopped"],
)
def test_what_matters_comes_first(first: Finding, second: Finding) -> None:
    assert [one.id for one in rank([second, first], NOW)] == ["ia", "ib"]


def test_many_series_weigh_more_than_one() -> None:
    several = [replace(finding(name, 0.2), incident="many") for name in "abc"]
    (many, one) = rank([finding("d", 0.2), *several], NOW)
    assert (many.id, many.series, one.series, round(many.age_days)) == ("many", 3, 1, 10)
    assert (count([many, one]).open, count([many, one]).open_findings) == (2, 4)


def test_the_suspects_of_an_incident_are_those_that_all_share() -> None:
    commits = [{"kind": "commit", "revision": letter * 40} for letter in "abc"]
    wide = replace(finding("w", 0.5), incident="i", suspects=tuple(commits))
    narrow = replace(finding("n", 0.1), incident="i", suspects=(commits[1],))
    assert rank([wide, narrow], NOW)[0].suspects == (commits[1],)
    apart = replace(narrow, suspects=({"kind": "package", "name": "numpy"},))
    assert rank([wide, apart], NOW)[0].suspects == tuple(commits)
    found = replace(narrow, culprit=commits[2])
    assert rank([wide, found], NOW)[0].suspects == (commits[2],)


_findings = st.builds(
    Finding,
    id=st.text("abcdef", min_size=1, max_size=4),
    incident=st.sampled_from(["", "i1", "i2", "i3"]),
    case=st.sampled_from(["sort", "join"]),
    metric=st.just("wall_s"),
    kind=st.sampled_from(["step", "drift", "stopped"]),
    verdict=st.sampled_from(["better", "worse", "inconclusive"]),
    stage=st.sampled_from(["suspected", "confirmed", "bisected", "not_reproduced"]),
    effect=st.none() | st.floats(-1, 1e6),
    low=st.none() | st.floats(-1, 1e6),
    high=st.none() | st.floats(-1, 1e6),
    p_value=st.none() | st.floats(0, 1),
    own_state=st.sampled_from(["new", "fixed"]),
    said=st.none()
    | st.builds(HumanVerdict, state=st.sampled_from(["acknowledged", "false", "expected", "new"])),
    question=st.sampled_from(["", "Did it?"]),
    ended=st.sampled_from(["", NOW]),
    found_in=st.sampled_from(["", "s"]),
    first_bad=st.builds(
        Place, time=st.sampled_from(["", "no time", NOW, "2026-01-01"]), committed=st.just("")
    ),
)


@given(st.lists(_findings, max_size=12, unique_by=lambda one: one.id))
def test_every_finding_is_counted_in_one_incident(findings: list[Finding]) -> None:
    incidents = rank(findings, NOW)
    assert sorted(one.id for each in incidents for one in each.findings) == sorted(one.id for one in findings)
    totals = count(incidents)
    assert (
        totals.incidents == len(incidents) == sum(totals.as_json()[name] for name in ("open", *CLASSES[1:]))
    )
    assert totals.open == len({one.incident or one.id for one in findings if kind_of(one) == "worse"})
    assert totals.past <= totals.open >= totals.recent
    places = [CLASSES.index(one.kind) for one in incidents]
    assert places == sorted(places) and all(size_of(one) >= 0 for one in findings)


def test_days_are_never_negative() -> None:
    assert days_between("2026-06-01T00:00:00Z", NOW) == 29
    assert days_between(NOW, "2026-06-01") == days_between("", NOW) == days_between("soon", NOW) == 0

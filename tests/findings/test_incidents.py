"""What has one cause is one incident, and what has two is not."""

from dataclasses import replace

from paceline.finding import Finding, Place
from paceline.findings.incidents import group

PLACES = {f"r{number}": number for number in range(100)}


def finding(case: str, good: int, bad: int, *, culprit: str = "", incident: str = "") -> Finding:
    return Finding(
        id=f"{case}-{good}-{bad}",
        case=case,
        metric="wall_s",
        verdict="worse",
        last_good=Place(revision=f"r{good}", time=f"2026-01-{good:02}"),
        first_bad=Place(revision=f"r{bad}", time=f"2026-01-{bad:02}"),
        stage="bisected" if culprit else "suspected",
        culprit={"kind": "commit", "revision": culprit} if culprit else None,
        incident=incident,
    )


def incidents(*findings: Finding) -> list[str]:
    found = {one.id: one.incident for one in group(findings, PLACES)}
    return [found[one.id] for one in findings]


def test_brackets_that_share_a_stretch_are_one_incident() -> None:
    first, second, later = incidents(finding("a", 10, 12), finding("b", 11, 14), finding("c", 14, 15))
    assert first == second != later


def test_one_that_is_wide_does_not_tie_others_together_and_goes_where_its_case_is() -> None:
    first, second, wide = incidents(finding("a", 10, 12), finding("b", 13, 15), finding("b", 9, 20))
    assert first != second == wide
    many = [finding(case, 30, 32) for case in "cde"]
    *rest, alone, wide = incidents(*many, finding("f", 34, 35), finding("g", 25, 40))
    assert {*rest, wide} == {rest[0]} != {alone}


def test_causes_that_were_found_decide() -> None:
    first, second, other, beside = incidents(
        finding("a", 10, 20, culprit="r12"),
        finding("b", 5, 11, culprit="r12"),
        finding("c", 10, 20, culprit="r18"),
        finding("d", 16, 19),
    )
    assert first == second, "one culprit, though their brackets do not meet"
    assert first != other == beside


def test_a_drift_is_alone() -> None:
    drift = replace(finding("b", 5, 30), kind="drift")
    first, alone = incidents(finding("a", 10, 12), drift)
    assert first != alone


def test_a_finding_stays_in_its_incident_until_it_is_known_to_be_another() -> None:
    known = [finding("a", 10, 12, incident="i1"), finding("b", 10, 12, incident="i1")]
    assert incidents(*known) == ["i1", "i1"]
    apart = [
        replace(known[0], culprit={"revision": "r11"}, stage="bisected"),
        finding("b", 11, 12, incident="i1"),
    ]
    first, second = incidents(*apart)
    assert first == "i1" != second

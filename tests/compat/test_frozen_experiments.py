"""Experiments that an older version was killed in: gone on with from their journals, and nothing is measured twice."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frozen import answers, contents, difference, frozen_place
from workplace import Workplace

AB = answers("ab")[0]
BISECT = answers("bisect")[0]


@pytest.fixture
def ab() -> Iterator[Workplace]:
    """An A/B test of two cases that was killed in its sixth run, at the second of them."""
    with frozen_place("ab") as place:
        yield place


@pytest.fixture
def bisect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """A search that was killed after seven runs."""
    with frozen_place("bisect") as place:
        monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
        yield place


def trials(out: Path) -> dict[str, Any]:
    return contents(out / "trials", "**/record.json")


def journal(out: Path) -> list[str]:
    return (out / "journal.jsonl").read_text().splitlines()


def result(place: Workplace, words: list[str]) -> tuple[int, dict[str, Any]]:
    """What a command finds, without how long it took to."""
    done = place.run(*words)
    found = json.loads(done.stdout)
    return done.returncode, timeless(found)


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in ("elapsed_s", "took_s")}


def test_an_ab_test_is_gone_on_with(ab: Workplace) -> None:
    out = ab.path / "out"
    before, lines = trials(out), journal(out)
    assert len(lines) == 6 and len(before) == 11
    code, found = result(ab, AB["words"])
    assert code == AB["code"] and difference(timeless(AB["json"]), found) == ""
    assert journal(out)[:6] == lines
    after = trials(out)
    assert {name: after[name] for name in before} == before and len(after) == 24
    # The run that was killed had begun; of it, and of no other, the case that was not over began again.
    assert (ab.ran().count("begin"), ab.ran().count("end")) == (25, 24)


def test_an_ab_test_that_is_over_runs_nothing(ab: Workplace) -> None:
    result(ab, AB["words"])
    ran = ab.ran()
    code, found = result(ab, [*AB["words"], "--resume"])
    assert code == AB["code"] and difference(timeless(AB["json"]), found) == "" and ab.ran() == ran


def test_an_ab_test_that_was_edited_is_another_one(ab: Workplace) -> None:
    """Else the tests above would say nothing: a version that takes every journal for its own would pass them."""
    ran = ab.ran()
    suite = ab.path / "ab.yaml"
    suite.write_text(suite.read_text().replace("COLOUR: red", "COLOUR: blue"))
    done = ab.run(*AB["words"])
    assert done.returncode == 2 and "holds another A/B test" in done.stderr and ab.ran() == ran


def test_a_bisection_is_gone_on_with(bisect: Workplace) -> None:
    out = bisect.path / "out"
    before, lines, ran = trials(out), journal(out), bisect.ran()
    runs = len(lines) - 1
    assert 7 <= runs < BISECT["json"]["runs"] and len(before) >= runs
    code, found = result(bisect, BISECT["words"])
    # How many runs it still takes is up to the judge; what they are about and what comes of them is not.
    same = (
        "case",
        "metric",
        "unit",
        "direction",
        "good",
        "bad",
        "ending",
        "culprit",
        "suspects",
        "kind",
        "subject",
    )
    old = {name: value for name, value in BISECT["json"].items() if name in same}
    assert code == BISECT["code"] and timeless(BISECT["json"]).keys() <= found.keys()
    assert len(old) >= 8 and difference(old, {name: found[name] for name in old}) == ""
    assert journal(out)[: len(lines)] == lines and len(journal(out)) == found["runs"] + 1
    after = trials(out)
    assert {name: after[name] for name in before} == before
    assert (
        bisect.ran()[: len(ran)] == ran
        and len([name for name in after if not name.startswith("explained-")]) == found["runs"]
    )
    again = bisect.ran()
    assert result(bisect, BISECT["words"]) == (code, found) and bisect.ran() == again


def test_a_bisection_with_an_edited_script_is_another_one(bisect: Workplace) -> None:
    """Else the test above would say nothing: a version that takes every journal for its own would pass it."""
    ran = bisect.ran()
    script = bisect.path / "work.sh"
    script.write_text(script.read_text() + "# edited\n")
    done = bisect.run(*BISECT["words"])
    assert done.returncode == 2 and "holds another bisection" in done.stderr and bisect.ran() == ran

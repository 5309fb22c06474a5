"""What a bisection's reports hold, whatever the names in it look like."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from paceline.experiments.bisect.report import (
    BisectionResult,
    Ending,
    Tried,
    bisection_data,
    bisection_lines,
    bisection_markdown,
    bisection_page,
    draw_curve,
    outcome_of,
)
from paceline.experiments.builds.build import Candidate
from paceline.judge import Comparison
from paceline.record.codec import dump
from paceline.report.table import Screen

NASTY = "<script>alert('|`*')</script>\x1b[31m"
GOOD = Candidate(ident="aaaa", label="aa", title="First")
STEPS = tuple(Candidate(ident=f"{n}{n}{n}{n}", label=f"{n}{n}", title=f"Step {n} {NASTY}") for n in range(4))
RESULT = BisectionResult(
    case=f"work[{NASTY}]",
    metric="work_s",
    unit="s",
    direction="lower",
    ending="found",
    message="Commit 22 changed work_s.",
    good=GOOD,
    candidates=STEPS,
    tested=(
        Tried(index=-1, candidate=GOOD, values=(1.0, 1.1)),
        Tried(index=1, candidate=STEPS[1], reason="cannot be built: make exited with 2"),
        Tried(index=2, candidate=STEPS[2], values=(2.0,)),
        Tried(index=3, candidate=STEPS[3], values=(2.0, 2.2)),
    ),
    culprit=2,
    confidence=0.6,
    suspects=(1, 2),
    suspects_confidence=0.97,
    posterior=(0.01, 0.37, 0.6, 0.01),
    runs=6,
    took_s=12.5,
    difference=Comparison(verdict="worse", ratio=1.9, low=1.8, high=2.1, minimum_detectable=0.05),
    diff_stat=" code.py | 2 +-\n 1 file changed",
    notes=("python changed from 3.11 to 3.12",),
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for name, value in attrs:
            assert name not in ("src", "href") and not name.startswith("on"), (tag, name, value)


def test_the_data_names_the_culprit_and_all_that_was_tested() -> None:
    data = json.loads(dump(bisection_data(RESULT)))
    assert (data["culprit"], data["confidence"], data["runs"]) == ("2222", 0.6, 6)
    assert [one["revision"] for one in data["tested"]] == ["aaaa", "1111", "2222", "3333"]
    assert data["tested"][1] == {
        "index": 1,
        "revision": "1111",
        "title": STEPS[1].title,
        "values": [],
        "mean": None,
        "reason": "cannot be built: make exited with 2",
        "probability": 0.37,
    }
    assert data["suspects"] == ["1111", "2222"]


def test_the_page_is_whole_loads_nothing_and_runs_nothing() -> None:
    page = bisection_page(RESULT)
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.names and "svg" in tags.names and "pre" in tags.names
    assert "code.py | 2" in page and "3.11 to 3.12" in page
    assert "Content-Security-Policy" in page and "default-src 'none'" in page


def test_the_curve_is_drawn_with_every_value_and_the_culprit() -> None:
    drawing = ElementTree.fromstring(draw_curve(RESULT))
    kinds = [element.get("class") for element in drawing.iter()]
    assert (kinds.count("good"), kinds.count("bad")) == (2, 3)
    assert (kinds.count("culprit"), kinds.count("unbuildable"), kinds.count("level")) == (1, 1, 2)
    assert kinds.count("likely") == 4


def test_lines_and_markdown_show_names_as_they_are() -> None:
    lines = list(bisection_lines(RESULT, Screen()))
    assert lines[0] == RESULT.message
    assert any(line.startswith("→  22") for line in lines)
    assert not any("\x1b" in line for line in lines)
    text = bisection_markdown(RESULT)
    assert "<script>" not in text and "| 11 | 0 | none | 37 % |" in text
    assert "cannot be told apart: `11`, `22` (97 % together)" in text


def test_without_a_culprit_there_is_no_confidence() -> None:
    none = replace(RESULT, ending="unsure", culprit=None, suspects=())
    data = bisection_data(none)
    assert (data["culprit"], data["confidence"], data["suspects_confidence"]) == (None, None, None)


@pytest.mark.parametrize(
    ("ending", "culprit", "stage"),
    [
        ("found", 2, "bisected"),
        ("unsure", 2, "confirmed"),
        ("unsure", None, None),
        ("not_reproduced", None, "not_reproduced"),
        ("reversed", None, "not_reproduced"),
        ("unmeasurable", None, None),
    ],
)
def test_how_far_a_bisection_brings_a_finding(ending: Ending, culprit: int | None, stage: str | None) -> None:
    found = replace(RESULT, ending=ending, culprit=culprit)
    reached, named = outcome_of(bisection_data(found), Path("bisect/x"))
    assert reached == stage
    assert (named is not None) == (stage == "bisected")
    if named is not None:
        assert (named["revision"], named["probability"], named["bisection"]) == ("2222", 0.6, "bisect/x")

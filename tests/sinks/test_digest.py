"""What services say of findings, and the pictures that go with them."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.finding import MERGE_BASE, Place
from paceline.findings.telling import message
from paceline.model import Finding, Status
from paceline.sinks.chart import draw_png, sparkline
from paceline.sinks.digest import effect_text, make_digest, news
from paceline.sinks.github import digest_markdown
from paceline.sinks.slack_text import change_blocks, report_blocks
from service_sessions import REGRESSION, make_record, make_report


def test_effects_read_well() -> None:
    assert effect_text(REGRESSION) == "-12.5 % (-16 % to -9 %)"
    assert effect_text(replace(REGRESSION, effect=39.2, low=None)) == "×40.2"
    assert effect_text(replace(REGRESSION, effect=None)) == ""


def test_a_size_is_not_said_twice() -> None:
    message = "-12.5 % (-16 % to -9 %) between a (1a2b) and b (3c4d) [f-1]"
    (change,) = make_digest(make_report([], [replace(REGRESSION, message=message)])).changes
    assert change.message == "between a (1a2b) and b (3c4d) [f-1]"


def test_what_got_worse_comes_first_and_the_rest_is_not_told() -> None:
    findings = [
        replace(REGRESSION, verdict=verdict) for verdict in ("same", "better", "inconclusive", "worse")
    ]
    digest = make_digest(make_report([make_record()], findings))
    assert [change.worse for change in digest.changes] == [True, False]


NUMBERS = st.lists(st.floats(), max_size=50)


@given(NUMBERS, st.integers(-2, 52) | st.none())
def test_any_series_can_be_drawn(values: list[float], change: int | None) -> None:
    line = sparkline(values)
    finite = [value for value in values if math.isfinite(value)]
    assert len(line) == (len(values[-40:]) if any(math.isfinite(value) for value in values[-40:]) else 0)
    if len(values) <= 40 and finite and min(finite) < max(finite):
        assert "▁" in line and "█" in line
    assert draw_png(values[:5], change).startswith(b"\x89PNG")


def test_a_culprit_stands_first_in_what_services_say() -> None:
    culprit = {"kind": "commit", "revision": "c" * 40, "subject": "Sort twice", "author": "Ann"}
    found = replace(
        REGRESSION, stage="bisected", culprit={**culprit, "probability": 0.97, "runs": 12}, id="f-1"
    )
    found = replace(found, last_good=Place(session="a"), first_bad=Place(session="b"))
    (change,) = make_digest(make_report([], [replace(found, message=message(found))])).changes
    assert change.message == (
        "culprit cccccccccc 'Sort twice' by Ann (97 % sure, 12 runs); between a and b [f-1]"
    )
    assert "culprit cccccccccc" in str(change_blocks(change, drawn=True))


def test_what_did_not_reproduce_is_not_told() -> None:
    found = replace(REGRESSION, stage="not_reproduced", verdict="inconclusive")
    assert make_digest(make_report([make_record()], [found])).changes == ()


HERE, BEFORE = {"kind": "commit", "revision": "b" * 40}, {"kind": "commit", "revision": "a" * 40}


def worse(**fields: Any) -> Finding:
    return Finding(
        case="sort", metric="wall_s", verdict="worse", first_bad=Place(revision="b" * 40), **fields
    )


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ([], ""),
        ([worse(suspects=(BEFORE, HERE))], "1 slower"),
        ([worse(culprit=HERE, suspects=(BEFORE, HERE)), worse()], "2 slower, 1 likely yours"),
        ([worse(culprit=BEFORE), worse(suspects=(HERE,))], "2 slower, 1 likely yours"),
        ([worse(judge=MERGE_BASE)], "1 slower, 1 likely yours"),
        ([Finding(case="sum", metric="wall_s", verdict="better")], "1 faster"),
        ([worse(), replace(worse(), metric="peak_memory_bytes")], "2 worse"),
        ([replace(worse(), metric="rows_per_s")], "1 slower"),
        ([worse(stage="not_reproduced"), worse()], "1 slower"),
    ],
)
def test_a_message_begins_with_what_got_worse_and_whose_it_is(findings: list[Finding], words: str) -> None:
    assert news(findings) == words


def test_a_message_begins_with_one_sentence_and_a_link_to_the_incident() -> None:
    found = worse(judge=MERGE_BASE, incident="i1", effect=0.1)
    report = make_report([make_record()], [found, replace(found, metric="wall_max_s")])
    digest = make_digest(report, "https://bench.example/site/index.html")
    assert (digest.sentence, digest.rest) == ("2 slower, 2 likely yours", "1 passed of 1 case")
    assert digest.link == "https://bench.example/site/index.html#/incident/i1"
    head, first, *_ = report_blocks(digest)
    assert head["text"]["text"] == "❌ 2 slower, 2 likely yours"
    assert first["text"]["text"].startswith(f"<{digest.link}|Open the report>\n`night`: 1 passed of 1 case")
    comment = digest_markdown(digest, 10_000)
    assert comment.startswith(
        f"## ❌ 2 slower, 2 likely yours\n\n[Open the report]({digest.link}) · night · 1 passed of 1 case\n"
    )
    assert make_digest(report, "https://bench.example/night").link == "https://bench.example/night"
    quiet = make_digest(make_report([make_record()], []), "https://bench.example/index.html")
    assert (quiet.sentence, quiet.link) == ("1 passed of 1 case", "https://bench.example/index.html")


def test_what_failed_is_in_the_sentence_too() -> None:
    better = Finding(case="sum", metric="wall_s", verdict="better")
    digest = make_digest(make_report([make_record(status=Status.FAILED)], [better]))
    assert digest.sentence == "1 failed, 1 faster"

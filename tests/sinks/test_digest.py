"""What services say of findings, and the pictures that go with them."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paceline.finding import Place
from paceline.findings.telling import message
from paceline.sinks.chart import draw_png, sparkline
from paceline.sinks.digest import effect_text, make_digest
from paceline.sinks.slack_text import change_blocks
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

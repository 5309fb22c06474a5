"""Which calls of a journal a sink gets."""

from typing import Any

import pytest

from paceline.model import Case
from paceline.sinks.outbox import Call, CallFilter, as_call

CASES = {
    "good": Case(name="good", entry="good", key="good", tags=("fast",)),
    "bad[n=1]": Case(name="bad[n=1]", entry="bad", key="bad n=1"),
    "slow": Case(name="slow", entry="slow", key="slow"),
}
WORSE = [{"case": "slow", "verdict": "worse"}, {"case": "good", "verdict": "better"}]


def call(kind: str, key: str, **data: Any) -> Call:
    return Call(kind=kind, key=key, data=data)


def journal(**end: Any) -> list[Call]:
    statuses = {"good": "passed", "bad[n=1]": "timeout", "slow": "passed"}
    records = [call("record", name, case=name, status=status) for name, status in statuses.items()]
    return [call("start", "start-1"), call("open", "open"), *records, call("close", "close-1", **end)]


@pytest.mark.parametrize(
    ("only", "end", "expected"),
    [
        ((), {}, ["open", "good", "bad[n=1]", "slow", "close-1"]),
        (("failures",), {}, ["open", "bad[n=1]", "close-1"]),
        (("regressions",), {"findings": WORSE}, ["open", "slow", "close-1"]),
        (("regressions",), {}, []),
        (("failures", "regressions"), {"findings": WORSE}, ["open", "bad[n=1]", "slow", "close-1"]),
        (("tag:fast",), {}, ["open", "good", "close-1"]),
        (("bad",), {}, ["open", "bad[n=1]", "close-1"]),
        (("s*",), {}, ["open", "slow", "close-1"]),
        (("nothing",), {}, []),
        (("nothing",), {"interrupted": True}, []),
    ],
)
def test_what_fits_is_told_and_nothing_where_nothing_fits(
    only: tuple[str, ...], end: dict[str, Any], expected: list[str]
) -> None:
    choice = CallFilter(only, CASES.get)
    assert [found.key for one in journal(**end) for found in choice.feed(one)] == expected


RECORD = {"kind": "record", "key": "record-1", "dir": "a", "case": "a", "attempt": 1, "status": "passed"}
WRONG = [
    *(
        {"key": "x' OR 1=1"},
        {"key": "a\r\nX-Evil: 1"},
        {"key": ""},
        {"key": 7, "kind": None},
        {"kind": ["open"]},
    ),
    *(
        {"dir": 1},
        {"case": None},
        {"attempt": "../../1"},
        {"attempt": True},
        {"status": "odd"},
        {"status": []},
    ),
    *({"findings": 1}, {"findings": ["x"]}),
]


def test_a_line_that_is_no_call_is_left_out() -> None:
    assert as_call(RECORD) is not None
    assert [change for change in WRONG if as_call({**RECORD, **change}) is not None] == []


def test_a_session_cut_short_is_a_failure_of_its_own() -> None:
    choice = CallFilter(("failures",), CASES.get)
    calls = [call("open", "open"), call("record", "good", case="good", status="passed")]
    end = call("close", "close-1", unfinished="the runner was killed")
    assert [found.key for one in [*calls, end] for found in choice.feed(one)] == ["open", "close-1"]


def test_a_failure_is_told_at_once() -> None:
    choice = CallFilter(("failures",), CASES.get)
    fed = [[found.key for found in choice.feed(one)] for one in journal()]
    assert fed == [[], [], [], ["open", "bad[n=1]"], [], ["close-1"]]


def test_a_resumed_session_is_closed_again() -> None:
    choice = CallFilter(("failures",), CASES.get)
    for one in journal():
        choice.feed(one)
    again = call("record", "again", case="slow", status="failed")
    assert [found.key for found in choice.feed(again)] == ["again"]
    assert [found.key for found in choice.feed(call("close", "close-2"))] == ["close-2"]

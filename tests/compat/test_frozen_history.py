"""A history that an older version wrote: every number, name, finding and word in it is still there."""

import json
from typing import Any

import pytest

from frozen import Answer, answers, by_id, called, check, difference
from workplace import Workplace

ANSWERS = answers("history")
NUMBERS = [
    answer
    for answer in ANSWERS
    if "json" in answer and answer["words"][1] in ("list", "log", "export", "query")
]


def asked(place: Workplace, *words: str, code: int = 0) -> Any:
    done = place.run(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def known(*words: str) -> Any:
    return next(answer["json"] for answer in ANSWERS if answer["words"] == [*words, "--json"])


@pytest.mark.parametrize("answer", ANSWERS, ids=called)
def test_it_is_read_as_it_was(history: Workplace, answer: Answer) -> None:
    check(history, answer)


def test_a_night_more_changes_nothing_of_those_before(history: Workplace) -> None:
    """The machine of this test is another one, so its night begins series of its own."""
    done = history.run("run", "--session-name", "night-17", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    sessions = asked(history, "history", "list", "--sessions")
    assert sessions[0]["session"] == "night-17" and sessions[1:] == known("history", "list", "--sessions")
    for case in ("sort", "parse", "read"):
        words = ("history", "log", case, "work_s")
        old, new = known(*words), asked(history, *words)
        kept = [one for one in new if one["environment_class"] == old[0]["environment_class"]]
        assert len(new) == len(old) + 1 and difference(old, kept) == ""
    assert difference(by_id(known("regressions")), by_id(asked(history, "regressions"))) == ""


def test_merged_into_a_new_database_it_is_the_same(history: Workplace) -> None:
    done = history.run("history", "merge", "new.db", "benchmark.db")
    assert done.returncode == 0, done.stderr
    for answer in NUMBERS:
        check(history, {**answer, "words": [*answer["words"], "--db", "new.db"]})


def test_a_further_word_about_a_finding_is_added_to_those_before(history: Workplace) -> None:
    (finding,) = known("regressions", "--state", "acknowledged")
    said = ("--why", "found it", "--who", "me")
    done = history.run("verdict", finding["id"], "fixed", *said)
    assert done.returncode == 0, done.stderr
    now = {one["id"]: one for one in asked(history, "regressions")}
    assert now[finding["id"]]["state"] == "fixed"
    for one in known("regressions"):
        assert one["id"] == finding["id"] or difference(one, now[one["id"]]) == ""
    words = "SELECT state, why, who FROM human_verdict WHERE finding_ident = '{}' ORDER BY at".format(
        finding["id"]
    )
    told = [(row["state"], row["why"], row["who"]) for row in asked(history, "history", "query", words)]
    assert told == [
        ("acknowledged", "looking into it", "the maintainers"),
        ("expected", "it sorts stably now", "the maintainers"),
        ("acknowledged", "it should not take as long", "the maintainers"),
        ("fixed", "found it", "me"),
    ]


def test_the_rename_and_the_new_epoch_can_be_taken_back_and_moved(history: Workplace) -> None:
    assert history.run("history", "alias", "read_rows", "--remove").returncode == 0
    cases = {one["case"]: one["records"] for one in asked(history, "history", "list")}
    assert (cases["read_rows"], cases["read"]) == (5, 10)
    done = history.run("history", "reset", "parse", "--why", "again", "--at", "2026-03-10T00:00:00Z")
    assert done.returncode == 0, done.stderr
    (series,) = [one for one in asked(history, "history", "log", "parse", "work_s") if one["epoch"] == 2]
    assert [point["session"] for point in series["points"]] == [f"night-{night}" for night in range(10, 17)]


def test_the_dashboard_is_built_from_it(history: Workplace) -> None:
    done = history.run("dashboard", "build", "site")
    assert done.returncode == 0, done.stderr
    assert "wrote 5 cases and 15 sessions" in done.stdout
    page = "".join(path.read_text() for path in sorted((history.path / "site/data").rglob("*.js")))
    for told in ("join[rows=100000]", "it should not take as long", "parses twice as many rows", "night-02"):
        assert told in page

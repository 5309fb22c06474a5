"""A jump beyond belief is a question, and not an improvement."""

import json
from pathlib import Path
from typing import Any

import pytest

from in_process import Here, make_here
from paceline.findings.comparing import compare_sides
from paceline.findings.detection import detect
from paceline.findings.sides import Measured, Side
from paceline.findings.telling import session_findings
from paceline.history import open_store
from paceline.judge.requirements import Baseline, judge
from paceline.model import Record, Requirement, Status
from stored_records import ENVIRONMENT, case, measured, record, session

QUESTION = "did it still do the work?"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def run(seconds: float, rows: float, **fields: Any) -> Record:
    metrics = {
        "wall_s": measured(seconds, *(seconds * factor for factor in (0.99, 1.0, 1.01, 1.005))),
        "num_rows": measured(rows, direction=None, unit=None),
    }
    return record(metrics=metrics, **fields)


def side(name: str, told: Record, packages: str = "dask==2026.8.0") -> Side:
    environment = {**ENVIRONMENT, "packages": [packages]}
    return Side(
        name=name,
        about=name,
        measured=(Measured(record=told, environment_class="class-1"),),
        machines={},
        environments={"env-1": environment},
    )


def test_a_twentieth_of_the_time_is_asked_about_with_all_that_changed() -> None:
    old = run(2.0, 1000, case=case(fingerprint="a"), revision="1" * 40)
    new = run(0.09, 10, case=case(fingerprint="b"), revision="2" * 40)
    found = compare_sides(side("old", old), side("new", new, "dask==2026.9.0"))
    (wall,) = found.compared
    assert (wall.word, wall.comparison.verdict, found.exit_code) == ("question", "inconclusive", 0)
    for part in (
        *(QUESTION, "num_rows 1,000 → 10", "its script, arguments or variables"),
        *("revision 1111111111 → 2222222222", "dask 2026.8.0 → 2026.9.0"),
    ):
        assert part in wall.question, wall.question


@pytest.mark.parametrize(
    ("seconds", "rows", "word"), [(0.11, 1000, "better"), (1.5, 0, "question"), (1.5, 1000, "better")]
)
def test_less_is_an_improvement_unless_nothing_is_done_any_more(seconds: float, rows: int, word: str) -> None:
    (wall,) = compare_sides(side("old", run(2.0, 1000)), side("new", run(seconds, rows))).compared
    assert wall.word == word


def test_twenty_times_slower_is_worse_and_no_question() -> None:
    found = compare_sides(side("old", run(1.0, 1000)), side("new", run(50.0, 1000)))
    assert found.compared[0].word == "worse" and found.exit_code == 1


def test_a_result_beyond_belief_is_not_within_a_requirement() -> None:
    limit = Requirement(metric="wall_s", kind="max_regression", bound=0.05)
    told = judge(run(0.05, 0, case=case(requirements=(limit,))), {"wall_s": Baseline(level=2.0, results=9)})
    (check,) = told.requirements
    assert told.status is Status.PASSED and not check.judged and QUESTION in check.reason


def remember(path: Path, last: int = 40) -> None:
    with open_store(path) as store:
        for number in range(1, last + 1):
            fast = number > 30
            told = run(
                (0.02 if fast else 2.0) * (1 + 0.01 * (number % 3)), 0 if fast else 1000, number=number
            )
            store.add(session(number), ENVIRONMENT, [told])


def test_regressions_ask_in_the_terminal_in_markdown_and_in_json(here: Here) -> None:
    remember(here.path / "results/benchmark.db")
    done = here.run("regressions")
    assert done.returncode == 0
    assert f"question: {QUESTION} What else changed: num_rows 1,000 → 0" in done.stdout
    assert "no open regressions, 1 question" in done.stdout
    assert "❔ | sort | wall_s" in here.run("regressions", "--markdown").stdout
    (found,) = json.loads(here.run("regressions", "--json").stdout)
    assert found["verdict"] == "inconclusive" and found["question"].startswith(QUESTION)


def test_a_sessions_report_asks_too(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.db"
    for last in range(30, 41):
        remember(path, last)
        with open_store(path) as store:
            detect(store)
            found = session_findings(store, session(last).id)
        if found:
            break
    assert [(one.word, one.verdict) for one in found] == [("question", "inconclusive")]
    assert found[0].message.startswith(QUESTION) and not found[0].fails


def test_compare_prints_the_question(here: Here) -> None:
    for name, told in (("a.json", run(2.0, 1000)), ("b.json", run(0.01, 0))):
        from paceline.record.codec import dump_plain, to_json

        (here.path / name).write_bytes(dump_plain(to_json(told)))
    done = here.run("compare", "a.json", "b.json")
    assert "question: sort wall_s: " + QUESTION in done.stdout and "0 better" in done.stdout
    (found,) = json.loads(here.run("compare", "a.json", "b.json", "--json").stdout)["comparisons"]
    assert found["question"] and found["verdict"] == "inconclusive"

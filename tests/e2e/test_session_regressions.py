"""A session tells the regressions in the series that it adds to, and its exit code follows."""

import json
from pathlib import Path
from typing import Any

import pytest

from findings_nights import noisy
from in_process import Here, make_here
from paceline.findings.detection import detect
from paceline.history import open_store
from stored_records import measured, record, session

SUITE = """
entries:
  - name: sort
    command: [sh, -c, 'cp metrics.json "$PACELINE_RESULTS_PATH/metrics.json"']
"""
RELATIVE = """
    requirements:
      work_s: {max_regression: 5%}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def run(here: Here, name: str, value: float, *words: str) -> tuple[int, str, dict[str, Any]]:
    """A session whose one case measures this; exit code, output, report."""
    (here.path / "metrics.json").write_text(json.dumps({"work_s": value}))
    done = here.run("run", "--session-name", name, *words)
    report = json.loads((here.path / "results" / name / "report.json").read_text())
    return done.returncode, done.stdout, report


def remember_nights(here: Here, values: list[float], searched: int = 0) -> None:
    """Nights before the session `first`, on its machine, of its case; so many of them were searched for changes."""
    with open_store(here.path / "results/benchmark.db") as store:
        (environment,) = store.environments("first")
        case = store.records("first")[0].case
        for number, value in enumerate(values, start=1):
            told = record(
                case=case, number=number, metrics={"work_s": measured(value)}, environment=environment["id"]
            )
            store.add(session(number), environment, [told])
            if number == searched:
                detect(store)


def test_a_session_that_shows_a_regression_fails_until_somebody_answers(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE)
    code, _, report = run(here, "first", 15.0)
    assert (code, report["findings"]) == (0, [])
    remember_nights(here, noisy(32, (30, 1.5)), searched=30)
    code, printed, report = run(here, "second", 15.1)
    (finding,) = report["findings"]
    assert (code, report["ok"], finding["verdict"], finding["state"]) == (1, False, "worse", "new")
    assert (finding["case"], finding["metric"]) == ("sort", "work_s") and finding["id"]
    assert finding["evidence"]["last_good"]["session"] == "night-30"
    values, at = finding["evidence"]["values"], finding["evidence"]["index"]
    assert at == len(values) - 4 and max(values[:at]) < min(values[at:]), "the curve shows the step"
    assert "worse: sort work_s: +5" in printed and "; 1 regression" in printed
    for name in ("report.md", "junit.xml"):
        assert finding["id"] in (here.path / "results" / "second" / name).read_text()
    assert "worse: sort work_s" in here.run("show", "second").stdout
    assert run(here, "unrecorded", 15.0, "--no-history")[0] == 0
    assert run(here, "third", 15.2)[0] == 1, "it is told again until somebody says what it is"
    assert here.run("verdict", finding["id"], "acknowledged").returncode == 0
    code, _, report = run(here, "fourth", 15.0)
    assert (code, report["findings"]) == (0, [])


def test_an_imported_past_fails_no_session(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE)
    run(here, "first", 15.0)
    remember_nights(here, noisy(80, (30, 1.5)))
    code, _, report = run(here, "second", 15.0)
    assert (code, report["findings"]) == (0, [])
    assert here.run("regressions").returncode == 1


def test_an_improvement_is_told_once_and_fails_nothing(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE)
    run(here, "first", 5.0)
    remember_nights(here, noisy(32, (30, 0.5)), searched=30)
    code, _, report = run(here, "second", 5.02)
    assert (code, [one["verdict"] for one in report["findings"]]) == (0, ["better"])
    code, _, report = run(here, "third", 5.01)
    assert (code, report["findings"]) == (0, [])


def test_a_requirement_relative_to_the_history(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE + RELATIVE.lstrip("\n"))
    code, _, report = run(here, "first", 10.0)
    (check,) = report["records"][0]["requirements"]
    assert (code, check["kind"], check["bound"], check["ok"]) == (0, "max_regression", 0.05, True)
    assert check["reason"] == "work_s has no earlier results, and 3 are needed to hold one against"
    remember_nights(here, noisy(10))
    assert run(here, "second", 10.3)[0] == 0
    code, printed, report = run(here, "third", 11.0)
    (check,) = report["records"][0]["requirements"]
    assert (code, check["ok"], report["records"][0]["status"]) == (1, False, "requirement_failed")
    assert "higher than its level" in printed and "at most 5 % are allowed" in printed
    code, printed, _ = run(here, "fourth", 11.0, "--no-history")
    assert code == 0 and "the history is off" in printed
    planned = here.run("plan", "--json")
    assert json.loads(planned.stdout)["cases"][0]["requirements"][0]["kind"] == "max_regression"
    assert "work_s at most 5 % worse than before" in here.run("plan").stdout


def test_a_history_that_cannot_be_searched_costs_a_session_a_line(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE)
    (here.path / "broken.db").write_text("no database\n" * 100)
    code, printed, _ = run(here, "first", 10.0, "--db", "broken.db")
    assert code == 0 and "not recorded in the history" in printed

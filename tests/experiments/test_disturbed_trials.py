"""Trials of experiments that were disturbed are made again; what stays disturbed is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.experiments import trials
from paceline.experiments.bisect.bisection import BisectTask, case_of, run_bisection, run_case
from paceline.experiments.bisect.report import Question
from paceline.experiments.bisect.search import Limits
from paceline.experiments.builds.build import Builder, Built, Candidate
from paceline.model import Case, Measurement, Record, Status
from paceline.session.request import Request

BUSY = "a load average of 9 on 2 CPUs"


def simulate(monkeypatch: pytest.MonkeyPatch, case: Case, disturbed: Callable[[str], bool]) -> list[str]:
    """In place of trials, records of a case; the names of the trials that were made."""
    made: list[str] = []

    def run_trial(setting: trials.TrialSetting, number: int) -> tuple[Record, ...]:
        made.append(setting.name)
        value = 150.0 if setting.name.startswith("0") else 100.0
        metrics = {
            "work_s": Measurement(value=value + number / 10, unit="s", direction="lower"),
            "size": Measurement(value=5.0, unit="bytes", direction="lower"),
        }
        seen = (BUSY,) if disturbed(setting.name) else ()
        record = Record(
            session="s",
            case=case,
            attempt=1,
            status=Status.PASSED,
            metrics=metrics,
            disturbed=seen,
        )
        return (record,)

    monkeypatch.setattr(trials, "run_trial", run_trial)
    return made


@pytest.fixture
def request_of(tmp_path: Path) -> Request:
    (tmp_path / "suite.yaml").write_text("entries:\n  - {name: work, command: 'true'}\n")
    return Request(configs=(tmp_path / "suite.yaml",))


def test_a_disturbed_trial_is_made_again(
    tmp_path: Path, request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(request_of, "work")
    setting = trials.TrialSetting(name="good", directory=tmp_path, configs=request_of.configs)
    built = Built(venv=None, worktree=None)
    made = simulate(monkeypatch, case, lambda name: name == "good")
    assert run_case(case, setting, built, 1, "work_s")[1] == "" and made == ["good", "good-again"]
    made = simulate(monkeypatch, case, lambda name: True)
    assert run_case(case, setting, built, 1, "work_s")[1] == BUSY and len(made) == 3
    made = simulate(monkeypatch, case, lambda name: True)
    assert run_case(case, setting, built, 1, "size")[1] == "" and len(made) == 1, "a size does not suffer"


def test_a_bisection_says_how_many_of_its_runs_were_disturbed(
    tmp_path: Path, request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(request_of, "work")
    simulate(monkeypatch, case, lambda name: name.startswith("good"))
    good, bad = (Candidate(ident=name, label=name) for name in ("good", "bad"))
    task = BisectTask(
        configs=request_of.configs,
        case=case,
        question=Question(
            case="work", metric="work_s", unit="s", direction="lower", good=good, candidates=(bad,)
        ),
        builder=Builder(cache_dir=tmp_path / "cache", log=tmp_path / "log"),
        limits=Limits(),
        out=tmp_path / "out",
    )
    result = run_bisection(task, lambda *given: None)
    (note,) = result.notes
    assert result.ending == "found" and BUSY in note and "runs were disturbed" in note

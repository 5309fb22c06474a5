"""What exits and samples come to."""

import math

import pytest

from paceline.model import Case, Scalar, Status
from paceline.run.attempt import Run, measurements, merged_warnings, verdict
from paceline.run.conditions import Conditions
from paceline.run.local.process import Exit
from paceline.run.script_output import ScriptOutput

CASE = Case(name="a", entry="a", key="a", timeout_s=3)


def output(**metrics: Scalar | tuple[Scalar, ...]) -> ScriptOutput:
    return ScriptOutput(
        params={}, metrics=metrics, units={}, tasks=(), problems=(), has_metrics=bool(metrics)
    )


def run(*warnings: str, **metrics: Scalar | tuple[Scalar, ...]) -> Run:
    return Run(
        exit=Exit(returncode=0, reason="exited"),
        output=output(**metrics),
        collected={"exec_time_s": 1.0},
        warnings=warnings,
        conditions=Conditions(),
        status=Status.PASSED,
        reason="",
    )


@pytest.mark.parametrize(
    ("ended", "written", "status", "said"),
    [
        (Exit(returncode=0, reason="exited"), output(x=1), Status.PASSED, ""),
        (Exit(returncode=0, reason="exited"), output(), Status.FAILED, "metrics.json"),
        (Exit(returncode=0, reason="exited"), output(is_success=False), Status.FAILED, "is_success"),
        (Exit(returncode=2, reason="exited"), output(x=1), Status.FAILED, "exit code 2: last words"),
        (Exit(returncode=-9, reason="exited"), output(), Status.FAILED, "SIGKILL"),
        (Exit(returncode=-63, reason="exited"), output(), Status.FAILED, "killed by"),
        (Exit(returncode=-15, reason="timeout"), output(x=1), Status.TIMEOUT, "3 s"),
        (Exit(returncode=None, reason="launch_error", message="no"), output(), Status.LAUNCH_ERROR, "no"),
        (Exit(returncode=-9, reason="limit", message="too many"), output(), Status.FAILED, "too many"),
        (Exit(returncode=-15, reason="stopped", message="stopped"), output(), Status.INTERRUPTED, "stopped"),
        (Exit(returncode=None, reason="lost", message="lost"), output(), Status.INFRA_ERROR, "lost"),
    ],
)
def test_every_kind_of_exit_has_its_status(
    ended: Exit, written: ScriptOutput, status: Status, said: str
) -> None:
    found, reason = verdict(CASE, ended, written, ["last words"])
    assert found is status
    assert said in reason


def test_samples_of_all_runs_are_kept_and_the_median_stands_for_them() -> None:
    found = measurements([run(t_s=3.0), run(t_s=1.0), run(t_s=(2.0, 5.0))])
    assert found["t_s"].samples == (3.0, 1.0, 2.0, 5.0)
    assert found["t_s"].value == 2.5
    assert found["t_s"].direction == "lower"


def test_what_the_script_says_wins_over_what_we_measured() -> None:
    assert measurements([run(exec_time_s=7.0)])["exec_time_s"].value == 7.0


def test_flags_texts_and_not_a_number() -> None:
    found = measurements([run(ok=True, label="a", x=1.0), run(ok=False, label="b", x=math.nan)])
    assert found["ok"].value is False
    assert found["label"].value == "b"
    assert isinstance(found["x"].value, float) and math.isnan(found["x"].value)


def test_a_count_stays_a_whole_number() -> None:
    value = measurements([run(num_documents=12)])["num_documents"].value
    assert value == 12 and isinstance(value, int)


def test_warnings_that_differ_in_figures_are_said_once() -> None:
    runs = [
        run("others used 1.5 cores", "metrics.json: a"),
        run("others used 0.75 cores"),
        run("metrics.json: b"),
    ]
    assert merged_warnings(runs) == (
        "others used 1.5 cores (and in 1 more runs)",
        "metrics.json: a",
        "metrics.json: b",
    )

"""What is known of a run's conditions goes with its numbers into every later verdict."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from findings_nights import add_nights, noisy
from in_process import Here, make_here
from paceline.experiments.ab.tally import Judged, Tally, Trial, trial_data
from paceline.findings.comparing import compare_sides
from paceline.findings.detection import detect
from paceline.findings.segments import read_baselines
from paceline.findings.sides import Measured, Side
from paceline.history import open_store
from paceline.judge.requirements import Baseline, judge, why_inconclusive
from paceline.metrics import is_steady
from paceline.model import Record, Requirement, Status
from paceline.record.codec import from_json, to_json
from paceline.run.attempt import Attempt, Run
from paceline.run.conditions import VARIABLE, Conditions
from paceline.run.local.process import Exit, Usage
from paceline.run.script_output import ScriptOutput
from stored_records import ENVIRONMENT, case, measured, record, series_of, session

BUSY = "other processes used 1.20 CPU cores on average"
BURN = "print('up', flush=True)\nwhile True: pass"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two endless loops beside the test, on a machine where that counts."""
    monkeypatch.delenv(VARIABLE)
    with ExitStack() as stack:
        for _ in range(2):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield


def side(name: str, *records: Record) -> Side:
    measured_ones = tuple(Measured(record=one, environment_class="class-1") for one in records)
    return Side(name=name, about=name, measured=measured_ones, machines={})


def timed(*samples: float, disturbed: tuple[str, ...] = (), **fields: Any) -> Record:
    metrics = {"wall_s": measured(samples[0], *samples), "peak_memory_bytes": measured(5.0, unit="bytes")}
    return record(metrics=metrics, disturbed=disturbed, **fields)


SLOW = timed(2.0, 2.01, 1.99, 2.02, disturbed=(BUSY,) * 4)
FAST = timed(1.0, 1.01, 0.99, 1.02)


def test_a_record_says_which_of_its_runs_were_disturbed() -> None:
    told = timed(1.0, 2.0, 3.0, disturbed=("", BUSY, BUSY))
    assert from_json(to_json(told)) == told and to_json(told)["disturbed"] == ["", BUSY, BUSY]
    assert told.disturbance == f"{BUSY} (2 of 3 runs)" and told.is_measurable
    assert not replace(told, disturbed=(BUSY,)).is_measurable
    assert timed(1.0, disturbed=("", "", BUSY)).disturbance == "", "the median is that of the others"
    assert "disturbed" not in to_json(FAST)


def test_a_disturbed_side_makes_nothing_better_or_worse() -> None:
    for old, new, name in ((SLOW, FAST, "A"), (FAST, SLOW, "B")):
        found = compare_sides(side("old", old), side("new", new))
        verdicts = {one.key.metric: (one.comparison.verdict, one.reason) for one in found.compared}
        reason = f"{name} was disturbed: {BUSY} (4 of 4 runs)"
        assert verdicts["wall_s"] == ("inconclusive", reason)
        assert verdicts["peak_memory_bytes"] == ("same", "") or verdicts["peak_memory_bytes"][1] == ""
        assert found.exit_code == 2
    assert compare_sides(side("old", FAST), side("new", timed(2.0, 2.01, 1.99, 2.02))).exit_code == 1


def test_undisturbed_records_of_the_same_side_count_alone() -> None:
    again = replace(FAST, session="again")
    found = compare_sides(side("old", SLOW, again), side("new", FAST))
    (wall,) = [one for one in found.compared if one.key.metric == "wall_s"]
    assert wall.reason == "" and wall.comparison.verdict == "same" and wall.samples == (4, 4)


@pytest.mark.parametrize(
    ("name", "unit", "steady"),
    [
        *(("wall_s", "s", False), ("docs_per_s", "docs/s", False), ("throughput", None, False)),
        *(("peak_memory_bytes", "bytes", True), ("f1_score", None, True), ("worker_memory_gb", "GB", True)),
    ],
)
def test_sizes_and_qualities_do_not_depend_on_others(name: str, unit: str | None, steady: bool) -> None:
    assert is_steady(name, unit) is steady


def add_disturbed(path: Path, values: list[float], disturbed: set[int]) -> None:
    with open_store(path) as store:
        for number, value in enumerate(values, start=1):
            told = record(
                number=number,
                metrics={"wall_s": measured(value)},
                disturbed=(BUSY,) if number in disturbed else (),
            )
            store.add(session(number), ENVIRONMENT, [told])


def test_disturbed_nights_are_stored_as_such_and_neither_judged_nor_part_of_a_level(tmp_path: Path) -> None:
    values = noisy(40, (30, 1.5))
    late = set(range(31, 41))
    add_disturbed(tmp_path / "disturbed.db", values, late)
    add_disturbed(tmp_path / "calm.db", values, set())
    with open_store(tmp_path / "calm.db") as store:
        detect(store)
        assert [one.verdict for one in store.findings()] == ["worse"]
    with open_store(tmp_path / "disturbed.db") as store:
        detect(store)
        assert store.findings() == []
        (series,) = series_of(store, "sort", "wall_s")
        assert [bool(point.disturbed) for point in series.points] == [n in late for n in range(1, 41)]
        level = read_baselines(store, {"sort": ["wall_s"]}, but="")[("sort", "", "1", "class-1")]["wall_s"]
        assert abs(level.level - 10) < 0.2 and level.results == 30
        assert store.records("night-35")[0].disturbed == (BUSY,)
        rows = store.query("SELECT count(*) FROM record WHERE disturbed IS NOT NULL")[1]
        assert rows == [(10,)]
        with open_store(tmp_path / "merged.db") as merged:
            merged.merge_from(tmp_path / "disturbed.db")
            assert merged.records("night-35")[0].disturbed == (BUSY,)


def test_a_disturbed_record_is_not_held_against_the_history() -> None:
    limit = Requirement(metric="wall_s", kind="max_regression", bound=0.05)
    told = replace(SLOW, case=case(requirements=(limit,)))
    judged = judge(told, {"wall_s": Baseline(level=1.0, results=9)})
    (check,) = judged.requirements
    assert judged.status is Status.PASSED and not check.judged and BUSY in check.reason
    assert BUSY in why_inconclusive(judged.requirements)
    calm = judge(replace(told, disturbed=()), {"wall_s": Baseline(level=1.0, results=9)})
    assert calm.status is Status.REQUIREMENT_FAILED
    assert why_inconclusive((*judged.requirements, *calm.requirements)) == "", "another gate could be judged"
    bound = replace(limit, kind="max_value", bound=1.5)
    strict = judge(replace(SLOW, case=case(requirements=(bound,))))
    assert strict.status is Status.REQUIREMENT_FAILED, "a bound of the suite's own holds all the same"


def test_an_ab_test_says_nothing_where_one_side_was_disturbed() -> None:
    def trials(disturbed: bool) -> tuple[Trial, ...]:
        old, new = (SLOW if disturbed else replace(SLOW, disturbed=())), FAST
        return tuple(
            Trial(arm=arm, block=block, seconds=1, cases=trial_data([told]))
            for block in range(8)
            for arm, told in (("a", old), ("b", new))
        )

    wall = Judged(case="sort", metric="wall_s", unit="s")
    for disturbed, verdict in ((True, "inconclusive"), (False, "better")):
        tally = Tally(baseline="a", trials=trials(disturbed))
        found = tally.comparison("b", wall, [8], 0.95)
        assert found is not None and found.verdict == verdict
        assert (BUSY in tally.disturbance("b", wall)) is disturbed


SUITE = """
entries:
  - name: work
    command: [sh, -c, 'sleep 0.3']
    repeat: 3
    {extra}
"""


def test_a_real_disturbance_is_marked_and_not_believed(here: Here, busy: None) -> None:
    (here.path / "paceline.yaml").write_text(SUITE.replace("{extra}", ""))
    done = here.run("run", "--session-name", "one")
    assert done.returncode == 0 and "1 case disturbed, and not judged: other processes used" in done.stdout
    stored = json.loads((here.path / "results/one/work/record.json").read_text())
    assert len(stored["disturbed"]) == 3 and all(stored["disturbed"])
    assert len(stored["metrics"]["exec_time_s"]["samples"]) == 3, "the samples are kept"
    assert "not measurable" in (here.path / "results/one/report.md").read_text()
    here.run("run", "--session-name", "two")
    words = ("compare", "one", "two", "--metric", "exec_time_s")
    compared = here.run(*words)
    assert compared.returncode == 2 and "not judged: A was disturbed" in compared.stdout
    found = json.loads(here.run(*words, "--json").stdout)
    assert [bool(one["reason"]) for one in found["comparisons"]] == [True]
    assert "not judged: A was disturbed" in here.run(*words, "--markdown").stdout


@pytest.mark.parametrize("wanted", ["void", "ignore"])
def test_the_suite_says_what_becomes_of_disturbed_runs(here: Here, busy: None, wanted: str) -> None:
    (here.path / "paceline.yaml").write_text(SUITE.replace("{extra}", f"disturbed: {wanted}"))
    assert here.run("run", "--session-name", "one").returncode == 0
    stored = json.loads((here.path / "results/one/work/record.json").read_text())
    assert len(stored["metrics"]["exec_time_s"]["samples"]) == 3, "all were disturbed, so all are kept"
    assert ("disturbed" in stored) is (wanted == "void")


def test_a_machine_that_is_always_shared_can_say_so(
    here: Here, busy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here.path / "paceline.yaml").write_text(SUITE.replace("{extra}", ""))
    monkeypatch.setenv(VARIABLE, "never")
    done = here.run("run", "--session-name", "one")
    assert (
        done.returncode == 2 and "PACELINE_DISTURBED is 'never': it may be mark, void, ignore" in done.stderr
    )
    assert not (here.path / "results/one").exists()
    monkeypatch.setenv(VARIABLE, "ignore")
    assert here.run("run", "--session-name", "one").returncode == 0
    assert "disturbed" not in json.loads((here.path / "results/one/work/record.json").read_text())


def test_a_gate_that_could_judge_nothing_ends_with_2(here: Here, busy: None) -> None:
    limit = "requirements: {exec_time_s: {max_regression: 5%}}"
    (here.path / "paceline.yaml").write_text(SUITE.replace("{extra}", limit))
    here.run("run", "--session-name", "first")
    with open_store(here.path / "results/benchmark.db") as store:
        (environment,) = store.environments("first")
        planned = store.records("first")[0].case
        for number in range(1, 6):
            metrics = {"exec_time_s": measured(0.3)}
            told = record(case=planned, number=number, metrics=metrics, environment=environment["id"])
            store.add(session(number), environment, [told])
    done = here.run("run", "--session-name", "second")
    assert done.returncode == 2, done.stdout
    assert "Inconclusive: nothing could be judged" in done.stdout and "not judged: exec_time_s" in done.stdout
    report = json.loads((here.path / "results/second/report.json").read_text())
    assert "disturbed" in report["inconclusive"]
    assert "nothing could be judged" in (here.path / "results/second/report.md").read_text()


def test_nights_without_a_disturbance_are_as_they_were(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(40, (30, 1.5))})
        detect(store)
        assert len(store.findings()) == 1


def test_void_counts_only_the_runs_that_were_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    long = Conditions(elapsed_s=2.0)
    runs = [
        Run(
            exit=Exit(reason="exited", returncode=0, usage=Usage(wall_s=wall_s)),
            output=ScriptOutput(),
            collected={"exec_time_s": wall_s},
            warnings=(),
            conditions=replace(long, others_s=others_s),
            status=Status.PASSED,
            reason="",
        )
        for wall_s, others_s in ((2.0, 0.0), (5.0, 3.0), (2.1, 0.0))
    ]
    for wanted, counted, disturbed in (("void", 2, False), ("mark", 3, True), ("ignore", 3, False)):
        attempt = Attempt(case(disturbed=wanted), 1, *([None] * 4))  # type: ignore[arg-type]
        kept, texts, warnings = attempt._undisturbed(runs)
        assert (len(kept), any(texts)) == (counted, disturbed)
        assert ("1 of 3 runs are not counted, since they were disturbed" in warnings) is (wanted == "void")
        assert any("the run was disturbed" in line for line in warnings) is (wanted != "ignore")

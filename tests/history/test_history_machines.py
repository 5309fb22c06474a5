"""A record belongs to the machine that it ran on: in the history, in its baselines, in comparisons, in reports."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from findings_nights import add_nights, noisy
from in_process import Here, make_here
from paceline.errors import PacelineError
from paceline.experiments.nightly.suspicions import find_suspicions, split_by_machine
from paceline.findings.comparing import compare_sides
from paceline.findings.sides import Sides
from paceline.history import open_store
from paceline.history.session_files import read_session
from paceline.judge.requirements import judge
from paceline.model import Plan, Requirement, Status
from paceline.record.environment import Environment
from paceline.session.history import read_levels
from stored_records import ENVIRONMENT, case, measured, record, series_of, session

DRIVER: dict[str, Any] = {**ENVIRONMENT, "comparable": {"cpus": 2}}
NODE: dict[str, Any] = {
    **ENVIRONMENT,
    "id": "node-7",
    "class_id": "class-7",
    "hostname": "far",
    "cpu": {"count": 64, "model": "Large"},
    "comparable": {"cpus": 64},
}
LIMIT = Requirement(metric="wall_s", kind="max_regression", bound=0.5)


def write_session(path: Path, number: int, node_value: float, own_value: float = 1.0) -> Path:
    """The files of a pool's session: one case on the driver's machine, one on another."""
    path.mkdir(parents=True)
    (path / "plan.json").write_text("{}")
    told = session(number)
    start = {"event": "session_started", "session": told.name, "time": told.started_at}
    (path / "events.jsonl").write_text(json.dumps(start) + "\n")
    (path / "environment.json").write_text(json.dumps(DRIVER))
    (path / f"environment-{NODE['id']}.json").write_text(json.dumps(NODE))
    (path / f"packages-{NODE['id']}.txt").write_text("numpy==2.1\n")
    from paceline.record.codec import dump_plain, to_json

    here = record("here", own_value, number=number)
    there = record("there", node_value, number=number, environment=NODE["id"], details={"node": "far-1"})
    for one in (here, there):
        (path / one.case.name).mkdir()
        (path / one.case.name / "record.json").write_bytes(dump_plain(to_json(one)))
    return path


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """A results directory with six nights of a pool."""
    for number in range(1, 7):
        write_session(tmp_path / "results" / f"night-{number}", number, 4.0 + 0.01 * number)
    return tmp_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def test_a_node_has_its_own_class_host_and_packages_in_the_history(nights: Path, here: Here) -> None:
    assert here.run("history", "import", "results").returncode == 0
    with open_store(nights / "results/benchmark.db") as store:
        (own,), (other,) = series_of(store, "here", "wall_s"), series_of(store, "there", "wall_s")
        known = store.environment(NODE["id"])
    assert (own.environment_class, other.environment_class) == ("class-1", "class-7")
    assert known is not None and known["hostname"] == "far" and known["packages"] == {"numpy": "2.1"}


def test_merging_keeps_each_record_on_its_machine(nights: Path, here: Here) -> None:
    assert here.run("history", "import", "results", "--db", "job.db").returncode == 0
    assert here.run("history", "merge", "all.db", "job.db").returncode == 0
    with open_store(nights / "all.db") as store:
        assert series_of(store, "there", "wall_s")[0].environment_class == "class-7"


def test_a_slowdown_is_caught_on_a_node_of_any_class(nights: Path, here: Here) -> None:
    assert here.run("history", "import", "results").returncode == 0
    tonight = write_session(nights / "results" / "tonight", 9, 40.0, 10.0)
    cases = tuple(case(key, requirements=(LIMIT,)) for key in ("here", "there"))
    plan = Plan(session="night-9", directory=tonight, cases=cases)
    own = Environment(id="env-1", class_id="class-1", data=DRIVER, packages=())
    levels = read_levels(plan, str(nights / "results/benchmark.db"), own)
    for planned, environment, value in ((cases[0], "env-1", 10.0), (cases[1], NODE["id"], 40.0)):
        told = record(case=planned, number=9, environment=environment, metrics={"wall_s": measured(value)})
        judged = judge(told, levels.of(told))
        assert judged.status is Status.REQUIREMENT_FAILED, judged.requirements


def test_a_class_without_a_baseline_is_said_and_not_passed_over(nights: Path, here: Here) -> None:
    assert here.run("history", "import", "results").returncode == 0
    planned = case("there", requirements=(LIMIT,))
    plan = Plan(session="night-9", directory=nights / "results" / "night-1", cases=(planned,))
    own = Environment(id="new", class_id="class-new", data={}, packages=())
    told = record(case=planned, number=9, environment="new", metrics={"wall_s": measured(40.0)})
    judged = judge(told, read_levels(plan, str(nights / "results/benchmark.db"), own).of(told))
    (check,) = judged.requirements
    assert judged.status is Status.PASSED and check.ok and not check.judged
    assert "no earlier result" in check.reason and "6 on others" in check.reason


SUITE = """
entries:
  - name: sort
    command: [sh, -c, 'echo "{\\"work_s\\": 3}" > "$PACELINE_RESULTS_PATH/metrics.json"']
    requirements:
      work_s: {max_regression: 5%}
"""


def test_what_was_not_judged_is_marked_everywhere(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE)
    done = here.run("run", "--session-name", "one")
    assert done.returncode == 0
    assert "not judged: work_s at most 5 % worse than before: work_s has no earlier result" in done.stdout
    assert "; 1 requirement not judged" in done.stdout
    assert "❔ work_s at most 5 %" in (here.path / "results/one/report.md").read_text()
    (stored,) = json.loads(here.run("show", "one", "--json").stdout)["records"]
    (check,) = stored["requirements"]
    assert check["judged"] is False and check["ok"] is True
    assert "not judged: work_s" in here.run("show", "one").stdout
    assert "not judged: work_s" in here.run("show", "one", "sort").stdout
    for number in range(2, 5):
        done = here.run("run", "--session-name", f"again-{number}")
    assert "not judged" not in done.stdout


def test_a_node_that_nobody_describes_is_not_the_drivers_machine(nights: Path, here: Here) -> None:
    for path in (nights / "results").glob(f"*/environment-{NODE['id']}.json"):
        path.unlink()
    assert here.run("history", "import", "results").returncode == 0
    with open_store(nights / "results/benchmark.db") as store:
        assert series_of(store, "there", "wall_s")[0].environment_class == NODE["id"]


def test_importing_again_describes_a_machine_that_an_older_version_took_for_the_drivers(
    nights: Path, here: Here
) -> None:
    with open_store(nights / "results/benchmark.db") as store:
        for number in range(1, 7):
            files = read_session(nights / "results" / f"night-{number}")
            plain = [record("there", 4 + 0.01 * number, number=number, environment=NODE["id"])]
            store.add(files.session, files.environment, plain)
        assert series_of(store, "there", "wall_s")[0].environment_class == "class-1"
    assert here.run("history", "import", "results").returncode == 0
    assert here.run("history", "import", "results").returncode == 0
    with open_store(nights / "results/benchmark.db") as store:
        assert series_of(store, "there", "wall_s")[0].environment_class == "class-7"


def test_a_session_without_descriptions_of_others_is_read_as_before(nights: Path, here: Here) -> None:
    """A session that an older version resumed has records of an environment that nobody describes."""
    path = nights / "results" / "night-1"
    text = (path / "here" / "record.json").read_text()
    (path / "here" / "record.json").write_text(text.replace('"env-1"', '"env-before"'))
    assert here.run("history", "import", str(path)).returncode == 0
    with open_store(nights / "results/benchmark.db") as store:
        assert series_of(store, "here", "wall_s")[0].environment_class == "class-1"


def test_sessions_and_documents_compare_machines_record_by_record(nights: Path) -> None:
    sides = Sides(None, None, lambda name: None)
    first, second = (str(nights / "results" / f"night-{number}") for number in (1, 2))
    assert {one.environment_class for one in sides.find(first).measured} == {"class-1", "class-7"}
    (of_node,) = sides.find(f"{first}/there/record.json").measured
    assert of_node.environment_class == "class-7"
    with pytest.raises(PacelineError, match="unlike machines"):
        compare_sides(sides.find(f"{first}/here/record.json"), sides.find(f"{second}/there/record.json"))
    found = compare_sides(sides.find(first), sides.find(second))
    assert {one.key.case for one in found.compared} == {"here", "there"}


def test_a_resumed_session_keeps_what_described_the_machine_before(here: Here) -> None:
    suite = "entries: [{name: a, command: [sh, -c, 'test -e ready']}, {name: b, command: ['true']}]"
    (here.path / "paceline.yaml").write_text(suite)
    assert here.run("run", "--session-name", "one").returncode == 1
    path = here.path / "results" / "one"
    former = json.loads((path / "environment.json").read_text())
    moved = {**former, "id": "elsewhere", "class_id": "other-class"}
    (path / "environment.json").write_text(json.dumps(moved))
    stored = path / "b" / "record.json"
    stored.write_text(stored.read_text().replace(former["id"], "elsewhere"))
    (here.path / "ready").touch()
    shutil.rmtree(here.path / "results/benchmark.db", ignore_errors=True)
    assert here.run("run", "--session-name", "one", "--rerun-failed", "--db", "new.db").returncode == 0
    with open_store(here.path / "new.db") as store:
        (a,), (b,) = series_of(store, "a", "exec_time_s"), series_of(store, "b", "exec_time_s")
    assert (a.environment_class, b.environment_class) == (former["class_id"], "other-class")
    assert "another machine" in (path / "report.md").read_text()


def test_a_night_runs_nothing_again_that_only_another_machine_can_confirm(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        values = noisy(40, (30, 1.5))
        add_nights(store, {"sort": values})
        add_nights(store, {"sort": values}, first=41, environment=NODE)
        found = find_suspicions(store, None, session(80).id, ["sort"], (), "class-1")
    here, elsewhere = split_by_machine(found, "class-1")
    assert [one.series.environment_class for one in here] == ["class-1"]
    assert [one.series.environment_class for one in elsewhere] == ["class-7"]


def test_a_case_that_moved_to_another_machine_is_not_compared_with_itself(nights: Path) -> None:
    sides = Sides(None, None, lambda name: None)
    moved = nights / "results" / "night-2" / "there" / "record.json"
    data = json.loads(moved.read_text())
    moved.write_text(json.dumps({**data, "environment": "env-1", "details": {}}))
    extra = nights / "results" / "night-2" / "more"
    extra.mkdir()
    (extra / "record.json").write_text(
        json.dumps({**data, "case": {**data["case"], "name": "more", "key": "more"}})
    )
    first, second = (sides.find(str(nights / "results" / f"night-{number}")) for number in (1, 2))
    found = compare_sides(first, second)
    assert {one.key.case for one in found.compared} == {"here"}
    reasons = {one.case: one.why for one in found.missing}
    assert "machines of another class" in reasons["there"]
    anyway = compare_sides(first, second, anyway=True)
    assert {one.key.case for one in anyway.compared} == {"here", "there"}

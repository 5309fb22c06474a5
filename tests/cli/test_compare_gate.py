"""`paceline compare` as a gate: what must turn it red, and what it says where there is nothing to tell by."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from in_process import Done, Here, make_here
from paceline.history import open_store
from paceline.model import Status
from stored_records import ENVIRONMENT, measured, record, session

TELL = """{command: [sh, -c, 'mkdir -p $PACELINE_RESULTS_PATH; echo "{\\"work_s\\": 1}" > $PACELINE_RESULTS_PATH/metrics.json; %s'], repeat: 3, """  # noqa: E501
SORT, JOIN = f"  - {TELL}name: sort}}\n", f"  - {TELL}name: join}}\n" % "true"
SUITE = f"entries:\n{SORT}{JOIN}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def run_session(here: Here, name: str, *words: str, sort: str = "true", suite: str = SUITE) -> None:
    (here.path / "paceline.yaml").write_text(suite % sort)
    here.run("run", "-q", "--session-name", name, *words)


def values(level: float, noise: float, seed: object, count: int) -> list[float]:
    chance = random.Random(str(seed))
    return [level * chance.lognormvariate(0, noise) for _ in range(count)]


def add(here: Here, number: int, cases: Mapping[str, Any], **fields: Any) -> None:
    """A session of `wall_s`: samples, or the status of a case that has none."""
    records = [
        record(
            key,
            number=number,
            **(
                {"status": given, "metrics": {}}
                if isinstance(given, Status)
                else {"metrics": {"wall_s": measured(sorted(given)[len(given) // 2], *given)}}
            ),
        )
        for key, given in cases.items()
    ]
    with open_store(here.path / "results/benchmark.db") as store:
        store.add(session(number, **fields), ENVIRONMENT, records)


def compare(here: Here, *words: str) -> tuple[Done, dict[str, Any]]:
    """The command for people, and what it says as JSON; both end the same."""
    done = here.run("compare", *words)
    told = here.run("compare", "--json", *words)
    assert told.returncode == done.returncode and told.stderr == done.stderr
    return done, json.loads(told.stdout)


def test_a_case_that_is_gone_fails_unless_it_may_be_missing(here: Here) -> None:
    run_session(here, "one")
    run_session(here, "two", suite=f"entries:\n{JOIN}# %s\n")
    done, told = compare(here, "one", "two", "--metric", "work_s")
    assert done.returncode == 1 and "missing in two: sort" in done.stdout and "1 gone" in done.stdout
    assert [one["kind"] for one in told["missing"]] == ["gone"] and told["exit_code"] == 1
    done = here.run("compare", "one", "two", "--metric", "work_s", "--allow-missing")
    assert done.returncode == 0 and "missing in two: sort" in done.stdout, done.stdout
    # What the user asks about is what may be missing.
    assert here.run("compare", "one", "two", "--case", "join", "--metric", "work*").returncode == 0


@pytest.mark.parametrize("words", [("--only", "join"), ("--exclude", "so*"), ("--shard", "2/2")])
def test_what_the_candidate_was_not_asked_to_run_is_not_gone(here: Here, words: tuple[str, str]) -> None:
    run_session(here, "one")
    run_session(here, "two", *words)
    left = "sort" if "sort" not in here.run("show", "two").stdout else "join"
    for sides in (("one", "two"), ("results/one", "results/two")):
        done = here.run("compare", *sides, "--metric", "work_s")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"1 case left out by {sides[1]} itself ({' '.join(words)})" in done.stdout
        assert f"missing in {sides[1]}: {left}" not in done.stdout


def test_a_selection_does_not_hide_what_it_had_asked_for(here: Here) -> None:
    run_session(here, "one")
    run_session(here, "two", "--only", "sort*,join", suite=SUITE.replace("name: sort", "name: sort_all"))
    done = here.run("compare", "one", "two", "--metric", "work_s")
    assert done.returncode == 1 and "missing in two: sort\n" in done.stdout, done.stdout


def test_a_case_that_passed_and_now_fails_is_told_and_fails(here: Here) -> None:
    run_session(here, "one")
    run_session(here, "two", sort="exit 3")
    done, told = compare(here, "one", "two", "--metric", "work_s")
    assert done.returncode == 1 and "fails in two: sort (failed" in done.stdout and "1 failing" in done.stdout
    assert [(one["case"], one["kind"]) for one in told["missing"]] == [("sort", "failing")]
    # What failed before as well is nothing new, and may be missing.
    run_session(here, "three", sort="exit 3")
    assert here.run("compare", "two", "three", "--metric", "work_s").returncode == 0


def test_a_metric_of_its_own_that_a_case_no_longer_tells_is_gone(here: Here) -> None:
    for number, names in ((1, ("wall_s", "rows_per_s")), (2, ("wall_s",))):
        metrics = {name: measured(1.0, *values(1, 0.01, name, 5)) for name in names}
        with open_store(here.path / "results/benchmark.db") as store:
            store.add(session(number), ENVIRONMENT, [record(number=number, metrics=metrics)])
    done = here.run("compare", "night-1", "night-2")
    assert done.returncode == 1 and "missing in night-2: sort rows_per_s" in done.stdout
    assert here.run("compare", "night-2", "night-1").returncode == 0


def test_another_version_of_a_case_is_said_and_does_not_fail(here: Here) -> None:
    steady = values(1, 0.01, 1, 5)
    add(here, 1, {"sort": steady, "join": steady})
    with open_store(here.path / "results/benchmark.db") as store:
        store.add(session(2), ENVIRONMENT, [])
    from dataclasses import replace

    told = [record(key, number=2, metrics={"wall_s": measured(1.0, *steady)}) for key in ("sort", "join")]
    told[0] = replace(told[0], case=replace(told[0].case, version="2"))
    with open_store(here.path / "results/benchmark.db") as store:
        store.add(session(2), ENVIRONMENT, told)
    done = here.run("compare", "night-1", "night-2")
    assert done.returncode == 0 and "sort (is now version 2" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("cases", "words", "why"),
    [
        ({"other": [1.0, 1.0]}, (), "have no case in common"),
        ({"sort": [1.0, 1.0]}, ("--case", "nope"), "--case nope matches no number"),
        ({"sort": [1.0, 1.0]}, ("--metric", "nope"), "--metric nope matches no number"),
        ({"other": [1.0, 1.0]}, ("--allow-missing",), "have no case in common"),
    ],
)
def test_nothing_compared_is_an_error_with_one_line(
    here: Here, cases: Mapping[str, Any], words: tuple[str, ...], why: str
) -> None:
    add(here, 1, {"sort": [1.0, 1.0]})
    add(here, 2, cases)
    done, _ = compare(here, "night-1", "night-2", *words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("nothing was compared: ") and why in line


def test_the_only_case_fails_now(here: Here) -> None:
    add(here, 1, {"sort": [1.0, 1.0]})
    add(here, 2, {"sort": Status.TIMEOUT})
    done = here.run("compare", "night-1", "night-2")
    assert done.returncode == 1 and "fails in night-2: sort (timeout)" in done.stdout


def test_without_names_the_newest_session_is_held_against_the_one_before(here: Here) -> None:
    done = here.run("compare")
    assert done.returncode == 2 and "'previous' is no session" in done.stderr
    steady = values(1, 0.001, 1, 5)
    add(here, 1, {"sort": [2 * one for one in steady]})
    add(here, 2, {"sort": steady})
    add(here, 3, {"of another suite": steady})
    add(here, 4, {"sort": [1.5 * one for one in steady]})
    done = here.run("compare")
    assert done.returncode == 1 and "\nA  session night-2\nB  session night-4\n" in done.stdout
    assert here.run("compare", "night-1", "last").stdout.splitlines()[2] == "B  session night-4"
    done = here.run("compare", "night-1")
    assert done.returncode == 2 and "give A and B, or neither" in done.stderr


def test_without_names_sessions_on_disk_are_compared_too(here: Here) -> None:
    for name in ("one", "two"):
        run_session(here, name, "--no-history")
    done = here.run("compare", "--metric", "work_s")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:3] == ["A  session one", "B  session two"]

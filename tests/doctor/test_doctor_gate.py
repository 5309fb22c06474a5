"""`paceline doctor --gate`: what is made worse on purpose turns the gates red, and one that cannot see it says so."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from in_process import Here, make_here
from paceline.history import open_store
from paceline.judge.requirements import judge
from paceline.model import Requirement
from stored_records import ENVIRONMENT, case, measured, record, session


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def remember(here: Here, nights: int, noise: float, samples: int = 5, **fields: Any) -> None:
    chance = random.Random(6)
    with open_store(here.path / "results/benchmark.db") as store:
        for number in range(1, nights + 1):
            times = [chance.lognormvariate(0, noise) for _ in range(samples)]
            metrics = {
                "wall_s": measured(sorted(times)[samples // 2], *times),
                "rows_per_s": measured(100 / times[0], *(100 / one for one in times), direction="higher"),
                "num_rows": measured(7, direction=None, unit=None),
            }
            store.add(session(number), ENVIRONMENT, [judge(record(number=number, metrics=metrics, **fields))])


def gates(here: Here, *words: str) -> tuple[int, dict[str, list[tuple[bool | None, str]]]]:
    done = here.run("doctor", "--gate", *words, "--json")
    found: dict[str, list[tuple[bool | None, str]]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["gate"], []).append((one["red"], one["text"]))
    return done.returncode, found


def test_a_quiet_suite_turns_red_and_its_records_stay_as_they_are(here: Here) -> None:
    remember(here, 12, 0.005)
    before = here.run("history", "export", "-", "--samples").stdout
    code, found = gates(here)
    assert code == 0 and list(found) == ["compare"]
    assert found["compare"] == [(True, "+10 % on 2 numbers of 1 case: 2 worse, 2 would be seen alone")]
    assert here.run("history", "export", "-", "--samples").stdout == before != ""
    done = here.run("doctor", "--gate", "night-5")
    assert done.returncode == 0 and done.stdout.startswith("compare  red  +10 % on 2 numbers")


@pytest.mark.parametrize(
    ("nights", "noise", "samples", "why"),
    [(12, 0.3, 5, "too noisy"), (2, 0.005, 1, "the noise is not known: use 'repeat'")],
)
def test_a_gate_that_cannot_see_it_stays_green_and_says_why(
    here: Here, nights: int, noise: float, samples: int, why: str
) -> None:
    remember(here, nights, noise, samples)
    code, found = gates(here)
    ((red, text),) = found["compare"]
    assert code == 1 and red is False and why in text


def test_bounds_on_regressions_are_tried_beyond_what_they_allow(here: Here) -> None:
    bounds = [
        Requirement(metric="wall_s", kind="max_regression", bound=0.05),
        Requirement(metric="rows_per_s", kind="max_regression", bound=0.3),
        Requirement(metric="wall_s", kind="max_value", bound=90),
    ]
    remember(here, 12, 0.005, case=case(requirements=tuple(bounds)))
    code, found = gates(here)
    assert code == 0
    assert found["max_regression"] == [
        (True, "sort wall_s made 10 % worse, 5 % allowed"),
        (True, "sort rows_per_s made 30.6 % worse, 30 % allowed"),
    ]


def test_a_bound_with_nothing_to_be_held_against_stays_green(here: Here) -> None:
    bound = Requirement(metric="wall_s", kind="max_regression", bound=0.05)
    warns = Requirement(metric="wall_s", kind="max_regression", bound=0.05, severity="warn")
    remember(here, 2, 0.005, case=case(requirements=(bound,)))
    code, found = gates(here)
    ((red, text),) = found["max_regression"]
    assert code == 1 and red is False and "3 are needed" in text
    remember(here, 9, 0.005, case=case(requirements=(warns,)))
    code, found = gates(here)
    assert code == 1 and found["max_regression"][0][1].endswith("(it only warns)")


def test_a_case_that_is_judged_by_its_time_is_really_delayed(here: Here) -> None:
    entry = {"name": "nap", "command": ["sh", "-c", "sleep 0.2; echo >> ran"], "repeat": 3}
    (here.path / "paceline.yaml").write_text(json.dumps({"entries": [entry]}))
    for _ in range(7):
        assert here.run("run", "-q").returncode == 0
    sessions = sorted((here.path / "results").iterdir())
    code, found = gates(here)
    ((red, text),) = found["compare, real delay"]
    assert text.startswith("exec_time_s of nap with a delay of 2"), text
    assert red is (": +" in text and text.endswith("worse")) and red is not None
    assert code == (0 if red and found["compare"][0][0] else 1)
    # It has really run, and left nothing behind.
    assert len((here.path / "ran").read_text().splitlines()) == 8 * 3
    assert sorted((here.path / "results").iterdir()) == sessions
    (here.path / "paceline.yaml").unlink()
    assert gates(here)[1]["compare, real delay"] == [(None, "no paceline.yaml here that could be run")]


def test_nothing_to_check_is_an_error(here: Here) -> None:
    done = here.run("doctor", "--gate")
    assert done.returncode == 2 and "'last' is no session" in done.stderr
    with open_store(here.path / "results/benchmark.db") as store:
        store.add(session(1), ENVIRONMENT, [record(metrics={})])
    done = here.run("doctor", "--gate")
    assert done.returncode == 2 and "nothing was checked: session night-1 has no passed case" in done.stderr

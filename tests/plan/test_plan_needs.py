"""Cases that need others."""

from pathlib import Path

import pytest

from plan.suites import Planner, problem_of

NEEDS = """
data_setups:
  - {name: fetch, command: [fetch]}
entries:
  - name: train
    command: [run, "{needs:prepare[size={matrix.size}]}/out", "{needs:fetch}", "{needs:one}"]
    matrix: {size: [1, 2]}
    needs: ["prepare[size={matrix.size}]", fetch, one]
  - {name: report, command: [x], needs: [train]}
  - {name: prepare, command: [x], matrix: {size: [1, 2]}}
  - {name: one, command: [x], matrix: {only: [1]}}
  - {name: free, command: [x]}
"""


def test_needs(plan: Planner, suite: Path) -> None:
    found = plan(NEEDS)
    assert [case.name for case in found.cases] == [
        "prepare[size=1]",
        "prepare[size=2]",
        "one[only=1]",
        "train[size=1]",
        "train[size=2]",
        "report",
        "free",
    ]
    by_name = {case.name: case for case in found.cases}
    assert by_name["train[size=2]"].needs == ("prepare[size=2]", "one[only=1]")
    assert by_name["report"].needs == ("train[size=1]", "train[size=2]")
    night = suite / "results" / "night"
    assert by_name["train[size=2]"].argv[1:] == (
        f"{night}/prepare[size=2]/out",
        f"{night}/data_setup/fetch",
        f"{night}/one[only=1]",
    )


def test_a_selection_brings_needs_along(plan: Planner) -> None:
    found = plan(NEEDS, only=["train[size=2]"])
    assert [case.name for case in found.cases] == ["prepare[size=2]", "one[only=1]", "train[size=2]"]
    assert "prepare[size=2] was not selected and runs because train[size=2] needs it" in found.warnings


def test_shards_of_a_plan(plan: Planner) -> None:
    shards = [plan(NEEDS, shard=(i, 2)) for i in (1, 2)]
    assert [[case.name for case in shard.cases] for shard in shards][1] == ["free"]
    assert len(shards[0].cases) == 6
    assert plan(NEEDS, shard=(3, 3)).cases == ()


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (
            "[twoo]",
            "suite.yaml:3: entries[0].needs[0]: there is no entry or case 'twoo'; did you mean 'two'?",
        ),
        ("[one]", "a circle: one needs one"),
        ("[two]", "a circle: one needs two needs one"),
        ("['two[x={matrix.x}]']", "{matrix.x}: the case has no such parameter"),
    ],
)
def test_needs_that_cannot_be(plan: Planner, needs: str, words: str) -> None:
    text = f"""entries:
  - name: one
    needs: {needs}
    command: [x]
  - {{name: two, command: [x], needs: [one]}}
"""
    assert words in problem_of(plan, text)

"""The workflow and the targets that show how to use the suite: their commands and options exist."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from paceline.cli import cli
from paceline.session.request import Request, prepare

REPOSITORY = Path(__file__).parents[2]
WORKFLOW = REPOSITORY / ".github/workflows/nightly.yml"
TOOL = ".venv/bin/paceline"


def steps() -> list[dict[str, Any]]:
    loaded = yaml.safe_load(WORKFLOW.read_text())
    # YAML 1.1 reads the key `on` as a boolean.
    assert loaded[True]["schedule"][0]["cron"]
    found: list[dict[str, Any]] = loaded["jobs"]["measure"]["steps"]
    return found


def commands_in(text: str, tool: str = TOOL) -> Iterator[list[str]]:
    """The words after each call of paceline in a script, up to what ends a command."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\|\||;|>>|&&", line):
            if tool in part:
                yield shlex.split(part.partition(tool)[2])


def check(words: list[str]) -> str:
    """Follow the words down to a command, and look each option up; the command's name."""
    command: click.Command = cli
    path: list[str] = []
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(click.Context(command), name)
        assert found is not None, f"paceline has no {' '.join([*path, name])}"
        command, path = found, [*path, name]
    known = {option for parameter in command.params for option in parameter.opts}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"paceline {' '.join(path)} has no {word}"
    return " ".join(path)


def test_the_workflows_commands_exist() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    called = [check(words) for script in scripts for words in commands_in(script)]
    assert called == ["history pull", "nightly", "regressions", "dashboard build", "history push"]
    for step in steps():
        assert ("uses" in step) != ("run" in step), step


def test_what_runs_benchmarks_may_change_nothing() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    assert {name for name, job in jobs.items() if "write" in (job.get("permissions") or {}).values()} == {
        "publish"
    }
    assert [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]] == ["actions/deploy-pages"]
    text = WORKFLOW.read_text()
    assert "hashes were not looked up" in text or not re.search(r"uses: [\w./-]+@v\d", text)


def test_the_workflow_names_files_that_exist() -> None:
    named = set(re.findall(r"benchmarks/[\w./*]+|docs/[\w.-]+\.md", WORKFLOW.read_text()))
    assert "benchmarks/nightly.yaml" in named
    for name in named:
        assert list(REPOSITORY.glob(name)), name
    assert "\nsetup:" in (REPOSITORY / "Makefile").read_text()


def test_the_pages_commands_choose_cases(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/own-performance.md").read_text()
    called = [
        words
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for words in commands_in(block, "paceline ")
    ]
    assert [check(list(words)) for words in called] == ["plan", "nightly", "run", "nightly"]
    (tmp_path / "here.yaml").write_text("sinks: []\n")
    for _, *words in called:
        files = [word for word in words if word.endswith(".yaml")]
        only = [word for option, word in pairwise(words) if option == "--only"]
        configs = tuple(REPOSITORY / name if "/" in name else tmp_path / name for name in files)
        assert prepare(Request(configs=configs, only=tuple(only), session_name="s")).cases


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("nightly", ["nightly", "regressions", "dashboard build"]),
        ("demo", ["nightly", "nightly", "history log", "regressions", "dashboard build"]),
    ],
)
def test_the_targets_commands_exist(target: str, wanted: list[str]) -> None:
    done = subprocess.run(
        ["make", "-n", target, "VENV=.venv"], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [check(words) for words in commands_in(done.stdout)] == wanted

"""The action, the template for GitLab and the workflows of docs/ci.md, run step by step on clones as CIs make them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import fake_github
import fake_gitlab
from fake_github import FakeGitHub
from fake_gitlab import FakeGitLab
from git_commands import git
from workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
TEMPLATE = yaml.safe_load((REPOSITORY / "deploy/gitlab/paceline.gitlab-ci.yml").read_text())
PAGE = (REPOSITORY / "docs/ci.md").read_text()

SCRIPT = """
import os, pathlib, random
from paceline import emit

here = pathlib.Path(__file__).parent
ledger = pathlib.Path(os.environ["DEMO_LEDGER"])
with ledger.open("a") as file:
    print(os.getpid(), file=file)
noise = random.Random(len(ledger.read_text().splitlines())).gauss(1, 0.01)
emit.metrics({"work_s": float((here / "seconds.txt").read_text()) * noise})
"""


def workflow(name: str) -> dict[str, Any]:
    found = re.search(rf'^```yaml title="{re.escape(name)}"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    loaded: dict[str, Any] = yaml.safe_load(found[1])
    return loaded


class Job:
    """A runner: the environment that steps share, and what they leave in it."""

    def __init__(self, place: Path, cwd: Path, environ: Mapping[str, str]) -> None:
        self.cwd = cwd
        (place / "temp").mkdir(exist_ok=True)
        self.outputs = place / "outputs"
        tools = str(Path(sys.executable).parent)
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI_", "GITLAB_"))},
            "PATH": os.pathsep.join([tools, os.environ["PATH"]]),
            "PACELINE_CACHE": str(place / "cache"),
            "DEMO_LEDGER": str(place / "ledger"),
            "RUNNER_TEMP": str(place / "temp"),
            "GITHUB_OUTPUT": str(self.outputs),
            "GITHUB_ACTION_PATH": str(REPOSITORY),
            **environ,
        }

    def sh(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """As GitHub runs a step of bash: the first command that fails ends it."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.cwd,
            env={**self.environ, **env},
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )

    def act(self, given: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """The steps of the action with these inputs, up to the first that fails."""
        inputs = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        assert set(given) <= set(inputs)
        inputs |= given

        def filled(text: str) -> str:
            return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)

        for step in ACTION["runs"]["steps"]:
            if "uses" in step:
                continue
            assert step["shell"] == "bash" and "${{" not in step["run"]
            done = self.sh(step["run"], **{name: filled(text) for name, text in step.get("env", {}).items()})
            if done.returncode:
                return done
        return done


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with a pull request that changes nothing of what is measured, as `refs/pull/7/merge`."""
    origin = tmp_path / "origin"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "origin")
    Workplace(origin).write("bench.py", SCRIPT)
    Workplace(origin).write("paceline.yaml", "entries:\n  - {name: work, script: bench.py}\n")
    Workplace(origin).write("seconds.txt", "2.0")
    commit(origin, "Begin")
    git(origin, "checkout", "--quiet", "-b", "feature")
    Workplace(origin).write("notes.txt", "tidy")
    commit(origin, "Tidy up")
    return origin


def commit(origin: Path, message: str) -> None:
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "-m", message)


def clone(origin: Path, place: Path) -> Path:
    """As actions/checkout does it: one commit, the merge of the pull request, and no branch."""
    git(origin, "checkout", "--quiet", "--detach", "main")
    git(origin, "merge", "--quiet", "--no-ff", "-m", "Merge", "feature")
    git(origin, "update-ref", "refs/pull/7/merge", "HEAD")
    git(origin, "checkout", "--quiet", "feature")
    place.mkdir()
    git(place, "init", "--quiet")
    git(place, "remote", "add", "origin", f"file://{origin}")
    git(place, "fetch", "--quiet", "--depth=1", "origin", "+refs/pull/7/merge:refs/remotes/pull/7/merge")
    git(place, "checkout", "--quiet", "--detach", "refs/remotes/pull/7/merge")
    return place


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        yield server


def in_github(github: FakeGitHub, place: Path) -> dict[str, str]:
    return {**fake_github.environ_of(github, place), "GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "main"}


def test_the_pull_requests_steps(tmp_path: Path, origin: Path, github: FakeGitHub) -> None:
    steps = workflow(".github/workflows/benchmarks.yml")["jobs"]["check"]["steps"]
    [inputs] = [step["with"] for step in steps if "paceline" in step.get("uses", "")]
    inputs = {**inputs, "github-token": fake_github.TOKEN, "metric": "work_s\n"}
    environ = in_github(github, tmp_path)
    first = Job(tmp_path, clone(origin, tmp_path / "first"), environ)
    done = first.act(inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert first.outputs.read_text() == "code=0\n"
    [comment] = github.ours
    assert "✅" in comment["body"]
    # The same pull request, a push later: a loss of a tenth.
    Workplace(origin).write("seconds.txt", "2.2")
    commit(origin, "Walk the long way")
    done = Job(tmp_path, clone(origin, tmp_path / "second"), environ).act(inputs)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error file=paceline.yaml,line=2,title=work got worse::" in done.stdout
    assert ["✅" in one["body"] for one in github.ours] == [True, False]
    assert "## ❌ Benchmarks" in (tmp_path / "summary.md").read_text()
    kept = next(step for step in ACTION["runs"]["steps"] if "uses" in step)["with"]["path"].splitlines()
    for pattern in kept:
        name = pattern.removeprefix("${{ runner.temp }}/").strip()
        assert list((tmp_path / "temp").glob(name)), pattern


def test_what_an_input_holds_is_no_command(tmp_path: Path, origin: Path, github: FakeGitHub) -> None:
    job = Job(tmp_path, clone(origin, tmp_path / "clone"), in_github(github, tmp_path))
    hostile = '"; touch hacked; echo "$(touch hacked)'
    for name in ("suite", "base", "fail-above", "time", "only", "metric", "setup", "install"):
        assert job.act({name: hostile}).returncode == 2
    assert not list(job.cwd.rglob("hacked"))


def test_the_nights_steps(tmp_path: Path, origin: Path) -> None:
    nightly = workflow(".github/workflows/nightly.yml")
    runs = [step["run"] for step in nightly["jobs"]["measure"]["steps"] if "run" in step]
    install, *rest = runs
    assert install.startswith("python -m pip install")
    git(origin, "checkout", "--quiet", "main")
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    environ = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), **nightly["env"]}
    for night in (1, 2):
        job = Job(tmp_path, tmp_path / "clone", environ)
        for script in rest:
            done = job.sh(script)
            assert done.returncode == 0, script + done.stdout + done.stderr
        assert job.outputs.read_text() == "code=0\n" * night
    assert (job.cwd / "site/index.html").exists()
    listed = job.sh("paceline history list --json")
    assert len(json.loads(listed.stdout)) >= 1
    verdict = nightly["jobs"]["verdict"]["steps"][0]["run"]
    assert [job.sh(verdict, CODE=code).returncode for code in ("0", "1")] == [0, 1]


def test_the_merge_requests_scripts(tmp_path: Path, origin: Path) -> None:
    check = TEMPLATE[".paceline-check"]
    git(origin, "checkout", "--quiet", "main")
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    git(tmp_path / "clone", "checkout", "--quiet", "--detach", "origin/feature")
    with FakeGitLab() as gitlab:
        environ = fake_gitlab.environ_of(
            gitlab, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main", CI_PROJECT_DIR="."
        )
        options = f"{check['variables']['PACELINE_CHECK']} --metric work_s"
        job = Job(tmp_path, tmp_path / "clone", {**environ, "PACELINE_CHECK": options})
        for script in (*TEMPLATE[".paceline"]["before_script"], *check["script"]):
            done = job.sh(script)
            assert done.returncode == 0, done.stdout + done.stderr
        [note] = gitlab.ours
        assert note["body"].splitlines()[1].startswith("## ✅ Benchmarks")
    assert (job.cwd / "check.md").exists()
    night = TEMPLATE[".paceline-nightly"]
    job = Job(tmp_path, tmp_path / "clone", night["variables"])
    done = job.sh("\n".join(night["script"]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (job.cwd / "public/index.html").exists() and (job.cwd / "history/benchmark.db").exists()
    assert set(workflow(".gitlab-ci.yml")["benchmarks"]["variables"]) <= set(check["variables"])

"""`paceline ab` from the command line: real runs, real environments, killed and gone on with."""

import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from git_commands import git
from patience import wait_until
from wheels import make_wheel
from workplace import Workplace

SCRIPT = """
import argparse, os, pathlib, time
from paceline import emit
parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path")
parser.add_argument("--cost", type=float, default=1.0)
options = parser.parse_args()
here = pathlib.Path(__file__).parent
with open(here / "ledger", "a") as ledger:
    ledger.write("begin\\n")
count = (here / "ledger").read_text().count("begin")
while count == int(os.environ.get("HANG_AT", "0")) and not (here / "go").exists():
    time.sleep(0.02)
emit.metrics({"work_s": options.cost * (1 + count % 3 / 1000), "docs_per_sec": 100.0 + count % 2 / 100})
with open(here / "ledger", "a") as ledger:
    ledger.write("end\\n")
"""

AB = """
entries:
  - {name: work, script: bench.py}
arms:
  old: {env: {COLOUR: red}}
  new: {args: {work: --cost 1.2}}
metrics: [work_s, docs_per_sec]
budget: {runs: 15}
warmup: 0
"""


def ledger(place: Workplace) -> list[str]:
    path = place.path / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def journal(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]


def found(result: dict[str, Any], metric: str, arm: str) -> dict[str, Any]:
    (one,) = [one for one in result["comparisons"] if (one["metric"], one["arm"]) == (metric, arm)]
    return dict(one)


@pytest.fixture
def ab_place(place: Workplace) -> Workplace:
    place.write("bench.py", SCRIPT)
    place.write("ab.yaml", AB)
    return place


def test_says_what_differs_and_what_does_not(ab_place: Workplace) -> None:
    done = ab_place.run("ab", "ab.yaml", "--out", "out", "--json", "--db", "history.db")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert found(result, "work_s", "new")["verdict"] == "worse"
    assert found(result, "work_s", "new")["low"] <= 1.2 <= found(result, "work_s", "new")["high"]
    assert found(result, "docs_per_sec", "new")["verdict"] == "same"
    assert found(result, "work_s", "null")["verdict"] == "same"
    assert result["ended"] == "every metric is decided"
    assert result["runs"] == 12 == ledger(ab_place).count("end")
    assert {name: arm["runs"] for name, arm in result["arms"].items()} == {"old": 4, "new": 4, "null": 4}
    out = ab_place.path / "out"
    assert json.loads((out / "ab.json").read_text()) == result
    assert "work" in (out / "ab.md").read_text()
    assert "<svg" in (out / "ab.html").read_text()
    with sqlite3.connect(ab_place.path / "history.db") as database:
        kinds = database.execute("SELECT kind, count(*) FROM session GROUP BY kind").fetchall()
        variants = database.execute("SELECT variant FROM \"case\" WHERE kind = 'entry' ORDER BY 1").fetchall()
    assert kinds == [("ab", 12)]
    assert variants == [("new",), ("null",), ("old",)]
    record = json.loads((out / "trials" / "new-0001" / "work" / "record.json").read_text())
    assert record["details"]["arm"] == "new"
    assert record["details"]["block"] == 0
    # Each block has a hash seed of its own, the same for all its arms.
    records = [json.loads(path.read_text()) for path in out.glob("trials/*/work/record.json")]
    seeds = {(one["details"]["block"], one["details"]["hash_seed"]) for one in records}
    assert len(seeds) == len({seed for _, seed in seeds}) == 4


def test_killed_it_goes_on_and_neither_loses_nor_repeats_a_run(ab_place: Workplace) -> None:
    os.environ.pop("HANG_AT", None)
    command = ab_place.command("ab", "ab.yaml", "--json")
    process = subprocess.Popen(
        command,
        cwd=ab_place.path,
        env={**os.environ, "HANG_AT": "6"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: ledger(ab_place).count("begin") >= 6, by=process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (out,) = (ab_place.path / "results").glob("ab-ab-*")
    before = {path: path.read_bytes() for path in out.glob("trials/*/*/record.json")}
    assert len(before) == 5 == ledger(ab_place).count("end")

    done = ab_place.run("ab", "ab.yaml", "--json")
    assert done.returncode == 1, done.stderr
    assert "goes on with" in done.stderr
    result = json.loads(done.stdout)
    assert list((ab_place.path / "results").glob("ab-ab-*")) == [out]
    assert {path: path.read_bytes() for path in before} == before
    trials = [(line["arm"], line["block"]) for line in journal(out) if line["kind"] == "trial"]
    assert len(trials) == len(set(trials)) == result["runs"] == 12
    assert ledger(ab_place).count("end") == 12
    assert ledger(ab_place).count("begin") == 13  # the run that was killed had to begin again

    # Killed between the end of a run and the line that tells of it: the run's own files are enough.
    lines = (out / "journal.jsonl").read_text().splitlines(keepends=True)
    assert '"kind":"end"' in lines[-1]
    (out / "journal.jsonl").write_text("".join(lines[:-2]))
    again = json.loads(ab_place.run("ab", "ab.yaml", "--json", "--out", out).stdout)
    assert again["comparisons"] == result["comparisons"]
    assert ledger(ab_place).count("begin") == 13

    changed = ab_place.run("ab", "ab.yaml", "--out", out, "--seed", "8")
    assert changed.returncode == 2
    assert "holds another A/B test" in changed.stderr


def test_packages_of_the_arms(ab_place: Workplace) -> None:
    for version, value in (("1.0", 1.0), ("2.0", 0.5)):
        make_wheel(ab_place.path, "tinypkg", version, f"COST = {value}\n")
    ab_place.write(
        "bench.py", "import tinypkg\nfrom paceline import emit\nemit.metrics({'work_s': tinypkg.COST})\n"
    )
    ab_place.write(
        "suite.yaml",
        "entries:\n  - {name: script, script: bench.py}\n"
        "  - {name: program, command: 'python {config_dir}/bench.py'}\n",
    )
    ab_place.write(
        "ab.yaml",
        "config: suite.yaml\nmetrics: work_s\nnull_arm: false\nbudget: {runs: 8}\narms:\n"
        "  v1: {packages: [./tinypkg-1.0-py3-none-any.whl]}\n"
        "  v2: {packages: [./tinypkg-2.0-py3-none-any.whl]}\n",
    )
    cache = str(ab_place.path / "cache")
    shown = ab_place.run("ab", "ab.yaml", "--dry-run", PACELINE_CACHE=cache)
    assert shown.returncode == 0, shown.stderr
    assert "arm v2: packages ./tinypkg-2.0" in shown.stdout
    assert not (ab_place.path / "cache" / "venvs").exists()
    done = ab_place.run("ab", "ab.yaml", "--json", PACELINE_CACHE=cache)
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert {(one["case"], one["verdict"], one["ratio"]) for one in result["comparisons"]} == {
        ("script", "better", 0.5),
        ("program", "better", 0.5),
    }
    assert any("2.0" in package for package in result["arms"]["v2"]["installed"])


def test_revisions_as_arms(ab_place: Workplace) -> None:
    repo = ab_place.path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    for cost in (1.0, 1.5):
        (repo / "cost.txt").write_text(str(cost))
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", str(cost))
    ab_place.write(
        "bench.py",
        "import os, pathlib\nfrom paceline import emit\n"
        "assert os.environ['PACELINE_REPO'] == os.getcwd()\n"
        "emit.metrics({'work_s': float(pathlib.Path('cost.txt').read_text())})\n",
    )
    ab_place.write(
        "ab.yaml",
        "entries: [{name: work, script: bench.py}]\nmetrics: [work_s]\nbudget: {runs: 12}\narms:\n"
        "  before: {git: {repo: repo, ref: main~1}}\n  after: {git: {repo: repo, ref: main}}\n",
    )
    done = ab_place.run("ab", "ab.yaml", "--json", PACELINE_CACHE=str(ab_place.path / "cache"))
    result = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert found(result, "work_s", "after")["ratio"] == pytest.approx(1.5)
    assert len(result["arms"]["after"]["revision"]) == 40


def test_an_arm_that_is_decided_leaves_the_others(ab_place: Workplace) -> None:
    ab_place.write(
        "bench.py",
        "import os\nfrom paceline import emit\n"
        "sign = 1 if int(os.environ['PACELINE_SESSION'][-1]) % 2 else -1\n"
        "emit.metrics({'work_s': float(os.environ['COST']) * float(os.environ['NOISE']) ** sign})\n",
    )
    ab_place.write(
        "ab.yaml",
        "entries: [{name: work, script: bench.py}]\nmetrics: [work_s]\nbudget: {runs: 21}\nnull_arm: false\n"
        "arms:\n  old: {env: {COST: 1, NOISE: 1}}\n  far: {env: {COST: 3, NOISE: 1.001}}\n"
        "  near: {env: {COST: 1, NOISE: 3}}\nwarmup: 0\n",
    )
    result = json.loads(ab_place.run("ab", "ab.yaml", "--json").stdout)
    runs = {name: arm["runs"] for name, arm in result["arms"].items()}
    assert found(result, "work_s", "far")["verdict"] == "worse"
    assert runs["far"] == 4
    assert runs["old"] == runs["near"] == 8
    assert result["runs"] == 20


def test_ctrl_c_ends_it_and_the_same_command_goes_on(ab_place: Workplace) -> None:
    process = subprocess.Popen(
        ab_place.command("ab", "ab.yaml", "--runs", "3"),
        cwd=ab_place.path,
        env={**os.environ, "HANG_AT": "2"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: ledger(ab_place).count("begin") >= 2, by=process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    done = ab_place.run("ab", "ab.yaml", "--runs", "3", "--json")
    assert json.loads(done.stdout)["runs"] == 3
    assert ledger(ab_place).count("end") == 3


def test_a_failing_arm_is_given_up_and_told(ab_place: Workplace) -> None:
    ab_place.write("ab.yaml", AB.replace("--cost 1.2", "--cost lots"))
    done = ab_place.run("ab", "ab.yaml", "--json", "--out", "out")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["runs"] == 6
    (missing,) = result["missing"]
    assert (missing["case"], missing["arm"]) == ("work", "new")
    assert "2 of 2 runs failed" in missing["why"]


def test_arms_may_bring_configuration(ab_place: Workplace) -> None:
    ab_place.write(
        "bench.py",
        "import os, pathlib\nfrom paceline import emit\n"
        "dask = pathlib.Path(os.environ.get('DASK_CONFIG', os.devnull)).read_text()\n"
        "emit.params({'colour': os.environ.get('COLOUR'), 'size': os.environ['SIZE'], 'dask': dask})\n"
        "emit.metrics({'work_s': 1.0})\n",
    )
    ab_place.write("blue.yaml", "env: {COLOUR: blue}\n")
    ab_place.write(
        "ab.yaml",
        "entries:\n  - {name: work, script: bench.py, env: {SIZE: '{matrix.size}'}, matrix: {size: [1]}}\n"
        "arms:\n  plain: {}\n  blue: {config: [blue.yaml], dask: {distributed: {x: 1}}, params: {size: 2}}\n"
        "null_arm: false\nbudget: {time: 1s}\n",
    )
    done = ab_place.run(
        "ab", "ab.yaml", "--json", "--out", "out", PACELINE_CACHE=str(ab_place.path / "cache")
    )
    result = json.loads(done.stdout)
    assert result["ended"] == "the budget of 1 s is spent"
    trials = ab_place.path / "out" / "trials"
    (plain,) = trials.glob("plain-0001/work*/record.json")
    (blue,) = trials.glob("blue-0001/work*/record.json")
    assert json.loads(plain.read_text())["params"] == {"colour": None, "size": "1", "dask": ""}
    params = json.loads(blue.read_text())["params"]
    assert (params["colour"], params["size"]) == ("blue", "2")
    assert json.loads(params["dask"]) == {"distributed": {"x": 1}}


def test_a_secret_of_an_arm_stays_one(ab_place: Workplace) -> None:
    ab_place.write("ab.yaml", AB.replace("COLOUR: red", "API_TOKEN: kept-quiet-42"))
    done = ab_place.run("ab", "ab.yaml", "--out", "out", "--runs", "3")
    assert done.returncode == 2, done.stderr  # A single block compares nothing.
    texts = [path.read_bytes() for path in (ab_place.path / "out").rglob("*") if path.is_file()]
    assert texts
    assert not any(b"kept-quiet-42" in text for text in texts)
    assert "kept-quiet-42" not in done.stdout + done.stderr


def test_mistakes_end_with_2(ab_place: Workplace) -> None:
    for words, said in (
        (("ab.yaml", "--resume"), "no A/B test to go on with"),
        (("nowhere.yaml",), "does not exist"),
        (("ab.yaml", "--time", "soon"), "'soon' is no time"),
        (("bench.py",), "bench.py"),
    ):
        done = ab_place.run("ab", *words)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    ab_place.write("ab.yaml", AB.replace("--cost 1.2", "--cost 1.2}, params: {size: 3"))
    done = ab_place.run("ab", "ab.yaml")
    assert done.returncode == 2
    assert "no selected entry has a parameter 'size'" in done.stderr


def test_a_case_that_an_arm_lacks_fails_unless_that_is_allowed(ab_place: Workplace) -> None:
    ab_place.write("less.yaml", "entries:\n  - {name: more, enabled: false}\n")
    two = AB.replace("entries:\n", "entries:\n  - {name: more, script: bench.py}\n")
    ab_place.write("ab.yaml", two.replace("new: {args: {work: --cost 1.2}}", "new: {config: [less.yaml]}"))
    done = ab_place.run("ab", "ab.yaml", "--out", "out", "--json")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert [(one["case"], one["arm"]) for one in result["missing"]] == [("more", "new")]
    assert {one["case"] for one in result["comparisons"]} == {"work"}
    done = ab_place.run("ab", "ab.yaml", "--out", "out", "--allow-missing")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("runs: 15", "runs: 3"), "have no two blocks in common"),
        (("script: bench.py", "command: 'false'"), "have no case in common that passed"),
    ],
)
def test_nothing_compared_is_said_in_a_line_and_ends_with_2(
    ab_place: Workplace, change: tuple[str, str], why: str
) -> None:
    ab_place.write("ab.yaml", AB.replace(*change).replace("new: {args: {work: --cost 1.2}}", "new: {}"))
    done = ab_place.run("ab", "ab.yaml", "--quiet")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"nothing was compared: old and new {why}" in done.stdout


def test_a_selection_that_matches_nothing_is_a_mistake(ab_place: Workplace) -> None:
    ab_place.write("ab.yaml", f"{AB}only: [nowhere]\n")
    done = ab_place.run("ab", "ab.yaml")
    assert (done.returncode, ledger(ab_place)) == (2, [])
    assert "nowhere" in done.stderr

"""Sessions kept in an object store: run, listed, shown, cut short, gone on with elsewhere; against a real S3 server."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from object_store import ObjectStore as Server
from object_store import archive_files, s3, s3_server
from paceline.cli import cli
from paceline.errors import PacelineError
from paceline.record.remote.object_store import ObjectStore
from patience import wait_until
from workplace import Workplace

__all__ = ["s3", "s3_server"]

SUITE = """
results_dir: s3://bench/nightly
entries:
  - {name: a, script: count.py, args: --value 3}
  - {name: b, script: count.py, matrix: {n: [1]}, repeat: 2}
  - {name: bad, script: count.py, args: --exit 3}
"""
# The middle one waits until a file appears: the test decides when it goes on.
HELD = """
results_dir: s3://bench/nightly
entries:
  - {name: a, script: count.py}
  - {name: b, command: [sh, -c, 'echo b >> $LEDGER; until [ -e go ]; do sleep 0.05; done']}
  - {name: c, script: count.py}
"""


@pytest.fixture
def suite(suite: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("PACELINE_WORK_DIR", str(suite.path / "work"))
    monkeypatch.setenv("NO_COLOR", "1")
    suite.write("suite.yaml", SUITE)
    return suite


def ran(place: Workplace) -> list[str]:
    ledger = place.path / "ledger"
    return ledger.read_text().splitlines() if ledger.exists() else []


def forget(place: Workplace) -> None:
    """What another machine has of the session: nothing."""
    shutil.rmtree(place.path / "work")


def stored(session: str = "s") -> ObjectStore:
    return ObjectStore(f"s3://bench/nightly/{session}")


def stored_json(name: str, session: str = "s") -> Any:
    return json.loads(stored(session).read(name) or b"null")


def archived(entry: str, session: str = "s") -> dict[str, bytes]:
    return archive_files(stored(session).read(f"{entry}/files.tar.gz"))


@dataclass(frozen=True)
class Look:
    """`list` and `show` in this process: a client for S3 takes a second to load, and here it is loaded."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> str:
        self.capsys.readouterr()
        cli.main([*words], prog_name="paceline", standalone_mode=False)
        return self.capsys.readouterr().out


@pytest.fixture
def look(suite: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Look:
    monkeypatch.chdir(suite.path)
    return Look(capsys)


def test_a_session_is_listed_shown_and_gone_on_with_from_there(suite: Workplace, look: Look, s3: str) -> None:
    done = suite.run("run", "suite.yaml", "--session-name", "s")
    assert done.returncode == 1 and "Results in s3://bench/nightly/s\n" in done.stdout, done.stderr
    assert not (suite.path / "results").exists()
    forget(suite)

    listed = look("list", "--results-dir", "s3://bench/nightly")
    assert listed.splitlines()[1].split()[0] == "s" and "2 passed, 1 failed" in listed
    for words in (
        ["s3://bench/nightly/s"],
        ["s3://bench/nightly"],
        ["s", "--results-dir", "s3://bench/nightly/"],
    ):
        shown = look("show", *words)
        assert "2 passed, 1 failed of 3 cases\n" in shown and "Results in s3://bench/nightly/s\n" in shown
    assert json.loads(look("show", "s3://bench/nightly/s", "--json")) == stored_json("report.json")
    assert not (suite.path / "work").exists()  # Looking at sessions leaves nothing behind.

    before = ran(suite)
    again = suite.run("run", "--no-history", "suite.yaml", "--resume", "s3://bench/nightly/s")
    assert again.returncode == 1 and "Keeping 3 of 3 cases" in again.stdout and ran(suite) == before
    forget(suite)
    failed = suite.run("run", "--no-history", "suite.yaml", "--rerun-failed")
    assert failed.returncode == 1 and ran(suite) == [*before, "bad"]

    assert stored_json("bad/record.json")["attempt"] == 2
    assert json.loads(archived("bad")["attempts/attempt-1/record.json"])["attempt"] == 1
    case = look("show", "s3://bench/nightly/s", "bad")
    assert "exit code 3" in case and "score" in case and "attempt" in case
    record = json.loads(look("show", "s3://bench/nightly/s", "b[n=1]", "--json"))
    assert record == stored_json("b[n=1]/record.json") and len(record["metrics"]["score"]["samples"]) == 2
    with pytest.raises(PacelineError, match="'nope' is not in session s"):
        look("show", "s3://bench/nightly/s", "nope")


def test_one_session_that_cannot_be_read_does_not_hide_the_others(
    suite: Workplace, look: Look, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", "--only", "a")
    assert done.returncode == 0, done.stderr
    results = ObjectStore("s3://bench/nightly")
    results.write(".sessions/newer.json", b'{"schema": 999, "session": "newer"}')
    results.write("poisoned/plan.json", b'{"cases": []}')  # Without a summary, as older versions left them.
    find = ObjectStore.find

    def find_more(self: ObjectStore, below: str = "") -> dict[str, dict[str, Any]]:
        return {**find(self, below), **({"poisoned/../x": {"size": 1}} if below == "poisoned" else {})}

    monkeypatch.setattr(ObjectStore, "find", find_more)
    listed = look("list", "--results-dir", "s3://bench/nightly")
    rows = {line.split()[0]: line for line in listed.splitlines()}
    assert "1 passed" in rows["s"] and "newer paceline" in rows["newer"]
    assert "'../x', which is refused" in rows["poisoned"]


def test_what_is_in_the_store(suite: Workplace, s3: str) -> None:
    suite.write(
        "suite.yaml",
        "entries:\n  - {name: a, command: [sh, -c, 'ln -s /etc x; echo big > {scratch_dir}/big'], "
        "cwd: '{session_entry_dir}', delete_scratch: false}\n",
    )
    done = suite.run(
        "run", "--no-history", "suite.yaml", "--session-name", "s", "--results-dir", "s3://bench/nightly/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(stored().find())
    assert {"config.yaml", "plan.json", "environment.json", "packages.txt", "events.jsonl"} <= names
    assert {"report.json", "report.md", "junit.xml"} <= names
    assert {name for name in names if "/" in name} == {"a/record.json", "a/files.tar.gz"}
    assert not any(name.startswith(".") for name in names)
    files = archived("a")
    assert {"record.json", "logs/stdout.log", "artifacts/pip-freeze.txt"} <= set(files)
    assert not any(name.startswith(("scratch", "x")) for name in files)
    assert len(list((suite.path / "work").glob("*/s/a/scratch/big"))) == 1
    events = [json.loads(line)["event"] for line in (stored().read("events.jsonl") or b"").splitlines()]
    assert events[0] == "session_started" and events[-1] == "session_finished"
    secret = os.environ["AWS_SECRET_ACCESS_KEY"].encode()
    assert not any(secret in (stored().read(name) or b"") for name in names)
    assert not any(secret in data for data in files.values())
    local = [path for path in (suite.path / "work").rglob("*") if path.is_file()]
    assert local and not any(secret in path.read_bytes() for path in local)


def test_killed_in_the_middle_and_gone_on_with_from_an_empty_cache(
    suite: Workplace, look: Look, s3: str
) -> None:
    suite.write("suite.yaml", HELD)
    first = suite.start("run", "--no-history", "suite.yaml", "--session-name", "s")
    wait_until(lambda: ran(suite) == ["a", "b"] and stored().read("a/record.json"), by=first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert stored().read("b/record.json") is None and stored().read(".lock") is not None
    forget(suite)
    (suite.path / "go").touch()

    assert "1 passed, 2 not run of 3 cases" in look("show", "s3://bench/nightly/s")
    (row,) = json.loads(look("list", "--results-dir", "s3://bench/nightly", "--json"))
    assert (row["session"], row["ok"]) == ("s", None) and row["unfinished"] in (
        2,
        3,
    )  # As of the last heartbeat.
    done = suite.run("run", "--no-history", "suite.yaml", "--resume")
    assert done.returncode == 0 and "Keeping 1 of 3 cases" in done.stdout, done.stdout + done.stderr
    assert ran(suite) == ["a", "b", "b", "c"]
    report = stored_json("report.json")
    assert [(r["case"]["name"], r["status"]) for r in report["records"]] == [
        (name, "passed") for name in "abc"
    ]
    assert report["ok"] and stored().read(".lock") is None


@pytest.mark.parametrize("count", [1, 2, 3, 6, 11])
def test_killed_after_so_many_requests_for_its_cases(suite: Workplace, s3_server: Server, count: int) -> None:
    """What the store has of a case is whole, and does not run again on a machine that has nothing."""
    names = [f"case-{number}" for number in range(8)]
    entries = "".join(f"  - {{name: {name}, script: count.py}}\n" for name in names)
    suite.write("suite.yaml", f"results_dir: s3://bench/nightly\nentries:\n{entries}")
    asked: list[str] = []
    s3_server.requests()
    first = suite.start("run", "--no-history", "suite.yaml", "--session-name", "s")
    wait_until(
        lambda: (
            asked.extend(s3_server.requests()) or sum("/s/case-" in request for request in asked) >= count
        ),
        by=first,
    )
    first.send_signal(signal.SIGKILL)
    first.wait()
    before, there = None, stored().find()
    while before != there:  # The server may be busy with its last request.
        before, there = there, stored().find()
    archives = {name.partition("/")[0] for name in there if name.endswith("files.tar.gz")}
    assert archives >= {name.partition("/")[0] for name in there if name.endswith("record.json")}
    for name in archives:
        assert {"record.json", "logs/stdouterr.log", "benchmark_results/metrics.json"} <= set(archived(name))
    ran_before = Counter(ran(suite))
    forget(suite)
    done = suite.run("run", "--no-history", "suite.yaml", "--resume", "s")
    # A request that had only begun when the runner was killed left nothing.
    said = f"Keeping {len(archives)} of 8 cases" in done.stdout
    assert done.returncode == 0 and said == bool(archives), done.stdout + done.stderr
    assert Counter(ran(suite)) - ran_before == Counter(name for name in names if name not in archives)
    report = stored_json("report.json")
    assert report["ok"] and [record["case"]["name"] for record in report["records"]] == names


def test_a_store_that_goes_down_costs_no_case(
    suite: Workplace, s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "1")
    suite.write("suite.yaml", HELD)
    first = subprocess.Popen(
        suite.command("run", "--no-history", "suite.yaml", "--session-name", "s"),
        cwd=suite.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: ran(suite) == ["a", "b"] and stored().read("a/record.json"))
    s3_server.take_down()
    (suite.path / "go").touch()
    output = first.communicate(timeout=120)[0]
    assert first.returncode == 1 and ran(suite) == ["a", "b", "c"]
    said = [line for line in output.splitlines() if line.startswith("Unfinished: ")]
    assert len(said) == 1 and "2 cases could not be sent to s3://bench/nightly/s" in said[0]
    assert "--resume s sends the rest" in said[0] and "3 passed of 3 cases" in output

    s3_server.bring_up()
    assert stored().read("c/record.json") is None
    again = suite.run("run", "--no-history", "suite.yaml", "--resume", "s")
    assert again.returncode == 0 and ran(suite) == ["a", "b", "c"], again.stdout + again.stderr
    assert [stored_json(f"{name}/record.json")["status"] for name in "abc"] == ["passed"] * 3
    assert stored_json("report.json")["ok"] is True


def test_a_store_that_is_down_at_the_start_is_one_line(
    suite: Workplace, look: Look, s3_server: Server
) -> None:
    s3_server.take_down()
    done = suite.run("run", "--no-history", "suite.yaml")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "s3://bench" in done.stderr
    for words in (["list", "--results-dir", "s3://bench"], ["show", "s3://bench/n/s"]):
        with pytest.raises(PacelineError, match=r"^s3://bench[^\n]*$"):
            look(*words)
    assert ran(suite) == [] and suite.run("plan", "suite.yaml").returncode == 0


def test_two_runners_do_not_share_a_session(suite: Workplace, s3: str) -> None:
    suite.write("suite.yaml", HELD)
    first = suite.start("run", "--no-history", "suite.yaml", "--session-name", "s")
    wait_until(lambda: ran(suite) == ["a", "b"], by=first)
    elsewhere = {"PACELINE_WORK_DIR": str(suite.path / "elsewhere")}
    second = suite.run("run", "--no-history", "suite.yaml", "--resume", "s", **elsewhere)
    assert second.returncode == 2 and len(second.stderr.splitlines()) == 1
    assert f"is being run by process {first.pid} on" in second.stderr
    (suite.path / "go").touch()
    assert first.wait(120) == 0 and ran(suite) == ["a", "b", "c"]


def test_the_page_about_it_is_true(suite: Workplace, look: Look, s3: str) -> None:
    page = (
        (Path(__file__).parents[2] / "docs/layout.md")
        .read_text()
        .partition("## Results in an object store")[2]
    )
    config, commands = re.findall(r"```(?:yaml|sh)\n(.*?)```", page, re.DOTALL)[:2]
    suite.write("paceline.yaml", config.replace("sort.py", "count.py"))
    for command in commands.splitlines():
        words = shlex.split(command)[1:]
        if words[0] == "run":
            done = suite.run(*words)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        else:
            assert "1 passed" in look(*words)
    assert ran(suite) == ["sort"] and "sort/record.json" in stored("monday").find()


def test_interrupted_sessions_are_sent_too(suite: Workplace, s3: str) -> None:
    suite.write("suite.yaml", HELD)
    first = suite.start("run", "--no-history", "suite.yaml", "--session-name", "s")
    wait_until(lambda: ran(suite) == ["a", "b"], by=first)
    first.send_signal(signal.SIGTERM)
    assert first.wait(120) == 130
    assert stored_json("b/record.json")["status"] == "interrupted" and stored().read(".lock") is None


def test_plan_has_no_side_effect(suite: Workplace, s3: str) -> None:
    planned = suite.run("plan", "suite.yaml", "--session-name", "s")
    assert planned.returncode == 0 and "Session s in s3://bench/nightly/s\n" in planned.stdout
    assert ObjectStore("s3://bench").find() == {} and not (suite.path / "work").exists()


def test_a_missing_extra_is_one_line(suite: Workplace) -> None:
    suite.write("blocked/sitecustomize.py", "import sys\nsys.modules['s3fs'] = None\n")
    done = suite.run("run", "--no-history", "suite.yaml", PYTHONPATH=str(suite.path / "blocked"))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith("needs the s3 extra: pip install 'paceline[s3]'\n")


def test_a_file_url_is_a_directory(suite: Workplace) -> None:
    results = suite.path / "my results"
    url = f"file://{suite.path}/my%20results"
    assert (
        suite.run(
            "run", "--no-history", "suite.yaml", "--results-dir", url, "--only", "a", "--session-name", "s"
        ).returncode
        == 0
    )
    assert (results / "s/a/record.json").is_file() and not (suite.path / "work").exists()
    assert "1 passed" in suite.run("list", "--results-dir", url).stdout


@pytest.mark.parametrize("key", ["results_dir", "artifacts_dir"])
def test_addresses_that_are_refused(suite: Workplace, key: str) -> None:
    suite.write("suite.yaml", f"{key}: ftp://me:hidden@host/x\nentries: [{{name: a, script: count.py}}]\n")
    done = suite.run("plan", "suite.yaml")
    assert done.returncode == 2 and "hidden" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_artifacts_cannot_be_kept_in_a_store(suite: Workplace) -> None:
    suite.write("suite.yaml", "artifacts_dir: s3://bench/x\nentries: [{name: a, script: count.py}]\n")
    done = suite.run("plan", "suite.yaml")
    assert (
        done.returncode == 2 and "suite.yaml:1: artifacts_dir: s3://bench/x is not a directory" in done.stderr
    )


def test_artifacts_on_a_disk_of_their_own_are_sent(suite: Workplace, s3: str) -> None:
    suite.write("suite.yaml", "artifacts_dir: large\nentries: [{name: a, command: [echo, hello]}]\n")
    done = suite.run(
        "run", "--no-history", "suite.yaml", "--session-name", "s", "--results-dir", "s3://bench/nightly"
    )
    assert done.returncode == 0 and (suite.path / "large/s/a/logs/stdout.log").is_file()
    assert archived("a")["logs/stdout.log"] == b"hello\n"


@pytest.mark.parametrize(
    "damage", [{"counts": "none"}, {"unfinished": "x"}, {"started_at": None, "counts": []}]
)
def test_a_summary_that_holds_what_no_session_has_is_said(
    look: Look, s3: str, damage: dict[str, Any]
) -> None:
    whole = {
        "schema": 1,
        "session": "s",
        "counts": {"passed": 1},
        "unfinished": 0,
        "state": "finished",
        "ok": True,
    }
    summary = {**whole, "started_at": "2026-01-01T00:00:00.000Z", **damage}
    ObjectStore("s3://bench/nightly").write(".sessions/s.json", json.dumps(summary).encode())
    assert "they are damaged" in look("list", "--results-dir", "s3://bench/nightly")

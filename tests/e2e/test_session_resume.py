"""Sessions that go on where an earlier run of them ended."""

import json

import pytest

from patience import wait_until
from workplace import Workplace


def test_resume_runs_only_what_is_new_changed_or_failed_on_request(suite: Workplace) -> None:
    text = "entries:\n  - {name: a, script: count.py}\n  - {name: b, script: count.py, args: --exit 1}\n"
    suite.write("suite.yaml", text)
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 2
    assert suite.run("run", "--no-history", "suite.yaml", "--resume").returncode == 1
    assert suite.ran() == ["a", "b"]
    assert suite.run("run", "--no-history", "suite.yaml", "--resume", "s", "--rerun-failed").returncode == 1
    assert suite.ran() == ["a", "b", "b"]
    assert suite.record("s", "b")["attempt"] == 2
    assert (suite.path / "results/s/b/attempts/attempt-1/record.json").is_file()
    suite.write("suite.yaml", text.replace("--exit 1", "--exit 0"))
    assert (
        suite.run("run", "--no-history", "suite.yaml", "--resume", str(suite.path / "results/s")).returncode
        == 0
    )
    assert suite.ran() == ["a", "b", "b", "b"]
    suite.write("scripts/count.py", (suite.path / "scripts/count.py").read_text() + "# changed\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--resume").returncode == 0
    assert suite.ran() == ["a", "b", "b", "b", "a", "b"]


def test_two_runners_cannot_share_a_session(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, command: [sleep, '60']}\n")
    first = suite.start("run", "--no-history", "suite.yaml", "--session-name", "s")
    try:
        log = suite.path / "results/s/a/logs/stdout.log"
        wait_until(log.exists, by=first)
        second = suite.run("run", "--no-history", "suite.yaml", "--resume", "s")
        assert second.returncode == 2 and "being run by" in second.stderr
    finally:
        first.send_signal(15)
        assert first.wait(120) == 130


def test_a_setup_and_an_entry_of_one_name_are_not_confused_on_resume(suite: Workplace) -> None:
    suite.write("data_prep/setup.sh", "test -e ready\n")
    suite.write(
        "suite.yaml",
        "data_setups: [{name: same, script: data_prep/setup.sh, interpreter: sh}]\n"
        "entries: [{name: same, script: count.py}]\n",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    (suite.path / "ready").touch()
    assert (
        suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", "--rerun-failed").returncode
        == 0
    )
    assert suite.record("s", "same")["status"] == "passed" and suite.ran() == ["same"]


def test_resuming_a_part_leaves_the_rest_in_the_report(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, script: count.py}\n  - {name: b, script: count.py}\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 0
    done = suite.run("run", "--no-history", "suite.yaml", "--resume", "s", "--only", "b", "--json")
    assert {record["case"]["name"] for record in json.loads(done.stdout)["records"]} == {"a", "b"}
    plan = json.loads((suite.path / "results/s/plan.json").read_text())
    assert [case["name"] for case in plan["cases"]] == ["a", "b"]


def test_metrics_of_an_earlier_run_do_not_count(suite: Workplace) -> None:
    suite.write("fixed/metrics.json", '{"score": 42}')
    suite.write("scripts/silent.py", "print('done')\n")
    fixed = suite.path / "fixed"
    suite.write(
        "suite.yaml",
        f"entries:\n  - {{name: a, script: silent.py, args: [--benchmark-results-path, {fixed}]}}\n",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    record = suite.record("s", "a")
    assert record["status"] == "failed" and "not from this run" in record["reason"]


def test_resume_by_a_relative_path(suite: Workplace) -> None:
    suite.write("suite.yaml", f"results_dir: {suite.path}\nentries: [{{name: a, script: count.py}}]\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 0
    assert suite.run("run", "--no-history", "suite.yaml", "--resume", "./s").returncode == 0
    assert suite.ran() == ["a"]


def test_needed_results_are_found_in_one_place_however_often_the_case_ran(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        "entries:\n  - {name: p, script: count.py, repeat: 2}\n"
        "  - {name: c, needs: [p], command: [cat, '{needs:p}/benchmark_results/metrics.json']}\n",
    )
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("made", [(), (".lock",)])
def test_a_session_whose_runner_was_killed_while_it_made_it_is_resumed(
    suite: Workplace, made: tuple[str, ...]
) -> None:
    suite.write("suite.yaml", "entries: [{name: a, command: [/bin/true]}]\n")
    directory = suite.path / "results" / "s"
    directory.mkdir(parents=True)
    for name in made:
        (directory / name).touch()
    done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    assert done.returncode == 2 and "go on with it by --resume" in done.stderr
    done = suite.run("run", "suite.yaml", "--resume", "s", "--no-history")
    assert done.returncode == 0, done.stdout + done.stderr
    assert suite.record("s", "a")["status"] == "passed"


def test_a_directory_of_something_else_is_not_resumed(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries: [{name: a, command: [/bin/true]}]\n")
    suite.write("results/s/notes.txt", "mine")
    done = suite.run("run", "suite.yaml", "--resume", "s", "--no-history")
    assert done.returncode == 2 and "no session at" in done.stderr

"""Whole sessions through the command line: what runs, what is written, how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workplace import Workplace


def test_everything_the_layout_promises_is_there(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, script: count.py, args: --value 3}\n")
    done = suite.run("run", "suite.yaml", "--session-name", "s")
    assert done.returncode == 0, done.stderr
    session = suite.path / "results/s"
    names = {path.name for path in session.iterdir()}
    assert {"config.yaml", "plan.json", "environment.json", "packages.txt", "events.jsonl"} <= names
    assert {"report.json", "report.md", "junit.xml", "a"} <= names
    inside = {str(path.relative_to(session / "a")) for path in (session / "a").rglob("*")}
    assert {"record.json", "results.jsonl", "stdouterr.log", "logs/stdout.log", "logs/stderr.log"} <= inside
    assert {
        "artifacts/pip-freeze.txt",
        "benchmark_results/params.json",
        "benchmark_results/metrics.json",
    } <= inside
    assert "benchmark_results/tasks.pkl" in inside
    assert "scratch" not in inside
    record = suite.record("s", "a")
    assert record["metrics"]["score"]["value"] == 3
    assert record["metrics"]["task_work_process_time_sum"]["direction"] == "lower"
    assert record["metrics"]["exec_time_s"]["unit"] == "s"
    assert record["params"]["value"] == 3
    assert record["environment"] and record["returncode"] == 0
    line = json.loads((session / "a/results.jsonl").read_text())
    assert {"name", "success", "exec_time_s", "timeout", "script_params", "script_metrics", "tasks"} <= set(
        line
    )
    assert {"command", "returncode", "stdouterr_file"} <= set(line)
    assert line["success"] is True and line["tasks"] and Path(line["stdouterr_file"]).exists()


def test_suite_and_script_say_what_metrics_mean(suite: Workplace) -> None:
    suite.write(
        "scripts/say.py",
        "from paceline import emit\n"
        "emit.metrics({'score': 3, 'leftover': 2, 'frobs': 1, 'seed': 7})\n"
        "emit.metric('gain', 1, unit='points', direction='higher')\n",
    )
    suite.write(
        "suite.yaml",
        "metrics: {score: {direction: higher, label: the score}, seed: {unit: '#'}}\n"
        "entries:\n"
        "  - name: a\n    script: say.py\n"
        "    metrics: {leftover: {direction: lower, unit: docs}, score: {direction: lower}}\n"
        "  - {name: b, script: say.py}\n",
    )
    done = suite.run("run", "suite.yaml", "--session-name", "s")
    assert done.returncode == 0, done.stderr
    printed = done.stdout + done.stderr
    assert (
        printed.count("nobody says which way is better for frobs, leftover, so no change of it is judged")
        == 1
    )
    assert "the score" in printed
    a, b = (suite.record("s", name)["metrics"] for name in ("a", "b"))
    directions = {name: a[name]["direction"] for name in ("score", "leftover", "gain", "seed")}
    assert directions == {"score": "lower", "leftover": "lower", "gain": "higher", "seed": None}
    assert (a["leftover"]["unit"], a["seed"]["unit"], a["gain"]["unit"]) == ("docs", "#", "points")
    assert (b["score"]["direction"], b["leftover"]["direction"], b["score"]["label"]) == (
        "higher",
        None,
        "the score",
    )
    assert "label" not in b["gain"]
    shown = suite.run("show", "s").stdout
    assert "the score" in shown


def test_a_run_of_some_length_leaves_its_curve(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, command: [sleep, '0.5']}\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 0
    curve = (suite.path / "results/s/a/resources.csv").read_text().splitlines()
    assert curve[0] == "t_s,memory_bytes,cpu_s,processes" and len(curve) > 3


def test_hierarchical_log_and_exit_code(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        "entries:\n  - {name: good, script: count.py}\n  - {name: bad, script: count.py, args: --exit 3}\n",
    )
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", "--log", "plain")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "Started session s..."
    assert "\tRunning good" in lines and "\tRunning bad" in lines
    assert any(line.startswith("\t\tRunning command ") and "count.py" in line for line in lines)
    assert any("Run Succeeded in" in line for line in lines)
    assert any("Run Failed in" in line and "exit code 3" in "".join(lines) for line in lines)
    assert any(line.strip().startswith("Logs found in") for line in lines)


def test_json_goes_to_stdout_alone(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, script: count.py}\n")
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", "--json")
    report = json.loads(done.stdout)
    assert report["session"] == "s" and report["ok"] is True
    assert [record["status"] for record in report["records"]] == ["passed"]
    assert "✓  a" in done.stderr


def test_a_script_that_writes_no_metrics_fails_and_a_command_need_not(suite: Workplace) -> None:
    suite.write("scripts/silent.py", "print('done')\n")
    suite.write(
        "suite.yaml",
        "entries:\n  - {name: silent, script: silent.py}\n  - {name: plain, command: ['true']}\n",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    assert suite.record("s", "silent")["status"] == "failed"
    assert "metrics.json" in suite.record("s", "silent")["reason"]
    assert suite.record("s", "plain")["status"] == "passed"


def test_requirements_are_stored_with_bound_actual_and_margin(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        """
entries:
  - name: short
    script: count.py
    args: --value 90
    requirements: [{metric: score, min_value: 100}, {metric: missing, max_value: 1, severity: warn}]
  - name: near
    script: count.py
    args: --value 96
    requirements: [{metric: score, min_value: 100, tolerance: 5%}, {metric: is_success, exact_value: true}]
""",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    short = suite.record("s", "short")
    assert short["status"] == "requirement_failed"
    check = short["requirements"][0]
    assert (check["bound"], check["actual"], check["ok"]) == (100, 90, False)
    assert check["margin"] == pytest.approx(-0.1)
    assert any("missing" in note for note in short["warnings"])
    assert suite.record("s", "near")["status"] == "passed"


def test_repeat_and_warmup_make_one_record(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, script: count.py, repeat: 3, warmup: 2}\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 0
    record = suite.record("s", "a")
    assert len(record["metrics"]["score"]["samples"]) == 3
    assert len(record["metrics"]["exec_time_s"]["samples"]) == 3
    attempts = {path.name for path in (suite.path / "results/s/a/attempts").iterdir()}
    assert attempts == {"warmup-1", "warmup-2", "repeat-1", "repeat-2", "repeat-3"}
    assert suite.ran() == ["a"] * 5


def test_needs_orders_hands_over_and_skips(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        """
entries:
  - {name: reader, needs: [writer], command: [cat, '{needs:writer}/kept.txt']}
  - {name: writer, command: [sh, -c, 'echo handed over > "$1/kept.txt"', sh, '{session_entry_dir}']}
  - {name: broken, command: ['false']}
  - {name: after_broken, needs: [broken], command: ['true']}
""",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    assert (suite.path / "results/s/reader/logs/stdout.log").read_text() == "handed over\n"
    skipped = suite.record("s", "after_broken")
    assert skipped["status"] == "skipped" and "broken" in skipped["reason"]


def test_unset_variable_blocks_only_its_entry(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        "entries:\n  - {name: a, script: count.py}\n  - {name: b, script: count.py, args: '--value ${NOT_SET_HERE}'}\n",
    )
    planned = suite.run("plan", "suite.yaml")
    assert planned.returncode == 2 and "NOT_SET_HERE" in planned.stderr + planned.stdout
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    assert suite.record("s", "a")["status"] == "passed"
    blocked = suite.record("s", "b")
    assert blocked["status"] == "launch_error" and "NOT_SET_HERE" in blocked["reason"]
    assert suite.ran() == ["a"]
    resumed = suite.run("run", "--no-history", "suite.yaml", "--resume", "s", NOT_SET_HERE="2")
    assert resumed.returncode == 0, resumed.stdout
    assert suite.record("s", "b")["metrics"]["score"]["value"] == 2


def test_jobs_run_side_by_side_but_never_beside_an_exclusive_one(suite: Workplace) -> None:
    code = """
import os, pathlib, sys, time
running = pathlib.Path(os.environ["LEDGER"] + ".d")
running.mkdir(exist_ok=True)
mine = running / str(os.getpid())
mine.touch()
wants = int(sys.argv[1])
deadline = time.monotonic() + 120
def count(kind):
    return sum(path.suffix == kind for path in running.iterdir())
most = 1
while time.monotonic() < deadline and most < wants:
    most = max(most, count(""))
    time.sleep(0.01)
if wants == 1:
    most = max(count("") for _ in range(20) if not time.sleep(0.01))
# Nobody leaves before the others have seen it.
mine.with_suffix(".seen").touch()
while time.monotonic() < deadline and count(".seen") < wants:
    time.sleep(0.01)
mine.unlink()
sys.exit(0 if most == wants else 1)
"""
    suite.write("meet.py", code)
    python = sys.executable
    suite.write(
        "suite.yaml",
        f"""
entries:
  - {{name: a, command: [{python}, meet.py, '2'], resources: {{cpus: 0.5}}}}
  - {{name: b, command: [{python}, meet.py, '2'], resources: {{cpus: 0.5}}}}
  - {{name: alone, command: [{python}, meet.py, '1'], resources: {{exclusive: true}}}}
""",
    )
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", "--jobs", "3")
    assert done.returncode == 0, done.stdout


def test_failed_data_setup_skips_the_cases(suite: Workplace) -> None:
    suite.write("data_prep/setup.sh", "exit 4\n")
    suite.write(
        "suite.yaml",
        """
data_setups:
  - {name: prepare, script: data_prep/setup.sh, interpreter: sh}
entries:
  - {name: a, script: count.py}
""",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    assert suite.record("s", "data_setup/prepare")["status"] == "failed"
    assert suite.record("s", "a")["status"] == "skipped"
    assert "prepare" in suite.record("s", "a")["reason"]
    suite.write("data_prep/setup.sh", "exit 0\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--resume", "s").returncode == 0


def test_entry_settings_reach_the_program(suite: Workplace) -> None:
    (suite.path / "elsewhere").mkdir()
    suite.write(
        "scripts/show.sh",
        'echo "$COLOUR|$PWD|$1|$2"\necho "{\\"ok\\": 1}" > "$PACELINE_RESULTS_PATH/metrics.json"\n',
    )
    suite.write(
        "suite.yaml",
        """
env: {COLOUR: green}
entries:
  - {name: a, script: show.sh, interpreter: sh, cwd: elsewhere, args: ['two words', '{"a": {"b": 1}}']}
  - {name: b, script: show.sh, interpreter: sh, env: {COLOUR: red}, args: "'two words' {{literal}}"}
""",
    )
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    first = (suite.path / "results/s/a/logs/stdout.log").read_text()
    assert first.startswith(f"green|{suite.path / 'elsewhere'}|two words|" + '{"a": {"b": 1}}')
    second = (suite.path / "results/s/b/logs/stdout.log").read_text()
    assert second.startswith("red|") and "|two words|{literal}" in second


def test_artifacts_dir_takes_the_large_things(suite: Workplace) -> None:
    suite.write("suite.yaml", "artifacts_dir: large\nentries:\n  - {name: a, script: count.py}\n")
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 0
    assert (suite.path / "large/s/a/logs/stdout.log").is_file()
    assert (suite.path / "results/s/a/logs/stdout.log").is_file()


def test_broken_pipe_of_the_reader_does_not_fail_the_session(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, script: count.py, matrix: {n: [1, 2, 3]}}\n")
    command = (
        " ".join(suite.command("run", "--no-history", "suite.yaml", "--session-name", "s")) + " | head -1"
    )
    subprocess.run(command, shell=True, cwd=suite.path, check=True, capture_output=True)
    assert len(suite.records("s")) == 3


def test_a_command_that_never_ran_has_no_figures(suite: Workplace) -> None:
    suite.write("suite.yaml", "entries:\n  - {name: a, command: [/no/such/program]}\n")
    suite.run("run", "--no-history", "suite.yaml", "--session-name", "s")
    assert suite.record("s", "a")["metrics"] == {}


def test_a_failed_setup_ends_the_setups(suite: Workplace) -> None:
    suite.write("data_prep/bad.sh", "exit 1\n")
    suite.write("data_prep/good.sh", "touch ran_anyway\n")
    suite.write(
        "suite.yaml",
        "data_setups:\n  - {name: bad, script: data_prep/bad.sh, interpreter: sh}\n"
        "  - {name: good, script: data_prep/good.sh, interpreter: sh}\nentries: [{name: a, script: count.py}]\n",
    )
    assert suite.run("run", "--no-history", "suite.yaml", "--session-name", "s").returncode == 1
    assert not (suite.path / "ran_anyway").exists()


def test_artifacts_dir_that_cannot_be_made_is_one_line(suite: Workplace) -> None:
    suite.write("large", "a file\n")
    suite.write("suite.yaml", "artifacts_dir: large\nentries: [{name: a, script: count.py}]\n")
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s")
    assert done.returncode == 2 and "large" in done.stderr and len(done.stderr.strip().splitlines()) == 1

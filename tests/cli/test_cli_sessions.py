"""`paceline run`, `list` and `show`, as a user runs them."""

import json
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from workplace import Workplace

SUITE = """\
results_dir: results
entries:
  - name: good
    command: [sh, -c, "echo spoken"]
  - name: bad
    command: [sh, -c, "exit 3"]
  - name: slow
    command: [sh, -c, "exit 0"]
    requirements:
      - {metric: exec_time_s, max_value: 0}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, subprocess.CompletedProcess[str]]:
    """A session that is over, and what it printed."""
    place = Workplace(tmp_path_factory.mktemp("finished"))
    place.write("paceline.yaml", SUITE)
    return place, place.run("run", "--session-name", "first")


def test_prints_a_line_for_each_case_and_what_to_do_next(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]],
) -> None:
    place, done = finished
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    said = re.sub(r"(?m)^    warning: .*\n", "", done.stdout)
    assert re.fullmatch(
        r"Started session first: 3 cases\n"
        r"   case +metric +value\n"
        r"✓  good +exec_time_s +[\d.]+ .?s\n"
        r"✗  bad +failed after .*: exit code 3\n"
        r"✗  slow +requirement failed after .*: exec_time_s is .* at most 0 s\n"
        r"\n"
        r"(?:\d more warnings? like those above: -v shows them\n)?"
        r"1 passed, 1 failed, 1 requirement failed of 3 cases in .*\n"
        rf"Results in {place.path}/results/first\n"
        r"Next: paceline show results/first bad\n",
        said,
    ), said


def test_the_log_is_kept(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]],
) -> None:
    place, _ = finished
    log = (place.path / "results/first/logs/console.log").read_text()
    assert re.match(
        r"Started session first\.\.\.\n"
        r"\tRunning good\n"
        r"\t\tRunning command sh -c 'echo spoken'\n"
        r"\t\t✅ Run Succeeded in \d+\.\d+ seconds\n"
        r"(\t\twarning: .*\n)*"
        rf"\t\tLogs found in {place.path}/results/first/good/logs\n"
        r"\tRunning bad\n",
        log,
    )
    assert re.search(r"\t\t❌ Run Failed in \d+\.\d+ seconds \(failed\)\n\t\t.*3", log)
    assert re.search(
        r"\t\t❌ Run Failed in .* \(requirement failed\)\n\t\texec_time_s is .* at most 0 s\n", log
    )


def test_verbose_names_commands_and_directories(place: Workplace) -> None:
    place.write("s.yaml", SUITE)
    done = place.run("run", "--no-history", "s.yaml", "--only", "good", "-v", "--session-name", "v")
    assert "    $ sh -c 'echo spoken'\n" in done.stdout
    assert f"    in {place.path}/results/v/good\n" in done.stdout


def test_json_is_the_report_and_nothing_else(place: Workplace) -> None:
    place.write("s.yaml", SUITE)
    done = place.run("run", "--no-history", "--json", "s.yaml", "--session-name", "j")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    Draft202012Validator(json.loads(place.run("schema", "report").stdout)).validate(report)
    assert report == json.loads((place.path / "results/j/report.json").read_text())
    assert (report["session"], report["ok"]) == ("j", False)
    assert [record["status"] for record in report["records"]] == ["passed", "failed", "requirement_failed"]
    assert done.stderr.startswith("Started session j: 3 cases\n")


def test_json_is_not_disturbed_by_what_sinks_print(place: Workplace) -> None:
    place.write(
        "talkative.py",
        "from paceline.sinks import Sink\n"
        "class Talker(Sink):\n"
        "    def open(self, plan): print('opened')\n"
        "    def record(self, record): print('recorded')\n"
        "    def close(self, report): print('closed')\n",
    )
    place.write("s.yaml", f"{SUITE}sinks:\n  - {{name: talker, type: 'talkative:Talker'}}\n")
    done = place.run("run", "--no-history", "--json", "s.yaml", "--only", "good", PYTHONPATH=str(place.path))
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["records"]) == 1
    (session,) = (place.path / "results").glob("s-2*")
    said = (session / ".outbox" / "talker" / "output.log").read_text()
    for word in ("opened", "recorded", "closed"):
        assert f"{word}\n" in said


def test_quiet(place: Workplace) -> None:
    place.write("s.yaml", SUITE)
    done = place.run("run", "--no-history", "-q", "s.yaml", "--only", "good", "--session-name", "q")
    assert done.returncode == 0
    assert re.fullmatch(rf"1 passed of 1 case in .*; results in {place.path}/results/q\n", done.stdout)


def test_an_existing_session_is_refused_and_resume_is_named(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]],
) -> None:
    place, _ = finished
    done = place.run("run", "--no-history", "--session-name", "first")
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert done.stderr.count("\n") == 1


def test_resume_keeps_what_finished(place: Workplace) -> None:
    place.write("paceline.yaml", SUITE)
    place.run("run", "--no-history", "--session-name", "r")
    kept = place.run("run", "--no-history", "--resume")
    assert kept.returncode == 1
    assert "Keeping 3 of 3 cases that finished before" in kept.stdout
    assert "✓" not in kept.stdout and "✗" not in kept.stdout
    again = place.run("run", "--no-history", "--rerun-failed", "--session-name", "r")
    assert "Keeping 1 of 3 cases" in again.stdout
    assert re.findall(r"^✗  (\w+) ", again.stdout, re.MULTILINE) == ["bad", "slow"]


def test_list_tells_how_sessions_ended(finished: tuple[Workplace, subprocess.CompletedProcess[str]]) -> None:
    place, _ = finished
    place.run("run", "--no-history", "--session-name", "second", "--only", "good")
    cut = place.path / "results/cut"
    shutil.copytree(place.path / "results/first", cut)
    shutil.rmtree(cut / "slow")
    done = place.run("list")
    assert done.returncode == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert re.search(r"^first +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +no +1 passed, 1 failed", rows["first"])
    assert re.search(r" yes +1 passed$", rows["second"])
    assert re.search(r" unfinished +1 passed, 1 failed, 1 without a record$", rows["cut"])
    listed = {row["session"]: row for row in json.loads(place.run("list", "--json").stdout)}
    assert (listed["second"]["ok"], listed["second"]["counts"]) == (True, {"passed": 1})
    assert (listed["first"]["ok"], listed["cut"]["ok"], listed["cut"]["unfinished"]) == (False, None, 1)
    shutil.rmtree(cut)
    shutil.rmtree(place.path / "results/second")


def test_list_shows_the_newest_unless_all_are_asked_for(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]], place: Workplace
) -> None:
    first = finished[0].path / "results/first"
    for number in range(23):
        shutil.copytree(first, place.path / f"results/s{number}")
        os.utime(place.path / f"results/s{number}/.lock", (number, number))
    names = [f"s{number}" for number in reversed(range(23))]
    lines = place.run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == names[:20]
    assert lines[-1] == "3 older: --all lists them, too"
    lines = place.run("list", "--all").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names
    listed = place.run("list", "--json")
    assert [row["session"] for row in json.loads(listed.stdout)] == names[:20]
    assert listed.stderr == "3 older: --all lists them, too\n"
    listed = place.run("list", "--json", "--all")
    assert [row["session"] for row in json.loads(listed.stdout)] == names and listed.stderr == ""


def test_a_session_of_a_newer_paceline_does_not_hide_the_others(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]],
) -> None:
    place, _ = finished
    newer, broken = place.path / "results/newer", place.path / "results/broken"
    for path, content in ((newer, '{"schema": 999}'), (broken, "{half")):
        shutil.copytree(place.path / "results/first", path)
        (path / "slow" / "record.json").write_text(content)
    done = place.run("list")
    shown = place.run("show", "broken")
    shutil.rmtree(newer)
    shutil.rmtree(broken)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert rows["newer"].endswith("written by a newer paceline: update to read it")
    assert " no " in rows["first"]
    for stderr in (done.stderr, shown.stderr):
        assert stderr.count("cannot be read and counts as missing") == 1
    assert "1 passed, 1 failed, 1 not run of 3 cases\n" in shown.stdout


def test_list_of_nothing(place: Workplace) -> None:
    done = place.run("list")
    assert (done.returncode, done.stdout) == (0, "no session in results: 'paceline run' makes one\n")
    assert json.loads(place.run("list", "--json").stdout) == []


def test_show_prints_a_stored_session(finished: tuple[Workplace, subprocess.CompletedProcess[str]]) -> None:
    place, ran = finished
    for words in (["show"], ["show", "first"], ["show", f"{place.path}/results/first"]):
        done = place.run(*words)
        assert done.returncode == 0, done.stderr
        for line in filter(re.compile("[✓✗]").match, ran.stdout.splitlines()):
            assert f"{line}\n" in done.stdout
        assert "1 passed, 1 failed, 1 requirement failed of 3 cases\n" in done.stdout
    shown = json.loads(place.run("show", "first", "--json").stdout)
    assert shown == json.loads((place.path / "results/first/report.json").read_text())


@pytest.mark.parametrize(
    ("here", "words"),
    [
        ("results", ["."]),
        ("results", ["./"]),
        ("results", ["./first"]),
        ("results", ["first"]),
        ("results", ["first/"]),
        ("results/first", ["."]),
        ("results/first", [".."]),
        ("results/first", ["../first"]),
        ("results/first/good", [".."]),
        (".", ["results/first"]),
        (".", ["./results"]),
    ],
)
def test_show_by_path(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]], here: str, words: list[str]
) -> None:
    place, _ = finished
    done = Workplace(place.path / here).run("show", *words)
    assert done.returncode == 0, done.stderr
    assert f"\nResults in {place.path}/results/first\nNext: paceline show " in done.stdout
    shown = json.loads(Workplace(place.path / here).run("show", *words, "--json").stdout)
    assert shown["session"] == "first"


def test_show_of_no_session(place: Workplace) -> None:
    done = place.run("show")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("paceline: no session in results: ")
    done = place.run("show", "monday")
    assert (done.returncode, done.stdout) == (2, "")
    assert "monday" in done.stderr


def test_a_reader_that_goes_away_does_not_end_the_session(place: Workplace) -> None:
    place.write("s.yaml", SUITE)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        place.command("run", "--no-history", "s.yaml", "--session-name", "p"),
        cwd=place.path,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1
    assert set(place.records("p")) == {"good", "bad", "slow"}


def test_a_terminal_gets_the_live_view(place: Workplace) -> None:
    place.write("s.yaml", SUITE)
    output = on_terminal(place, "run", "s.yaml", "--session-name", "t")
    assert "\x1b[?25l" in output, "the cursor is hidden while the view is drawn"
    bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)
    assert "✓  good" in bare
    assert "✗  bad" in bare
    assert f"Results in {place.path}/results/t\r\nNext: paceline show results/t bad" in bare


def on_terminal(place: Workplace, *words: str) -> str:
    reader, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "40"}
    process = subprocess.Popen(
        place.command(*words), cwd=place.path, env=environment, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(reader, 65536):
            output += chunk
    except OSError:  # Linux says EIO when the last writer is gone
        pass
    process.wait()
    os.close(reader)
    return output.decode()


def test_the_results_directory_can_be_chosen(place: Workplace) -> None:
    place.write("s.yaml", SUITE)
    done = place.run(
        "run",
        "--no-history",
        "s.yaml",
        "--only",
        "good",
        "--results-dir",
        "else where",
        "--session-name",
        "d",
    )
    assert done.returncode == 0
    assert (place.path / "else where/d/report.md").is_file()
    assert "d  " in place.run("list", "--results-dir", "else where").stdout
    assert Path(done.stdout.splitlines()[-2].removeprefix("Results in ")).samefile(
        place.path / "else where/d"
    )


@pytest.mark.parametrize("plan", ["[]", '{"cases": 1}', '{"cases": [1.5, {"name": null}, {}]}'])
def test_a_plan_that_is_no_plan_costs_only_what_did_not_run(
    finished: tuple[Workplace, subprocess.CompletedProcess[str]], tmp_path: Path, plan: str
) -> None:
    shutil.copytree(finished[0].path / "results", tmp_path / "results", symlinks=True)
    (tmp_path / "results/first/plan.json").write_text(plan)
    done = Workplace(tmp_path).run("show", "first")
    assert "Traceback" not in done.stderr and "of 3 cases" in done.stdout, done.stderr

"""`paceline time`: commands in turns, hyperfine's options and files, and nothing left behind."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from in_process import Here, make_here
from paceline.history import open_store
from paceline.timing.commands import Runs
from paceline.timing.results import Ratio, Result, compare_all
from paceline.timing.show import BARS, histogram
from paceline.timing.targets import Target, listed, scanned
from patience import PATIENCE_S

HYPERFINE_KEYS = {
    "command",
    "mean",
    "stddev",
    "median",
    "user",
    "system",
    "min",
    "max",
    "times",
    "exit_codes",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.delenv("PACELINE_DB", raising=False)
    return make_here(tmp_path, monkeypatch, capsys)


def logged(here: Here) -> list[str]:
    return (here.path / "log").read_text().split()


def test_commands_take_turns_and_leave_nothing(here: Here) -> None:
    done = here.run(
        "time", "sleep 0.1; echo a >> log", "sleep 0.1; echo b >> log", "--runs", "6", "--warmup", "1"
    )
    assert done.returncode == 0, done.stderr
    order = logged(here)
    assert order[:2] == ["a", "b"] and sorted(order[2:]) == ["a"] * 6 + ["b"] * 6
    assert all(set(order[turn : turn + 2]) == {"a", "b"} for turn in range(2, 14, 2))
    assert "6 runs" in done.stdout and "Time (mean ± σ):" in done.stdout and "Summary" in done.stdout
    assert [path.name for path in here.path.iterdir()] == ["log"]


def test_what_comes_around_runs_in_its_place(here: Here) -> None:
    around = [f"--{kind}" if part % 2 == 0 else f"echo {kind} >> log" for kind in KINDS for part in (0, 1)]
    here.run("time", "echo a >> log", "echo b >> log", "--runs", "1", *around)
    order = logged(here)
    assert (order[0], order[-1]) == ("setup", "cleanup") and order.count("setup") == 1
    assert [order[place] for place in (1, 3, 4, 6)] == ["prepare", "conclude", "prepare", "conclude"]
    (here.path / "log").unlink()
    done = here.run(
        "time", "-L", "x", "1,2", "echo run{x} >> log", "--setup", "echo set{x} >> log", "--runs", "2"
    )
    assert logged(here) == ["set1", "run1", "run1", "set2", "run2", "run2"]
    assert "one command after the other" in done.stderr
    broken = here.run("time", "true", "--prepare", "exit 4")
    assert (
        broken.returncode == 1 and "the --prepare command failed: exit 4: exited with code 4" in broken.stderr
    )


KINDS = ("setup", "prepare", "conclude", "cleanup")


def test_the_json_is_hyperfines(here: Here) -> None:
    words = ("-N", "--runs", "2", "-L", "n", "1,2", "echo {n}", "--export-json")
    done = here.run(
        "time", *words, "ours.json", "--export-markdown", "t.md", "--export-csv", "t.csv", "--style", "none"
    )
    assert (done.returncode, done.stdout) == (0, "")
    ours = json.loads((here.path / "ours.json").read_text())["results"]
    assert all(set(one) - {"memory_usage_byte"} == {*HYPERFINE_KEYS, "parameters"} for one in ours)
    assert [one["command"] for one in ours] == ["echo 1", "echo 2"] and ours[1]["parameters"] == {"n": "2"}
    if shutil.which("hyperfine"):
        subprocess.run(["hyperfine", *words, "theirs.json"], cwd=here.path, check=True, capture_output=True)
        theirs = json.loads((here.path / "theirs.json").read_text())["results"]
        assert set(theirs[0]) <= {*ours[0], "memory_usage_byte"}
        assert {key: type(value) for key, value in theirs[0].items()} == {
            key: type(ours[0][key]) for key in theirs[0]
        }
    table = (here.path / "t.md").read_text().splitlines()
    assert (
        table[0].startswith("| Command | Mean [") and table[2].startswith("| `echo 1` | ") and len(table) == 4
    )
    rows = list(csv.DictReader((here.path / "t.csv").open()))
    assert [row["parameter_n"] for row in rows] == ["1", "2"] and float(rows[0]["mean"]) > 0
    imported = here.run("history", "import", "ours.json", "--db", "h.db")
    assert imported.returncode == 0, imported.stderr
    printed = json.loads(here.run("time", "true", "false", "-i", "--runs", "3", "--json").stdout)
    assert [one["exit_codes"] for one in printed["results"]] == [[0] * 3, [1] * 3] and printed["is_complete"]


def test_a_failure_ends_it_unless_it_may_fail(here: Here) -> None:
    done = here.run("time", "true", "exit 7", "--runs", "3")
    assert done.returncode == 1 and "exit 7 failed: exited with code 7. -i times it" in done.stderr
    assert here.run("time", "-i", "exit 7", "--runs", "3").returncode == 0
    missing = here.run("time", "-N", "no-such-program")
    assert missing.returncode == 2 and "no such program on PATH" in missing.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("echo", "-L", "x", "1"), "no command uses the parameter 'x'"),
        (("echo {x}", "-P", "x", "1", "a"), "takes numbers"),
        (("echo {x}", "-P", "x", "0.5", "2"), "needs --parameter-step-size"),
        (("echo {x}", "-P", "x", "2", "1"), "holds no value"),
        (("echo", "-D", "1"), "needs --parameter-scan"),
        (("echo", "-n", "a", "-n", "b"), "2 names are given for 1 command"),
        (("echo", "echo", "echo", "-p", "a", "-p", "b"), "--prepare is given 2 times for 3 commands"),
        (("echo", "--gc"), "--gc is for --python"),
        (("1", "--python", "-N"), "-N is for commands"),
        (("echo", "-N", "--shell", "bash"), "leave out --shell"),
        (("echo", "--export-json", "no/such/place.json"), "cannot be written there"),
        (("echo", "--reference-name", "a"), "needs --reference"),
        (("echo 'a", "-N"), "cannot take"),
        (("echo", "--output", "no/such/file"), "No such file"),
    ],
)
def test_what_makes_no_sense_is_refused(here: Here, words: tuple[str, ...], complaint: str) -> None:
    done = here.run("time", *words)
    assert done.returncode == 2 and complaint in done.stderr and not list(here.path.iterdir())


def test_output_and_input_go_where_they_should(here: Here) -> None:
    (here.path / "in").write_text("hello\n")
    done = here.run("time", "cat", "--input", "in", "--output", "out", "--runs", "2")
    assert done.returncode == 0, done.stderr
    assert (here.path / "out").read_text() == "hello\n"
    assert here.run("time", "head -c 3000000 /dev/zero", "--output", "pipe", "--runs", "2").returncode == 0


def test_it_is_kept_in_the_history_if_asked(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "hunter2-hunter2")
    done = here.run(
        "time", "echo {n}", "true hunter2-hunter2 {n}", "-L", "n", "1,2", "--runs", "3", "--record", "say"
    )
    assert done.returncode == 0 and "recorded as say-" in done.stdout and "hunter2" not in done.stdout
    with open_store(here.path / "results/benchmark.db", create=False) as store:
        (session,) = store.sessions()
        records = {record.case.key: record for record in store.records(session)}
    assert session.kind == "time"
    assert set(records) == {
        f"say[command={name},n={n}]" for n in (1, 2) for name in (f"echo {n}", f"true *** {n}")
    }
    one = records["say[command=echo 1,n=1]"]
    assert len(one.metrics["exec_time_s"].samples) == 3 and one.metrics["exec_time_s"].direction == "lower"
    assert one.metrics["cpu_user_s"].unit == "s" and one.case.params == {"command": "echo 1", "n": 1}
    assert "hunter2" not in str(records)


def test_python_code_is_timed_in_processes(here: Here) -> None:
    words = ("--python", "--max-time", "0.2", "--processes", "3", "--json")
    done = here.run("time", *words, "sum(x)", "len(x)", "--setup", "x = range(1000)")
    assert done.returncode == 0, done.stderr
    slow, quick = json.loads(done.stdout)["results"]
    assert quick["mean"] < 1e-6 < slow["mean"] < 1e-3
    (ratio,) = json.loads(done.stdout)["comparisons"]
    assert ratio["reference"] == "len(x)" and 1 < ratio["low"] < ratio["ratio"] < ratio["high"]
    (here.path / "mine.py").write_text("def work(made):\n    made.pop()\n")
    around = (
        "--setup",
        "from mine import work",
        "--prepare",
        "made = [1]",
        "--cleanup",
        "open('end', 'w').close()",
    )
    done = here.run("time", *words, "work(made)", "--runs", "7", "--memory", *around)
    (one,) = json.loads(done.stdout)["results"]
    assert len(one["times"]) == 21 and len(one["memory_usage_byte"]) == 3 and (here.path / "end").exists()
    broken = here.run("time", "--python", "print('noise'); missing()")
    assert broken.returncode == 1 and "failed: NameError: name 'missing' is not defined" in broken.stderr


def test_ctrl_c_shows_what_was_measured(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "paceline", "time", "-N", f"touch {tmp_path}/begun", "sleep 0.05"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + PATIENCE_S
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.5)  # some runs
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "stopped early: these are the runs until then" in printed and "Benchmark 2: sleep 0.05" in printed


def test_it_works_without_proc(tmp_path: Path) -> None:
    """As on systems that have none; macOS itself was not tried."""
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not hide /proc")
    words = [
        sys.executable,
        "-m",
        "paceline",
        "time",
        "sleep 0.01",
        "true",
        "--runs",
        "3",
        "--record",
        "naps",
    ]
    for extra in ([], ["-N"]):
        done = subprocess.run(
            [*hidden, *words, *extra], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and "3 runs" in done.stdout, done.stderr
    compared = [sys.executable, "-m", "paceline", "compare", "--metric", "exec_time_s", "--fail-above", "90%"]
    done = subprocess.run([*hidden, *compared], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and "2 comparisons" in done.stdout, done.stderr
    code = "from paceline import bench; bench.using(seconds=0.01, record='abs')(abs, -1)"
    site = [sys.executable, "-m", "paceline", "dashboard", "build", "site"]
    for others in ([sys.executable, "-c", code], site):
        done = subprocess.run([*hidden, *others], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_live_view_shows_histograms_and_progress(here: Here) -> None:
    done = here.run("time", "sleep 0.01", "--runs", "12", "--style", "full")
    assert done.returncode == 0
    live, _, rest = done.stdout.rpartition("\x1b[?25h")
    assert "━" in live and "100 %" in live and any(bar in live for bar in BARS)
    assert "\x1b[1mBenchmark 1: sleep 0.01\x1b[0m" in rest and "━" not in rest
    plain = here.run("time", "sleep 0.01", "--runs", "12").stdout
    assert "\x1b" not in plain and "━" not in plain


def test_processes_in_the_background_are_ended_and_named(here: Here) -> None:
    done = here.run("time", "sleep 300 & true", "--runs", "1", "--export-json", "t.json")
    assert "Warning: it leaves processes in the background" in done.stdout


def made(name: str, *times: float, **more: float) -> Result:
    return Result(target=Target(text=name, name=name), starts=[[one] for one in times], **more)  # type: ignore[arg-type]


def test_ratios_read_as_in_hyperfine() -> None:
    base = made("a", *(1 + place % 5 / 1000 for place in range(20)))
    slower = made("b", *(1.52 + place % 7 / 1000 for place in range(20)))
    same = made("c", *(1 + place % 3 / 1000 for place in range(20)))
    noisy = made("d", *(1 + place * 17 % 20 for place in range(20)))
    texts = [one.text() for one in compare_all([base, slower, same, noisy], base, in_turns=True)]
    assert texts[0] == "as fast as c: 1.00 (1.00 to 1.00)"
    assert texts[1].startswith("1.52") and texts[1].endswith(" times faster than b") and " ± 0.00" in texts[1]
    assert " to " in texts[2] and "± " not in texts[2]
    (back,) = compare_all([base, slower], slower, in_turns=False)
    assert back.text().startswith("1.52") and back.text().endswith(" times slower than a")
    few = Ratio(reference=base, other=slower, ratio=2.0, low=1.0, high=float("inf"))
    assert "too few runs" in few.text()
    one, other = made("x", 1, 2, 1, 2), made("y", 2, 1, 2, 1.5)
    (wide,) = compare_all([one, other], one, in_turns=True)
    assert wide.text().startswith("neither surely faster nor slower than y: 1.")


def test_odd_times_are_warned_of() -> None:
    steady = [1 + place % 5 / 1000 for place in range(20)]
    assert not list(made("a", *steady).warnings())
    assert "the first run was much slower" in next(made("a", 2, *steady).warnings())
    assert "1 of 21 runs lie far from the others" in next(made("a", *steady, 2).warnings())
    assert "use -N" in next(made("a", *steady, shell_s=0.9).warnings())


def test_the_number_of_runs_is_hyperfines() -> None:
    assert (
        Runs().wanted(1, 0.001) == 3000 and Runs().wanted(1, 2.0) == 10 and Runs(exactly=4).wanted(1, 9) == 4
    )
    assert Runs(most=5).wanted(1, 2.0) == 5 and Runs(least=3, max_time_s=1).wanted(1, 0.5) == 3
    assert Runs(most=5).wanted(7, 2.0) == 7


def test_parameters_are_read_as_hyperfine_reads_them() -> None:
    assert listed("a,b") == ["a", "b"] and listed(r"a\,b,c\d,") == ["a,b", r"c\d", ""]
    assert scanned("1", "3", None) == ["1", "2", "3"] and scanned("0.1", "0.5", "0.2") == [
        "0.1",
        "0.3",
        "0.5",
    ]


def test_a_histogram_has_a_bar_for_every_time() -> None:
    assert histogram([1.0]) == "█" and histogram([1, 2, 3], bins=3) == "███"
    assert histogram([1, 1, 1, 2], bins=2) == "█▄" and len(histogram([1, 1.01, 1.02, 50])) == 40

"""`paceline evals`: a suite's models on devices, from the command line."""

import json
import os
import pty
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import evals_parts
from paceline.history import open_store
from paceline.record.directory import sessions
from patience import wait_until
from workplace import Workplace

SUITE = """\
evals:
  gpu_ids: [cpu, cpu]
  adapter: {name: mock}
  models: [small, {name: org/large, revision: v2}]
  attentions:
    - dense
    - {name: streaming, maskers: [{kind: streaming, sink_size: 4, window_size: 8}]}
  benchmarks: [mock_benchmark]
  exporters: [csv]
sinks: [{type: files, name: out, directory: sent}]
"""

SLOW = """\
evals:
  gpu_ids: [cpu]
  max_concurrent_runs: 2
  adapter: {name: 'evals_parts:TornAdapter'}
  models: [a, b, c, d]
  benchmarks: [{name: mock_benchmark, params: {repeat: 2}}]
"""


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = Workplace(tmp_path)
    place.write("suite.yaml", SUITE)
    return place


def test_a_suite_is_planned_run_shown_compared_and_remembered(place: Workplace) -> None:
    planned = place.run("evals", "plan", "suite.yaml")
    assert planned.returncode == 0 and planned.stdout.endswith("4 stubs, 0 done\n")
    assert not (place.path / "benchmark_results").exists()

    ran = place.run("evals", "run", "suite.yaml")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 6 and lines[-1].startswith("4 stubs: 4 completed in ")
    assert lines[-2] == "note: 4 of toy rows of ours, which say nothing about a model"
    assert any("mock_benchmark[attention=dense,model=org/large]" in line for line in lines)

    again = place.run("evals", "run", "suite.yaml", "--json", "--no-history")
    summary = json.loads(again.stdout)
    assert again.returncode == 0 and (summary["total"], summary["skipped"]) == (4, 4)
    newest = sorted((place.path / "benchmark_results").glob("execution_*"))[-1]
    written = (newest / "report.md").read_text()
    assert "4 done before of 4 cases" in written and "ended before these began" not in written
    assert written.count(": its result is in ") == 4

    shown = place.run("evals", "show")
    assert shown.stdout.count("before") == 4 and "org/large" in shown.stdout
    compared = place.run("evals", "compare", "--json")
    effects = json.loads(compared.stdout)["comparisons"]
    assert compared.returncode == 0 and {effect["verdict"] for effect in effects} == {"inconclusive"}
    few = "too few: 3 documents (5 samples), 7 can decide"
    assert {effect["reason"] for effect in effects} == {few}
    assert few in place.run("evals", "compare").stdout

    (sent,) = (place.path / "sent").glob("*.jsonl")
    assert len(sent.read_text().splitlines()) == 4, "what was skipped is not sent again"

    listed = place.run("history", "list")
    assert "mock_benchmark[attention=dense,model=org/large]" in listed.stdout
    execution = sorted((place.path / "benchmark_results").glob("execution_*"))[0]
    assert json.loads((execution / "report.json").read_bytes())["ok"]
    report = place.run("show", str(execution))
    assert report.returncode == 0 and report.stdout.count("✓") == 4
    assert (execution / "results.csv").is_file()

    stub = place.path / "benchmark_results" / "small" / "dense" / "mock_benchmark"
    scored = place.run("evals", "score", str(stub))
    assert scored.stdout == f"{stub}: accuracy 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: [a]\n  benchmarks: [mock_benchmork]", "unknown eval_benchmark 'mock_benchmork'"),
        ("models: [a]\n  benchmark: [x]", "suite.yaml:3: evals: unknown key 'benchmark'"),
        ("models: [a]\n  benchmarks: [mock_benchmark]\n  attentions: [dens]", "unknown masker 'dens'"),
        ("models: [a]\n  benchmarks: [mock_benchmark]\n  gpu_ids: []", "gpu_ids needs at least one"),
        ("models: [a]\n  benchmarks: [mock_benchmark]\n  exporters: [cvs]", "unknown eval_exporter 'cvs'"),
        ("models: [a]\n  benchmarks: [mock_benchmark]\n  scheduler: fast", "unknown eval_scheduler 'fast'"),
    ],
)
def test_mistakes_end_with_two_and_a_line(place: Workplace, text: str, message: str) -> None:
    place.write("suite.yaml", f"evals:\n  {text}\n  adapter: {{name: mock}}\n")
    done = place.run("evals", "plan", "suite.yaml")
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_run_runs_evals_after_the_entries_as_records_like_any_other(place: Workplace) -> None:
    place.write("suite.yaml", f"{SUITE}entries: [{{name: x, command: 'true'}}]\n")
    planned = json.loads(place.run("plan", "suite.yaml", "--json").stdout)
    names = [case["name"] for case in planned["cases"]]
    assert len(names) == 5 and names[0] == "x" and "mock_benchmark[attention=dense,model=small]" in names

    ran = place.run("run", "suite.yaml", "--results-dir", "results", "--session-name", "night", "--json")
    report = json.loads(ran.stdout)
    assert [record["case"]["name"] for record in report["records"]] == names
    passed = {record["case"]["name"] for record in report["records"] if record["status"] == "passed"}
    assert passed >= set(names[1:]), ran.stderr
    session = place.path / "results" / "night"
    events = [json.loads(line) for line in (session / "events.jsonl").read_text().splitlines()]
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[-1], kinds.count("case_finished")) == ("session_started", "session_finished", 5)
    (sent,) = (place.path / "sent").glob("*.jsonl")
    assert len(sent.read_text().splitlines()) == 5
    assert "mock_benchmark[attention=dense,model=org/large]" in place.run("history", "list").stdout
    shown = place.run("evals", "show", str(session))
    assert shown.returncode == 0 and "night: 4 stubs: 4 completed" in shown.stdout
    assert "inconclusive" in place.run("evals", "compare", str(session)).stdout


def test_run_chooses_and_resumes_stubs_like_other_cases(place: Workplace) -> None:
    words = ("--results-dir", "results", "--no-history", "--json")
    chosen = ("--only", "mock_benchmark[model=small,*]", "--session-name", "night")
    first = json.loads(place.run("run", "suite.yaml", *chosen, *words).stdout)
    assert len(first["records"]) == 2 and first["ok"]
    resumed = place.run("run", "suite.yaml", "--resume", "night", *words)
    records = json.loads(resumed.stdout)["records"]
    assert resumed.returncode == 0 and len(records) == 4 and {one["attempt"] for one in records} == {1}
    summary = json.loads((place.path / "results" / "night" / "execution_summary.json").read_bytes())
    assert (summary["total"], summary["completed"], summary["skipped"]) == (4, 2, 2)
    # A new session finds all of them done, and has nothing to record.
    again = place.run("run", "suite.yaml", "--session-name", "next", *words)
    assert again.returncode == 0 and json.loads(again.stdout)["records"] == []
    assert "4 of 4 stubs were done before" in again.stderr


def test_a_session_that_was_killed_gets_the_records_of_what_was_done(place: Workplace) -> None:
    words = ("--results-dir", "results", "--no-history", "--json")
    place.run("run", "suite.yaml", "--session-name", "night", *words)
    record = place.path / "results" / "night" / "mock_benchmark[attention=dense,model=small]" / "record.json"
    before = json.loads(record.read_bytes())
    record.unlink()  # as if the runner had been killed between the stub's marker and its record
    resumed = place.run("run", "suite.yaml", "--resume", "night", *words)
    after = json.loads(record.read_bytes())
    assert resumed.returncode == 0 and after["metrics"] == before["metrics"] and after["status"] == "passed"


def test_a_session_of_the_same_name_elsewhere_records_nothing_twice(place: Workplace) -> None:
    words = ("run", "suite.yaml", "--session-name", "night", "--no-history", "--json")
    first = place.run(*words, "--results-dir", "results")
    assert len(json.loads(first.stdout)["records"]) == 4
    second = place.run(*words, "--results-dir", "elsewhere")
    assert second.returncode == 0 and json.loads(second.stdout)["records"] == []


def test_names_of_the_sessions_own_files_are_no_names_of_others(place: Workplace) -> None:
    entry = "entries: [{name: workers, command: 'true'}]\n"
    place.write("suite.yaml", f"{SUITE}{entry}".replace("models: [small,", "models: [results.csv,"))
    words = ("--results-dir", "results", "--session-name", "night", "--no-history", "--json")
    ran = place.run("run", "suite.yaml", *words)
    assert len(json.loads(ran.stdout)["records"]) == 5, ran.stderr
    session = place.path / "results" / "night"
    assert not (session / "workers" / "record.json").exists()
    assert {path.suffix for path in (session / "workers").iterdir()} == {".log"}
    (entry_dir,) = session.glob("workers-*")
    assert json.loads((entry_dir / "record.json").read_bytes())["case"]["name"] == "workers"
    assert (session / "results.csv").is_file()


def test_results_and_sessions_do_not_share_a_directory(place: Workplace) -> None:
    words = ("--results-dir", "benchmark_results", "--session-name", "small", "--no-history")
    refused = place.run("run", "suite.yaml", *words)
    assert refused.returncode == 2 and "choose another --session-name" in refused.stderr
    assert not (place.path / "benchmark_results" / "small").exists()
    place.write("other.yaml", "entries: [{name: x, command: 'true'}]\n")
    place.run("run", "other.yaml", *words)
    refused = place.run("run", "suite.yaml", "--results-dir", "elsewhere", "--no-history")
    assert refused.returncode == 2 and "is a session, where no results can lie" in refused.stderr


def test_a_failed_stub_fails_the_session(place: Workplace) -> None:
    text = SUITE.replace("name: mock}", "name: 'evals_parts:TornAdapter', model_kwargs: {script: script}}")
    place.write("suite.yaml", text)
    (place.path / "script").mkdir()
    (place.path / "script" / "load-wrong").touch()
    words = ("--results-dir", "results", "--no-history", "--json")
    ran = place.run("run", "suite.yaml", *words, PYTHONPATH=str(Path(__file__).parents[1]))
    report = json.loads(ran.stdout)
    failed = [record for record in report["records"] if record["status"] == "failed"]
    assert ran.returncode == 1 and len(report["records"]) == 4
    assert failed and all("wrong argument" in record["reason"] for record in failed)


@pytest.fixture
def hold(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While it is there, the slow suite is slow."""
    place.write("slow.yaml", SLOW)
    monkeypatch.setenv("PYTHONPATH", str(Path(evals_parts.__file__).parent))
    monkeypatch.setenv(evals_parts.HOLD, str(place.path / "hold"))
    return place.write("hold", "")


def test_slots_are_shown_added_and_removed_while_stubs_run(place: Workplace, hold: Path) -> None:
    words = place.command("evals", "run", "slow.yaml", "--no-history", "--json")
    with subprocess.Popen(words, cwd=place.path, stdout=subprocess.PIPE, text=True) as running:

        def all_busy() -> str:
            shown = place.run("evals", "slots").stdout
            return shown if "idle" not in shown and "mock_benchmark" in shown else ""

        assert "cpu:0" in wait_until(all_busy, "work on every slot", by=running)
        asked = place.run("evals", "slots", "--add", "cpu:7", "--remove", "cpu:0")
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout == "cpu:7 added: 4 workers in all\ncpu:0 leaves: 2 workers in all\n"
        for words, reason in (
            (["--add", "cpu:7"], "cpu:7 is in the pool already"),
            (["--add", "0"], "no NVIDIA driver or GPU is here"),
            (["--remove", "cpu:9"], "cpu:9 is not in the pool; it has: "),
        ):
            refused = place.run("evals", "slots", *words)
            assert refused.returncode == 2 and reason in refused.stderr, refused.stderr
        wait_until(
            lambda: any("stub_started" in line and '"cpu:7"' in line for line in events(place)),
            "work on the added slot",
            by=running,
        )
        hold.unlink()
        output, _ = running.communicate(timeout=120)
    assert json.loads(output)["completed"] == 4
    told = [json.loads(line) for line in events(place)]
    changed = [(event["do"], event["device"]) for event in told if event["event"] == "slots_changed"]
    assert changed == [("add", "cpu:7"), ("remove", "cpu:0")]
    assert len([event for event in told if event["event"] == "slots_refused"]) == 3
    assert "cpu:7" in {event["device"] for event in told if event["event"] == "stub_started"}
    over = place.run("evals", "slots")
    assert over.returncode == 2 and "no execution runs there" in over.stderr


def events(place: Workplace) -> list[str]:
    (execution,) = (place.path / "benchmark_results").glob("execution_*")
    return events_of(execution)


def events_of(session: Path) -> list[str]:
    return (session / "events.jsonl").read_text().splitlines()


def test_an_interrupted_run_ends_with_130_and_goes_on_later(place: Workplace, hold: Path) -> None:
    words = place.command("evals", "run", "slow.yaml", "--no-history", "--json")
    with subprocess.Popen(words, cwd=place.path, stdout=subprocess.PIPE, text=True) as running:
        wait_until(
            lambda: any(file.stat().st_size for file in place.path.rglob("predictions.jsonl")),
            "the first answer",
            by=running,
        )
        running.send_signal(signal.SIGTERM)
        summary = json.loads(running.communicate(timeout=120)[0])
    hold.unlink()
    assert running.returncode == 130 and summary["cancelled"] == 4 and summary["interrupted"]
    stubs = "benchmark_results/[a-d]/dense/mock_benchmark"
    answered = list(place.path.glob(f"{stubs}/predictions.jsonl"))
    before = sum(len(file.read_bytes().splitlines()) for file in answered)
    assert place.run("evals", "run", "slow.yaml", "--no-history").returncode == 0
    markers = [json.loads(file.read_bytes()) for file in place.path.glob(f"{stubs}/DONE.json")]
    asked = sum(marker["facts"]["asked"] for marker in markers)
    assert before >= 1 and asked == 4 * 10 - before


def kill_before_the_records(place: Workplace, hold: Path, *words: str) -> None:
    """Kill a runner whose one worker has finished a stub that it does not know of."""
    text = SLOW.replace("max_concurrent_runs: 2", "max_concurrent_runs: 1")
    place.write("slow.yaml", f"{text}sinks: [{{type: files, name: out, directory: sent}}]\n")
    with subprocess.Popen(place.command(*words), cwd=place.path, stdout=subprocess.DEVNULL) as running:
        wait_until(lambda: list(place.path.rglob("predictions.jsonl")), "the first answer", by=running)
        running.send_signal(signal.SIGSTOP)
        hold.unlink()
        wait_until(lambda: list(place.path.rglob("DONE.json")), "the end of a stub")
        running.kill()
    assert not list(place.path.rglob("record.json"))


def recorded(place: Workplace) -> list[tuple[str, str]]:
    """Session and case of every record that is on disk, which the history is to have too."""
    files = [*place.path.glob("*/*/*/record.json"), *place.path.glob("*/*/*/attempts/*/record.json")]
    found = [json.loads(file.read_bytes()) for file in files]
    with open_store(place.path / "results/benchmark.db") as store:
        assert sum(count for _, count, _, _ in store.case_counts()) == len(found)
    assert {record["status"] for record in found} == {"passed"}
    return [(record["session"], record["case"]["name"]) for record in found]


def test_what_a_killed_run_had_done_is_recorded_once(place: Workplace, hold: Path) -> None:
    kill_before_the_records(place, hold, "evals", "run", "slow.yaml")
    (killed,) = (place.path / "benchmark_results").glob("execution_*")
    again = place.run("evals", "run", "slow.yaml")
    assert again.returncode == 0 and "4 stubs: 3 completed, 1 skipped" in again.stdout
    found = recorded(place)
    assert len({case for _, case in found}) == len(found) == 4
    (session,) = {session for session, _ in found}
    assert session != killed.name
    files = (place.path / "benchmark_results" / session).glob("*/record.json")
    records = [json.loads(file.read_bytes()) for file in files]
    (record,) = (one for one in records if "recovered_from" in one["details"]["evals"])
    environment = json.loads((killed / "environment.json").read_bytes())
    assert record["details"]["evals"]["recovered_from"] == killed.name
    assert record["environment"] == environment["id"] and record["metrics"]["accuracy"]["value"] == 1
    assert record["started_at"] < json.loads(events_of(killed.with_name(session))[0])["time"]
    sent = [
        json.loads(line) for file in place.path.glob("sent/*.jsonl") for line in file.read_text().splitlines()
    ]
    assert sorted((one["session"], one["case"]["name"]) for one in sent) == sorted(found)
    third = place.run("evals", "run", "slow.yaml")
    assert "4 stubs: 4 skipped" in third.stdout
    assert sorted(recorded(place)) == sorted(found)


def test_a_killed_session_is_completed_by_the_next_or_by_resuming_it(place: Workplace, hold: Path) -> None:
    words = ("slow.yaml", "--results-dir", "results")
    kill_before_the_records(place, hold, "run", *words, "--session-name", "night")
    shutil.copytree(place.path, place.path.with_name("copy"), symlinks=True)
    resumed = place.run("run", *words, "--resume", "night")
    assert resumed.returncode == 0, resumed.stderr
    assert sorted(session for session, _ in recorded(place)) == ["night"] * 4
    # In a copy of it all, a new session comes first.
    copy = Workplace(place.path.with_name("copy"))
    assert copy.run("run", *words, "--session-name", "next").returncode == 0
    assert sorted(session for session, _ in recorded(copy)) == ["next"] * 4
    assert sessions(copy.path / "results")[0] == copy.path / "results" / "next"
    assert copy.run("run", *words, "--resume", "night").returncode == 0
    assert sorted(session for session, _ in recorded(copy)) == ["next"] * 4


def test_a_terminal_shows_what_devices_do(place: Workplace) -> None:
    adapter = "mock, model_kwargs: {seconds_per_sample: 0.1}"
    place.write("slow.yaml", SLOW.replace("'evals_parts:TornAdapter'", adapter))
    ours, theirs = pty.openpty()
    words = place.command("evals", "run", "slow.yaml", "--no-history")
    environment = {**os.environ, "TERM": "xterm-256color"}
    running = subprocess.Popen(words, cwd=place.path, stdin=theirs, stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # which is how the end of a terminal reads
        while data := os.read(ours, 65536):
            shown += data
    os.close(ours)
    assert running.wait() == 0
    text = shown.decode()
    assert "of 4 stubs" in text and "cpu:0: " in text and "left" in text
    assert text.rstrip().splitlines()[-1].count("4 stubs: 4 completed in ") == 1

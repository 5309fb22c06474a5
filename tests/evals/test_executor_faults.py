"""Whatever happens to workers and to the parent: every stub ends once, nothing is lost, nothing stays behind.

`EVALS_TEST_STUBS` and `EVALS_TEST_KILLS` make the two random tests larger.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evals_parts import CHAOS
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    Clocks,
    ExecutionResults,
    ExecutorOptions,
    RetryPolicy,
)
from paceline.evals.scoring import score_again
from paceline.evals.stub_files import ATTEMPTS, DONE, PREDICTIONS, RAW

PATIENT = Clocks(startup_timeout_s=120, stall_timeout_s=120, timeout_per_benchmark_s=300)
MARK = "EVALS_TEST_MARK"


def execute(
    base: Path,
    script: Path | None = None,
    *,
    subsets: int = 3,
    samples: int = 3,
    clocks: Clocks = PATIENT,
    retry: RetryPolicy | None = None,
    workers: int = 2,
    pause_s: float = 0,
    **options: Any,
) -> ExecutionResults:
    retry = retry or RetryPolicy(network_pause_s=0.01)
    executor = BenchmarkExecutor(
        ["cpu", "cpu"],
        workers,
        base,
        options=ExecutorOptions(clocks=clocks, retry=retry, **options),
    )
    kwargs: dict[str, Any] = {"script": str(script)} if script else {}
    if pause_s:
        kwargs["pause_s"] = pause_s
    return executor.run_benchmark_matrix(
        ["model"],
        [("dense", None)],
        [BenchmarkConfig("evals_parts:Tasks", params={"subsets": subsets, "samples": samples})],
        AdapterConfig("evals_parts:TornAdapter", model_kwargs=kwargs),
    )


def counts(results: ExecutionResults) -> dict[str, int]:
    summary = results.execution_summary
    found = {name: summary[name] for name in ("completed", "skipped", "failed", "cancelled")}
    assert sum(found.values()) == summary["total"]
    return {name: count for name, count in found.items() if count}


def attempts(base: Path) -> list[Mapping[str, Any]]:
    lines = [line for path in base.rglob(ATTEMPTS) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def contents(base: Path) -> dict[str, bytes]:
    """What results say: the same in every run, however it went."""
    files = [path for path in base.rglob("*") if path.name in (RAW, "metrics.json") and path.is_file()]
    inside = [path for path in files if not path.relative_to(base).parts[0].startswith("execution_")]
    return {str(path.relative_to(base)): path.read_bytes() for path in inside}


def marked_processes(mark: str) -> list[int]:
    """Processes that carry a mark in their environment, besides zombies."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"{MARK}={mark}".encode() in (place / "environ").read_bytes().split(b"\0")
            if is_ours and b") Z " not in (place / "stat").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def wait_until(condition: Callable[[], bool], timeout_s: float = 170) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Marks what the test starts; none of it may be left."""
    name = os.urandom(8).hex()
    monkeypatch.setenv(MARK, name)
    yield name
    monkeypatch.delenv(MARK)
    others = {os.getpid()}
    wait_until(lambda: not set(marked_processes(name)) - others)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("fault", "fault_class", "words"),
    [
        ("kill", "crash", "killed by SIGKILL"),
        ("abort", "crash", "killed by SIGABRT"),
        ("exit", "crash", "exited with code 7"),
        ("orphan", "crash", "killed by SIGKILL"),
        ("oom", "out_of_memory", "as it were"),
        ("network", "network", "the server is busy"),
    ],
)
def test_a_fault_costs_one_attempt(
    tmp_path: Path, script: Path, mark: str, fault: str, fault_class: str, words: str
) -> None:
    (script / f"generate-{fault}").touch()
    results = execute(tmp_path / "results", script)
    assert counts(results) == {"completed": 3}
    (attempt,) = attempts(tmp_path / "results")
    assert attempt["fault"] == fault_class and words in attempt["message"] and not attempt["final"]
    assert f"about to have the fault {fault}" in attempt["log_tail"]


def test_a_deterministic_error_is_not_tried_again(tmp_path: Path, script: Path, mark: str) -> None:
    (script / "generate-wrong").touch()
    results = execute(tmp_path / "results", script)
    assert counts(results) == {"completed": 2, "failed": 1}
    (failure,) = results.failed_executions
    assert (failure.error_type, failure.error_message, failure.attempts) == (
        "ValueError",
        "wrong argument",
        1,
    )
    assert "perform" in failure.traceback
    assert counts(execute(tmp_path / "results", script)) == {"completed": 1, "skipped": 2}


def test_secrets_of_the_environment_are_masked_in_what_is_told(
    tmp_path: Path, script: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "hush-hush-4711")
    (script / "generate-blab").touch()
    results = execute(tmp_path / "results", script, subsets=1, workers=1)
    assert counts(results) == {"failed": 1}
    assert "hush-hush-4711" not in results.failed_executions[0].traceback
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"hush-hush-4711" in path.read_bytes()] == []
    assert "no entry with" in results.failed_executions[0].error_message
    (log,) = results.directory.glob("workers/*.log")
    assert "no entry with ***" in log.read_text()


def test_what_a_worker_prints_is_masked_on_its_way_to_the_log(tmp_path: Path) -> None:
    code = "import os; [os.write(fd, b'%d key hush-' % fd) for fd in (1, 2)]; print('hush-4711 end')"
    boot = (
        "import os, subprocess, sys\n"
        "from paceline.record.redact import Redactor\n"
        "from paceline.run.local.keeper import keep\n"
        "from paceline.run.local.keeper import Outlet\n"
        "life = os.pipe()[0]\n"
        "outlet = Outlet(Redactor(['hush-hush-4711']).stream())\n"
        f"keep(lambda: subprocess.call([sys.executable, '-c', {code!r}]), life, (), outlet=outlet)\n"
    )
    done = subprocess.run([sys.executable, "-c", boot], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1 key hush-2 key *** end\n")


def test_a_fault_that_stays_fails_for_good_after_its_budget(tmp_path: Path, script: Path, mark: str) -> None:
    for number in range(10):
        (script / f"generate-kill{number}").touch()
    results = execute(tmp_path / "results", script, subsets=2, retry=RetryPolicy(crash=2), workers=1)
    assert counts(results) == {"failed": 2}
    assert [attempt["final"] for attempt in attempts(tmp_path / "results")] == [False, False, True] * 2
    assert {failure.attempts for failure in results.failed_executions} == {3}


def test_a_model_that_cannot_be_loaded_fails_all_its_stubs_at_once(
    tmp_path: Path, script: Path, mark: str
) -> None:
    (script / "load-wrong").touch()
    results = execute(tmp_path / "results", script, subsets=5, workers=1)
    assert counts(results) == {"failed": 5}
    assert len(attempts(tmp_path / "results")) == 1


def test_one_load_serves_all_stubs_of_a_worker(tmp_path: Path, script: Path, mark: str) -> None:
    (script / "loads").mkdir()
    results = execute(tmp_path / "results", script, subsets=8)
    assert counts(results) == {"completed": 8}
    assert len(list((script / "loads").iterdir())) <= 2


def test_a_worker_that_hangs_is_ended_by_the_stall_clock(tmp_path: Path, script: Path, mark: str) -> None:
    (script / "generate-stop").touch()
    clocks = Clocks(startup_timeout_s=120, stall_timeout_s=2, timeout_per_benchmark_s=300)
    results = execute(tmp_path / "results", script, clocks=clocks, retry=RetryPolicy(stall=20))
    assert counts(results) == {"completed": 3}
    assert {attempt["fault"] for attempt in attempts(tmp_path / "results")} == {"stall"}


def test_a_load_that_hangs_is_ended_by_the_startup_clock(tmp_path: Path, script: Path, mark: str) -> None:
    (script / "load-stop").touch()
    clocks = Clocks(startup_timeout_s=3, stall_timeout_s=120, timeout_per_benchmark_s=300)
    results = execute(tmp_path / "results", script, clocks=clocks, retry=RetryPolicy(startup=20))
    assert counts(results) == {"completed": 3}
    assert {attempt["fault"] for attempt in attempts(tmp_path / "results")} == {"startup"}


def test_a_stub_that_takes_too_long_in_all_is_ended(tmp_path: Path, script: Path, mark: str) -> None:
    (script / "generate-stop").touch()
    clocks = Clocks(startup_timeout_s=120, stall_timeout_s=120, timeout_per_benchmark_s=3)
    results = execute(tmp_path / "results", script, clocks=clocks, retry=RetryPolicy(timeout=20))
    assert counts(results) == {"completed": 3}
    assert "timeout" in {attempt["fault"] for attempt in attempts(tmp_path / "results")}


def test_a_scorer_that_fails_loses_no_predictions(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    monkeypatch.setenv("EVALS_TEST_BAD_SCORER", str(broken))

    def run() -> ExecutionResults:
        return BenchmarkExecutor(["cpu"], 1, tmp_path / "results").run_benchmark_matrix(
            ["model"],
            [("dense", None)],
            [BenchmarkConfig("evals_parts:BadScorer", ["task0"])],
            AdapterConfig("mock"),
        )

    first = run()
    assert counts(first) == {"failed": 1} and first.failed_executions[0].error_type == "KeyError"
    (stub,) = (path.parent for path in (tmp_path / "results").rglob(PREDICTIONS) if not path.is_symlink())
    with pytest.raises(KeyError):
        score_again(stub)
    broken.unlink()
    second = run()
    assert counts(second) == {"completed": 1}
    assert second.individual_results[0].facts["asked"] == 0
    done = (stub / DONE).read_bytes()
    broken.touch()
    with pytest.raises(KeyError):
        score_again(stub)
    assert (stub / DONE).read_bytes() == done, "a scorer that fails leaves earlier scores as they are"
    assert counts(run()) == {"skipped": 1}


def test_results_are_the_same_whatever_happens_to_workers(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs = int(os.environ.get("EVALS_TEST_STUBS", "200"))
    calm = execute(tmp_path / "calm", subsets=stubs, samples=2)
    assert counts(calm) == {"completed": stubs}
    monkeypatch.setenv(CHAOS, "0.03")
    clocks = Clocks(startup_timeout_s=120, stall_timeout_s=1.5, timeout_per_benchmark_s=300)
    patience = RetryPolicy(out_of_memory=50, crash=50, startup=50, stall=50, timeout=50)
    wild = execute(tmp_path / "wild", subsets=stubs, samples=2, clocks=clocks, retry=patience)
    assert counts(wild) == {"completed": stubs}
    assert contents(tmp_path / "wild") == contents(tmp_path / "calm")
    assert attempts(tmp_path / "wild") and not attempts(tmp_path / "calm")


def test_anything_below_the_parent_may_be_killed_or_stopped(tmp_path: Path, mark: str) -> None:
    clocks = Clocks(startup_timeout_s=4, stall_timeout_s=2, timeout_per_benchmark_s=300)
    patience = RetryPolicy(out_of_memory=50, crash=50, startup=50, stall=50, timeout=50)
    over, random, struck = threading.Event(), Random(3), []

    def strike() -> None:
        """Keepers as well as workers, whatever they are at."""
        while not over.wait(0.5) and len(struck) < 6:
            found = sorted(set(marked_processes(mark)) - {os.getpid()})
            if found:
                number = random.choice([signal.SIGKILL, signal.SIGSTOP])
                struck.append(number)
                with suppress(ProcessLookupError):
                    os.kill(random.choice(found), number)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        results = execute(
            tmp_path / "results", subsets=16, samples=5, pause_s=0.06, clocks=clocks, retry=patience
        )
    finally:
        over.set()
        thread.join()
    assert counts(results) == {"completed": 16} and struck


def test_what_earlier_executions_tried_counts(tmp_path: Path, script: Path, mark: str) -> None:
    (script / "generate-kill").touch()
    first = execute(tmp_path / "results", script, subsets=1, retry=RetryPolicy(crash=0))
    assert counts(first) == {"failed": 1}
    (stub,) = tmp_path.rglob(ATTEMPTS)
    attempt = json.loads(stub.read_text())
    (script / "generate-kill").touch()
    # As if the parent had been killed after two tries: one more is all there is.
    stub.write_text(f"{json.dumps({**attempt, 'final': False})}\n" * 2)
    second = execute(tmp_path / "results", script, subsets=1, retry=RetryPolicy(crash=2))
    assert counts(second) == {"failed": 1} and second.failed_executions[0].attempts == 1


PARENT = """
import sys
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor
if __name__ == "__main__":
    base, stubs, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    results = BenchmarkExecutor(["cpu", "cpu"], 2, base).run_benchmark_matrix(
        ["model"],
        [("dense", None)],
        [BenchmarkConfig("evals_parts:Tasks", params={"subsets": stubs, "samples": 5})],
        AdapterConfig("evals_parts:TornAdapter", model_kwargs={"pause_s": pause_s}),
    )
    print(results.execution_summary["completed"], results.execution_summary["cancelled"], flush=True)
"""


def start_parent(base: Path, stubs: int, pause_s: float) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(base), str(stubs), str(pause_s)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def answered(base: Path) -> int:
    """How many answers there are."""
    return sum(path.read_bytes().count(b"\n") for path in base.rglob(PREDICTIONS) if not path.is_symlink())


def has_gone_on(base: Path, known: int, parent: subprocess.Popen[str]) -> bool:
    """Whether there are more answers, or there will be none."""
    return answered(base) > known or parent.poll() is not None


def made(marker: Path) -> dict[str, Any]:
    """What a marker says, but for the session that recorded its stub."""
    data: dict[str, Any] = json.loads(marker.read_bytes())
    names = ("session", "session_started_at", "session_dir", "recovered_from")
    return {**data, "facts": {name: fact for name, fact in data["facts"].items() if name not in names}}


def test_a_parent_killed_at_any_moment_loses_nothing(tmp_path: Path, mark: str) -> None:
    kills = int(os.environ.get("EVALS_TEST_KILLS", "3"))
    stubs = min(200, 10 * kills)
    # Each life is to answer no more than its share, so that there is work to be killed at until the last.
    pause_s = max(0.01, 0.3 * kills / stubs)
    random, base = Random(kills), tmp_path / "results"
    done: dict[Path, dict[str, Any]] = {}
    hit = 0
    for number in range(kills):
        known = answered(base)
        parent = start_parent(base, stubs, pause_s)
        # Most kills fall among running stubs, some while workers are still starting.
        if number % 4:
            wait_until(partial(has_gone_on, base, known, parent))
        time.sleep(random.uniform(0, 0.3))
        hit += parent.poll() is None
        parent.kill()
        parent.wait()
        assert parent.stdout is not None
        parent.stdout.close()
        wait_until(lambda: marked_processes(mark) in ([], [os.getpid()]))
        done.update({path: made(path) for path in base.rglob(DONE) if path not in done})
    assert hit >= 0.9 * kills, "the others ended before they were killed"
    with start_parent(base, stubs, pause_s) as last:
        assert last.wait() == 0
    print(
        f"{hit} of {kills} kills hit a running parent; {len(done)} of {stubs} stubs were done before the last"
    )
    assert {path: made(path) for path in done} == done, "what was done was done again"
    for path in base.rglob(PREDICTIONS):
        names = [json.loads(line)["sample_id"] for line in path.read_text().splitlines() if line[-1] == "}"]
        assert len(names) == len(set(names)) == 5
    records = [json.loads(path.read_bytes()) for path in base.glob("execution_*/*/record.json")]
    assert {record["status"] for record in records} == {"passed"}
    assert len({record["case"]["fingerprint"] for record in records}) == len(records) == stubs
    execute(tmp_path / "calm", subsets=stubs, samples=5)
    assert sorted(contents(base).values()) == sorted(contents(tmp_path / "calm").values())


@pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_signals_end_an_execution_with_its_books_in_order(
    tmp_path: Path, mark: str, signals: tuple[signal.Signals, ...]
) -> None:
    base = tmp_path / "results"
    with start_parent(base, 24, 0.3) as parent:
        wait_until(lambda: len(list(base.rglob(PREDICTIONS))) >= 2)
        wait_until(lambda: any(path.stat().st_size for path in base.rglob(PREDICTIONS)))
        for number in signals:
            parent.send_signal(number)
            time.sleep(0.05)
        output, _ = parent.communicate(timeout=60)
    completed, cancelled = map(int, output.split())
    assert completed + cancelled == 24 and cancelled >= 8
    if signals == (signal.SIGINT,):
        assert completed >= 1, "running stubs were to be finished"
    (summary,) = base.glob("execution_*/execution_summary.json")
    assert json.loads(summary.read_bytes())["interrupted"]
    assert len(list(base.rglob(DONE))) == completed

"""What a run tells of itself while it goes on."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.curate import LocalExecutor, Pipeline, PipelineError, Stage, Task
from paceline.curate.alm import ALMManifestReader
from paceline.curate.progress import Progress, extent_of, make_progress
from paceline.curate.stage import ReaderStage, SplitStage
from paceline.curate.task import Outcome, Reject, StagePerf

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MIB = 1_048_576


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Lister(SplitStage):
    def __init__(self, size_bytes: int | None) -> None:
        self.size_bytes = size_bytes

    def input_bytes(self) -> int | None:
        return self.size_bytes


class Reader(ReaderStage):
    name = "reader"
    counts = "entries"


class Echo(Stage):
    def process(self, task: Task) -> Task:
        return task


def batch(size_mb: float, entries: int, rejects: int = 0) -> Outcome:
    perf = StagePerf(
        stage_name="reader",
        process_time=1.0,
        input_data_size_mb=size_mb,
        num_items_processed=1,
        custom_metrics={"entries": entries},
    )
    refused = (Reject(stage="reader", reason="bad"),) * rejects
    return Outcome(unit=0, part=0, tasks=(), perf=(perf,), rejects=refused)


def told(size_bytes: int | None, *, live: bool = False, interval_s: float = 10.0) -> Iterator[str]:
    """What is said of a run that takes 5 s to start and then does 2 MiB and 100 entries a second."""
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, live=live, interval_s=interval_s, clock=clock)
    progress.begin("alm", [Lister(size_bytes), Reader()], ())
    clock.now = 5.0
    for _ in range(31):
        progress.add(batch(2.0, 100, rejects=clock.now == 20.0))
        clock.now += 1.0
    progress.end(finished=True)
    yield from stream.getvalue().replace("\r", "\n").splitlines()


def test_plain_lines_come_at_intervals_with_rates_and_the_time_left() -> None:
    assert list(told(100 * MIB)) == [
        "alm: 12 %, 12 of 100 MiB, 2 MiB/s, 100 entries/s, 0:44 left",
        "alm: 32 %, 32 of 100 MiB, 2 MiB/s, 100 entries/s, 0:34 left, 1 rejected",
        "alm: 52 %, 52 of 100 MiB, 2 MiB/s, 100 entries/s, 0:24 left, 1 rejected",
        "alm: done, 62 %, 62 of 100 MiB, 1.72 MiB/s, 86.1 entries/s, 3,100 entries in 0:36, 1 rejected",
    ]


def test_without_a_known_end_there_is_no_time_left() -> None:
    lines = list(told(None))
    assert lines[0] == "alm: 12 MiB, 2 MiB/s, 100 entries/s"
    assert not any("left" in line or "%" in line for line in lines)


def test_a_short_run_says_nothing_in_a_log_and_one_line_on_a_terminal() -> None:
    assert list(told(100 * MIB, interval_s=100.0)) == []
    live = list(told(100 * MIB, live=True, interval_s=100.0))
    assert len(live) == 2 and live[1].startswith("alm: done, 62 %")


def test_the_end_is_not_promised_while_results_still_come() -> None:
    clock = Clock()
    progress = Progress(io.StringIO(), live=False, clock=clock)
    progress.begin("p", [Lister(10 * MIB), Reader()], ())
    for clock.now in (1.0, 2.0):
        progress.add(batch(5.0, 1))
    assert progress.read(3.0).left_s is None
    assert progress.line(3.0).startswith("100 %, 10 of 10 MiB")


def test_long_durations_have_hours() -> None:
    clock = Clock()
    progress = Progress(io.StringIO(), live=False, clock=clock)
    progress.begin("p", [Lister(100_000 * MIB), Reader()], ())
    for clock.now in (0.0, 1.0):
        progress.add(batch(10.0, 1))
    assert "2:46:38 left" in progress.line(1.0)


def test_given_tasks_are_counted_where_their_number_is_known() -> None:
    tasks = [Task(data=number) for number in range(300)]
    assert extent_of([Echo()], tasks).total == 300
    assert extent_of([Echo()], iter(tasks)).total is None
    stream = io.StringIO()
    progress = Progress(stream, live=False, interval_s=0.0)
    Pipeline("echo", [Echo()]).run(LocalExecutor(workers=1, tasks_per_unit=100), tasks, progress=progress)
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == ["echo: 33 %", "echo: 66 %", "echo: 100 %", "echo: done"]
    assert "300 tasks in" in lines[-1]


@pytest.mark.parametrize("workers", [1, 2])
def test_bytes_of_files_are_counted_on_the_way(tmp_path: Path, workers: int) -> None:
    (tmp_path / "m.jsonl").write_text('{"a": 1}\n' * 50_000)
    stream = io.StringIO()
    progress = Progress(stream, live=False, interval_s=0.0)
    pipeline = Pipeline("read", [ALMManifestReader(str(tmp_path), repeat_factor=2, range_bytes=100_000)])
    assert len(pipeline.run(LocalExecutor(workers=workers), progress=progress)) == 100_000
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("read: done, 100 %, 0.858 of 0.858 MiB") and "100,000 entries in" in last


def test_a_run_that_fails_is_said_to_have_stopped() -> None:
    class Trip(Stage):
        def process(self, task: Task) -> Task:
            return task.carrying(1 / (task.data - 150))

    stream = io.StringIO()
    progress = Progress(stream, live=False, interval_s=0.0)
    tasks = [Task(data=number) for number in range(300)]
    with pytest.raises(PipelineError):
        Pipeline("trip", [Trip()]).run(LocalExecutor(workers=1, tasks_per_unit=100), tasks, progress=progress)
    assert stream.getvalue().splitlines()[-1].startswith("trip: stopped, 33 %")


def test_the_mode_follows_the_stream() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def is_live(mode: str, stream: io.StringIO, term: str = "xterm") -> bool:
        found = make_progress(mode, stream, {"TERM": term})
        assert found is not None
        found.begin("p", [Echo()], ())
        found.end(finished=True)
        return "\r" in stream.getvalue()

    assert is_live("auto", Terminal()) and not is_live("auto", io.StringIO())
    assert not is_live("auto", Terminal(), "dumb") and is_live("live", io.StringIO())
    assert not is_live("plain", Terminal())
    assert make_progress("off") is None
    with pytest.raises(PipelineError, match="'loud', not one of auto"):
        make_progress("loud")


def run_script(tmp_path: Path, *words: str, stderr: int) -> None:
    script = BENCHMARKS / "scripts" / "modifier_benchmark.py"
    command = [sys.executable, str(script), "--benchmark-results-path", str(tmp_path / "r")]
    paths = ["--input-path", str(tmp_path / "in.jsonl"), "--output-path", str(tmp_path / "out")]
    subprocess.run([*command, *paths, *words], stderr=stderr, check=True, env={**os.environ, "TERM": "xterm"})


def test_the_benchmarks_draw_on_a_terminal_and_are_quiet_elsewhere(tmp_path: Path) -> None:
    lines = (json.dumps({"id": number, "text": "some words"}) for number in range(100))
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    ours, theirs = pty.openpty()
    run_script(tmp_path, stderr=theirs)
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    # A run that takes longer draws itself more than once.
    assert re.fullmatch(
        r"(\rmodifier: .*\x1b\[K)*\rmodifier: done, 100 %.* 100 documents in .*\x1b\[K\r\n", said
    )
    with (tmp_path / "log").open("w") as log:
        run_script(tmp_path, stderr=log.fileno())
        run_script(tmp_path, "--progress", "live", stderr=log.fileno())
    assert (tmp_path / "log").read_text().count("modifier: done") == 1

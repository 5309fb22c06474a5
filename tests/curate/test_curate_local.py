"""The local executor's own promises: exactly once, bounded, clear when a worker dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from living_processes import is_alive
from paceline.curate import LocalExecutor, Pipeline, Stage, Task
from paceline.curate.errors import StageFailed, WorkerLost
from patience import wait_until


class Square(Stage):
    def process(self, task: Task) -> Task:
        return task.carrying(task.data**2)


class DieOnce(Stage):
    """Kills its own process at one input, the first time only."""

    def __init__(self, at: int, flag: Path) -> None:
        self.at, self.flag = at, flag

    def process(self, task: Task) -> Task:
        if task.data == self.at and not self.flag.exists():
            self.flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


class DieAlways(Stage):
    def process(self, task: Task) -> Task:
        if task.data == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return task


class Many(Stage):
    """A lazy stage with more products than fit a batch; dies in the middle the first time."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def process(self, task: Task) -> Iterator[Task]:
        for number in range(1500):
            if task.data == 1 and number == 1200 and not self.flag.exists():
                self.flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield task.carrying((task.data, number))


class Echo(Stage):
    def process(self, task: Task) -> Task:
        return task


class Divide(Stage):
    def process(self, task: Task) -> Task:
        return task.carrying(1 / (task.data - 5))


def numbers(count: int) -> list[Task]:
    return [Task(data=number, task_id=f"number {number}") for number in range(count)]


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_a_killed_worker_loses_and_doubles_nothing(tmp_path: Path, start_method: str) -> None:
    executor = LocalExecutor(workers=2, tasks_per_unit=4, start_method=start_method)
    result = Pipeline("p", [DieOnce(9, tmp_path / "flag"), Square()]).run(executor, numbers(40))
    assert (tmp_path / "flag").exists()
    assert [task.data for task in result] == [number**2 for number in range(40)]


def test_parts_of_a_unit_that_arrived_before_the_death_are_not_doubled(tmp_path: Path) -> None:
    executor = LocalExecutor(workers=2, tasks_per_unit=1)
    result = Pipeline("p", [Many(tmp_path / "flag")]).run(executor, numbers(3))
    assert (tmp_path / "flag").exists()
    assert [task.data for task in result] == [(task, number) for task in range(3) for number in range(1500)]


def test_a_unit_that_kills_twice_ends_the_run_with_its_name() -> None:
    executor = LocalExecutor(workers=2, tasks_per_unit=1)
    with pytest.raises(WorkerLost, match="killed by SIGKILL while it worked on number 7"):
        Pipeline("p", [DieAlways()]).run(executor, numbers(20))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stage_error_names_stage_and_input_and_keeps_the_traceback(workers: int) -> None:
    executor = LocalExecutor(workers=workers, tasks_per_unit=2)
    with pytest.raises(StageFailed, match="stage Divide failed on number 5: ZeroDivisionError") as failed:
        Pipeline("p", [Divide()]).run(executor, numbers(12))
    assert "in process" in failed.value.traceback


def test_input_is_pulled_as_it_is_needed() -> None:
    pulled = 0

    def endless() -> Iterator[Task]:
        nonlocal pulled
        while True:
            pulled += 1
            yield Task(data=pulled)

    outcomes = Pipeline("p", [Square()]).stream(LocalExecutor(workers=2, tasks_per_unit=1), endless())
    for _ in range(50):
        next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert pulled < 70


def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        "import itertools, os, time\n"
        "from paceline.curate import LocalExecutor, Pipeline, Stage, Task\n"
        "class Name(Stage):\n"
        "    def process(self, task):\n"
        "        time.sleep(0.01)\n"
        "        return task.carrying(os.getpid())\n"
        "tasks = (Task(data=n) for n in itertools.count())\n"
        "for outcome in Pipeline('p', [Name()]).stream(LocalExecutor(workers=2, tasks_per_unit=1), tasks):\n"
        "    print(outcome.tasks[0].data, flush=True)\n"
    )
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    workers: set[int] = set()
    while len(workers) < 2:
        workers.add(int(driver.stdout.readline()))
    assert driver.pid not in workers
    driver.kill()
    driver.wait()
    driver.stdout.close()
    wait_until(lambda: not any(map(is_alive, workers)))


def test_large_units_and_large_results_do_not_block_each_other() -> None:
    tasks = [Task(data=bytes([number]) * 2_000_000) for number in range(24)]
    result = Pipeline("p", [Echo()]).run(LocalExecutor(workers=2, tasks_per_unit=1), tasks)
    assert [task.data[:1] for task in result] == [bytes([number]) for number in range(24)]


def test_a_bad_number_of_workers_is_refused() -> None:
    with pytest.raises(Exception, match="at least 1"):
        LocalExecutor(workers=0)

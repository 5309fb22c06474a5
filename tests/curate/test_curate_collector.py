"""The garbage collector around work: paused, unchanged afterwards, and not forgotten."""

import gc
import weakref

import pytest

from paceline.curate import LocalExecutor, Pipeline, Stage, Task
from paceline.curate.work import collector_paused

LEFT: list["weakref.ref[Knot]"] = []


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.me = self


class Tangle(Stage):
    def process(self, task: Task) -> Task:
        LEFT.append(weakref.ref(Knot()))
        return task


def test_the_collector_is_as_before_after_a_pause() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled() and gc.get_freeze_count() == 0
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()
    gc.enable()


def test_what_stages_leave_in_cycles_is_collected_in_long_runs() -> None:
    tasks = (Task(data=number) for number in range(200))
    for _ in Pipeline("p", [Tangle()]).stream(LocalExecutor(workers=1, tasks_per_unit=1), tasks):
        pass
    assert sum(knot() is not None for knot in LEFT) < 100

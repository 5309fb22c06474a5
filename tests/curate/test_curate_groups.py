"""Stages that book other resources than their neighbours have workers of their own, on every executor."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import (
    BadRecord,
    LocalExecutor,
    Pipeline,
    PipelineError,
    RayActorExecutor,
    RayDataExecutor,
    Resources,
    Stage,
    Task,
    XennaExecutor,
)
from paceline.curate.executors.flow import Flow
from paceline.curate.pipeline import Executor
from paceline.curate.work import plan_units

COUNT = 48
NVML = """
class NVMLError(Exception): ...
nvmlInit = nvmlShutdown = lambda: None
nvmlDeviceGetCount = lambda: 1
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetName = lambda handle: "not a GPU"
nvmlDeviceGetUUID = lambda handle: "GPU-00000000-0000-0000-0000-000000000001"
"""


class Noted(Stage):
    """Says in the payload when and where it worked; takes a while."""

    takes_s = 0.005

    def process(self, task: Task) -> Task:
        begun = time.monotonic()
        while time.monotonic() < begun + self.takes_s:
            time.sleep(0.001)
        note = (self.name, os.getpid(), begun, time.monotonic(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        return task.carrying({**task.data, "notes": [*task.data["notes"], note]})


class Prepare(Noted):
    def process(self, task: Task) -> Task:
        if task.data["number"] % 10 == 7:
            raise BadRecord("unlucky")
        self.count(prepared=1)
        return super().process(task)


class Think(Noted):
    """Has a model, which is loaded once in a worker."""

    resources = Resources(cpus=1, gpus=1)
    takes_s = 0.01

    def __init__(self, home: str) -> None:
        self.home = home
        self.model = 0

    def setup(self) -> None:
        assert not self.model, "set up twice"
        self.model = 3
        (Path(self.home) / f"setup-{os.getpid()}").touch()

    def process(self, task: Task) -> Task:
        task = super().process(task)
        return task.carrying({**task.data, "number": task.data["number"] * self.model})


class Tidy(Noted):
    def process(self, task: Task) -> Task | None:  # type: ignore[override]
        return None if task.data["number"] % 5 == 0 else super().process(task)


class Fall(Stage):
    """Kills its own process once, at one number."""

    def __init__(self, at: int, flag: Path, booked: Resources) -> None:
        self.at, self.flag, self.resources = at, flag, booked

    def process(self, task: Task) -> Task:
        if task.data["number"] == self.at and not self.flag.exists():
            self.flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


def given() -> list[Task]:
    return [Task(data={"number": number, "notes": []}, task_id=str(number)) for number in range(COUNT)]


EXPECTED = [3 * number for number in range(COUNT) if number % 10 != 7 and 3 * number % 5]

LOCAL: dict[str, Callable[[], Executor]] = {
    "fork": lambda: LocalExecutor(workers=2, gpus=1, tasks_per_unit=4, start_method="fork"),
    "spawn": lambda: LocalExecutor(workers=2, gpus=1, tasks_per_unit=4, start_method="spawn"),
    "one-worker": lambda: LocalExecutor(workers=1, gpus=1, tasks_per_unit=4),
}
ENGINES: dict[str, Callable[[], Executor]] = {
    "ray_actors": lambda: RayActorExecutor(tasks_per_unit=4),
    "ray_data": lambda: RayDataExecutor(tasks_per_unit=4),
    "xenna-streaming": lambda: XennaExecutor(tasks_per_unit=4),
    "xenna-batch": lambda: XennaExecutor(mode="batch", tasks_per_unit=4),
}


@pytest.fixture(scope="module")
def four_cpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster with a GPU and CPUs that may not be there: Xenna books some for each stage, and asks NVML for GPUs."""
    pytest.importorskip("cosmos_xenna")
    ray = pytest.importorskip("ray")
    # Not at the top: workers import this module too, and find nothing of the tests beside it.
    from ray_nodes import simulated_nodes

    home = tmp_path_factory.mktemp("nvml")
    (home / "pynvml.py").write_text(NVML)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]))
        with simulated_nodes({"num_cpus": 4, "num_gpus": 1}) as found:
            ray.init(address=found.address, log_to_driver=False)
            yield found
            ray.shutdown()


@pytest.fixture(params=[*LOCAL, *(pytest.param(name, marks=pytest.mark.ray) for name in ENGINES)])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param in ENGINES:
        request.getfixturevalue("four_cpus")
    return {**LOCAL, **ENGINES}[request.param]()


def test_a_gpu_is_booked_by_its_own_stage_alone(executor: Executor, tmp_path: Path) -> None:
    result = Pipeline("gpu", [Prepare(), Think(str(tmp_path)), Tidy()]).run(executor, given())
    assert [task.data["number"] for task in result] == EXPECTED
    assert sorted(reject.label for reject in result.rejects) == ["17", "27", "37", "47", "7"]
    notes = [note for task in result for note in task.data["notes"]]
    pids = {name: {pid for one, pid, *_ in notes if one == name} for name in ("Prepare", "Think", "Tidy")}
    assert len(pids["Think"]) == 1 and not pids["Think"] & (pids["Prepare"] | pids["Tidy"])
    assert {note[4] for note in notes if note[0] == "Think"} == {"0"}
    assert [file.name for file in tmp_path.iterdir()] == [f"setup-{pid}" for pid in pids["Think"]]
    if not isinstance(executor, XennaExecutor) or executor.mode == "streaming":
        assert beside(notes), "no CPU stage was at work while the GPU was"
    metrics = result.metrics()
    assert metrics["task_Prepare_custom.prepared_sum"] == 43
    assert metrics["task_Think_num_items_processed_sum"] == metrics["task_Tidy_num_items_processed_sum"] == 43
    assert [perf.stage_name for perf in result[0].stage_perf] == ["Prepare", "Think", "Tidy"]


def beside(notes: list[Any]) -> int:
    """How often a CPU stage worked at the same time as the GPU's."""
    gpu = [(begun, ended) for name, _, begun, ended, _ in notes if name == "Think"]
    cpu = [(begun, ended) for name, _, begun, ended, _ in notes if name != "Think"]
    return sum(a < d and c < b for a, b in gpu for c, d in cpu)


def test_workers_of_every_group_may_die(executor: Executor, tmp_path: Path) -> None:
    think = Think(str(tmp_path))
    falls = [
        Fall(5, tmp_path / "before", Resources()),
        Fall(36, tmp_path / "within", think.resources),
        Fall(63, tmp_path / "after", Resources()),
    ]
    if isinstance(
        executor, XennaExecutor
    ):  # It gives up a whole run for each death, and is begun three times.
        falls = falls[1:2]
    stages = [Prepare(), *falls[:-2], think, *falls[-2:], Tidy()]
    result = Pipeline("falls", stages).run(executor, given())
    assert all(fall.flag.exists() for fall in falls)
    assert [task.data["number"] for task in result] == EXPECTED
    assert result.metrics()["task_Prepare_custom.prepared_sum"] == 43


def test_nothing_is_over_before_the_input_is_read() -> None:
    """The worker with the GPU may be up first, and find nothing to do."""
    (unit, *_), _ = plan_units([Prepare()], given(), tasks_per_unit=COUNT)
    flow = Flow(iter([unit]), [1, 1])
    assert flow.next([1]) is None and not flow.is_over()
    job = flow.next([0])
    assert job is not None and flow.next([0]) is None and not flow.is_over()
    flow.done(job)
    flow.hand_on(job, "made")
    assert not flow.is_over()
    last = flow.next([1])
    assert last is not None and last.work == "made" and not flow.is_over()
    flow.done(last)
    assert flow.is_over()


def test_all_may_be_rejected_or_dropped_on_the_way(tmp_path: Path) -> None:
    tasks = [Task(data={"number": 7, "notes": []}, task_id=str(number)) for number in range(20)]
    result = Pipeline("none", [Prepare(), Think(str(tmp_path))]).run(LOCAL["fork"](), tasks)
    assert len(result) == 0 and len(result.rejects) == 20


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(PipelineError, match="stage Think books 1 GPUs, and 0 are here"):
        Pipeline("gpu", [Prepare(), Think(str(tmp_path))]).run(LocalExecutor(), given())


class Quarter(Noted):
    resources = Resources(cpus=0.25, gpus=0.5)


def test_a_gpu_may_be_shared(tmp_path: Path) -> None:
    executor = LocalExecutor(workers=2, gpus=1, tasks_per_unit=2)
    result = Pipeline("half", [Quarter()]).run(executor, given())
    notes = [note for task in result for note in task.data["notes"]]
    assert len(result) == COUNT and len({pid for _, pid, *_ in notes}) == 2
    assert {note[4] for note in notes} == {"0"}


class Endless(Stage):
    """Many batches of one unit."""

    def process(self, task: Task) -> Iterator[Task]:
        for number in range(4000):
            yield task.carrying({"number": number, "blob": b"x" * 2000, "notes": []})


class Slow(Stage):
    resources = Resources(cpus=1, gpus=1)

    def process_batch(self, tasks):  # type: ignore[no-untyped-def]
        time.sleep(0.002)
        return [task.carrying({"number": task.data["number"]}) for task in tasks]


class After(Stage):
    def process(self, task: Task) -> Task:
        return task


def test_a_unit_of_many_batches_is_held_back_and_comes_through() -> None:
    """All CPU workers are at work on the first group when its batches pile up before the second."""
    executor = LocalExecutor(workers=2, gpus=1, tasks_per_unit=1)
    tasks = [Task(data={}, task_id=str(number)) for number in range(3)]
    result = Pipeline("endless", [Endless(), Slow(), After()]).run(executor, tasks)
    assert [task.data["number"] for task in result] == [*range(4000)] * 3

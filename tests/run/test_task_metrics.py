"""What tasks come to, however they were written."""

import collections
import io
import json
import os
import pickle
import random
import statistics
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from living_processes import is_alive
from paceline.run.inert_pickle import BadPickle
from paceline.run.local.tree import read_proc
from paceline.run.task_metrics import Bounds, Spread, Tally, read_lines, read_pickle
from patience import wait_until

MEASURES = ("process_time", "actor_idle_time", "input_data_size_mb", "num_items_processed")
FIELDS = ("stage_name", *MEASURES, "custom_metrics")


class Stats:
    """Stage statistics as a class with slots, whose state may be a dict or, of older kinds, a tuple."""

    __slots__ = FIELDS

    def __init__(self, name: str, process_time: Any = 1.0, items: Any = 0, custom: Any = None) -> None:
        self.stage_name = name
        self.process_time = process_time
        self.actor_idle_time = 0.25
        self.input_data_size_mb = 2.0
        self.num_items_processed = items
        self.custom_metrics = custom or {}

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("executed")


class DictStats(Stats):
    __slots__ = ()

    def __getstate__(self) -> Any:
        return {name: getattr(self, name) for name in FIELDS}


class TupleStats(Stats):
    __slots__ = ()

    def __getstate__(self) -> Any:
        return tuple(getattr(self, name) for name in FIELDS)


class PairStats(Stats):
    __slots__ = ()

    def __getstate__(self) -> Any:
        return None, {name: getattr(self, name) for name in FIELDS}


@dataclass
class Batch:
    """A task with a payload, a class of another library."""

    dataset_name: str = "cc"
    data: Any = None
    _stage_perf: list[Any] = field(default_factory=list)
    _metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class WorkflowResult:
    workflow_name: str
    pipeline_tasks: Any
    metadata: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def other_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes above live in a module that only the writer has."""
    module = types.ModuleType("other_library")
    for kind in (Stats, DictStats, TupleStats, PairStats, Batch, WorkflowResult):
        monkeypatch.setattr(kind, "__module__", "other_library")
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "other_library", module)


def read(data: Any, protocol: int = 4) -> Tally:
    content = pickle.dumps(data, protocol)
    return read_pickle(io.BytesIO(content), len(content))


def batch(*stats: Any, **attributes: Any) -> Batch:
    made = Batch(_stage_perf=list(stats))
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", [Stats, DictStats, TupleStats, PairStats])
def test_sum_mean_and_spread_of_each_stage(kind: type[Stats], protocol: int) -> None:
    tasks = [batch(kind("read", 1.0, 10), kind("filter", 5.0)), batch(kind("read", 3.0, 20, {"tokens": 7}))]
    metrics = read(tasks, protocol).metrics()
    assert metrics["task_read_process_time_sum"] == 4.0
    assert metrics["task_read_process_time_mean"] == 2.0
    assert metrics["task_read_process_time_std"] == 1.0
    assert metrics["task_read_num_items_processed_sum"] == 30
    assert metrics["task_read_actor_idle_time_mean"] == 0.25
    assert metrics["task_read_input_data_size_mb_sum"] == 4.0
    assert metrics["task_read_custom.tokens_mean"] == 7
    assert metrics["task_filter_process_time_sum"] == 5.0
    assert metrics["task_filter_process_time_std"] == 0.0
    assert len(metrics) == 2 * 4 * 3 + 3


def test_statistics_shared_by_the_tasks_of_one_batch_count_once() -> None:
    shared = DictStats("read", 4.0)
    metrics = read([batch(shared), batch(shared, DictStats("read", 2.0)), batch(shared)]).metrics()
    assert metrics["task_read_process_time_sum"] == 6.0
    assert metrics["task_read_process_time_mean"] == 3.0


@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: {"pipeline_tasks": x}, lambda x: WorkflowResult("w", x)]
)
@pytest.mark.parametrize("mapping", [dict, collections.OrderedDict])
def test_workflows_name_the_pipeline(wrap: Callable[[Any], Any], mapping: Callable[[Any], Any]) -> None:
    shared = DictStats("read", 1.0)
    pipelines = mapping({"dedup": [batch(shared)], "removal": [batch(shared, DictStats("write", 2.0))]})
    metrics = read(wrap(pipelines)).metrics()
    assert metrics["task_dedup_read_process_time_sum"] == 1.0
    assert metrics["task_removal_read_process_time_sum"] == 1.0
    assert metrics["task_removal_write_process_time_sum"] == 2.0


def test_a_default_dict_of_pipelines() -> None:
    pipelines = collections.defaultdict(list)
    pipelines["p"].append(batch(DictStats("read", 1.0)))
    assert read(pipelines).metrics()["task_p_read_process_time_sum"] == 1.0


@pytest.mark.parametrize("protocol", [2, 4])
def test_tasks_in_other_containers(protocol: int) -> None:
    for container in (tuple, collections.deque):
        assert read(container([batch(DictStats("a"))]), protocol).metrics()["task_a_process_time_sum"] == 1.0


def test_numpy_numbers_count_as_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    stats = DictStats("a", numpy.float64(1.5), numpy.int64(3), {"k": numpy.float32(0.5), "b": numpy.uint8(7)})
    metrics = read([batch(stats, data=numpy.arange(100), _metadata={"n": numpy.float64(1)})]).metrics()
    assert metrics["task_a_process_time_sum"] == 1.5
    assert metrics["task_a_num_items_processed_sum"] == 3
    assert metrics["task_a_custom.k_sum"] == 0.5
    assert metrics["task_a_custom.b_sum"] == 7


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def test_a_scalar_of_numpy_as_its_bytes() -> None:
    """What numpy writes on a machine of the other byte order, spelled out so that no numpy is needed."""
    dtype = b"cnumpy\ndtype\n(" + text("f8") + b"\x89\x88tR(K\x03" + text(">") + b"NNNK\xffK\xffK\x00tb"
    scalar = b"cnumpy.core.multiarray\nscalar\n" + dtype + b"C\x08\x3f\xf8\x00\x00\x00\x00\x00\x00\x86R"
    stage = b"}(" + text("stage_name") + text("a") + text("process_time") + scalar + b"u"
    content = b"\x80\x04]}" + text("_stage_perf") + b"]" + stage + b"asa."
    assert read_pickle(io.BytesIO(content), len(content)).metrics()["task_a_process_time_sum"] == 1.5


def test_tasks_say_what_they_were() -> None:
    tally = read([batch(DictStats("a", 2.0, 3), task_id="0_1"), batch()])
    first, second = tally.tasks
    assert first["dataset_name"] == "cc"
    assert first["task_id"] == "0_1"
    assert first["stages"][0] == {
        "stage_name": "a",
        "process_time": 2.0,
        "actor_idle_time": 0.25,
        "input_data_size_mb": 2.0,
        "num_items_processed": 3.0,
        "custom_metrics": {},
    }
    assert second == {"dataset_name": "cc", "task_id": None, "stages": []}
    json.dumps(tally.tasks)


def test_the_list_of_tasks_is_bounded_and_the_statistics_are_not() -> None:
    tally = read(
        [{"task_id": str(n), "_stage_perf": [{"stage_name": "a", "process_time": 1}]} for n in range(1100)]
    )
    assert len(tally.tasks) == 1000
    assert tally.metrics()["task_a_process_time_sum"] == 1100


@pytest.mark.parametrize(
    ("root", "said"),
    [
        (None, "a list of tasks is needed, not nothing"),
        (5, "a list of tasks is needed, not a value of type int"),
        ("text", "not a value of type str"),
        (Path("x"), "not a pathlib"),
        ({"p": 5}, "pipeline p: a list of tasks is needed"),
        ([1, 2], "no task but a value of type int (2 times)"),
        (
            [{"task_id": "a", "_stage_perf": [3]}],
            "stage statistics without a stage name: a value of type int",
        ),
    ],
)
def test_anything_else_is_a_note(root: Any, said: str) -> None:
    tally = read(root)
    assert said in tally.notes()[0]
    assert tally.metrics() == {}


def test_an_empty_list_is_fine() -> None:
    assert read([]).notes() == []


def test_values_that_are_no_numbers_are_left_out() -> None:
    stats = {
        "stage_name": "a",
        "process_time": "fast",
        "num_items_processed": True,
        "custom_metrics": {"x": None},
    }
    assert read([{"_stage_perf": [stats]}]).metrics() == {}
    huge = {"stage_name": "a", "process_time": 10**400}
    assert read([{"_stage_perf": [huge]}]).metrics()["task_a_process_time_sum"] == float("inf")


def test_names_become_valid_text_of_bounded_length() -> None:
    tally = read([{"task_id": "\ud800", "_stage_perf": [{"stage_name": "x" * 10_000, "process_time": 1}]}])
    json.dumps(tally.to_json(), ensure_ascii=False).encode()
    assert max(map(len, tally.metrics())) < 300


def test_walking_one_list_over_and_over_is_refused() -> None:
    stats = [{"stage_name": "a"}] * 3000
    with pytest.raises(BadPickle, match="over and over"):
        read({str(n): [{"_stage_perf": stats}] * 100 for n in range(50)})


def test_tasks_as_lines_of_json() -> None:
    line = {
        "task_id": "1",
        "_stage_perf": [{"stage_name": "a", "process_time": 2, "custom_metrics": {"k": 1}}],
    }
    content = f"{json.dumps(line)}\n\n{json.dumps(line)}\nnot json\n[1]\n".encode()
    tally = read_lines(io.BytesIO(content))
    assert tally.metrics()["task_a_process_time_sum"] == 4
    assert tally.metrics()["task_a_custom.k_sum"] == 2
    assert "line 4 is not JSON" in tally.notes()[0]
    assert "no task but a value of type list" in tally.notes()[1]


def test_hostile_lines() -> None:
    assert "not JSON" in read_lines(io.BytesIO(b"[" * 200_000)).notes()[0]
    assert "longer than" in read_lines(io.BytesIO(b" " * 10 + b"x" * (2 << 20))).notes()[0]
    assert "7 more lines" in read_lines(io.BytesIO(b"x\n" * 10)).notes()[-1]


def _file(tmp_path: Path, content: bytes) -> Any:
    path = tmp_path / "tasks.pkl"
    path.write_bytes(content)
    return path.open("rb"), len(content)


def read_apart(tmp_path: Path, content: bytes, **bounds: Any) -> Tally:
    file, size = _file(tmp_path, content)
    with file:
        return read_pickle(file, size, Bounds(in_process_bytes=0, **bounds))


def test_a_large_file_gives_the_same_from_a_process_of_its_own(tmp_path: Path) -> None:
    shared = DictStats("read", 4.0, 5, {"k": 0.5})
    root = {"p": [batch(shared, DictStats("b", 1.5), data="x" * 1000) for _ in range(100)] + [5]}
    content = pickle.dumps(root)
    here = read_pickle(io.BytesIO(content), len(content), Bounds(in_process_bytes=len(content)))
    apart = read_apart(tmp_path, content)
    assert apart.metrics() == here.metrics()
    assert apart.tasks == here.tasks
    assert apart.notes() == here.notes()


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/should-not-be-there",)


@pytest.mark.parametrize(
    ("content", "bounds", "said"),
    [
        (pickle.dumps([Evil()]), {}, "posix.system"),
        (b"\x80\x04]", {}, "ends in the middle"),
        (b"\x80\x04\x8e\x00\x00\x00\x40\x00\x00\x00\x00.", {}, "claims 1,073,741,824 bytes"),
        (b"\x8f" * 3_000_000, {"memory_bytes": 200 << 20}, "more than 200 MiB of memory"),
        (b"N0" * 20_000_000, {"cpu_s": 1}, "more than 1 s of CPU time"),
        (b"N0" * 20_000_000, {"wall_s": 0.2}, "more than 0.2 s"),
    ],
)
def test_a_hostile_large_file_is_refused(tmp_path: Path, content: bytes, bounds: Any, said: str) -> None:
    with pytest.raises(BadPickle, match=said):
        read_apart(tmp_path, content, **bounds)


def test_deep_nesting_in_a_process_of_its_own(tmp_path: Path) -> None:
    for content in (b"]" + b"\x85" * 1_000_000 + b".", b"})" + b"\x85" * 1_000_000 + b"K\x01s."):
        assert read_apart(tmp_path, content).metrics() == {}


def test_the_reader_ends_when_the_runner_is_killed(tmp_path: Path) -> None:
    """The reader carries on only while someone waits for its answer."""
    (tmp_path / "tasks.pkl").write_bytes(b"N0" * 20_000_000)
    text = f"""
from paceline.run.task_metrics import Bounds, read_pickle
file = open({str(tmp_path / "tasks.pkl")!r}, "rb")
print("go", flush=True)
read_pickle(file, 1 << 30)
"""
    runner = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert runner.stdout is not None
    runner.stdout.readline()
    reader = int(wait_until(lambda: read_proc(f"/proc/{runner.pid}/task/{runner.pid}/children").split())[0])
    wait_until(lambda: _waits_for_signal(reader))
    runner.kill()
    runner.wait()
    wait_until(lambda: not is_alive(reader))


def _waits_for_signal(pid: int) -> bool:
    """Whether it has bounded itself, which comes after asking to be ended with its parent."""
    limits = read_proc(f"/proc/{pid}/limits").decode()
    return "Max core file size        0 " in limits and str(2 << 30) in limits


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.data())
def test_the_spread_is_that_of_all_values(values: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    left, right = Spread(), Spread()
    for value in values[:cut]:
        left.add(value)
    for value in values[cut:]:
        right.add(value)
    left.merge(right)
    assert left.count == len(values)
    assert left.total == pytest.approx(sum(values), abs=1e-6)
    assert left.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert left.std == pytest.approx(statistics.pstdev(values), abs=1e-3)


names = st.sampled_from([*FIELDS, "_stage_perf", "pipeline_tasks", "task_id", "other"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=30,
)


@given(json_values)
def test_any_plain_data_gives_numbers_and_notes(root: Any) -> None:
    tally = read(root)
    assert all(isinstance(value, float) for value in tally.metrics().values())
    assert all("\n" not in note for note in tally.notes())


def test_order_does_not_matter_to_the_result() -> None:
    tasks = [batch(DictStats("a", float(n))) for n in range(50)]
    before = read(tasks).metrics()
    random.Random(1).shuffle(tasks)
    assert read(tasks).metrics() == pytest.approx(before)

"""What the tasks of a run come to: for each stage the sum, mean and spread of its statistics.

A task carries a list of stage statistics; one statistics object belongs to one processed batch and is shared by all
the tasks that came of the batch, so it is counted once. Tasks come as objects of a pickle that was read inertly, or as
plain dicts; as a list, as a mapping of pipelines to lists, or as a workflow's result that holds such a mapping.

Small pickles are read here. A large one is read by a process of its own with bounds on memory and time, which only
hands back the statistics: what it takes to hold someone's payload is never the runner's memory.
"""

import gc
import json
import math
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from typing import Any, BinaryIO

from paceline.model import is_number
from paceline.plugins import boot_code, python_command
from paceline.run.inert_pickle import BadPickle, Inert, load

MAX_TASKS_KEPT = 1000
_MAX_STAGES_KEPT = 10_000
_MAX_NAME = 200
_MAX_STATISTICS = 5_000
_MAX_LINE_BYTES = 1 << 20
_OUT_OF_MEMORY = 3

# A reference takes two bytes of a pickle, so an honest small file is far below this; a shared list can be walked often.
_MAX_VISITS = 300_000
_MAX_VISITS_APART = 200_000_000

_MEASURES = ("process_time", "actor_idle_time", "input_data_size_mb", "num_items_processed")
_FIELDS = ("stage_name", *_MEASURES, "custom_metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What reading one pickle may take."""

    in_process_bytes: int = 64 << 10
    memory_bytes: int = 2 << 30
    cpu_s: int = 120
    wall_s: float = 240.0


@dataclass(slots=True)
class Spread:
    """Count, sum, mean and squared deviations of values seen one by one (Welford's method)."""

    count: int = 0
    total: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        step = value - self.mean
        self.mean += step / self.count
        self.squares += step * (value - self.mean)

    def merge(self, other: "Spread") -> None:
        count = self.count + other.count
        if not count:
            return
        step = other.mean - self.mean
        self.squares += other.squares + step * step * self.count * other.count / count
        self.mean += step * other.count / count
        self.total += other.total
        self.count = count

    @property
    def std(self) -> float:
        """The population's standard deviation."""
        return math.sqrt(self.squares / self.count) if self.squares >= 0 else math.nan


Key = tuple[str | None, str, str]


class Tally:
    """The statistics of all tasks added so far, and a bounded list of what they were."""

    def __init__(self, max_visits: int = _MAX_VISITS) -> None:
        self.spreads: dict[Key, Spread] = {}
        self.tasks: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._stages_kept = 0
        self._visits_left = max_visits
        self._strangers: dict[str, int] = {}

    def add(self, root: Any) -> None:
        """Add a list of tasks, a mapping of pipelines to tasks, or a workflow's result."""
        inner = root.field("pipeline_tasks") if isinstance(root, Inert) else None
        pipelines = entries(root if inner is None else inner)
        if pipelines is not None and "pipeline_tasks" in pipelines:
            pipelines = entries(pipelines["pipeline_tasks"])
        if pipelines is not None:
            for name, tasks in pipelines.items():
                self.add_pipeline(clean(str(name)) if isinstance(name, str | int) else "?", tasks)
        else:
            self.add_pipeline(None, root)

    def add_pipeline(self, pipeline: str | None, tasks: Any) -> None:
        listed = elements(tasks)
        if listed is None:
            where = "" if pipeline is None else f"pipeline {pipeline}: "
            self.problems.append(f"{where}a list of tasks is needed, not {_said(tasks)}")
            return
        seen: set[int] = set()
        for task in listed:
            self.add_task(pipeline, task, seen)

    def add_task(self, pipeline: str | None, task: Any, seen: set[int]) -> None:
        self._visit()
        stages = elements(_field(task, "_stage_perf"))
        if stages is None and not any(_field(task, name) for name in ("task_id", "dataset_name")):
            self._note(f"no task but {_said(task)}")
            return
        keeps = len(self.tasks) < MAX_TASKS_KEPT
        kept = []
        for statistics in stages or ():
            self._visit()
            is_new = id(statistics) not in seen
            found = _statistics(statistics) if is_new or keeps else None
            if found is not None:
                kept.append(found)
            elif is_new:
                self._note(f"stage statistics without a stage name: {_said(statistics)}")
            if found is not None and is_new:
                self._count(pipeline, found)
            seen.add(id(statistics))
        if keeps:
            self._keep(task, kept)

    def merge(self, other: "Tally") -> None:
        for key, spread in other.spreads.items():
            self.spreads.setdefault(key, Spread()).merge(spread)
        self.tasks = [*self.tasks, *other.tasks][:MAX_TASKS_KEPT]
        self.problems += other.problems

    def metrics(self) -> dict[str, float]:
        """`task_<stage>_<metric>_{sum,mean,std}`, with the pipeline before the stage if there are several."""
        named = {}
        for (pipeline, stage, measure), spread in self.spreads.items():
            prefix = f"task_{stage}_{measure}" if pipeline is None else f"task_{pipeline}_{stage}_{measure}"
            named[f"{prefix}_sum"] = spread.total
            named[f"{prefix}_mean"] = spread.mean
            named[f"{prefix}_std"] = spread.std
        return named

    def notes(self) -> list[str]:
        """What was odd, each kind once."""
        counted = [
            f"{text} ({count} times)" if count > 1 else text for text, count in self._strangers.items()
        ]
        return [*self.problems, *counted]

    def to_json(self) -> dict[str, Any]:
        spreads = [[*key, s.count, s.total, s.mean, s.squares] for key, s in self.spreads.items()]
        return {"spreads": spreads, "tasks": self.tasks, "problems": self.notes()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Tally":
        tally = cls()
        for pipeline, stage, measure, *numbers in data["spreads"]:
            tally.spreads[pipeline, stage, measure] = Spread(*numbers)
        tally.tasks = data["tasks"]
        tally.problems = data["problems"]
        return tally

    def _count(self, pipeline: str | None, statistics: Mapping[str, Any]) -> None:
        values = [(name, statistics[name]) for name in _MEASURES]
        values += [(f"custom.{name}", value) for name, value in statistics["custom_metrics"].items()]
        for name, value in values:
            self._visit()
            key = (pipeline, statistics["stage_name"], name)
            if value is not None and (key in self.spreads or len(self.spreads) < _MAX_STATISTICS):
                self.spreads.setdefault(key, Spread()).add(value)
            elif value is not None:
                self._note(f"more than {_MAX_STATISTICS:,} different statistics; the others are left out")

    def _keep(self, task: Any, stages: list[dict[str, Any]]) -> None:
        room = max(_MAX_STAGES_KEPT - self._stages_kept, 0)
        self._stages_kept += len(stages[:room])
        dataset, identity = _field(task, "dataset_name"), _field(task, "task_id")
        self.tasks.append(
            {
                "dataset_name": clean(dataset) if isinstance(dataset, str) else None,
                "task_id": clean(identity) if isinstance(identity, str) else None,
                "stages": stages[:room],
            }
        )

    def _note(self, text: str) -> None:
        if text in self._strangers or len(self._strangers) < 5:
            self._strangers[text] = self._strangers.get(text, 0) + 1

    def _visit(self) -> None:
        self._visits_left -= 1
        if self._visits_left < 0:
            raise BadPickle("it refers to the same tasks over and over, too often to count them")


def read_pickle(file: BinaryIO, size: int, bounds: Bounds | None = None) -> Tally:
    """The tally of an open pickle; raises `BadPickle` if it cannot be read or asks for too much."""
    bounds = bounds or Bounds()
    if size > bounds.in_process_bytes:
        return _read_apart(file, bounds)
    tally = Tally()
    tally.add(load(file.read()))
    return tally


def read_lines(file: BinaryIO) -> Tally:
    """The tally of tasks as JSON, one object a line."""
    tally = Tally(_MAX_VISITS_APART)
    bad = 0
    for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES + 1), b""), start=1):
        if not line.strip():
            continue
        if len(line) > _MAX_LINE_BYTES:
            tally.problems.append(
                f"line {number} is longer than {_MAX_LINE_BYTES:,} bytes; the rest is left out"
            )
            break
        try:
            task = json.loads(line)
        except (ValueError, RecursionError) as error:
            bad += 1
            if bad <= 3:
                tally.problems.append(f"line {number} is not JSON: {error}")
            continue
        # A pipeline's lines (`paceline.curate`) repeat for other tools what its `tasks.pkl` holds.
        if not (isinstance(task, dict) and "stage_perf" in task):
            tally.add_task(None, task, set())
    if bad > 3:
        tally.problems.append(f"{bad - 3} more lines are not JSON")
    return tally


def _read_apart(file: BinaryIO, bounds: Bounds) -> Tally:
    held, alive = os.pipe()
    words = (str(held), str(bounds.memory_bytes), str(bounds.cpu_s))
    try:
        child = subprocess.Popen(
            python_command(boot_code("paceline.run.task_metrics:serve"), *words),
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(held,),
            env={},
            # Ctrl-C is for the runner, which decides what it means.
            start_new_session=True,
        )
        with child:
            return _answer(child, bounds)
    finally:
        os.close(held)
        os.close(alive)


def _answer(child: "subprocess.Popen[bytes]", bounds: Bounds) -> Tally:
    try:
        said, _ = child.communicate(timeout=bounds.wall_s)
    except subprocess.TimeoutExpired:
        raise BadPickle(f"reading it takes more than {bounds.wall_s:g} s") from None
    finally:
        child.kill()
    if child.returncode == -signal.SIGXCPU:
        raise BadPickle(f"reading it takes more than {bounds.cpu_s} s of CPU time")
    if child.returncode == _OUT_OF_MEMORY:
        raise BadPickle(f"reading it takes more than {bounds.memory_bytes >> 20} MiB of memory")
    if child.returncode:
        raise BadPickle(f"the process that reads it ended with {child.returncode}")
    answer = json.loads(said)
    if "refused" in answer:
        raise BadPickle(answer["refused"])
    return Tally.from_json(answer)


def serve(held: str, memory_bytes: str, cpu_s: str) -> None:
    """The other process: reads the pickle at its standard input, prints the tally as JSON."""
    _end_with_parent(int(held))
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Millions of live objects and no garbage: looking for cycles would take most of the time.
    gc.disable()
    tally = Tally(_MAX_VISITS_APART)
    try:
        tally.add(load(mmap(0, 0, access=ACCESS_READ)))
        answer = tally.to_json()
    except BadPickle as error:
        answer = {"refused": str(error)}
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    # Taking apart what was read would take as long as reading it.
    os._exit(0)


def _end_with_parent(held: int) -> None:
    """Have the kernel end this process when the other end of a pipe closes, that is when the runner dies."""
    import fcntl
    import select

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(held, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(held, fcntl.F_SETFL, fcntl.fcntl(held, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([held], [], [], 0)[0]:
        # It died before we asked.
        os._exit(1)


def elements(value: Any) -> Sequence[Any] | None:
    """What a list, tuple, set, deque or subclass of them holds; none for anything else."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, Inert):
        return None
    if value.items:
        return value.items
    if value.kind.path in {"builtins.set", "builtins.frozenset", "builtins.list", "collections.deque"}:
        # Newer protocols append the contents, older ones hand them to the class.
        given = value.args[0] if value.args else ()
        return given if isinstance(given, list | tuple) else ()
    return None


def entries(value: Any) -> Mapping[Any, Any] | None:
    """What a dict, an ordered or default one, or a subclass of them holds; none for anything else."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, Inert):
        return None
    known = value.kind.path in {"collections.OrderedDict", "collections.defaultdict"}
    if not value.pairs and not known:
        return None
    given = [pair for part in value.args if isinstance(part, list) for pair in part] if known else []
    pairs = (pair for pair in (*given, *value.pairs) if isinstance(pair, tuple | list) and len(pair) == 2)
    return {key: content for key, content in pairs if isinstance(key, str)}


def number(value: Any) -> float | None:
    """The value as a float if it is a number, numpy's scalars included."""
    if isinstance(value, Inert) and value.kind.name == "scalar" and value.kind.module.startswith("numpy."):
        value = _numpy_scalar(*value.args) if len(value.args) == 2 else None
    if not is_number(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_NUMPY_FORMS = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q"}
_NUMPY_FORMS |= {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}


def _numpy_scalar(dtype: Any, content: Any) -> Any:
    code = dtype.args[0] if isinstance(dtype, Inert) and dtype.args else None
    form = _NUMPY_FORMS.get(code) if isinstance(code, str) else None
    if form is None or not isinstance(content, bytes) or len(content) != struct.calcsize(f"<{form}"):
        return None
    state = dtype.field_values
    order = ">" if len(state) > 1 and state[1] == ">" else "<"
    return struct.unpack(order + form, content)[0]


def clean(text: str) -> str:
    """A name as a record can hold it: not too long, and valid Unicode."""
    return text[:_MAX_NAME].encode("utf-8", "replace").decode()


def _field(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    return value.field(name) if isinstance(value, Inert) else None


def _statistics(value: Any) -> dict[str, Any] | None:
    """One object of stage statistics as plain data; none if it does not say which stage it is of."""
    fields = {name: _field(value, name) for name in _FIELDS}
    if fields["stage_name"] is None and isinstance(value, Inert):
        fields |= dict(zip(_FIELDS, value.field_values, strict=False))
    if not isinstance(fields["stage_name"], str):
        return None
    custom = entries(fields["custom_metrics"]) or {}
    numbers = {clean(name): number(content) for name, content in custom.items() if isinstance(name, str)}
    return {
        "stage_name": clean(fields["stage_name"]),
        **{name: number(fields[name]) for name in _MEASURES},
        "custom_metrics": {name: content for name, content in numbers.items() if content is not None},
    }


def _said(value: Any) -> str:
    if isinstance(value, Inert):
        return f"a {clean(value.kind.path)}"
    return "nothing" if value is None else f"a value of type {type(value).__name__}"

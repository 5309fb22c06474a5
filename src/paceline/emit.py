"""What a benchmark script says about itself: parameters, metrics, and the time its parts took.

    from paceline import emit

    emit.params({"rows": 1000})
    with emit.task("sorting") as part:
        rows.sort()
        part.items = len(rows)
    emit.metrics({"is_success": True, "rows_per_sec": 1000 / part.elapsed_s})

Everything goes to the directory of `--benchmark-results-path`, else of `PACELINE_RESULTS_PATH`, so a script runs
the same by hand as under `paceline run`. Each call adds to what the files hold already and replaces them in one step;
threads and other processes of the same script may call at the same time. Standard library only, and little of it at
import: the cost of importing this module is part of what a script measures.
"""
# So its lock, and what it appends and replaces, are its own and not those of `record.files`.

import atexit
import os
import sys
import threading
import time

# A type checker knows typing's constant by name too; importing typing would cost more than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self

__all__ = ["Task", "fail", "is_wanted", "metric", "metrics", "params", "results_path", "skip", "task", "warn"]

_OPTION = "--benchmark-results-path"
_VARIABLE = "PACELINE_RESULTS_PATH"
_OUTCOME = "case_outcome.json"
_FLUSH_INTERVAL_S = 1.0
# A flush rewrites the whole file; waiting this many times what the last one took keeps the share below 2 %.
_FLUSH_REST = 50
_MAX_DEPTH = 100


def params(mapping: "Mapping[str, Any]") -> None:
    """Add to `params.json`: what the script was asked to do."""
    _merge("params.json", _named_values(mapping))


def metrics(mapping: "Mapping[str, Any]") -> None:
    """Add to `metrics.json`: what the script measured; a list of numbers is a metric's samples."""
    _merge("metrics.json", _named_values(mapping))


def metric(name: str, value: "Any", unit: str | None = None, direction: str | None = None) -> None:
    """Add one metric; its unit, if given, is kept in `units.json`, and its direction in `directions.json`.

    `direction` says which way is better: "lower" or "higher". Without it, the name or the unit may tell.
    """
    if direction not in (None, "lower", "higher"):
        raise ValueError(f'the direction of {name!r} is "lower" or "higher", not {direction!r}')
    _merge("metrics.json", _named_values({name: value}))
    if unit is not None:
        _merge("units.json", {name: str(unit)})
    if direction is not None:
        _merge("directions.json", {name: direction})


def skip(reason: str) -> None:
    """Say that the benchmark does not apply here, before the script ends with 0: its record is skipped, not failed."""
    _merge(_OUTCOME, {"status": "skipped", "reason": str(reason)})


def fail(reason: str) -> None:
    """Say in one line why the benchmark failed, where the last line that it prints does not."""
    _merge(_OUTCOME, {"status": "failed", "reason": str(reason)})


def warn(text: str) -> None:
    """Add a warning to the record: something to know that does not decide how the benchmark ended."""
    _merge(_OUTCOME, {"warnings": [str(text)]}, extends=True)


def task(name: str, *, items: int = 0, bytes: int = 0, **custom: float) -> "Task":
    """Time a named part of the script: `with emit.task("data_loading") as part: …`, kept in `tasks.pkl`.

    Each use is one sample of the stage `name`; further keywords become custom metrics of it.
    """
    return Task(name, items, bytes, custom)


def is_wanted() -> bool:
    """Whether there is a place to write to, as there is under `paceline run`."""
    return bool(_find_path())


def results_path() -> str:
    """The directory that everything is written to, as an absolute path; made if it is not there."""
    # A script may change its directory on the way; the path it was given counts from where it was started.
    path = os.path.join(_start_dir, _chosen_path())  # noqa: PTH118 - pathlib is slow to import
    os.makedirs(path, exist_ok=True)  # noqa: PTH103
    # Set now, before worker processes are started, for them to inherit.
    _run_id()
    return path


class Task:
    """One timed part of a script; the body may set `items`, `bytes` and entries of `custom`."""

    __slots__ = ("_started", "bytes", "custom", "elapsed_s", "items", "name")

    def __init__(self, name: str, items: int, bytes: int, custom: "dict[str, float]") -> None:
        self.name = name
        self.items = items
        self.bytes = bytes
        self.custom = custom
        self.elapsed_s = 0.0
        self._started = 0.0

    def __enter__(self) -> "Self":
        _chosen_path()
        _run_id()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.elapsed_s = time.perf_counter() - self._started
        _journal.add(self._as_dict(kind))

    def _as_dict(self, kind: "type[BaseException] | None") -> "dict[str, Any]":
        metadata = {"run": _run_id()} if kind is None else {"run": _run_id(), "error": kind.__name__}
        stage = {
            "stage_name": str(self.name),
            "process_time": self.elapsed_s,
            "actor_idle_time": 0.0,
            "input_data_size_mb": _plain(self.bytes) / 1e6 if self.bytes else 0.0,
            "num_items_processed": _plain(self.items),
            "custom_metrics": {str(key): _plain(value) for key, value in self.custom.items()},
        }
        return {
            "dataset_name": os.environ.get("PACELINE_CASE", ""),
            "task_id": "",
            "_stage_perf": [stage],
            "_metadata": metadata,
        }


class _Journal:
    """The tasks of this process that are not in `tasks.pkl` yet."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._pending: list[dict[str, Any]] = []
        self._count = 0
        self._next_flush = 0.0
        self._flushes_at_exit = False

    def add(self, entry: "dict[str, Any]") -> None:
        with self.lock:
            entry["task_id"] = f"{os.getpid()}_{self._count}"
            self._count += 1
            self._pending.append(entry)
            if not self._flushes_at_exit:
                self._arrange_exit()
            if time.monotonic() >= self._next_flush:
                # A full disk must not break the part that was measured; the exit tries again and says so.
                self.flush(lambda error: None)

    def flush(self, refuse: "Callable[[OSError], None]") -> None:
        with self.lock:
            if not self._pending:
                return
            begun = time.monotonic()
            try:
                _add_tasks(self._pending)
                self._pending = []
            except OSError as error:
                refuse(error)
            ended = time.monotonic()
            self._next_flush = ended + max(_FLUSH_INTERVAL_S, _FLUSH_REST * (ended - begun))

    def _arrange_exit(self) -> None:
        self._flushes_at_exit = True
        # Not at the first task: a short script should measure its own work, not ours.
        self._next_flush = time.monotonic() + _FLUSH_INTERVAL_S
        atexit.register(_flush_at_exit)
        workers = sys.modules.get("multiprocessing.util")
        if workers is not None:
            # A worker process of multiprocessing leaves without atexit; it runs these finalizers instead.
            workers.Finalize(None, _flush_at_exit, exitpriority=100)


def _flush_at_exit() -> None:
    _journal.flush(lambda error: print(f"paceline.emit: tasks.pkl is incomplete: {error}", file=sys.stderr))


def _chosen_path() -> str:
    chosen = _find_path()
    if not chosen:
        from paceline.errors import PacelineError

        raise PacelineError(f"nowhere to write results: pass {_OPTION} DIR or set {_VARIABLE}=DIR")
    return chosen


def _find_path() -> str:
    words = sys.argv[1:] if hasattr(sys, "argv") else []
    chosen = ""
    for position, word in enumerate(words):
        if word.startswith(f"{_OPTION}="):
            chosen = word.partition("=")[2]
        elif word == _OPTION and position + 1 < len(words):
            chosen = words[position + 1]
    return chosen or os.environ.get(_VARIABLE, "")


def _run_id() -> str:
    """What all processes of one run of a script share, so that tasks of an earlier run are told apart."""
    given = os.environ.get("PACELINE_RUN_ID")
    return given or os.environ.setdefault("PACELINE_EMIT_RUN", f"{os.getpid()}-{time.time_ns()}")


def _begin_run() -> None:
    """Give worker processes, which inherit our environment, the same run as ours even if we emit nothing before.

    A program that has nowhere to write results is no run of a script, and may start several.
    """
    if _find_path():
        _run_id()


def _merge(name: str, values: "Mapping[str, Any]", extends: bool = False) -> None:
    """Add values to a file; a list follows what is there already, if it `extends` that."""
    import json

    directory = results_path()
    with _locked(directory):
        path = f"{directory}/{name}"
        before = _existing(path)
        if extends:
            values = {key: [*before.get(key, ()), *more] for key, more in values.items()}
        merged = {**before, **values}
        _replace(path, json.dumps(merged, indent=2, allow_nan=False).encode() + b"\n")


def _existing(path: str) -> "dict[str, Any]":
    import json

    from paceline.errors import PacelineError

    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = json.loads(file.read())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise PacelineError(f"{path}: is there already and is not JSON ({error}); remove it") from error
    if not isinstance(found, dict):
        raise PacelineError(f"{path}: is there already and holds no mapping; remove it")
    return _named_values(found)


def _add_tasks(entries: "list[dict[str, Any]]") -> None:
    import pickle  # nosec - written here; read back only without any class

    directory = results_path()
    with _locked(directory):
        path = f"{directory}/tasks.pkl"
        before = _tasks_of_this_run(path)
        if before is None:
            _append_lines(f"{directory}/tasks.jsonl", entries)
        else:
            _replace(path, pickle.dumps(before + entries, protocol=4))


def _tasks_of_this_run(path: str) -> "list[dict[str, Any]] | None":
    """What our processes wrote so far; none for a file that is not ours, which must stay as it is."""
    import pickle

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> "Any":
            raise pickle.UnpicklingError(f"{module}.{name} is not plain data")

    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = Plain(file).load()
    except FileNotFoundError:
        return []
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, AttributeError):
        return None
    if not isinstance(found, list) or any(_origin(entry) is None for entry in found):
        return None
    return [entry for entry in found if _origin(entry) == _run_id()]


def _origin(entry: "Any") -> "str | None":
    metadata = entry.get("_metadata") if isinstance(entry, dict) else None
    return metadata.get("run") if isinstance(metadata, dict) else None


def _append_lines(path: str, entries: "list[dict[str, Any]]") -> None:
    import json

    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
        file.writelines(json.dumps(entry) + "\n" for entry in entries)


class _locked:  # noqa: N801 - used like a function
    """Keeps other threads and processes away from a results directory."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/.emit.lock"

    def __enter__(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        _journal.lock.acquire()
        try:
            _lock_file(self._file)
        except OSError:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        _journal.lock.release()
        os.close(self._file)


def _lock_file(file: int) -> None:
    import errno
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems have no locks; the files are still replaced whole.
        if error.errno not in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
            raise


def _replace(path: str, content: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:  # noqa: PTH123
            file.write(content)
        os.replace(temporary, path)  # noqa: PTH105
    except OSError:
        if os.path.exists(temporary):  # noqa: PTH110
            os.unlink(temporary)  # noqa: PTH108
        raise


def _named_values(mapping: "Any") -> "dict[str, Any]":
    plain = _plain(vars(mapping) if type(mapping).__name__ == "Namespace" else mapping)
    if not isinstance(plain, dict):
        raise TypeError(f"a mapping of names to values is needed, not {type(mapping).__name__}")
    return plain


def _plain(value: "Any", depth: int = 0) -> "Any":
    """The value as JSON can hold it; floats that JSON has no form for become the strings NaN, Infinity, -Infinity."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, float):
        return _plain_float(float(value))
    if depth >= _MAX_DEPTH:
        raise ValueError(f"nested more than {_MAX_DEPTH} levels, or holds itself")
    for convert in (_plain_container, _plain_number, _plain_object):
        for converted in convert(value, depth):
            return converted
    return str(value)


def _plain_float(number: float) -> float | str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _plain_container(value: "Any", depth: int) -> "Iterator[Any]":
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        yield {_plain_key(key): _plain(value[key], depth + 1) for key in value.keys()}  # noqa: SIM118
    elif hasattr(value, "_asdict"):
        yield _plain(value._asdict(), depth + 1)
    elif isinstance(value, (list, tuple)):
        yield [_plain(item, depth + 1) for item in value]
    elif isinstance(value, (set, frozenset)):
        yield [
            _plain(item, depth + 1)
            for item in sorted(value, key=lambda item: (type(item).__name__, str(item)))
        ]
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        yield {name: _plain(getattr(value, name), depth + 1) for name in value.__dataclass_fields__}


def _plain_key(key: "Any") -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else str(plain)


def _plain_number(value: "Any", depth: int) -> "Iterator[Any]":
    """Numbers of other libraries: arrays and scalars of numpy and torch, decimals, fractions, durations."""
    if hasattr(value, "tolist"):
        yield _plain(value.tolist(), depth + 1)
    elif hasattr(value, "item") and callable(value.item):
        yield _plain(value.item(), depth + 1)
    elif hasattr(value, "total_seconds"):
        yield _plain_float(value.total_seconds())
    elif hasattr(value, "__float__") and not isinstance(value, int):
        yield _plain_float(float(value))


def _plain_object(value: "Any", depth: int) -> "Iterator[Any]":
    if hasattr(value, "__fspath__"):
        yield os.fsdecode(value)
    elif isinstance(value, (bytes, bytearray)):
        yield value.decode("utf-8", "replace")
    elif hasattr(value, "isoformat"):
        yield value.isoformat()
    elif hasattr(type(value), "__members__"):
        yield _plain(value.value, depth + 1)
    elif isinstance(value, int):
        yield int(value)
    elif hasattr(value, "__iter__") and hasattr(value, "__len__") and not isinstance(value, str):
        yield [_plain(item, depth + 1) for item in value]


def _directory_at_start() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return "/"


def _hold() -> None:
    """Before a fork: no other thread may be in the middle of writing while the process is copied."""
    _begin_run()
    _journal.lock.acquire()


def _let_go() -> None:
    _journal.lock.release()


def _begin_anew() -> None:
    """In a forked child: the tasks so far are the parent's to write."""
    global _journal  # noqa: PLW0603
    _journal = _Journal()


_begin_run()
_start_dir = _directory_at_start()
_journal = _Journal()
os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_begin_anew)

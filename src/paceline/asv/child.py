"""What a process of the suite's own Python does: find the suite's benchmarks, or run one of them.

It talks to the runner by files: `discover` writes a list, `run` what `paceline.emit` writes.
"""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from functools import partial
from typing import Any

from paceline import emit
from paceline.asv.measure import Measured, Skipped, Trial, make_cache
from paceline.asv.suite import Benchmark, attributes, fault_of, find_all, find_one, tried

METRICS = {
    "time": ("duration", "s", "lower"),
    "timeraw": ("duration", "s", "lower"),
    "mem": ("memory", "bytes", "lower"),
    "peakmem": ("peak_memory", "bytes", "lower"),
    "track": ("value", None, None),
}
"""The metric of each kind, its unit and direction: those that results have which are imported from asv."""

_CACHE, _ENDED, _FAILED = "cache.pickle", "ended", "failed"


def discover(directory: str, file: str) -> int:
    """Write what the suite has, and what is wrong with it, to a file."""
    found = find_all(directory)
    told = {
        "benchmarks": [dict(attributes(one)) for one in found.benchmarks.values()],
        "faults": [asdict(one) for one in found.faults],
    }
    with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123
        json.dump(told, stream)
    return 0


def run(directory: str, name: str, labels: str, caches: str, timeout_s: str) -> int:
    """Measure one benchmark with the parameters of these texts; `caches` is where the session keeps its caches.

    `timeout_s` is how long a `setup_cache` may take that says nothing of it.
    """
    measured, error = tried(partial(_measure, directory, name, json.loads(labels), caches, float(timeout_s)))
    if isinstance(error, Skipped):
        emit.skip(str(error))
        return 0
    if error is not None or measured is None:
        traceback.print_exception(error)
        emit.fail(reason_of(error, name) if error else "")
        return 1
    _tell(*measured)
    return 0


def _measure(
    directory: str, name: str, labels: list[str], caches: str, timeout_s: float
) -> tuple[Benchmark, Measured]:
    """In the directory of its cache, or in one of its own."""
    benchmark = find_one(directory, name)
    values = benchmark.values_of(labels)
    if benchmark.setup_cache is not None:
        os.chdir(_cache_dir(directory, benchmark, caches, timeout_s))
        return benchmark, Trial(benchmark, values, _read_cache()).run()
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        try:
            return benchmark, Trial(benchmark, values).run()
        finally:
            os.chdir("/")


def reason_of(error: Exception, what: str) -> str:
    """An error in one line, with the line of the suite that it came from."""
    fault = fault_of(error, what)
    where = f" ({os.path.basename(fault.file)}:{fault.line})" if fault.file else ""  # noqa: PTH119
    return fault.message.removeprefix(f"{what}: ") + where


def _tell(benchmark: Benchmark, measured: Measured) -> None:
    metric, unit, direction = METRICS[benchmark.kind]
    if benchmark.kind == "track":
        unit = benchmark.first("unit")
    about = {"pretty_name": benchmark.first("pretty_name"), **measured.details}
    emit.params({key: value for key, value in about.items() if value is not None})
    emit.metric(metric, measured.samples or measured.value, unit=unit, direction=direction)


def _cache_dir(directory: str, benchmark: Benchmark, caches: str, timeout_s: float) -> str:
    """The directory in which `setup_cache` has run: by the first benchmark that needs it, the others wait for it."""
    key = hashlib.sha256(f"{sys.executable} {benchmark.cache_key}".encode()).hexdigest()[:16]
    place = os.path.join(caches, key)  # noqa: PTH118
    os.makedirs(caches, exist_ok=True)  # noqa: PTH103
    with open(f"{place}.lock", "w", encoding="utf-8") as lock:  # noqa: PTH123
        _lock(lock)
        if not os.path.exists(f"{place}.{_ENDED}"):  # noqa: PTH110
            _make_cache(directory, benchmark, place, timeout_s)
    with open(f"{place}.{_ENDED}", encoding="utf-8") as told:  # noqa: PTH123
        reason = told.read()
    if reason:
        raise RuntimeError(f"setup_cache failed: {reason}")
    return place


def _lock(file: Any) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)


def _make_cache(directory: str, benchmark: Benchmark, place: str, timeout_s: float) -> None:
    """Run `setup_cache` in a process of its own, so that its memory is not that of a benchmark."""
    shutil.rmtree(place, ignore_errors=True)
    os.mkdir(place)  # noqa: PTH102
    own_s = getattr(benchmark.setup_cache, "timeout", None)
    limit_s = timeout_s if own_s is None else float(own_s)
    words = [sys.executable, sys.argv[0], "paceline.asv.child:fill_cache", directory, benchmark.name]
    try:
        code = subprocess.run(words, cwd=place, check=False, timeout=limit_s).returncode
        reason = f"exit code {code}" if code else ""
    except subprocess.TimeoutExpired:
        reason = f"it took longer than {limit_s:g} s"
    told = os.path.join(place, _FAILED)  # noqa: PTH118
    if reason and os.path.exists(told):  # noqa: PTH110
        with open(told, encoding="utf-8") as file:  # noqa: PTH123
            reason = file.read()
    with open(f"{place}.{_ENDED}", "w", encoding="utf-8") as ended:  # noqa: PTH123
        ended.write(reason)


def fill_cache(directory: str, name: str) -> int:
    """Keep what `setup_cache` returns, in the working directory, where it may leave files, too."""

    def fill() -> None:
        made = make_cache(find_one(directory, name))
        with open(_CACHE, "wb") as file:  # noqa: PTH123
            pickle.dump(made, file)

    _, error = tried(fill)
    if error is None:
        return 0
    traceback.print_exception(error)
    with open(_FAILED, "w", encoding="utf-8") as told:  # noqa: PTH123
        told.write(reason_of(error, "setup_cache"))
    return 1


def _read_cache() -> Any:
    with open(_CACHE, "rb") as file:  # noqa: PTH123
        # Of this runner's own making: it removes what it finds in the session's directory before the first case.
        return pickle.load(file)  # noqa: S301

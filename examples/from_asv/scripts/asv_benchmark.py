"""Runs one benchmark that was written for asv: `asv_benchmark.py sorting.Sorting.time_sort 1000`.

Knows what most suites use: functions and classes, `time_`, `track_` and `peakmem_`, `setup`, `teardown`, parameters,
`number`, `repeat`, `unit`. Not `setup_cache`, `timeraw_` and `mem_`.
"""

import argparse
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline import emit

SUITE = Path(__file__).parents[1] / "benchmarks"


def find(name: str) -> tuple[Callable[..., Any], list[Any]]:
    """The function of that name, and where its set-up may be: its object and its module."""
    module_name, *rest = name.split(".")
    module = importlib.import_module(module_name)
    owner = getattr(module, rest[0])() if len(rest) == 2 else module
    return getattr(owner, rest[-1]), [module] if owner is module else [module, owner]


def call_all(owners: list[Any], name: str, values: list[Any]) -> None:
    for owner in owners:
        if function := getattr(owner, name, None):
            function(*values)


def setting(function: Any, owners: list[Any], name: str, default: Any) -> Any:
    return next((getattr(one, name) for one in (function, *owners[::-1]) if hasattr(one, name)), default)


def time_calls(function: Callable[..., Any], values: list[Any], number: int, repeat: int) -> list[float]:
    """Seconds of one call, once for each repetition; the first call of all is not counted."""
    function(*values)
    samples = []
    for _ in range(repeat):
        started = time.perf_counter()
        for _ in range(number):
            function(*values)
        samples.append((time.perf_counter() - started) / number)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path")
    parser.add_argument("benchmark")
    parser.add_argument("values", nargs="*", type=json.loads, help="one for each parameter, as JSON")
    options = parser.parse_args()
    sys.path.insert(0, str(SUITE))
    function, owners = find(options.benchmark)
    kind = options.benchmark.rpartition(".")[2].partition("_")[0]
    call_all(owners, "setup", options.values)
    if kind == "time":
        number, repeat = setting(function, owners, "number", 5), setting(function, owners, "repeat", 5)
        emit.metrics({"duration": time_calls(function, options.values, number, repeat)})
    elif kind == "track":
        emit.metric("value", function(*options.values), setting(function, [], "unit", None))
    elif kind == "peakmem":
        function(*options.values)
        emit.metrics({"peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
    else:
        raise SystemExit(f"{options.benchmark}: benchmarks of the kind {kind}_ are not known here")
    call_all(owners, "teardown", options.values)


if __name__ == "__main__":
    main()

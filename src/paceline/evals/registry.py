"""Adapters, benchmarks, schedulers and exporters by their names."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from paceline import plugins
from paceline.errors import PacelineError


class EvalError(PacelineError):
    """What was asked of the executor cannot be done as asked."""


@lru_cache(maxsize=256)
def find(group: str, name: str) -> Any:
    """The object of that name in an entry point group, or the one at an import path; asked once a process."""
    return plugins.find(group, name)


def import_path(thing: Any) -> str:
    """Where a worker finds the same object; one of the main script is out of its reach."""
    path = f"{thing.__module__}:{thing.__qualname__}"
    if thing.__module__ == "__main__" or "<locals>" in path:
        raise EvalError(f"{path} cannot be imported by a worker: put it into a module of its own")
    return path


def make_benchmark(benchmark: Any, name: str, params: Mapping[str, Any]) -> Any:
    """A benchmark's object; parameters that its class does not take are the user's mistake."""
    try:
        return benchmark(**params)
    except TypeError as error:
        raise EvalError(f"benchmark {name}: params do not fit: {error}") from error

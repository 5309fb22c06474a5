"""Other detectors in the place of ours, in the same loop.

A detector is a function that is given the values of a series, oldest first, and gives the indices of the first points
of new levels. To add one: if it can be imported here, write such a function and add it to `OWN`; if it needs an
environment of its own, add it to `peers/detectors.py` (and its package to `RECIPE` of `peers/judge_peers.py`), and its
name to `NAMES` there. What it says is believed as it is: it is held to the defaults of its makers, not to our control
of many series. The rest of the loop (order, brackets, incidents, suspicions about newest values, confirmation,
bisection) is ours.
"""

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from year_parts.noise import Floats
from year_parts.simulated import every_binding

from paceline.judge import ChangePoint, changes

Find = Callable[[Floats], Sequence[int]]
SCRIPT = Path(__file__).parent.parent / "peers" / "detectors.py"
FEWEST = 10
"""Values that another detector is asked about at least: asv takes any two that differ for a step."""
_SURE = 1e-12


def never(values: Floats) -> Sequence[int]:
    """Finds nothing, whatever there is."""
    del values
    return ()


def always(values: Floats) -> Sequence[int]:
    """Finds a change five nights ago, whatever there is."""
    return (len(values) - 5,) if len(values) > 10 else ()


OWN: dict[str, Find] = {"never": never, "always": always}


class Peer:
    """A detector of another tool, in a process that stays."""

    def __init__(self, venv: Path, name: str) -> None:
        self._process = subprocess.Popen(
            [venv / "bin/python", SCRIPT, name, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, values: Floats) -> Sequence[int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([float(value) for value in values]) + "\n")
        self._process.stdin.flush()
        return [int(index) for index in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@contextmanager
def in_our_place(find: Find | None) -> Iterator[None]:
    """Within it the loop judges series by this detector; None: by ours."""
    if find is None:
        yield
        return

    def change_points(values: Any) -> tuple[ChangePoint, ...]:
        return _described(np.asarray(values, dtype=float), find)

    with ExitStack() as stack:
        for name, replacement in _replacements(change_points).items():
            for module in every_binding("paceline.", name, getattr(changes, name)):
                stack.enter_context(patch.object(module, name, replacement))
        yield


def _replacements(change_points: Callable[[Any], tuple[ChangePoint, ...]]) -> dict[str, Callable[..., Any]]:
    replaced: dict[str, Callable[..., Any]] = {"change_points": change_points}
    if hasattr(changes, "analyse"):
        replaced["analyse"] = lambda values, days=None, only_sure=False: changes.Analysis(
            changes=change_points(values), drift=None, unrest=0.0
        )
    return replaced


def _described(values: Floats, find: Find) -> tuple[ChangePoint, ...]:
    """What was found, with its size and beyond doubt."""
    if len(values) < FEWEST:
        return ()
    edges = [0, *sorted(index for index in set(find(values)) if 0 < index < len(values)), len(values)]
    levels = [float(np.median(values[a:b])) for a, b in itertools.pairwise(edges)]
    known = {field.name for field in fields(ChangePoint)}
    return tuple(
        ChangePoint(
            **{
                name: value
                for name, value in {
                    "index": index,
                    "effect": levels[number + 1] / levels[number] - 1,
                    "p_value": _SURE,
                    "first": index,
                    "last": index,
                }.items()
                if name in known
            }
        )
        for number, index in enumerate(edges[1:-1])
        if levels[number]
    )

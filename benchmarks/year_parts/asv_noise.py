"""Noise of real benchmarks: what the results of a project that uses asv do around their own running median."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from year_parts.noise import SPREAD, Family, Floats

FEWEST = 100
_WINDOW = 15


def read_family(directory: Path) -> Family:
    """A family that draws stretches of the residuals of the results below a directory, each scaled to our spread."""
    residuals = [found for values in _series(directory) if (found := _residuals(values)) is not None]
    if not residuals:
        raise SystemExit(f"{directory} has no asv results with {FEWEST} numbers or more of a benchmark")

    def asv(rng: np.random.Generator, nights: int) -> Floats:
        """A stretch of one benchmark's history, with its own way from point to point."""
        one = residuals[int(rng.integers(len(residuals)))]
        begin = int(rng.integers(max(1, len(one) - nights)))
        return np.exp(np.resize(one[begin:], nights))

    return asv


def _series(directory: Path) -> Iterator[list[float]]:
    """The numbers of each benchmark and set of parameters on each machine, in the order of the commits' dates."""
    found: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for path in sorted(directory.rglob("*.json")):
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or not {"commit_hash", "date", "results"} <= data.keys():
            continue
        for name, result in data["results"].items():
            for place, value in enumerate(_numbers(result)):
                found.setdefault((str(path.parent), name, place), []).append((data["date"], value))
    for several in found.values():
        yield [value for _, value in sorted(several)]


def _numbers(result: Any) -> Iterator[float]:
    """The values of a benchmark in any of asv's formats; NaN where there is none, so that places stay."""
    if isinstance(result, dict):
        result = result.get("result")
    elif isinstance(result, list):
        result = result[0] if result else None
    for value in result if isinstance(result, list) else [result]:
        yield float(value) if isinstance(value, int | float) else math.nan


def _residuals(values: list[float]) -> Floats | None:
    """Logarithms less their running median, which takes out what changed for longer; None for too few or constant."""
    logs = np.array([math.log(value) for value in values if math.isfinite(value) and value > 0])
    if len(logs) < FEWEST:
        return None
    padded = np.pad(logs, _WINDOW // 2, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, _WINDOW), axis=1)
    rest = logs - middle
    spread = 1.4826 * float(np.median(np.abs(rest)))
    return np.asarray(rest * SPREAD / spread) if spread > 1e-4 else None

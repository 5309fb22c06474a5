"""Runs of our ALM benchmark script, from process start to written metrics."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import child

BENCHMARKS = Path(__file__).parents[1]
MAKE = BENCHMARKS / "data" / "make_alm_manifest.py"
SCRIPT = BENCHMARKS / "scripts" / "alm_pipeline_benchmark.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A manifest, and how often it is read."""

    path: Path
    repeat_factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run took, and what it says of itself."""

    reading: child.Reading
    metrics: dict[str, Any]


def make_manifest(path: Path, entries: int, *, hard: bool = False) -> Path:
    """A manifest of entries that are all different."""
    child.run([sys.executable, MAKE, "--output", path, "--entries", entries, *(["--hard"] * hard)])
    return path


def run_ours(given: Input, work: Path, executor: str, *words: object) -> Run:
    """One run; `xenna_streaming` and `xenna_batch` are modes of one executor."""
    name, _, mode = executor.partition("_") if executor.startswith("xenna") else (executor, "", "")
    results = work / executor
    command = [sys.executable, SCRIPT, "--benchmark-results-path", results, "--input-manifest", given.path]
    command += ["--repeat-factor", given.repeat_factor, "--executor", name]
    reading = child.run([*command, *(["--xenna-mode", mode] if mode else []), *words])
    return Run(reading=reading, metrics=json.loads((results / "metrics.json").read_text()))

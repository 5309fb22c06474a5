"""Makes results as asv keeps them over years: machines, parameters, versions, and changes that are known.

    python benchmarks/data/make_asv_history.py --output asv/results --planted asv/planted.json --commits 400 --seed 1

Commits are measured as teams do it: some each week, older ones later, in no order. Of the benchmarks a third has steps,
a third is quiet, and a third is restless: it wanders by a tenth all the time, which is not news. Some cells fail, some
do not apply, and one benchmark in eight changes its version on the way. The noise is of many kinds. `--planted` tells
which commits changed what, by how much. The same seed makes the same files.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from make_series import NOISES, Floats, correlated

from paceline import emit

FIRST_COMMIT_S = 1_500_000_000
DAY_S = 86_400
FEWEST_COMMITS = 100
KINDS = ("stepped", "quiet", "restless")
WORK = ("read", "write", "sort", "join", "parse", "select", "fit", "scan")
SIZES = ("10", "1000", "100000")
COLUMNS = ("result", "params", "version", "started_at", "duration", "stats_number", "stats_repeat")
QUIET_NOISES = ("gaussian", "spiky", "lognormal", "Student t3", "uneven", "rounded", "AR(1) 0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark with what is known of it: where its level changes, and where its version does."""

    name: str
    kind: str
    params: Sequence[Sequence[str]]
    steps: Mapping[int, float]
    new_version_at: int | None

    def version(self, commit: int) -> str:
        newer = self.new_version_at is not None and commit >= self.new_version_at
        return digest(f"{self.name} {newer}")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="make results of asv", allow_abbrev=False)
    parser.add_argument(
        "--benchmark-results-path", help="where a run under `paceline run` writes its results"
    )
    parser.add_argument("--output", type=Path, required=True, help="asv's directory of results")
    parser.add_argument("--planted", type=Path, required=True, help="a file for what is known of the changes")
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--benchmarks", type=int, default=24)
    parser.add_argument("--commits", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.commits < FEWEST_COMMITS:
        parser.error(f"--commits: two steps with room around them need {FEWEST_COMMITS}")
    random = np.random.default_rng(args.seed)
    benchmarks = [make_benchmark(random, number, args.commits) for number in range(args.benchmarks)]
    write(args.output / "benchmarks.json", {one.name: described(one, args.commits) for one in benchmarks})
    files = cells = 0
    for machine in range(args.machines):
        for count in write_machine(random, args.output / f"machine{machine}", benchmarks, args.commits):
            files, cells = files + 1, cells + count
    commits = [commit_of(number) for number in range(args.commits)]
    planted = [
        {"benchmark": one.name, "commit": commits[at], "before": commits[at - 1], "factor": factor}
        for one in benchmarks
        for at, factor in one.steps.items()
    ]
    write(
        args.planted,
        {"steps": planted, "kinds": {one.name: one.kind for one in benchmarks}, "commits": commits},
    )
    if args.benchmark_results_path:
        emit.metrics({"num_files": files, "num_cells": cells, "num_steps": len(planted)})


def make_benchmark(random: np.random.Generator, number: int, commits: int) -> Benchmark:
    kind = KINDS[number % len(KINDS)]
    prefix = "peakmem" if number % 7 == 6 else "time"
    steps: dict[int, float] = {}
    for at in random.choice(np.arange(30, commits - 20, 40), 2, replace=False) if kind == "stepped" else ():
        steps[int(at)] = math.exp(float(random.choice([-1.0, 1.0]) * random.uniform(0.08, 0.5)))
    params = [list(SIZES)] if number % 2 else [list(SIZES), ["'list'", "'tuple'"]]
    changes = kind == "quiet" and number % 8 == 1
    return Benchmark(
        name=f"suite{number // 8}.{WORK[number % 8].title()}.{prefix}_{WORK[number % 8]}_{number}",
        kind=kind,
        params=params if number % 5 else [],
        steps=steps,
        new_version_at=commits // 2 if changes else None,
    )


def described(one: Benchmark, commits: int) -> dict[str, Any]:
    is_time = ".time_" in one.name
    return {
        "name": one.name,
        "type": "time" if is_time else "peakmemory",
        "unit": "seconds" if is_time else "bytes",
        "param_names": ["size", "kind"][: len(one.params)],
        "params": one.params,
        "version": one.version(commits),
        "code": f"def {one.name.rpartition('.')[2]}(self, *params):\n    self.work(*params)\n",
    }


def write_machine(
    random: np.random.Generator, directory: Path, benchmarks: Sequence[Benchmark], commits: int
) -> Iterator[int]:
    """The results of one machine; how many cells each file has."""
    about = {
        "machine": directory.name,
        "arch": "x86_64",
        "cpu": f"Example CPU {directory.name}",
        "num_cpu": "4",
    }
    write(directory / "machine.json", {**about, "os": "Linux 6.1", "ram": "16384000", "version": 1})
    values = {one.name: levels(random, one, commits) for one in benchmarks}
    # Measured some weeks after the commit; one in five in a later year, when somebody filled the gaps.
    delays = random.uniform(0, 20, commits) + np.where(random.random(commits) < 0.2, 400, 0)
    for commit in range(commits):
        measured_s = FIRST_COMMIT_S + (commit + delays[commit]) * DAY_S
        results = {
            one.name: row(random, one, commit, values[one.name][:, commit], measured_s) for one in benchmarks
        }
        hash_, environment = commit_of(commit), "virtualenv-py3.11-numpy"
        document = {
            "commit_hash": hash_,
            "date": int((FIRST_COMMIT_S + commit * DAY_S) * 1000),
            "env_name": environment,
            "env_vars": {},
            "params": about,
            "python": "3.11",
            "requirements": {"numpy": ""},
            "result_columns": COLUMNS,
            "results": results,
            "version": 2,
        }
        write(directory / f"{hash_[:8]}-{environment}.json", document)
        yield sum(len(one[0]) for one in results.values())


def levels(random: np.random.Generator, one: Benchmark, commits: int) -> Floats:
    """The value of each cell at each commit; the cells of a benchmark share its changes."""
    shared = np.ones(commits)
    for at, factor in one.steps.items():
        shared[at:] *= factor
    if one.kind == "restless":
        shared *= 1 + 5 * correlated(random, commits, 0.95)
    if one.new_version_at is not None:
        shared[one.new_version_at :] *= 1.7
    kinds = [QUIET_NOISES[int(random.integers(len(QUIET_NOISES)))] for _ in cells_of(one)]
    base = 10.0 ** random.uniform(-6, 0, len(kinds)) * (1.0 if ".time_" in one.name else 1e9)
    noise = np.array([NOISES[kind](random, commits) for kind in kinds]) * random.uniform(
        0.3, 1.5, (len(kinds), 1)
    )
    return np.asarray(base[:, None] * shared * (1 + noise))


def cells_of(one: Benchmark) -> list[tuple[str, ...]]:
    return list(product(*one.params))


def row(
    random: np.random.Generator, one: Benchmark, commit: int, values: Floats, measured_s: float
) -> list[Any]:
    """A benchmark's columns in a file; NaN is a cell that does not apply, null one that failed."""
    results = [float(f"{value:.6g}") for value in values]
    broken = [
        None if failed else value
        for failed, value in zip(random.random(len(results)) < 0.01, results, strict=True)
    ]
    if len(broken) > 1 and one.name.endswith("1"):
        broken[-1] = math.nan
    count = len(results)
    return [broken, one.params, one.version(commit), int(measured_s * 1000), 1.0, [10] * count, [5] * count]


def commit_of(number: int) -> str:
    return hashlib.sha1(f"commit {number}".encode(), usedforsecurity=False).hexdigest()


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, separators=(",", ":")))


if __name__ == "__main__":
    main()

"""How `asv: DIR` and asv itself measure the same suite, unchanged: 52 benchmarks, with parameters and a `setup_cache`.

    python benchmarks/asv_accuracy.py                  half an hour
    python benchmarks/asv_accuracy.py --rounds 2       for a first look
    python benchmarks/asv_accuracy.py --suite DIR --only 'bench_core.*'     another suite that has an asv.conf.json

First both run the suite as their users do, with the Python that runs this: they must find the same cases, skip the
same, and agree on counts and sizes; of peaks of memory, that of a benchmark which does nothing is taken off. Then the
times: in each round, case by case and in an order that changes, the process that asv starts for a case and the one that
we start. A case's figure in a round is the median of its samples, as both tools have it; its ratio is that of the
quietest rounds of the two, since what others do on the machine only adds to a time. With `--cpu` our suite takes CPU
time, which asv lets it do: for a machine that others use. `--null` holds asv against asv, to see what such a machine
does by itself.
"""

import argparse
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asv.benchmark
from figures import Row, finish, make_parser
from measuring import environment

from paceline import guest

SUITE = Path(__file__).parent / "asv_suite"
BOUND = 0.05
NOTHING: "Key" = ("functions.peakmem_nothing", ())
LARGE = 1 << 20
"""Bytes by which a peak of memory may differ whatever it is."""
METRICS = ("duration", "memory", "peak_memory", "value")

Key = tuple[str, tuple[str, ...]]
"""A benchmark and the texts of its parameters, as asv writes them."""


def call(argv: Sequence[str], directory: Path, *accepted: int, **more: str) -> None:
    env = {**environment("PACELINE_DB"), "PACELINE_DISTURBED": "ignore", **more}
    done = subprocess.run(argv, cwd=directory, env=env, check=False, capture_output=True, text=True)
    if done.returncode not in (0, *accepted):
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def prepare(suite: Path, made: Path) -> Path:
    """A copy of the suite, since asv leaves files in it, as a repository, since asv wants one."""
    place = made / "suite"
    shutil.copytree(suite, place, ignore=shutil.ignore_patterns("results", "html", "env", "__pycache__"))
    conf = place / "asv.conf.json"
    conf.write_text(conf.read_text().replace('"../.."', '"."').replace('"repo": ".."', '"repo": "."'))
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "suite"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=place, check=True)
    os.environ["HOME"] = str(made)  # where asv keeps what it knows of machines
    call([sys.executable, "-m", "asv", "machine", "--yes", "--machine", "here"], place)
    return place


def run_asv(suite: Path, wanted: str) -> dict[Key, float]:
    """What `asv run` says; NaN for what it skips."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=suite, check=True, capture_output=True, text=True
    )
    words = ["run", "--python=same", "--machine", "here", "--set-commit-hash", commit.stdout.strip()]
    pattern = ["--bench", wanted.replace(".", r"\.").replace("*", ".*")] if wanted else []
    call([sys.executable, "-m", "asv", *words, *pattern], suite, 2)  # 2: a benchmark failed
    files = (suite / "results" / "here").glob("*.json")
    stored = json.loads(next(path for path in files if path.name != "machine.json").read_text())
    found: dict[Key, float] = {}
    for name, cells in stored["results"].items():
        row = dict(zip(stored["result_columns"], cells, strict=False))
        axes = [[str(one) for one in axis] for axis in row["params"]]
        for labels, value in zip(itertools.product(*axes), row["result"] or [], strict=False):
            found[name, labels] = -math.inf if value is None else float(value)
    return found


def run_paceline(suite: Path, wanted: str) -> dict[Key, float]:
    """What `paceline run` says; NaN for what is skipped."""
    with tempfile.TemporaryDirectory() as made:
        words = ["run", str(suite), "--no-history", "--results-dir", made, "--session-name", "s"]
        call([sys.executable, "-m", "paceline", *words, *(["--only", wanted] if wanted else [])], suite, 1)
        report = json.loads((Path(made) / "s" / "report.json").read_text())
    found: dict[Key, float] = {}
    for record in report["records"]:
        _, name, labels, _, _ = record["command"][-5:]
        known = [one["value"] for metric, one in record["metrics"].items() if metric in METRICS]
        value = math.nan if record["status"] == "skipped" else -math.inf
        found[name, tuple(json.loads(labels))] = float(known[0]) if known else value
    return found


class Pair:
    """Both tools' processes for one case, with the caches that they share."""

    def __init__(self, suite: Path, place: Path, *, is_null: bool) -> None:
        self._suite, self._place, self._is_null = suite, place, is_null
        self._cells: dict[str, list[tuple[str, ...]]] = {}
        told = place / "told.json"
        call([sys.executable, guest.__file__, "paceline.asv.child:discover", str(suite), str(told)], place)
        self._about = {one["name"]: one for one in json.loads(told.read_text())["benchmarks"]}

    def kind(self, key: Key) -> str:
        return str(self._about[key[0]]["kind"])

    def theirs(self, key: Key, cache: Path) -> list[float]:
        """The process that asv starts where it does not fork; the samples of one of its rounds."""
        name, labels = key
        result = self._place / "theirs.json"
        number = self._all_cells(name).index(labels)
        which = f"{name}-{number}" if labels else name
        script = [sys.executable, asv.benchmark.__file__]
        if not cache.exists() and self._about[name]["cache_timeout_s"] != 0:
            cache.mkdir()
            call([*script, "setup_cache", str(self._suite), which, "{}"], cache)
        cwd = cache if cache.exists() else self._place
        call([*script, "run", str(self._suite), which, "{}", "None", str(result)], cwd)
        samples: list[float] = json.loads(result.read_text())["samples"]
        return samples

    def ours(self, key: Key, cache: Path) -> list[float]:
        if self._is_null:
            return self.theirs(key, cache)
        with tempfile.TemporaryDirectory(dir=self._place) as results:
            words = [str(self._suite), key[0], json.dumps(key[1]), str(self._place / "ours"), "60"]
            command = [sys.executable, guest.__file__, "paceline.asv.child:run", *words]
            call(command, self._place, PACELINE_RESULTS_PATH=results)
            samples: list[float] = json.loads((Path(results) / "metrics.json").read_text())["duration"]
        return samples

    def _all_cells(self, name: str) -> list[tuple[str, ...]]:
        """Every combination in asv's order, those that are left out among them."""
        if name not in self._cells:
            cells = [tuple(cell) for cell in self._about[name]["cells"]]
            axes = [list(dict.fromkeys(values)) for values in zip(*cells, strict=True)]
            self._cells[name] = [*itertools.product(*axes)] if axes else [()]
        return self._cells[name]


def compare_times(pair: Pair, keys: Sequence[Key], rounds: int, place: Path) -> dict[Key, tuple[float, ...]]:
    """Of each case: the median round of asv, ours, and the ratio of the quietest ones."""
    samples: defaultdict[tuple[Key, str], list[list[float]]] = defaultdict(list)
    order = random.Random(1)
    for _ in range(rounds):
        for key in order.sample(keys, len(keys)):
            for tool in order.sample(("theirs", "ours"), 2):
                cache = place / f"cache-{key[0].rpartition('.')[0]}"
                samples[key, tool].append(getattr(pair, tool)(key, cache))
    found = {}
    for key in keys:
        rounds_of = {
            tool: [statistics.median(one) for one in samples[key, tool]] for tool in ("theirs", "ours")
        }
        best = min(rounds_of["ours"]) / min(rounds_of["theirs"])
        found[key] = (*(statistics.median(values) for values in rounds_of.values()), best)
    return found


def equal_or_close(theirs: float, ours: float) -> bool:
    if math.isnan(theirs) or math.isinf(theirs):
        return repr(theirs) == repr(ours)
    if theirs > LARGE:
        return abs(ours - theirs) <= max(BOUND * theirs, LARGE)
    return abs(ours - theirs) <= BOUND * abs(theirs)


def net(found: dict[Key, float], key: Key, pair: Pair) -> float:
    """A value; of a peak of memory, what is beyond that of a process which does nothing."""
    return found[key] - found.get(NOTHING, 0.0) if pair.kind(key) == "peakmem" else found[key]


def show(times: dict[Key, tuple[float, ...]]) -> None:
    print(f"{'case':62} {'asv':>12} {'paceline':>12} {'ratio':>7}")
    for (name, labels), (theirs, ours, ratio) in times.items():
        text = f"{name}({', '.join(labels)})" if labels else name
        print(f"{text[:62]:62} {theirs * 1e6:9.2f} us {ours * 1e6:9.2f} us {ratio:7.3f}")


def measure(arguments: argparse.Namespace, place: Path) -> tuple[list[Row], dict[str, Any]]:
    suite = prepare(arguments.suite, place)
    theirs, ours = run_asv(suite, arguments.only), run_paceline(suite, arguments.only)
    missing = sorted(set(theirs) ^ set(ours))
    benchmark_dir = next(path.parent for path in suite.glob("*/__init__.py"))
    pair = Pair(benchmark_dir, place, is_null=arguments.null)
    both = [key for key in theirs if key in ours]
    is_timed = {key: pair.kind(key) in ("time", "timeraw") and math.isfinite(theirs[key]) for key in both}
    counted = [key for key in both if not is_timed[key] and key != NOTHING]
    differing = [
        key for key in counted if not equal_or_close(*(net(found, key, pair) for found in (theirs, ours)))
    ]
    for key in (*missing, *differing):
        print(f"differs: {key}: {theirs.get(key)} by asv, {ours.get(key)} here")
    timed = [key for key in both if is_timed[key] and (not arguments.cpu or pair.kind(key) == "time")]
    times = compare_times(pair, timed, arguments.rounds, place)
    show(times)
    ratios = [ratio for _, _, ratio in times.values()]
    far = sum(abs(ratio - 1) > BOUND for ratio in ratios)
    middle = abs(statistics.median(ratios) - 1)
    rows = [
        Row(
            what="cases that one of them lacks",
            metric="lacking_cases",
            figure=len(missing),
            bound=0,
            unit="",
            detail=f"{len({name for name, _ in theirs})} benchmarks, {len(theirs)} cases of asv",
        ),
        Row(
            what="counts and sizes that differ by 5 %",
            metric="differing_values",
            figure=len(differing),
            bound=0,
            unit="",
            detail=f"{len(counted)} cases: track, mem, peakmem, skipped",
        ),
        Row(
            what="times that differ by 5 %",
            metric="differing_times",
            figure=far,
            bound=0,
            unit="",
            detail=f"{len(ratios)} cases, {arguments.rounds} rounds",
        ),
        Row(
            what="median ratio of times, from 1",
            metric="median_ratio_overhead",
            figure=middle * 100,
            bound=1,
            unit="%",
            detail=f"from {min(ratios):.3f} to {max(ratios):.3f}",
        ),
    ]
    return rows, {"num_cases": len(theirs)}


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="(default %(default)s)")
    parser.add_argument("--suite", type=Path, default=SUITE, help="(default: our own)")
    parser.add_argument("--cpu", action="store_true", help="CPU times, where our suite is measured")
    parser.add_argument("--null", action="store_true", help="asv beside asv")
    parser.add_argument("--only", default="", help="a glob of names of benchmarks")
    arguments = parser.parse_args()
    os.environ |= {"SUITE_CPU_TIME": "1"} if arguments.cpu else {}
    with tempfile.TemporaryDirectory() as made:
        rows, work = measure(arguments, Path(made))
    return finish(arguments, rows, **work)


if __name__ == "__main__":
    sys.exit(main())

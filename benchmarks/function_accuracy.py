"""How `bench`, pyperf and pytest-benchmark measure the same functions, in one run and in as many processes each.

    python benchmarks/function_accuracy.py                  a quarter of an hour
    python benchmarks/function_accuracy.py --rounds 3       for a first look

In each round every tool measures every function, in an order that changes; what a tool says is the median of all it
has measured. A ratio is the median of the rounds' own ratios; the spread is that of what a tool says from round to
round, as the median distance from its median. The garbage collector is on where functions allocate, as it is for the
others.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from figures import make_parser, publish
from measuring import environment

FUNCTIONS = """
def one_us():
    return sum((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20) * 2)

def fifty_us():
    return sum(range(4000))

def five_ms():
    return sum(range(330_000))

def allocating():
    return [[number] for number in range(500)]

CALLS = {
    "abs(-1)": (abs, -1),
    "1 us": (one_us,),
    "50 us": (fifty_us,),
    "5 ms": (five_ms,),
    "allocates": (allocating,),
}
"""
OURS = """
import sys
from paceline import bench
from functions import CALLS
bench.using(name="it", gc=sys.argv[1] == "allocates")(*CALLS[sys.argv[1]])
"""
PYPERF = """
import os
import pyperf
from functions import CALLS
name = os.environ["WHICH"]
pyperf.Runner().bench_func(name, *CALLS[name])
"""
THEIR_TEST = """
import os
from functions import CALLS

def test_it(benchmark):
    benchmark(*CALLS[os.environ["WHICH"]])
"""
NAMES = ("abs(-1)", "1 us", "50 us", "5 ms", "allocates")
STATEMENT = "abs(-1), as code"

Tool = Callable[[str, int, Path], list[float]]


def call(argv: list[str], directory: Path, **more: str) -> str:
    """What a command prints."""
    env = {**environment("PACELINE_DB"), **more}
    done = subprocess.run(argv, cwd=directory, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def paceline(name: str, processes: int, directory: Path) -> list[float]:
    if name == STATEMENT:
        command = [sys.executable, "-m", "paceline", "time", "--python", "abs(-1)", "--json"]
        printed = call([*command, "--processes", str(processes)], directory)
        times: list[float] = json.loads(printed)["results"][0]["times"]
        return times
    found: list[float] = []
    for _ in range(processes):
        with tempfile.TemporaryDirectory(dir=directory) as results:
            call([sys.executable, "ours.py", name], directory, PACELINE_RESULTS_PATH=results)
            found += json.loads((Path(results) / "metrics.json").read_text())["it.duration"]
    return found


def pyperf(name: str, processes: int, directory: Path) -> list[float]:
    file = directory / "pyperf.json"
    file.unlink(missing_ok=True)
    options = ["--quiet", "--processes", str(processes), "--output", str(file)]
    if name == STATEMENT:
        call([sys.executable, "-m", "pyperf", "timeit", *options, "abs(-1)"], directory)
    else:
        call([sys.executable, "theirs.py", *options, "--inherit-environ", "WHICH"], directory, WHICH=name)
    runs = json.loads(file.read_text())["benchmarks"][0]["runs"]
    return [value for run in runs for value in run.get("values", ())]


def pytest_benchmark(name: str, processes: int, directory: Path) -> list[float]:
    if name == STATEMENT:
        return []
    found: list[float] = []
    for _ in range(processes):
        file = directory / "theirs.json"
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:paceline", f"--benchmark-json={file}"]
        call([sys.executable, "-m", "pytest", "test_theirs.py", *options], directory, WHICH=name)
        found += json.loads(file.read_text())["benchmarks"][0]["stats"]["data"]
    return found


TOOLS: dict[str, Tool] = {"paceline": paceline, "pyperf": pyperf, "pytest-benchmark": pytest_benchmark}


def measure(rounds: int, processes: int) -> dict[tuple[str, str], list[float]]:
    """What each tool says about each function in each round."""
    found: dict[tuple[str, str], list[float]] = {}
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        files = {"functions": FUNCTIONS, "ours": OURS, "theirs": PYPERF, "test_theirs": THEIR_TEST}
        for name, text in files.items():
            (directory / f"{name}.py").write_text(text)
        for _ in range(rounds):
            turns = [(name, tool) for name in (STATEMENT, *NAMES) for tool in TOOLS]
            for name, tool in order.sample(turns, len(turns)):
                times = TOOLS[tool](name, processes, directory)
                if times:
                    found.setdefault((name, tool), []).append(statistics.median(times))
    return found


def spread(values: list[float]) -> float:
    """The median distance from the median, as a share of it."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values) / middle


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="(default %(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="of a tool in a round (default %(default)s)")
    arguments = parser.parse_args()
    found = measure(arguments.rounds, arguments.processes)
    print(
        f"{'function':17} {'':9} {'paceline':>17} {'pyperf':>17} {'pytest-benchmark':>17} {'to pyperf':>10}"
    )
    figures: dict[str, tuple[float, str]] = {}
    for name in (STATEMENT, *NAMES):
        cells = []
        for tool in TOOLS:
            values = found.get((name, tool))
            middle = f"{statistics.median(values) * 1e6:9.3f} us ±{spread(values):4.1%}" if values else ""
            cells.append(f"{middle:>17}")
        ours, theirs = found[name, "paceline"], found[name, "pyperf"]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        print(f"{name:17} {'median':9} {' '.join(cells)} {ratio:8.3f} x")
        plain = "".join(character if character.isalnum() else "_" for character in name)
        figures[f"{plain}_to_pyperf_overhead"] = (ratio, "x")
        figures[f"{plain}_spread_to_pyperf_overhead"] = (spread(ours) / (spread(theirs) or 1e-9), "x")
    publish(arguments, figures, num_rounds=arguments.rounds)


if __name__ == "__main__":
    main()

"""How `paceline time` and hyperfine measure the same commands, and what a bare loop says of them, in one run.

    python benchmarks/time_accuracy.py                       some minutes
    python benchmarks/time_accuracy.py --rounds 5 --runs 10  for a first look

Without hyperfine (Debian's package `hyperfine`) there is the bare loop alone. In each round every tool measures every
command a few times, in an order that changes, so that a machine that gets slower meanwhile slows down all of them. A
figure is the median of all runs; a ratio is the median of the rounds' own ratios.
"""

import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from figures import make_parser, publish
from measuring import environment

COMMANDS = {
    "true": "/bin/true",
    "sleep_10ms": "/bin/sleep 0.01",
    "python_start": f"{sys.executable} -I -c pass",
}
BARE_LOOP = """
import json, os, sys, time
argv, runs = sys.argv[2:], int(sys.argv[1])
null = os.open(os.devnull, os.O_RDWR)
actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
times = []
for _ in range(runs):
    begun = time.perf_counter()
    child = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    os.waitpid(child, 0)
    times.append(time.perf_counter() - begun)
print(json.dumps(times))
"""

Tool = Callable[[str, int, Path], list[float]]


def bare_loop(command: str, runs: int, _directory: Path) -> list[float]:
    """A loop of starts and waits in a Python that has imported next to nothing."""
    argv = [sys.executable, "-I", "-S", "-c", BARE_LOOP, str(runs), *command.split()]
    done = subprocess.run(argv, env=environment(), check=True, capture_output=True)
    times: list[float] = json.loads(done.stdout)
    return times


def exported(argv: list[str], file: Path) -> list[float]:
    """The times that a tool with hyperfine's options has measured."""
    subprocess.run(
        [*argv, "--export-json", str(file)],
        env=environment("PACELINE_DB"),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    times: list[float] = json.loads(file.read_text())["results"][0]["times"]
    return times


def hyperfine(command: str, runs: int, directory: Path) -> list[float]:
    return exported(["hyperfine", "-N", "--runs", str(runs), command], directory / "theirs.json")


def paceline(command: str, runs: int, directory: Path) -> list[float]:
    program = [sys.executable, "-m", "paceline", "time"]
    return exported([*program, "-N", "--runs", str(runs), command], directory / "ours.json")


TOOLS: dict[str, Tool] = {"bare loop": bare_loop, "paceline": paceline}
if shutil.which("hyperfine"):
    TOOLS["hyperfine"] = hyperfine


def measure(rounds: int, runs: int) -> dict[tuple[str, str], list[list[float]]]:
    """The times of each round, by command and tool."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as made:
        for _ in range(rounds):
            turns = [(name, tool) for name in COMMANDS for tool in TOOLS]
            for name, tool in order.sample(turns, len(turns)):
                times = TOOLS[tool](COMMANDS[name], runs, Path(made))
                found.setdefault((name, tool), []).append(times)
    return found


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="(default %(default)s)")
    parser.add_argument("--runs", type=int, default=20, help="of a command in a round (default %(default)s)")
    arguments = parser.parse_args()
    found = measure(arguments.rounds, arguments.runs)
    yardsticks = [tool for tool in TOOLS if tool != "paceline"]
    print(
        f"{'command':14}", *(f"{tool:>10}" for tool in TOOLS), *(f"{f'to {tool}':>13}" for tool in yardsticks)
    )
    figures: dict[str, tuple[float, str]] = {}
    for name in COMMANDS:
        medians = {tool: [statistics.median(times) for times in found[name, tool]] for tool in TOOLS}
        ratios = {
            tool: statistics.median(
                ours / theirs for ours, theirs in zip(medians["paceline"], medians[tool], strict=True)
            )
            for tool in yardsticks
        }
        whole = {
            tool: statistics.median(time for times in found[name, tool] for time in times) for tool in TOOLS
        }
        cells = [f"{whole[tool] * 1e3:7.2f} ms" for tool in TOOLS]
        print(f"{name:14}", *cells, *(f"{ratio:11.2f} x" for ratio in ratios.values()))
        for tool, ratio in ratios.items():
            figures[f"{name}_to_{tool.replace(' ', '_')}_overhead"] = (ratio, "x")
    publish(arguments, figures, num_rounds=arguments.rounds)


if __name__ == "__main__":
    main()

"""What the pytest plugin costs a trivial test, as ratios measured in one run.

    python benchmarks/pytest_plugin.py                    some minutes
    python benchmarks/pytest_plugin.py --tests 500 --repeats 3    for a first look

The CPU seconds of whole runs of pytest, taken in turn: one test, and many. What a test costs is their difference over
the number of tests, so what a run costs once (imports, a look at the machine, opening the history) is shown apart.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from figures import make_parser, publish
from measuring import cpu_s_of, environment, in_memory, in_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to write and run trivial tests."""

    name: str
    metric: str
    argument: str
    body: str
    options: tuple[str, ...] = ()


PEDANTIC = "assert benchmark.pedantic(sum, args=((1, 2),), rounds=1, iterations=1) == 3"
BARE = Kind(name="bare test", metric="bare", argument="", body="assert sum((1, 2)) == 3")
KINDS = (
    BARE,
    Kind(
        name="bench, switched off",
        metric="switched_off",
        argument="bench",
        body="assert bench(sum, (1, 2)) == 3",
    ),
    Kind(
        name="bench(rounds=1, warmup=0)",
        metric="bench",
        argument="bench",
        body="assert bench(sum, (1, 2), rounds=1, warmup=0) == 3",
        options=("--benchmark",),
    ),
    Kind(
        name="with benchmark_time",
        metric="benchmark_time",
        argument="benchmark_time",
        body="with benchmark_time:\n        assert sum((1, 2)) == 3",
        options=("--benchmark",),
    ),
    Kind(
        name="pytest-benchmark pedantic(1, 1)",
        metric="pytest_benchmark",
        argument="benchmark",
        body=PEDANTIC,
    ),
    Kind(
        name="… with --benchmark-json",
        metric="pytest_benchmark_json",
        argument="benchmark",
        body=PEDANTIC,
        options=("--benchmark-json=theirs.json",),
    ),
)


def write_tests(path: Path, kind: Kind, count: int) -> None:
    tests = (f"def test_{number}({kind.argument}):\n    {kind.body}\n" for number in range(count))
    path.write_text("\n\n".join(tests))


def cpu_s(directory: Path, kind: Kind, file: Path) -> float:
    """User and system seconds of one run of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name, *kind.options]
    return cpu_s_of(command, directory, environment("PACELINE_DB"))  # the results go beside the tests


def measure(directory: Path, kind: Kind, count: int) -> tuple[float, float]:
    """Seconds of a run of one test, and seconds of each further one."""
    position = KINDS.index(kind)
    one, many = directory / f"test_one_{position}.py", directory / f"test_many_{position}.py"
    for file, tests in ((one, 1), (many, count)):
        if not file.exists():
            write_tests(file, kind, tests)
    once_s = cpu_s(directory, kind, one)
    return once_s, (cpu_s(directory, kind, many) - once_s) / (count - 1)


Medians = dict[Kind, tuple[float, float]]


def medians_of(readings: Iterable[tuple[Kind, Sequence[tuple[float, float]]]]) -> Medians:
    return {
        kind: (statistics.median(one for one, _ in taken), statistics.median(each for _, each in taken))
        for kind, taken in readings
    }


def table(medians: Medians) -> list[str]:
    bare_once_s, bare_each_s = medians[BARE]
    lines = [f"{'what':34} {'each test':>10} {'beside bare':>12} {'a run of one':>13} {'beside bare':>12}"]
    for kind, (once_s, each_s) in medians.items():
        lines.append(
            f"{kind.name:34} {each_s * 1e3:7.3f} ms {each_s / bare_each_s:10.2f} x "
            f"{once_s * 1e3:10.0f} ms {once_s / bare_once_s:10.2f} x"
        )
    return lines


def figures_of(medians: Medians) -> dict[str, tuple[float, str]]:
    """What each kind costs beside a bare test: a run of one, and each further test."""
    bare_once_s, bare_each_s = medians[BARE]
    figures = {}
    for kind, (once_s, each_s) in medians.items():
        if kind is not BARE:
            figures[f"{kind.metric}_overhead"] = (once_s / bare_once_s, "x")
            figures[f"{kind.metric}_test_overhead_ms"] = (1000 * (each_s - bare_each_s), "ms")
    return figures


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tests", type=int, default=2000, help="tests of a long run (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each kind (default %(default)s)")
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=[kind.metric for kind in KINDS if kind is not BARE],
        default=[kind.metric for kind in KINDS],
        help="what to measure beside a bare test (default: everything)",
    )
    arguments = parser.parse_args()
    kinds = [kind for kind in KINDS if kind is BARE or kind.metric in arguments.kinds]
    with tempfile.TemporaryDirectory(dir=in_memory()) as made:
        measures = [partial(measure, Path(made), kind, arguments.tests) for kind in kinds]
        readings = in_turn(arguments.repeats, *measures)
    medians = medians_of(zip(kinds, readings, strict=True))
    print("\n".join(table(medians)))
    publish(arguments, figures_of(medians), num_tests=arguments.tests)


if __name__ == "__main__":
    main()

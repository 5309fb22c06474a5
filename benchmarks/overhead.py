"""What Paceline itself costs, as ratios measured in one run.

    python benchmarks/overhead.py            all measurements, a few minutes
    python benchmarks/overhead.py --quick    fewer entries, for a first look

An absolute time says little on a busy machine, so each figure stands beside its yardstick, measured in turn with it.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from figures import Row, finish, make_parser
from measuring import cpu_s_of, environment, in_memory, in_turn

SCRIPT = """\
import json, sys
from pathlib import Path
where = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
where.mkdir(parents=True, exist_ok=True)
(where / "metrics.json").write_text(json.dumps({"value": 1}))
"""


def suite(count: int, results_dir: Path) -> str:
    entry = """\
  - name: entry_{number}
    script: trivial.py
    args: --iterations {number}
    timeout_s: 300
    tags: [smoke, group_{group}]
    requirements:
      - metric: value
        min_value: 1
"""
    head = f"results_dir: {results_dir}\nentries:\n"
    return head + "".join(entry.format(number=number, group=number % 10) for number in range(count))


def write_suite(directory: Path, count: int) -> Path:
    (directory / "trivial.py").write_text(SCRIPT)
    path = directory / f"suite_{count}.yaml"
    path.write_text(suite(count, directory / "results"))
    return path


def measure_start(directory: Path, repeats: int) -> list[Row]:
    """`--version`, `--help` and `plan` beside the import of click."""
    python = sys.executable
    thousand, four_thousand = write_suite(directory, 1000), write_suite(directory, 4000)

    def run(*words: str) -> Callable[[], float]:
        return lambda: cpu_s_of([python, *words], directory, environment())

    readings = in_turn(
        repeats,
        run("-c", "import click"),
        run("-m", "paceline", "--version"),
        run("-m", "paceline", "--help"),
        run("-m", "paceline", "plan", str(thousand)),
        run("-m", "paceline", "plan", str(four_thousand)),
    )
    click, version, help_text, plan, plan_4000 = map(statistics.median, readings)
    against = f"CPU, beside {click * 1000:.0f} ms of `import click`"

    def beside(what: str, metric: str, taken_s: float, bound: float) -> Row:
        return Row(what=what, metric=metric, figure=taken_s / click, bound=bound, unit="x", detail=against)

    return [
        beside("paceline --version", "version_overhead", version, 1.2),
        beside("paceline --help", "help_overhead", help_text, 2),
        beside("paceline plan, 1,000 entries", "plan_overhead", plan, 8),
        Row(
            what="paceline plan, 4,000 over 1,000 entries",
            metric="plan_growth_overhead",
            figure=plan_4000 / plan,
            bound=4.4,
            unit="x",
            detail="CPU; linear is at most 4",
        ),
    ]


def bare_loop_s(directory: Path, count: int) -> float:
    """The same commands in the plainest loop there is."""
    started = time.perf_counter()
    for number in range(count):
        out = directory / "bare" / str(number)
        argv = [sys.executable, str(directory / "trivial.py"), "--benchmark-results-path", str(out)]
        subprocess.run(
            argv,
            check=True,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
    return time.perf_counter() - started


class Stopwatch:
    """A listener that notes when the first case began and the last one ended, and what we used in between."""

    def __init__(self) -> None:
        self.started_s = self.ended_s = 0.0
        self.cpu_started_s = self.cpu_ended_s = 0.0
        self.rss_bytes: list[int] = []

    def session_started(self, plan: object, kept: int) -> None: ...

    def case_started(self, *_: object) -> None:
        if not self.started_s:
            self.started_s, self.cpu_started_s = time.perf_counter(), own_cpu_s()

    def run_started(self, *_: object) -> None: ...

    def case_finished(self, *_: object) -> None:
        self.ended_s, self.cpu_ended_s = time.perf_counter(), own_cpu_s()
        self.rss_bytes.append(own_rss_bytes())

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)

    def session_finished(self, *_: object) -> None: ...


def own_cpu_s() -> float:
    """CPU of this process and of the wardens below it, without the benchmarks they ran."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def own_rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def session(config: Path, name: str) -> Stopwatch:
    from paceline.session.request import Request
    from paceline.session.session import run

    watch = Stopwatch()
    report = run(Request(configs=(config,), session_name=name), watch)
    if not report.ok:
        raise SystemExit(f"the measured session failed: {dict(report.counts)}")
    return watch


def measure_session(directory: Path, count: int, rounds: int) -> list[Row]:
    """A session of trivial entries with every collector on beside a bare loop, in turn."""
    config = write_suite(directory, count)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    session(write_suite(directory, 5), "warm")
    ratios, cpus_ms = [], []
    for number in range(rounds):
        before = bare_loop_s(directory, count // 2)
        watch = session(config, f"timed-{number}")
        after = bare_loop_s(directory, count - count // 2)
        ratios.append((watch.ended_s - watch.started_s) / (before + after))
        cpus_ms.append((watch.cpu_ended_s - watch.cpu_started_s) / count * 1000)
    bare_ms = (before + after) / count * 1000
    return [
        Row(
            what=f"session of {count} trivial entries",
            metric="session_overhead",
            figure=statistics.median(ratios),
            bound=1.2,
            unit="x",
            detail=f"wall, beside a bare loop ({bare_ms:.1f} ms each)",
        ),
        Row(
            what="our CPU a case",
            metric="case_cpu_ms",
            figure=statistics.median(cpus_ms),
            bound=3,
            unit="ms",
            detail="runner and warden",
        ),
    ]


def measure_memory(directory: Path, count: int) -> list[Row]:
    """The runner's memory after many entries, beside its memory after a tenth of them; and after a flood of output."""
    many = directory / "many.yaml"
    commands = "".join(f"  - {{name: e{number}, command: ['true']}}\n" for number in range(count))
    many.write_text(f"results_dir: {directory / 'results'}\nentries:\n{commands}")
    watch = session(many, "many")
    flood = directory / "flood.yaml"
    code = "import sys; [sys.stdout.buffer.write(b'x' * 99 + b'\\\\n') for _ in range(10_737_418)]"
    flood.write_text(
        f"results_dir: {directory / 'results'}\nentries:\n"
        f"  - {{name: before, command: ['true']}}\n"
        f"  - {{name: flood, command: ['{sys.executable}', '-c', \"{code}\"]}}\n"
    )
    flooded = session(flood, "flood")
    tenth = watch.rss_bytes[count // 10]
    return [
        Row(
            what=f"memory after {count:,} entries",
            metric="memory_growth_overhead",
            figure=watch.rss_bytes[-1] / tenth,
            bound=1.1,
            unit="x",
            detail=f"RSS, beside {tenth / 1e6:.0f} MB after {count // 10:,} entries of the same session",
        ),
        Row(
            what="memory after a benchmark printed 1 GB",
            metric="flood_memory_overhead",
            figure=flooded.rss_bytes[-1] / flooded.rss_bytes[0],
            bound=1.1,
            unit="x",
            detail=f"RSS, beside {flooded.rss_bytes[0] / 1e6:.0f} MB before it",
        ),
    ]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer entries and repeats")
    parser.add_argument(
        "--directory", type=Path, default=in_memory(), help="where to work (default: in memory)"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-overhead-", dir=args.directory) as where:
        directory = Path(where)
        os.environ["PACELINE_DB"] = str(directory / "benchmark.db")
        rows = measure_start(directory, 3 if args.quick else 9)
        rows += measure_session(directory, 50 if args.quick else 200, 1 if args.quick else 3)
        rows += measure_memory(directory, 500 if args.quick else 10_000)
    return finish(args, rows)


if __name__ == "__main__":
    raise SystemExit(main())

"""What Paceline itself costs, as ratios measured in one run.

    python benchmarks/overhead.py            all measurements, a few minutes
    python benchmarks/overhead.py --quick    fewer entries, for a first look

An absolute time says little on a busy machine, so each figure stands beside its yardstick, measured in turn with it.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from figures import Row, finish, make_parser
from measuring import cpu_s_of, environment, in_memory, in_turn

from paceline.run.local.process import Command, Warden

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
    """CPU of this process, and of the wardens and spawners below it, without the benchmarks they ran."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    wardens = children_of(os.getpid())
    for pid in [*wardens, *(spawner for warden in wardens for spawner in children_of(warden))]:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def children_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


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
            detail="runner, warden and spawner",
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


GNU_TIME = Path("/usr/bin/time")
MIB = 1 << 20
LOOPS_BESIDE = " and two endless ones"
LOOP = "import os, sys\nprint(flush=True)\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))"


@contextmanager
def endless_loops(count: int) -> Iterator[None]:
    """Others who use the machine; they end with us, however we end."""
    argv = [sys.executable, "-c", LOOP, str(os.getpid())]
    loops = [subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for loop in loops:
            assert loop.stdout is not None
            loop.stdout.readline()  # it is at it
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


# A command by the shortest way there is, each time that a line comes in.
BARE = """
import os, sys, time
argv = sys.argv[1:]
quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
for _ in sys.stdin:
    started = time.perf_counter()
    os.wait4(os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet), 0)
    print(time.perf_counter() - started, flush=True)
"""


@contextmanager
def bare_loop(argv: list[str]) -> Iterator[Callable[[], float]]:
    """Measures a command; in a session of its own, as the scheduler gives each its share and ours has one, too."""
    command = [sys.executable, "-c", BARE, *argv]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
    ) as loop:
        asked, answers = loop.stdin, loop.stdout
        assert asked is not None and answers is not None

        def measure() -> float:
            asked.write("\n")
            return float(answers.readline())

        yield measure


def gnu_time_bytes(argv: list[str]) -> int:
    done = subprocess.run([GNU_TIME, "-f", "%M", *argv], capture_output=True, check=True)
    return int(done.stderr.split()[-1]) * 1024


def time_rows(name: str, argv: list[str], rounds: int, warden: Warden) -> Iterator[Row]:
    """The time that we report beside that of the bare loop: median and spread (between the quartiles)."""
    command = Command(argv=tuple(argv), env=os.environ)
    for loops, when in ((0, ""), (2, "_busy")):
        with endless_loops(loops), bare_loop(argv) as measure:
            bare, ours = in_turn(
                rounds,
                measure,
                lambda: warden.run(command, lambda _stream, _chunk: None).usage.wall_s,
            )
        spreads = [last - first for first, _, last in (statistics.quantiles(times) for times in (bare, ours))]
        beside = f"wall, beside a bare loop ({statistics.median(bare) * 1000:.2f} ms)"
        yield Row(
            what=f"time of {name}{', busy' if loops else ''}",
            metric=f"{name.split()[0].lower()}_time{when}_overhead",
            figure=statistics.median(ours) / statistics.median(bare),
            bound=1.1,
            unit="x",
            detail=f"{beside}{LOOPS_BESIDE * bool(loops)}; spread {spreads[1] / spreads[0]:.2f} x",
        )


def memory_rows(name: str, argv: list[str], rounds: int, warden: Warden) -> Iterator[Row]:
    """How far the peak that we report is from GNU time's, as a share of what is allowed; none is never wrong."""
    if not GNU_TIME.exists():
        print(
            f"{GNU_TIME} is missing (apt-get install time): the memory of {name} is left out", file=sys.stderr
        )
        return
    command = Command(argv=tuple(argv), env=os.environ)
    theirs, ours = in_turn(
        rounds,
        lambda: gnu_time_bytes(argv),
        lambda: warden.run(command, lambda _stream, _chunk: None).usage.peak_memory_bytes,
    )
    expected, known = statistics.median(map(float, filter(None, theirs))), [peak for peak in ours if peak]
    off = max((abs(peak - expected) for peak in known), default=0.0)
    found = f"{statistics.median(known) / MIB:.2f} MiB in {len(known)} of {rounds}" if known else "none"
    yield Row(
        what=f"memory of {name}",
        metric=f"{name.split()[0].lower()}_memory_overhead",
        figure=off / max(MIB / 2, expected / 10),
        bound=1,
        unit="x",
        detail=f"largest error over 0.5 MiB or 10 %; {found}, GNU time {expected / MIB:.2f} MiB",
    )


def measure_commands(directory: Path, rounds: int) -> list[Row]:
    """What is reported of short commands, quiet and busy."""
    script = directory / "script.py"
    script.write_text("import json\njson.dumps(list(range(10_000)))\n")
    true, sleep = (shutil.which(name) or name for name in ("true", "sleep"))
    commands = {
        "true": ([true], rounds),
        "sleep 0.01": ([sleep, "0.01"], rounds // 2),
        "Python script": ([sys.executable, str(script)], rounds // 5),
    }
    rows: list[Row] = []
    with Warden() as warden:
        for name, (argv, count) in commands.items():
            rows += time_rows(name, argv, count, warden)
            rows += memory_rows(name, argv, 10, warden)
    return rows


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
        rows += measure_commands(directory, 60 if args.quick else 300)
    return finish(args, rows)


if __name__ == "__main__":
    raise SystemExit(main())

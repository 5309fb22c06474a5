"""What the history costs, as ratios measured in one run: adding a night, reading a series, room on the disk.

    python benchmarks/history_scale.py                        10 million samples in 10,000 series, some minutes
    python benchmarks/history_scale.py --samples 500000       a first look
    python benchmarks/history_scale.py --keep history.db      keep what was generated, or go on with it

Each figure stands beside a yardstick that is measured in turn with it on the same file: plain `sqlite3`, told the
same rows. CPU and wall time are taken; the median of the ratios counts.
"""

import gc
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid5

from figures import Row, finish, make_parser
from measuring import in_turn

from paceline.history import SessionInfo, Store, open_store
from paceline.model import Case, Measurement, Record, Status

POINTS = 1000
METRICS_A_CASE = 10
NIGHT_METRICS = 5000
SWEEP_SERIES, SWEEP_POINTS = 5000, 365
ENVIRONMENT = {"id": "scale", "class_id": "scale", "packages": {"dask": "2026.8.0"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """CPU and wall seconds of one thing done once."""

    cpu_s: float
    wall_s: float


def timed(work: Callable[[], object]) -> Times:
    gc.collect()
    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    work()
    return Times(cpu_s=time.process_time() - cpu_started_s, wall_s=time.perf_counter() - started_s)


def ratio(rounds: int, do_ours: Callable[[], object], do_plainly: Callable[[], object]) -> tuple[float, str]:
    """The larger of the two ratios of medians, CPU or wall, and how it came about."""
    ours, yardstick = in_turn(rounds - 1, lambda: timed(do_ours), lambda: timed(do_plainly))
    cpu = statistics.median(one.cpu_s for one in ours) / statistics.median(one.cpu_s for one in yardstick)
    wall = statistics.median(one.wall_s for one in ours) / statistics.median(one.wall_s for one in yardstick)
    ms = statistics.median(one.cpu_s for one in yardstick) * 1000
    return max(cpu, wall), f"CPU {cpu:.2f}x, wall {wall:.2f}x, beside {ms:.1f} ms of CPU"


def night(number: int, cases: Sequence[Case], chance: random.Random) -> tuple[SessionInfo, list[Record]]:
    """One session: each case once, ten metrics each, as a small command gives them."""
    day = f"{2023 + number // 336}-{1 + number // 28 % 12:02}-{1 + number % 28:02}"
    session = SessionInfo(
        id=uuid5(UUID(int=1), str(number)).hex,
        name=f"night-{number}",
        started_at=f"{day}T00:00:00.000Z",
        revision=f"{number:040x}",
        directory=f"/data/results/night-{number}",
    )
    return session, [_record(session, case, number, chance) for case in cases]


def _record(session: SessionInfo, case: Case, number: int, chance: random.Random) -> Record:
    metrics = {}
    for index in range(METRICS_A_CASE):
        value = chance.gauss(100.0, 2.0)
        metrics[f"phase_{index}_s"] = Measurement(value=value, unit="s", direction="lower", samples=(value,))
    return Record(
        session=session.name,
        case=case,
        attempt=1,
        status=Status.PASSED,
        started_at=f"{session.started_at[:11]}0{number % 6}:{chance.randrange(60):02}:00.000Z",
        exec_time_s=chance.random(),
        timings_s={"run": chance.random()},
        returncode=0,
        command=("python", "bench.py", "--out", f"{session.directory}/{case.name}"),
        metrics=metrics,
        environment="scale",
        revision=session.revision,
    )


def make_cases(count: int) -> list[Case]:
    return [
        Case(name=f"bench_{number}", entry=f"bench_{number}", key=f"bench_{number}")
        for number in range(count)
    ]


def generate(path: Path, cases: Sequence[Case]) -> None:
    """A thousand nights, added by the product's own way; goes on where an earlier run was ended."""
    chance = random.Random(1)
    with open_store(path) as store:
        for number in range(len(store.sessions()), POINTS):
            session, records = night(number, cases, chance)
            store.add(session, ENVIRONMENT, records)
            if number % 100 == 99:
                print(f"generated {number + 1:,} of {POINTS:,} nights", flush=True)


def measure_size(path: Path, samples: int) -> Row:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    detail = f"{size / 1e6:,.0f} MB for {samples:,} samples, never vacuumed"
    return Row(
        what="room on the disk, a sample",
        metric="storage_overhead",
        figure=size / samples,
        bound=60,
        unit="bytes",
        detail=detail,
    )


class PlainWriter:
    """The rows of a night that is in the database already, told to plain `sqlite3` under other numbers."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._session = 0  # Counts down: no session of ours has such a number.
        of_session = "SELECT r.* FROM record r JOIN session s ON s.id = r.session_id WHERE s.name = ?"
        of_record = """
SELECT m.* FROM series d JOIN metric m ON m.series_id = d.id WHERE d.case_id = ? AND m.record_id = ?"""
        with closing(self._connect()) as connection:
            self._records = connection.execute(of_session, (name,)).fetchall()
            keys = [(row[3], row[0]) for row in self._records]
            self._metrics = [row for key in keys for row in connection.execute(of_record, key)]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -32768")
        connection.execute(f"PRAGMA mmap_size = {1 << 30}")
        return connection

    def write(self) -> None:
        """The same number of rows with the same values, one night later, in one transaction."""
        self._session -= 1
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            ((last,),) = connection.execute("SELECT max(id) FROM record").fetchall()
            shift = last + 1 - self._records[0][0]
            records = [(row[0] + shift, row[1], self._session, *row[3:]) for row in self._records]
            metrics = [(row[0], row[1] + shift, *row[2:]) for row in self._metrics]
            marks = ", ".join("?" * len(records[0]))
            connection.executemany(f"INSERT INTO record VALUES ({marks})", records)
            connection.executemany("INSERT INTO metric VALUES (?, ?, ?, ?, ?)", metrics)
            connection.execute("COMMIT")

    def remove(self) -> None:
        """Take back what was written, so that a file that is kept stays a history."""
        of_case = "SELECT id FROM series WHERE case_id = ?"
        with closing(self._connect()) as connection:
            records = connection.execute("SELECT case_id, id FROM record WHERE session_id < 0").fetchall()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                f"DELETE FROM metric WHERE series_id IN ({of_case}) AND record_id = ?", records
            )
            connection.execute("DELETE FROM record WHERE session_id < 0")
            connection.execute("COMMIT")


def measure_ingestion(path: Path, cases: Sequence[Case], rounds: int) -> Row:
    """A night of 5,000 metrics added beside `executemany` of the same rows into the same tables; both open the file."""
    some = cases[: NIGHT_METRICS // METRICS_A_CASE]
    chance = random.Random(2)
    nights = iter([night(POINTS + number, some, chance) for number in range(rounds + 1)])

    def add() -> None:
        session, records = next(nights)
        with open_store(path) as store:
            store.add(session, ENVIRONMENT, records)

    add()
    plain = PlainWriter(path, f"night-{POINTS}")
    figure, detail = ratio(rounds, add, plain.write)
    plain.remove()
    with open_store(path) as store:
        store.prune(sessions=[f"night-{POINTS + number}" for number in range(rounds + 1)])
    what = f"a night of {len(some) * METRICS_A_CASE:,} metrics added"
    return Row(
        what=what,
        metric="ingestion_overhead",
        figure=figure,
        bound=2,
        unit="x",
        detail=f"{detail} of executemany of the same rows",
    )


PLAIN_READ = """
SELECT m.value, m.sample_count, r.started_at, r.status, r.ident, r.session_id, r.environment_id, r.revision
FROM metric m JOIN record r ON r.id = m.record_id WHERE m.series_id = ? ORDER BY r.started_at"""


def measure_reading(path: Path, cases: Sequence[Case], rounds: int) -> Row:
    """One series of 1,000 points beside one statement by the primary key."""
    chance = random.Random(3)
    with open_store(path, read_only=True) as store, closing(sqlite3.connect(path)) as connection:
        numbers = dict(
            connection.execute(
                "SELECT c.key, d.id FROM series d JOIN \"case\" c ON c.id = d.case_id WHERE d.name = 'phase_3_s'"
            )
        )
        chosen = [chance.choice(cases).key for _ in range(rounds)]
        ours, theirs = iter(chosen), iter(chosen)
        figure, detail = ratio(
            rounds,
            lambda: [
                one.points
                for one in store.iter_columns(cases=[next(ours)], metrics=["phase_3_s"], samples=True)
            ],
            lambda: connection.execute(PLAIN_READ, (numbers[next(theirs)],)).fetchall(),
        )
    return Row(
        what="one series of 1,000 points read",
        metric="reading_overhead",
        figure=figure,
        bound=3,
        unit="x",
        detail=f"{detail} of plain SQL",
    )


def measure_sweep(path: Path, cases: Sequence[Case]) -> Row:
    """What a search for regressions reads each night: many series, the last year of each."""
    some = cases[: SWEEP_SERIES // METRICS_A_CASE]

    def sweep(store: Store) -> Iterator[int]:
        since = sorted(session.started_at for session in store.sessions())[-SWEEP_POINTS]
        for series in store.iter_columns(cases=[case.key for case in some], since=since):
            yield len(series.values)

    with open_store(path, read_only=True) as store:
        counts: list[int] = []
        times = timed(lambda: counts.extend(sweep(store)))
    detail = f"CPU; {len(counts):,} series with {sum(counts):,} points of {POINTS} each"
    return Row(
        what="a year of 5,000 series read",
        metric="sweep_cpu_s",
        figure=times.cpu_s,
        bound=10,
        unit="s",
        detail=detail,
    )


def measure(path: Path, samples: int, rounds: int) -> list[Row]:
    cases = make_cases(max(1, samples // POINTS // METRICS_A_CASE))
    generate(path, cases)
    return [
        measure_size(path, len(cases) * METRICS_A_CASE * POINTS),
        measure_reading(path, cases, rounds * 5),
        measure_sweep(path, cases),
        measure_ingestion(path, cases, rounds),
    ]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000, help="how many to generate")
    parser.add_argument("--rounds", type=int, default=9, help="how often each thing is measured")
    parser.add_argument("--keep", type=Path, help="generate into this file and keep it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-history-") as directory:
        rows = measure(args.keep or Path(directory) / "history.db", args.samples, args.rounds)
    return finish(args, rows, num_samples=args.samples)


if __name__ == "__main__":
    raise SystemExit(main())

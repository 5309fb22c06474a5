"""What it costs to search a large history for changes: all of it, one more night, and nothing new.

    python benchmarks/findings_scale.py                         10,000 series of 200 points, some minutes to generate
    python benchmarks/findings_scale.py --cases 50 --nights 100 a first look
    python benchmarks/findings_scale.py --keep findings.db      keep what was generated, or go on with it

One series in ten has a step of 5 % in the middle of noise of 2 %. Goals for 10,000 series of 200 points, in seconds of
CPU of a machine with little else to do: all 15, a night 5. `replay` is what a point costs in series twice as long: 1 if
nothing is quadratic. What a fixed piece of Python and numpy takes is printed too, since machines differ.
"""

import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid5

import numpy as np
from figures import make_parser, publish

from paceline.findings.detection import detect
from paceline.findings.order import read_order
from paceline.findings.replay import replay
from paceline.history import SessionInfo, Store, open_store
from paceline.model import Case, Measurement, Record, Status

METRICS_A_CASE = 10
NIGHTS_MORE = 3
STEP_EVERY = 10
ENVIRONMENT = {"id": "scale", "class_id": "scale", "packages": {"dask": "2026.8.0"}}


def session_of(night: int) -> SessionInfo:
    started = f"{2024 + night // 336}-{1 + night // 28 % 12:02}-{1 + night % 28:02}T00:00:00.000Z"
    ident = uuid5(UUID(int=0), f"night {night}").hex
    return SessionInfo(id=ident, name=f"night-{night}", started_at=started, revision=f"{night:040x}")


def records_of(night: int, nights: int, cases: int, rng: random.Random) -> Iterator[Record]:
    for number in range(cases):
        factor = 1.05 if night >= nights // 2 and number % STEP_EVERY == 0 else 1.0
        metrics = {
            f"stage{metric}_s": Measurement(
                value=(value := factor * rng.lognormvariate(0, 0.02)),
                unit="s",
                direction="lower",
                samples=(value,),
            )
            for metric in range(METRICS_A_CASE)
        }
        name = f"case-{number:04}"
        session = session_of(night)
        yield Record(
            session=session.name,
            case=Case(name=name, entry=name, key=name),
            attempt=1,
            status=Status.PASSED,
            started_at=session.started_at,
            metrics=metrics,
            environment="scale",
            revision=session.revision,
        )


def fill(store: Store, nights: int, cases: int) -> None:
    """Add the nights that are missing, each as a session."""
    for night in range(len(store.sessions()), nights):
        rng = random.Random(night)
        store.add(session_of(night), ENVIRONMENT, list(records_of(night, nights, cases, rng)))


def timed(store: Store, what: str) -> tuple[float, int]:
    """Seconds of CPU of one search, and how many findings there are after it."""
    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    done = detect(store)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_started_s
    print(
        f"{what:14} {wall_s:6.2f} s ({cpu_s:.2f} s of CPU)  {done.series:,} series, {done.findings:,} findings"
    )
    return cpu_s, done.findings


def calibrated_s() -> float:
    """Seconds of CPU of a fixed piece of work, of the kind that a search does."""
    series, started_s = np.arange(200.0), time.process_time()
    for _ in range(20_000):
        sums = (series * 2 + 1).cumsum()
        sums.max()
        sum(range(40))
    return time.process_time() - started_s


def replay_ratio(directory: Path, cases: int = 10) -> float:
    """Seconds for a point when series that people spoke about are replayed: of long series, in those of short ones."""
    seconds = []
    for nights in (150, 300):
        with open_store(directory / f"replay-{nights}.db") as store:
            fill(store, nights, cases)
            detect(store)
            for one in store.findings():
                store.say(one.id, "acknowledged", why="", who="")
            started_s = time.process_time()
            done = replay(store, read_order(store))
            seconds.append((time.process_time() - started_s) / max(done.series * done.nights, 1))
    return seconds[1] / seconds[0]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--nights", type=int, default=200)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = options.keep or Path(directory) / "benchmark.db"
        with open_store(path) as store:
            fill(store, options.nights, options.cases)
            with store.database.writing():
                store.database.rows("DELETE FROM detection")
            before_s = calibrated_s()
            all_s, found = timed(store, "all")
            idle_s, _ = timed(store, "nothing new")
            nights_s = []
            for more in range(1, NIGHTS_MORE + 1):
                fill(store, options.nights + more, options.cases)
                nights_s.append(timed(store, "a night more")[0])
            night_s = statistics.median(nights_s)
            print(f"calibration    {before_s:.3f} s of CPU before, {calibrated_s():.3f} s after")
        replayed = replay_ratio(Path(directory))
        print(f"replay         {replayed:.2f} x a point in series twice as long")
        most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"most memory    {most_mib:.0f} MiB")
    figures = {
        "search_cpu_s": (all_s, "s"),
        "night_search_overhead": (night_s / all_s, "x"),
        "idle_search_overhead": (idle_s / all_s, "x"),
        "replay_growth_overhead": (replayed, "x"),
        "search_memory_mib": (most_mib, "MiB"),
    }
    publish(options, figures, num_series=options.cases * METRICS_A_CASE, num_findings=found)


if __name__ == "__main__":
    main()

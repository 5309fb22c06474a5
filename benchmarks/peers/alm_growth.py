"""What the ALM benchmark costs by itself: its start, how it grows, and its memory."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from alm_runs import Input, Run, make_manifest, run_ours

START_CPU_S = 0.5
# Of ten times the input: a bit over ten times the time.
GROWTH = 1.05
PEAK_MB = 600
DIFFERENT = 10_000
SMALL = 5


def measure_growth(work: Path, sizes: Sequence[int], rounds: int) -> int:
    """Print the tables; 1 if a bound is not kept."""
    small = make_manifest(work / "small.jsonl", SMALL)
    print("| entries | wall s | pipeline s | CPU s | entries/s | peak MB |\n|---|---|---|---|---|---|")
    start = _best(Input(path=small), work, rounds)
    different = _best(
        Input(path=make_manifest(work / "different.jsonl", DIFFERENT)), work, rounds, "different"
    )
    runs = [
        _best(Input(path=small, repeat_factor=-(-size // SMALL)), work, rounds, f"{SMALL} repeated")
        for size in sizes
    ]
    found = [
        _judge(f"CPU of {SMALL} entries", start.reading.cpu_s, START_CPU_S),
        *(_judge(_growth(pair), _times(pair), GROWTH) for pair in pairwise(runs)),
        *(_judge(_named("peak MB", run), run.reading.peak_mb, PEAK_MB) for run in (different, *runs)),
    ]
    return 0 if all(found) else 1


def _best(given: Input, work: Path, rounds: int, note: str = "") -> Run:
    """The fastest of some runs, as a row."""
    run = min((run_ours(given, work, "local") for _ in range(rounds)), key=lambda run: run.reading.wall_s)
    entries, taken_s = run.metrics["num_output_entries"], run.metrics["time_taken_s"]
    cells = (
        f"{run.reading.wall_s:.2f}",
        f"{taken_s:.3f}",
        f"{run.reading.cpu_s:.2f}",
        f"{entries / taken_s:.0f}",
    )
    print(f"| {entries} {note} | {' | '.join(cells)} | {run.reading.peak_mb:.0f} |", flush=True)
    return run


def _times(pair: tuple[Run, Run]) -> float:
    """By how much more the time grows than the input."""
    left, right = (run.metrics for run in pair)
    grown = right["num_output_entries"] / left["num_output_entries"]
    return float(right["time_taken_s"] / left["time_taken_s"] / grown)


def _growth(pair: tuple[Run, Run]) -> str:
    left, right = (run.metrics["num_output_entries"] for run in pair)
    return f"growth of time over growth of input, {left} to {right} entries"


def _named(what: str, run: Run) -> str:
    return f"{what} at {run.metrics['num_output_entries']} entries"


def _judge(what: str, value: float, bound: float) -> bool:
    print(f"{what}: {value:.2f} (bound {bound:g})  {'ok' if value <= bound else 'OVER'}")
    return value <= bound

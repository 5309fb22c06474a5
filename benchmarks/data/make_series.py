"""Histories of a benchmark with known changes: many kinds of noise, 2 % unless said otherwise.

python benchmarks/data/make_series.py --record 600 timings.json    # times small programs for real noise
"""

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]
SPREAD = 0.02
RECORDED = Path(__file__).with_name("timings.json")
_BLOCK = 5  # A night sees the machine in one state: recorded noise is drawn in short pieces.


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Values, and the first points of new levels in them."""

    values: Floats
    changes: tuple[int, ...] = ()


def gaussian(random: np.random.Generator, length: int) -> Floats:
    return random.normal(0, SPREAD, length)


def spiky(random: np.random.Generator, length: int) -> Floats:
    return gaussian(random, length) + (random.random(length) < 0.03) * random.uniform(0.15, 0.5, length)


def correlated(random: np.random.Generator, length: int, correlation: float = 0.5) -> Floats:
    noise = random.normal(0, SPREAD * math.sqrt(1 - correlation**2), length + 60)
    for i in range(1, len(noise)):
        noise[i] += correlation * noise[i - 1]
    return noise[60:]


def strongly_correlated(random: np.random.Generator, length: int) -> Floats:
    return correlated(random, length, 0.8)


def two_modes(random: np.random.Generator, length: int) -> Floats:
    return gaussian(random, length) + 0.06 * (random.random(length) < 0.5)


def rare_mode(random: np.random.Generator, length: int) -> Floats:
    return gaussian(random, length) + 0.06 * (random.random(length) < 0.2)


def lognormal(random: np.random.Generator, length: int) -> Floats:
    return SPREAD / 2.16 * np.exp(random.normal(0, 1, length))


def heavy_tailed(random: np.random.Generator, length: int) -> Floats:
    return SPREAD / math.sqrt(3) * random.standard_t(3, length)


def drifting(random: np.random.Generator, length: int) -> Floats:
    return gaussian(random, length) + np.linspace(0, 0.1, length)


def weekly(random: np.random.Generator, length: int) -> Floats:
    return gaussian(random, length) + np.resize([0, 0, 0, 0, 0, 0.04, 0.04], length)


def waving(random: np.random.Generator, length: int) -> Floats:
    """A slow wave of ±3 % every 60 points, as of a machine room's temperature."""
    start = random.uniform(0, 2 * math.pi)
    return gaussian(random, length) + 0.03 * np.sin(np.arange(length) * 2 * math.pi / 60 + start)


def uneven(random: np.random.Generator, length: int) -> Floats:
    return gaussian(random, length) * np.where(np.arange(length) % 40 < 20, 0.5, 1.5)


def rounded(random: np.random.Generator, length: int) -> Floats:
    return np.round(gaussian(random, length), 2)


def recorded(random: np.random.Generator, length: int) -> Floats:
    """Pieces of the noise of one real program, scaled to a robust standard deviation of 2 %."""
    every = _recordings()
    noise = every[int(random.integers(len(every)))]
    starts = random.integers(0, len(noise) - _BLOCK, -(-length // _BLOCK))
    return np.concatenate([noise[start : start + _BLOCK] for start in starts])[:length]


NOISES: dict[str, Noise] = {
    "gaussian": gaussian,
    "spiky": spiky,
    "AR(1) 0.5": correlated,
    "two modes": two_modes,
    "recorded": recorded,
    "lognormal": lognormal,
    "drift 10 %": drifting,
    "weekday": weekly,
    "slow waves": waving,
    "AR(1) 0.8": strongly_correlated,
    "rare mode": rare_mode,
    "Student t3": heavy_tailed,
    "uneven": uneven,
    "rounded": rounded,
}


def quiet_histories(noise: Noise, seed: int, count: int, length: int) -> list[History]:
    random = np.random.default_rng(seed)
    return [History(values=100 * (1 + noise(random, length))) for _ in range(count)]


def stepped_histories(
    noise: Noise, seed: int, count: int, length: int, at: int, size: float
) -> list[History]:
    """One step each, up or down in turn."""
    random = np.random.default_rng(seed)
    histories = []
    for number in range(count):
        values = 100 * (1 + noise(random, length))
        values[at:] *= 1 + size if number % 2 == 0 else 1 / (1 + size)
        histories.append(History(values=values, changes=(at,)))
    return histories


def busy_histories(noise: Noise, seed: int, count: int, length: int = 300) -> list[History]:
    """None to four steps of 4 to 12 % anywhere, at least 20 points apart, up and down."""
    random = np.random.default_rng(seed)
    histories = []
    for _ in range(count):
        values = 100 * (1 + noise(random, length))
        places = random.choice(np.arange(20, length - 15, 20), int(random.integers(0, 5)), replace=False)
        changes = sorted(int(place + random.integers(0, 8)) for place in places)
        for change in changes:
            values[change:] *= math.exp(random.choice([-1, 1]) * random.uniform(0.04, 0.12))
        histories.append(History(values=values, changes=tuple(changes)))
    return histories


def stairs(seed: int, length: int, every: int = 100) -> Floats:
    """Steps of 8 % up and down, for measuring speed."""
    random = np.random.default_rng(seed)
    return 100 * (1 + random.normal(0, SPREAD, length)) * np.where(np.arange(length) // every % 2, 1.08, 1.0)


def _recordings() -> list[Floats]:
    recordings = [np.log(np.array(times)) for times in json.loads(RECORDED.read_text()).values()]
    centred = [times - np.median(times) for times in recordings]
    return [times * SPREAD / (1.4826 * float(np.median(np.abs(times)))) for times in centred]


def record(rounds: int) -> dict[str, list[float]]:
    """Microseconds of each small program, one after the other in every round."""
    text = " ".join(str(number * number) for number in range(20_000))
    matrix = np.random.default_rng(0).random((250, 250))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "file"
        programs: dict[str, Callable[[], object]] = {
            "sha256": lambda: hashlib.sha256(text.encode() * 4).digest(),
            "zlib": lambda: zlib.compress(text[:60_000].encode()),
            "json": lambda: json.loads(json.dumps(text.split())),
            "sort": lambda: sorted(text.split()),
            "regex": lambda: re.findall(r"\d*7\d*", text),
            "matmul": lambda: matrix @ matrix,
            "process": lambda: subprocess.run(["true"], check=True),
            "file": lambda: _write(file, text),
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(rounds):
            for name, program in programs.items():
                start = time.perf_counter()
                program()
                times[name].append(round((time.perf_counter() - start) * 1e6, 1))
    return times


def _write(file: Path, text: str) -> None:
    with file.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def matched(found: Iterable[int], changes: Sequence[int], tolerance: int) -> int:
    """How many of the changes were found, each by a point of its own."""
    left, hits = sorted(found), 0
    for change in changes:
        near = [place for place in left if abs(place - change) <= tolerance]
        if near:
            left.remove(min(near, key=lambda place: abs(place - change)))
            hits += 1
    return hits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="time small programs, for their noise")
    parser.add_argument("--record", type=int, required=True, metavar="ROUNDS")
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    args.file.write_text(json.dumps(record(args.record)))

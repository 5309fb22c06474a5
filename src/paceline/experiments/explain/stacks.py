"""What profilers wrote, as one thing: how much was spent in each stack of calls."""

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.record import below

Stack = tuple[str, ...]
"""Calls, the outermost first."""

_MOST_BYTES = 256 << 20
_PLACE = re.compile(r" \((?P<file>.*?)(?::\d+)?\)$")
_PERF_FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<name>.+?)(?:\+0x[0-9a-f]+)? \((?P<file>[^()]*)\)$")
_READ_S = 300.0
_SMALL, _SMALL_PART = 1 / 50, 1 / 10
"""Of all that was spent, and of what the first function grew by: less is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much each stack took, in seconds or bytes."""

    spent: Mapping[Stack, float]
    unit: str = "s"

    @property
    def total(self) -> float:
        return sum(self.spent.values())

    def own(self) -> dict[str, float]:
        """What each function took itself, besides what it called."""
        found: dict[str, float] = defaultdict(float)
        for stack, value in self.spent.items():
            found[stack[-1]] += value
        return dict(found)


def read_py_spy(path: Path, *, rate: int, places: Sequence[str]) -> Profile:
    """Folded stacks as py-spy writes them; `places` are directories that do not count in the names of files."""
    spent: Counter[Stack] = Counter()
    for line in _text(path).splitlines():
        stack, _, number = line.rpartition(" ")
        frames = tuple(
            _named(frame, places) for frame in stack.split(";") if not frame.startswith("process ")
        )
        if frames and number.isdecimal():
            spent[frames] += int(number)
    return Profile(spent={stack: count / rate for stack, count in spent.items()})


def read_perf(path: Path, *, rate: int, places: Sequence[str]) -> Profile:
    """Samples as perf keeps them; perf itself is asked for the names."""
    words = ["perf", "script", "--input", str(path), "--fields", "ip,sym,dso"]
    done = subprocess.run(words, check=False, capture_output=True, timeout=_READ_S, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"perf script: {done.stderr.decode(errors='replace').strip()[-200:]}")
    return fold_perf(done.stdout.decode(errors="replace"), rate=rate, places=places)


def fold_perf(text: str, *, rate: int, places: Sequence[str]) -> Profile:
    """What `perf script` prints: a line for each frame, the innermost first, and an empty one after each sample."""
    spent: Counter[Stack] = Counter()
    frames: list[str] = []
    for line in (*text.splitlines(), ""):
        if found := _PERF_FRAME.match(line):
            frames.append(f"{found['name']} ({_short(found['file'], places)})")
        elif not line.strip() and frames:
            spent[tuple(reversed(frames))] += 1
            frames = []
    return Profile(spent={stack: count / rate for stack, count in spent.items()})


def read_memray(path: Path, *, places: Sequence[str]) -> Profile:
    """What was allocated when most was, by memray."""
    import memray

    spent: Counter[Stack] = Counter()
    with memray.FileReader(path) as reader:
        for record in reader.get_high_watermark_allocation_records(merge_threads=True):
            calls = [f"{name} ({_short(file, places)})" for name, file, _ in record.stack_trace()]
            spent[tuple(reversed(calls)) or ("outside of Python",)] += record.size
    return Profile(spent=dict(spent), unit="bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a function took itself at the base and at the head."""

    name: str
    base: float
    head: float


def differences(base: Profile, head: Profile, most: int = 8) -> list[Difference]:
    """The functions that grew most, the largest first; what grew by little is a profiler's noise."""
    before = base.own()
    found = [
        Difference(name=name, base=before.get(name, 0.0), head=value) for name, value in head.own().items()
    ]
    found.sort(key=lambda one: one.base - one.head)
    largest = max((one.head - one.base for one in found), default=0.0)
    least = max(_SMALL * max(base.total, head.total), _SMALL_PART * largest)
    return [one for one in found[:most] if one.head - one.base >= least]


def _named(frame: str, places: Sequence[str]) -> str:
    """A frame without its line, which moves from revision to revision."""
    found = _PLACE.search(frame)
    return f"{frame[: found.start()]} ({_short(found['file'], places)})" if found else frame


def _short(file: str, places: Sequence[str]) -> str:
    for place in places:
        if file.startswith(f"{place}/"):
            return file[len(place) + 1 :]
    _, found, rest = file.rpartition("/site-packages/")
    return rest if found else re.sub(r"^.*/lib/python[\d.]+/", "", file)


def _text(path: Path) -> str:
    with below.open_given(path) as file:
        return file.read(_MOST_BYTES).decode(errors="replace")

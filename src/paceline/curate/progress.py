"""How far a run is: throughput and the time that is left, live on a terminal, as a line now and then elsewhere."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from time import monotonic
from typing import TextIO

from paceline.curate.errors import PipelineError
from paceline.curate.stage import ReaderStage, SplitStage, Stage
from paceline.curate.task import BYTES_PER_MB, Outcome, Task
from paceline.numbers import clock, duration, number

MODES = ("auto", "live", "plain", "off")
LIVE_INTERVAL_S = 0.2
# Rare enough for a log; a run that is over before has nothing to say.
PLAIN_INTERVAL_S = 10.0
DEFAULT_COLUMNS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much there is to do, in bytes of input or in given tasks; without a total it is not known beforehand."""

    unit: str
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was done until a moment, and what that means for the rest."""

    elapsed_s: float
    done: float
    records: int
    rejects: int
    rate: float
    records_rate: float
    left_s: float | None


class Progress:
    """Counts the outcomes of a run and reports them; it has no thread, and writes when an outcome arrives."""

    def __init__(
        self,
        stream: TextIO,
        *,
        live: bool,
        interval_s: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._stream = stream
        self._live = live
        self._interval_s = interval_s if interval_s is not None else _INTERVALS_S[live]
        self._clock = clock

    def begin(self, name: str, stages: Sequence[Stage], tasks: Iterable[Task]) -> None:
        """A run of these stages starts."""
        self._name = name
        self._extent = extent_of(stages, tasks)
        self._counted = {
            stage.name: stage.counts for stage in stages if isinstance(stage, ReaderStage) and stage.counts
        }
        self._records_word = next(iter(self._counted.values()), "tasks")
        self._done = 0.0
        self._records = self._rejects = 0
        self._said = False
        self._started_s = self._told_s = self._clock()
        self._first: tuple[float, float, int] | None = None

    def add(self, outcome: Outcome) -> None:
        """One more batch is done."""
        head = outcome.perf[0]
        self._done += head.input_data_size_mb if self._extent.unit == "MiB" else head.num_items_processed
        self._records += _records_of(outcome, self._counted)
        self._rejects += len(outcome.rejects)
        now = self._clock()
        if self._first is None:
            self._first = now, self._done, self._records
        if now - self._told_s >= self._interval_s:
            self._told_s = now
            self._say(self.line(now))

    def end(self, *, finished: bool) -> None:
        """The run is over; what is said last stays, if anything was said."""
        if self._said or self._live:
            word = "done" if finished else "stopped"
            self._say(f"{word}, {self.line(self._clock(), whole=True)}", last=True)

    def read(self, now: float, *, whole: bool = False) -> Reading:
        """The state at a moment; rates are those of the work, or of the whole run with its start."""
        since_s, done, records = self._started_s, 0.0, 0
        # An engine takes seconds to start, which says nothing about the rest.
        if self._first is not None and not whole and now > self._first[0]:
            since_s, done, records = self._first
        span_s = max(now - since_s, 1e-9)
        rate = (self._done - done) / span_s
        total = self._extent.total
        left = None if total is None else max(0.0, total - self._done)
        return Reading(
            elapsed_s=now - self._started_s,
            done=self._done,
            records=self._records,
            rejects=self._rejects,
            rate=rate,
            records_rate=(self._records - records) / span_s,
            # Units are counted when their first results come: at the end some are still at work.
            left_s=left / rate if left and rate > 0 else None,
        )

    def line(self, now: float, *, whole: bool = False) -> str:
        """The state at a moment in words."""
        reading = self.read(now, whole=whole)
        parts = [self._part_done(reading), f"{number(reading.rate)} {self._extent.unit}/s"]
        if self._records_word != self._extent.unit:
            parts.append(f"{number(reading.records_rate)} {self._records_word}/s")
        if whole:
            parts.append(f"{self._records:,} {self._records_word} in {_left(reading.elapsed_s)}")
        elif reading.left_s is not None:
            parts.append(f"{_left(reading.left_s)} left")
        if reading.rejects:
            parts.append(f"{reading.rejects:,} rejected")
        return ", ".join(parts)

    def _part_done(self, reading: Reading) -> str:
        unit, total = self._extent.unit, self._extent.total
        if total is None:
            return f"{number(reading.done)} {unit}"
        share = min(99, int(100 * reading.done / total)) if total and reading.done < total else 100
        return f"{share} %, {number(min(reading.done, total))} of {number(total)} {unit}"

    def _say(self, text: str, *, last: bool = False) -> None:
        self._said = True
        text = f"{self._name}: {text}"
        if self._live and not last:
            # A line that wraps could not be drawn over.
            self._stream.write(f"\r{text[: _columns(self._stream) - 1]}\x1b[K")
        else:
            self._stream.write(f"\r{text}\x1b[K\n" if self._live else f"{text}\n")
        self._stream.flush()


_INTERVALS_S = {True: LIVE_INTERVAL_S, False: PLAIN_INTERVAL_S}


def make_progress(
    mode: str = "auto", stream: TextIO | None = None, environ: Mapping[str, str] | None = None
) -> Progress | None:
    """What suits the stream (standard error): `auto` is live on a terminal that can redraw a line, else plain."""
    if mode not in MODES:
        raise PipelineError(f"progress is {mode!r}, not one of {', '.join(MODES)}")
    stream = sys.stderr if stream is None else stream
    if mode == "off":
        return None
    dumb = (os.environ if environ is None else environ).get("TERM", "dumb") in ("", "dumb")
    return Progress(stream, live=mode == "live" or (mode == "auto" and stream.isatty() and not dumb))


def extent_of(stages: Sequence[Stage], tasks: Iterable[Task]) -> Extent:
    """Bytes where the first stage lists files, tasks where they are given."""
    if len(stages) > 1 and isinstance(stages[0], SplitStage):
        size_bytes = stages[0].input_bytes()
        return Extent(unit="MiB", total=None if size_bytes is None else size_bytes / BYTES_PER_MB)
    return Extent(unit="tasks", total=float(len(tasks)) if isinstance(tasks, Sized) else None)


def _records_of(outcome: Outcome, counted: Mapping[str, str]) -> int:
    if not counted:
        return outcome.perf[0].num_items_processed
    # Of several stages that count, the first does: those after it see what is left.
    first = next(iter(counted))
    return int(
        sum(perf.custom_metrics.get(counted[first], 0) for perf in outcome.perf if perf.stage_name == first)
    )


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_COLUMNS
    except (OSError, ValueError):
        return DEFAULT_COLUMNS


def _left(seconds: float) -> str:
    return duration(seconds) if seconds < 10 else clock(seconds)

"""One benchmark with its parameters set up, measured as asv measures it, and torn down.

Times are samples of `number` calls each: as many calls as take `sample_time`, after a warm-up of `warmup_time`. Where
there is a set-up, each call gets a fresh one and is timed by itself, as asv has it from 0.6.6 on. The rules, and the
defaults, are asv's, so that its users see the numbers that they know.
"""

import copy
import gc
import inspect
import json
import math
import os
import subprocess
import sys
import textwrap
import timeit
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from paceline.asv.suite import Benchmark

WARMUP_S = 0.1
SAMPLE_S = 0.01
_LARGEST_STEP, _SMALLEST_STEP = 10.0, 1.1
_TIMED = """\
import json, sys, timeit
stmt, setup, number = json.load(sys.stdin)
print(repr(timeit.timeit(stmt=stmt, setup=setup, number=number, timer=timeit.default_timer)))
"""


class Skipped(Exception):
    """The suite says that a benchmark does not apply to these parameters, or to this machine."""


@dataclass
class Measured:
    """What came of it: samples of a time, or one value; `details` are how it was measured."""

    samples: list[float] = field(default_factory=list)
    value: Any = None
    details: dict[str, Any] = field(default_factory=dict)


class Timer(Protocol):
    """Times so many calls, like `timeit.Timer`."""

    def timeit(self, number: int) -> float: ...


@dataclass
class Trial:
    """A benchmark with these parameters in this process; `cache` is what its `setup_cache` made."""

    benchmark: Benchmark
    values: tuple[Any, ...]
    cache: Any = None
    is_fresh: bool = True
    """Whether the set-up has just run, so that the next sample need not run it again."""

    @property
    def words(self) -> tuple[Any, ...]:
        """What the functions of the benchmark are called with; a cache of None is none."""
        return self.values if self.cache is None else (self.cache, *self.values)

    def run(self) -> Measured:
        """Set up, measure, tear down; raises Skipped where the suite does not want it."""
        self._set_up()
        try:
            return _RUNS[self.benchmark.kind](self)
        except NotImplementedError as error:
            if any(one.__name__ == "SkipNotImplemented" for one in type(error).__mro__):
                raise Skipped(str(error)) from error
            raise
        finally:
            self._tear_down()

    def call(self) -> Any:
        return self.benchmark.func(*self.words)

    def bound(self) -> Callable[[], Any]:
        """The function as it is timed: with parameters there is one more call around it, as in asv."""
        if not self.words:
            return self.benchmark.func
        func, words = self.benchmark.func, self.words

        def call() -> None:
            func(*words)

        return call

    def set_up_again(self) -> None:
        """Before a sample: tear down and set up, unless that has just been done."""
        if self.is_fresh:
            self.is_fresh = False
            return
        self._tear_down()
        with suppress(Skipped):
            self._set_up()

    def _set_up(self) -> None:
        try:
            for setup in self.benchmark.setups:
                setup(*self.words)
        except NotImplementedError as error:
            raise Skipped(str(error) or "its setup raises NotImplementedError") from error

    def _tear_down(self) -> None:
        for teardown in self.benchmark.teardowns:
            teardown(*self.words)


@dataclass
class Alone:
    """Times each call by itself, with a set-up before it, and without garbage collection."""

    call: Callable[[], Any]
    prepare: Callable[[], None]
    timer: Callable[[], float]

    def timeit(self, number: int) -> float:
        call, prepare, timer, total = self.call, self.prepare, self.timer, 0.0
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            for _ in range(number):
                prepare()
                begun = timer()
                call()
                total += timer() - begun
        finally:
            if was_enabled:
                gc.enable()
        return total


@dataclass
class Raw:
    """Times code that the benchmark returns as text, in a Python of its own."""

    trial: Trial

    def timeit(self, number: int) -> float:
        code = self.trial.call()
        stmt, setup = code if isinstance(code, tuple) else (code, "")
        env = {str(name): str(value) for name, value in (self.trial.benchmark.first("env") or {}).items()}
        done = subprocess.run(
            [sys.executable, "-c", _TIMED],
            input=json.dumps([textwrap.dedent(stmt), textwrap.dedent(setup), number]),
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            check=False,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"the code that it returns failed with exit code {done.returncode}")
        return float(done.stdout.strip().splitlines()[-1])


@dataclass(frozen=True)
class Wanted:
    """How much of it is to be measured; read again after the set-up, which may change it."""

    number: int
    least: int
    most: int
    longest_s: float
    warmup_s: float
    sample_s: float
    fewest_calls: int


def _wanted(benchmark: Benchmark, *, number: int) -> Wanted:
    repeat = benchmark.first("repeat", 0)
    if isinstance(repeat, list | tuple):
        least, most, longest_s = int(repeat[0]), int(repeat[1]), float(repeat[2])
    elif repeat == 0:
        # Half in each process where there are several.
        least, most, longest_s = (1, 5, 10.0) if benchmark.rounds > 1 else (1, 10, 20.0)
    else:
        timeout = benchmark.first("timeout")
        least = most = int(repeat)
        longest_s = 60.0 if timeout is None else float(timeout)
    warmup_s = float(benchmark.first("warmup_time", -1))
    return Wanted(
        number=int(benchmark.first("number", number)),
        least=least,
        most=most,
        longest_s=longest_s,
        warmup_s=WARMUP_S if warmup_s < 0 else warmup_s,
        sample_s=float(benchmark.first("sample_time", SAMPLE_S)),
        fewest_calls=int(benchmark.first("min_run_count", 2)),
    )


def _run_time(trial: Trial) -> Measured:
    benchmark = trial.benchmark
    wanted, clock = _wanted(benchmark, number=0), benchmark.first("timer", timeit.default_timer)
    has_setup = bool(benchmark.setups)
    number = wanted.number or (1 if has_setup else 0)
    timer: Timer
    if has_setup and number > 1:
        timer = Alone(trial.bound(), trial.set_up_again, clock)
    else:
        timer = timeit.Timer(stmt=trial.bound(), setup=trial.set_up_again, timer=clock)
    return _sampled(trial, timer, wanted, number, keeps_fresh=not has_setup)


def _run_timeraw(trial: Trial) -> Measured:
    wanted = _wanted(trial.benchmark, number=1)
    return _sampled(trial, Raw(trial), wanted, wanted.number, keeps_fresh=True)


def _sampled(trial: Trial, timer: Timer, wanted: Wanted, number: int, *, keeps_fresh: bool) -> Measured:
    """Samples until there are enough, or they took too long: of a slow function the first may be the only one."""
    clock = timeit.default_timer
    begun, calls = clock(), 0
    samples: list[float] = []

    def is_enough(count: int) -> bool:
        if calls < wanted.fewest_calls or count < wanted.least:
            return False
        return clock() > begun + wanted.warmup_s + wanted.longest_s

    taken = math.nan
    if number == 0:
        number = 1
        while (
            True
        ):  # The warm-up, and how many calls a sample has: first calls are slow, and tell too small a number.
            trial.is_fresh = True
            started = clock()
            taken = timer.timeit(number)
            longer = max(clock() - started, taken)
            calls += number
            if longer >= wanted.sample_s:
                if clock() > begun + wanted.warmup_s:
                    break
            else:
                step = wanted.sample_s / longer if longer > 0 else _LARGEST_STEP
                number = max(number + 1, int(min(_LARGEST_STEP, max(_SMALLEST_STEP, step)) * number))
    elif wanted.warmup_s > 0:
        while clock() < begun + wanted.warmup_s or calls == 0:
            trial.is_fresh = trial.is_fresh or keeps_fresh
            taken = timer.timeit(number)
            calls += number
    if calls and is_enough(1):
        samples = [taken]
    while not samples or (len(samples) < wanted.most and not is_enough(len(samples))):
        samples.append(timer.timeit(number))
        calls += number
    return Measured(samples=[one / number for one in samples], details={"number": number})


def _run_mem(trial: Trial) -> Measured:
    """The size of what the function returns, by Pympler, as asv has it."""
    try:
        from pympler.asizeof import asizeof  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise Skipped("benchmarks of memory need Pympler: pip install pympler") from None
    sizeof: Callable[[Any], int] = asizeof
    found = trial.call()
    return Measured(value=sizeof([found, copy.copy(found)]) - sizeof([found, found]))


def _run_peakmem(trial: Trial) -> Measured:
    """The most memory that this process has had."""
    import resource

    trial.call()
    factor = 1 if sys.platform == "darwin" else 1024
    return Measured(value=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * factor)


def _run_track(trial: Trial) -> Measured:
    """What the function returns, a number; one that is none says that it does not apply."""
    value = trial.call()
    if hasattr(value, "item") and callable(value.item):
        value = value.item()  # a number of numpy
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise Skipped("it returns no number")
    if not isinstance(value, int | float):
        raise TypeError(f"it returns {type(value).__name__}, not a number")
    return Measured(value=value)


_RUNS: dict[str, Callable[[Trial], Measured]] = {
    "time": _run_time,
    "timeraw": _run_timeraw,
    "mem": _run_mem,
    "peakmem": _run_peakmem,
    "track": _run_track,
}


def make_cache(benchmark: Benchmark) -> Any:
    """What `setup_cache` returns; a set-up of the module that takes no arguments runs before it, as in asv."""

    def needs_nothing(function: Callable[..., Any]) -> bool:
        if inspect.ismethod(function):
            return False
        with suppress(TypeError):
            inspect.signature(function).bind()
            return True
        return False

    for setup in filter(needs_nothing, benchmark.setups):
        setup()
    assert benchmark.setup_cache is not None
    return benchmark.setup_cache()

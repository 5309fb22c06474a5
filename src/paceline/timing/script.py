"""`from paceline import bench`: functions timed in a script, which prints a line for each.

Under `paceline run` the times are metrics of the script, and with `record` they are a case of the history. Several
processes run the script again, each up to the same call of `bench`.
"""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from paceline import emit
from paceline.history.urls import find_url
from paceline.model import Case, Record, Scalar, Status, name_case
from paceline.numbers import count, duration, size
from paceline.record.events import utc_now
from paceline.report.format import value_and_spread
from paceline.timing.bench import Bench, Timed
from paceline.timing.functions import Rounds
from paceline.timing.keep import KIND, Keeper, measurement, params_of
from paceline.timing.show import laps_of

R = TypeVar("R")

CALL, PLACE = "PACELINE_BENCH_CALL", "PACELINE_BENCH_FD"
"""Which call of `bench` a process is there for, and the descriptor that its answer goes to."""

_calls = itertools.count()


class ScriptBench(Bench):
    """`bench` in a script."""

    __slots__ = ()

    def run(
        self,
        func: Callable[..., R],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        rounds: int | None = None,
        warmup: int | None = None,
    ) -> R:
        number, wanted = next(_calls), os.environ.get(CALL)
        keep: Callable[[Timed], None] | None = partial(_keep, number)
        if wanted is not None:  # A process that is there for one call of `bench` measures no other.
            keep = _answer if number == int(wanted) else None
        result = Bench(keep, self.settings).run(func, args, kwargs, rounds=rounds, warmup=warmup)
        if keep is _answer:
            raise SystemExit(0)
        return result


bench = ScriptBench(None)
"""Times a function and returns what it returns: `bench(func, *args, rounds=None, warmup=None, **kwargs)`.

`bench.using(…)` has other settings, `bench.pedantic(…)` exactly so many rounds. See [functions](pytest.md#functions).
"""


def _answer(timed: Timed) -> None:
    with os.fdopen(int(os.environ[PLACE]), "w") as file:
        json.dump(asdict(timed.rounds), file)


def _keep(number: int, timed: Timed) -> None:
    """Print what was measured, and hand it on to where it is wanted."""
    settings = timed.settings
    starts = [timed.rounds]
    if settings.processes > 1 and not emit.is_wanted():
        starts += [_again(number) for _ in range(settings.processes - 1)]
    elif settings.processes > 1:
        print(
            "bench: one process, since 'repeat' of the suite is what starts this script again",
            file=sys.stderr,
        )
    name, params = _name_of(timed), params_of(settings.params)
    key = name_case(name, params)
    samples = [sample for rounds in starts for sample in rounds.samples_s]
    print(_line(key, samples, starts))
    if emit.is_wanted():
        emit.metric(f"{key}.duration", samples, unit="s")
    if settings.record:
        _keeper().add([_record(settings.record, params, samples, starts)])


def _again(number: int) -> Rounds:
    """Run this script once more, up to the same call of `bench`, and hear what it measures."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if not (file and Path(file).is_file()) and "-c" not in sys.orig_argv:
        raise RuntimeError("several processes run the script again, and there is none: put it into a file")
    ours, theirs = os.pipe()
    with os.fdopen(ours) as answer:
        try:
            child = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, CALL: str(number), PLACE: str(theirs)},
                pass_fds=[theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        finally:
            os.close(theirs)
        text = answer.read()
        child.wait()
    try:
        return Rounds(**json.loads(text))
    except ValueError:
        raise RuntimeError(
            "another process of this script did not come to this call of bench: it must make the same calls each time"
        ) from None


def _name_of(timed: Timed) -> str:
    name = timed.settings.name or getattr(timed.func, "__name__", "") or type(timed.func).__name__
    return "lambda" if name == "<lambda>" else name


def _line(key: str, samples: Sequence[float], starts: Sequence[Rounds]) -> str:
    middle = " ".join(filter(None, value_and_spread("duration", measurement("duration", samples))))
    rounds = starts[0]
    parts = [f"{count(len(samples), 'round')} of {laps_of(rounds.laps, rounds.loops)}"]
    parts += [f"{len(starts)} processes"] if len(starts) > 1 else []
    parts += [f"peak of a call {size(rounds.peak_bytes)}"] if rounds.peak_bytes is not None else []
    if rounds.loop_cost_s > 0.01 * min(samples):
        parts.append(f"the loop takes {duration(rounds.loop_cost_s)} of each call")
    if rounds.is_too_short:
        parts.append("a round is too short for the clock")
    if not rounds.is_settled:
        parts.append("it still got faster when the time for its warm-up was over")
    return f"{key}: {middle} ({'; '.join(parts)})"


def _record(
    name: str, params: dict[str, Scalar], samples: Sequence[float], starts: Sequence[Rounds]
) -> Record:
    key, rounds = name_case(name, params), starts[0]
    metrics = {"duration": measurement("duration", samples)}
    if rounds.peak_bytes is not None:
        metrics["peak_allocated_bytes"] = measurement("peak_allocated_bytes", [rounds.peak_bytes])
    about = {"loops": rounds.loops, "samples_of_starts": [len(one.samples_s) for one in starts]}
    return Record(
        session="",
        case=Case(name=key, entry=name, key=key, params=params),
        attempt=1,
        status=Status.PASSED,
        started_at=utc_now(),
        metrics=metrics,
        details={"kind": KIND, **about, "loop_cost_s": rounds.loop_cost_s},
    )


@cache
def _keeper() -> Keeper:
    """The session that this run of the script is, named after it."""
    return Keeper(find_url(None), Path(sys.argv[0] or "bench").stem or "bench")

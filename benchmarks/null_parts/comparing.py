"""`paceline compare`: two sessions of the same thing, sixty metrics, with and without a history."""

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from null_rates import Row

from paceline.cli import _invoke
from paceline.history import SessionInfo, open_store
from paceline.model import Case, Measurement, Record, Status

CASES, METRICS = 10, 6
WITHIN, BETWEEN = 0.02, 0.01
SAMPLES = 5
ENVIRONMENT = {"id": "env", "class_id": "class", "hostname": "box", "packages": []}


def command(*words: str) -> tuple[int, str]:
    """The exit code and the output of the command, run in this process."""
    before, sys.argv = sys.argv, ["paceline", *words]
    try:
        with redirect_stdout(io.TextIOWrapper(io.BytesIO())) as out, redirect_stderr(io.StringIO()):
            code = _invoke()
            out.flush()
            return code, out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    finally:
        sys.argv = before


def night(random: np.random.Generator, number: int, factors: np.ndarray, samples: int) -> list[Record]:
    """A session's records: every metric has its own luck of the night, and of each sample."""
    luck = random.normal(0, BETWEEN, (CASES, METRICS, 1)) + random.normal(
        0, WITHIN, (CASES, METRICS, samples)
    )
    values = 10 * factors[:, :, None] * np.exp(luck)
    return [
        Record(
            session=f"night-{number}",
            case=Case(name=f"case-{case}", entry=f"case-{case}", key=f"case-{case}"),
            attempt=1,
            status=Status.PASSED,
            started_at=_time(number),
            exec_time_s=1.0,
            metrics={
                f"part_{metric}_s": Measurement(
                    value=float(np.median(values[case, metric])),
                    unit="s",
                    direction="lower",
                    samples=tuple(values[case, metric].tolist()),
                )
                for metric in range(METRICS)
            },
            environment="env",
        )
        for case in range(CASES)
    ]


def _time(number: int) -> str:
    return f"2026-{1 + number // 28:02}-{1 + number % 28:02}T00:00:00.000Z"


def exit_code(
    random: np.random.Generator, nights: int, factors: np.ndarray, samples: int = SAMPLES, *words: str
) -> int:
    """That of a comparison of the last two of so many nights, the last one with these factors."""
    with tempfile.TemporaryDirectory() as place, chdir(place):
        os.environ.pop("PACELINE_DB", None)
        with open_store(Path(place, "benchmark.db")) as store:
            for number in range(nights):
                changed = factors if number == nights - 1 else np.ones((CASES, METRICS))
                ident = uuid5(NAMESPACE_URL, str(number)).hex
                session = SessionInfo(id=ident, name=f"night-{number}", started_at=_time(number))
                store.add(session, ENVIRONMENT, night(random, number, changed, samples))
        return command("compare", *words)[0]


def rows(seed: int, count: int) -> Iterator[Row]:
    """Nothing changed; everything by 1 %, with the margin of 3 %; one metric of sixty by 10 %."""
    same, slightly, one = (np.ones((CASES, METRICS)) for _ in range(3))
    slightly *= 1.01
    one[3, 2] = 1.1
    plans = (
        ("nothing changed", same, 0.05, False),
        ("all by +1 %, margin 3 %", slightly, 0.05, False),
        ("one of 60 by +10 %", one, 0.5, True),
        ("all by +10 %", 1.1 * same, 0.95, True),
    )
    for nights, known in ((2, "no history"), (12, "10 nights before"), (32, "30 nights before")):
        for what, factors, bound, is_power in plans:
            random = np.random.default_rng([seed, nights])
            trials = count if not is_power else max(count // 4, 20)
            hits = sum(exit_code(random, nights, factors) == 1 for _ in range(trials))
            yield Row("compare", f"{what}; {known}: exit 1", hits, trials, bound, is_power)

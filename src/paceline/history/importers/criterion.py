"""Criterion.rs: the measurements under `target/criterion`, in directories `new`, `base` and of named baselines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import (
    OnProblem,
    make_batch,
    make_case,
    make_record,
    make_session,
    measure,
    single,
)
from paceline.history.importers.document import Value, read_bytes, read_json
from paceline.history.importers.values import (
    environment,
    number_or_text,
    time_of_file,
)
from paceline.history.session_info import Batch
from paceline.model import Case, Measurement, Record
from paceline.record import below
from paceline.record.codec import digest

FORMAT = "criterion"
_FILES = ("benchmark.json", "estimates.json", "sample.json")
_NANOSECOND = 1e-9
_AMOUNTS = {"Bytes": "bytes/s", "BytesDecimal": "bytes/s", "Elements": "elements/s", "Bits": "bits/s"}
# The names before Criterion 0.3.
_OLD_NAMES = {
    "mean": "Mean",
    "median": "Median",
    "slope": "Slope",
    "std_dev": "StdDev",
    "median_abs_dev": "MedianAbsDev",
}


def found(directory: Path) -> bool:
    """Whether a directory is one measurement; `change` is none, it only compares two of them."""
    return all(below.is_file(directory, name) for name in _FILES[:2])


def batches(directory: Path, _: OnProblem) -> Iterator[Batch]:
    """A session for each measurement.

    Criterion keeps neither a time nor a commit, replaces measurements one by one and copies `new` to `base`: only its
    numbers tell one from another. So a measurement found again, in whatever directory, is known.
    """
    if _is_copy(directory):
        return
    about, estimates = (read_json(directory / name) for name in _FILES[:2])
    sample = directory / _FILES[2]
    samples = read_json(sample) if below.is_file(directory, _FILES[2]) else Value(None, str(sample))
    case = _case(about)
    session = make_session(
        FORMAT,
        (case.key, digest([estimates.data, samples.data])),
        started_at=time_of_file(directory / _FILES[1]),
        directory=str(directory.absolute()),
        meta={"baseline": directory.name},
    )
    yield make_batch(session, environment(), [_record(case, about, estimates, samples)])


def _is_copy(directory: Path) -> bool:
    """Whether this is the copy of `new` that Criterion makes after each run; its files' times are those of the copy."""
    new = directory.parent / "new"
    return directory.name != "new" and found(new) and _bytes(new) == _bytes(directory)


def _bytes(directory: Path) -> list[bytes]:
    return [read_bytes(directory / name) for name in _FILES if below.is_file(directory, name)]


def _case(about: Value) -> Case:
    value = about.get("value_str")
    parts = [about["group_id"].text(), about.get("function_id").text("")]
    params = {"value": number_or_text(value.scalar())} if value.data is not None else {}
    return make_case("/".join(filter(None, parts)), params)


def _record(case: Case, about: Value, estimates: Value, samples: Value) -> Record:
    times_s = _times_s(samples)
    duration = measure(times_s, "s", "lower") if times_s else single(_typical_s(estimates), "s", "lower")
    return make_record(
        case,
        {"duration": duration, **_throughput(about.get("throughput"), duration)},
        details={
            "full_id": about.get("full_id").text(""),
            "estimates": _details(estimates),
            "sampling_mode": samples.get("sampling_mode").text("") if isinstance(samples.data, dict) else "",
        },
    )


def _times_s(samples: Value) -> list[float]:
    """The time of one iteration in each sample. Before Criterion 0.3 a sample was a pair of lists."""
    if samples.data is None:
        return []
    if isinstance(samples.data, list):
        iterations, times = (column.numbers() for column in _pair(samples))
    else:
        iterations, times = samples["iters"].numbers(), samples["times"].numbers()
    if len(iterations) != len(times) or not all(count > 0 for count in iterations):
        raise samples.wrong("has not one number of iterations for each time", "run the benchmark again")
    return [time * _NANOSECOND / count for time, count in zip(times, iterations, strict=True)]


def _pair(samples: Value) -> list[Value]:
    columns = list(samples.each())
    if len(columns) != 2:
        raise samples.wrong("expected two lists, iterations and times", "run the benchmark again")
    return columns


def _estimate(estimates: Value, name: str) -> Value:
    new = estimates.get(name)
    return new if new.data is not None else estimates.get(_OLD_NAMES[name])


def _typical_s(estimates: Value) -> float:
    """What Criterion itself shows: the slope where it fitted one, else the mean."""
    slope = _estimate(estimates, "slope")
    best = slope if slope.data is not None else _estimate(estimates, "mean")
    return best["point_estimate"].number() * _NANOSECOND


def _details(estimates: Value) -> dict[str, Any]:
    """Criterion's estimates in nanoseconds, with their intervals."""
    known = {name: _estimate(estimates, name) for name in _OLD_NAMES}
    return {name: _interval(value) for name, value in known.items() if value.data is not None}


def _interval(estimate: Value) -> list[Any]:
    interval = estimate.get("confidence_interval")
    return [
        estimate["point_estimate"].number(),
        interval.get("lower_bound").scalar(),
        interval.get("upper_bound").scalar(),
    ]


def _throughput(amounts: Value, duration: Measurement) -> dict[str, Measurement]:
    samples = [float(sample) for sample in duration.samples if isinstance(sample, int | float)]
    rates: dict[str, Measurement] = {}
    for kind, amount in _flat(amounts):
        if kind in _AMOUNTS and samples and all(sample > 0 for sample in samples):
            name = "throughput" if not rates else f"throughput_{kind.lower()}"
            rates[name] = measure([amount.number() / sample for sample in samples], _AMOUNTS[kind], "higher")
    return rates


def _flat(amounts: Value) -> Iterator[tuple[str, Value]]:
    """`{"Bytes": 8}` as of old, or `{"ElementsAndBytes": {"elements": 2, "bytes": 8}}`."""
    for kind, amount in amounts.items():
        if isinstance(amount.data, dict):
            yield from ((name.capitalize(), value) for name, value in amount.items())
        else:
            yield kind, amount

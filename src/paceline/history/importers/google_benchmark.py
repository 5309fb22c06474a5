"""google-benchmark: the JSON of `--benchmark_out`; repetitions are samples, aggregates count where they are alone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import make_batch, make_case, make_record, make_session, measure, single
from paceline.history.importers.document import Value
from paceline.history.importers.values import (
    environment,
    seconds_in,
    time_from_text,
    time_of_file,
)
from paceline.history.session_info import Batch
from paceline.metrics import describe
from paceline.model import Case, Direction, Record, Scalar, Status
from paceline.record.codec import digest

FORMAT = "google-benchmark"
_TIMES = {"real_time": "duration", "cpu_time": "cpu_time"}
_NO_COUNTERS = frozenset(
    {
        *_TIMES,
        *("name", "run_name", "run_type", "aggregate_name", "aggregate_unit", "family_index", "label"),
        *(
            "per_family_instance_index",
            "repetitions",
            "repetition_index",
            "threads",
            "iterations",
            "time_unit",
        ),
        *("error_occurred", "error_message", "skipped", "skip_message"),
    }
)
_COUNTERS: dict[str, tuple[str, Direction]] = {
    "bytes_per_second": ("bytes/s", "higher"),
    "items_per_second": ("items/s", "higher"),
    "max_bytes_used": ("bytes", "lower"),
    "total_allocated_bytes": ("bytes", "lower"),
    "net_heap_growth": ("bytes", "lower"),
    "allocs_per_iter": ("allocations", "lower"),
}
_REVISIONS = ("git_commit", "git_revision", "git_sha", "commit", "revision")
_ARGUMENT = re.compile(r"(?:([^/:<>]+):)?(-?\d+(?:\.\d+)?)")
_LONGEST_NAME = 1000
_SETTINGS = frozenset({"min_time", "min_warmup_time", "repeats", "iterations"})
_STATISTICS = {"mean": "_mean", "stddev": "_std"}


def matches(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and isinstance(data.get("context"), dict)
        and isinstance(data.get("benchmarks"), list)
    )


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """One session: a run of a benchmark program."""
    context = document["context"]
    session = make_session(
        FORMAT,
        (digest(document.data),),
        started_at=time_from_text(context.get("date").text("")) or time_of_file(path),
        revision=next((context[name].text() for name in _REVISIONS if context.get(name).data), ""),
        branch=context.get("git_branch").text(""),
        directory=str(path.absolute().parent),
        meta={
            "file": path.name,
            "executable": Path(context.get("executable").text("")).name,
            "version": context.get("library_version").text(""),
            "build_type": context.get("library_build_type").text(""),
        },
    )
    surroundings = environment(
        hostname=context.get("host_name").text(""),
        cpus=context.get("num_cpus").count(),
        cpu=_caches(context),
    )
    yield make_batch(session, surroundings, _records(document["benchmarks"]))


def _caches(context: Value) -> str:
    """The nearest to a CPU's model that the file has; its clock rate changes from one moment to the next."""
    sizes = [cache.get("size").text("") for cache in context.get("caches").each()]
    return f"caches of {', '.join(sizes)} bytes" if sizes else ""


def _records(benchmarks: Value) -> Iterator[Record]:
    families: dict[str, list[Value]] = {}
    for row in benchmarks.each():
        name = row.get("run_name").text("") or row["name"].text()
        families.setdefault(name, []).append(row)
    for name, rows in families.items():
        runs = [row for row in rows if row.get("run_type").text("iteration") == "iteration"]
        record = _of_runs(_case(name), runs) if runs else _of_aggregates(_case(name), rows)
        if record is not None:
            yield record


def _case(name: str) -> Case:
    """The arguments in a name such as `BM_Copy/8/size:64/threads:2`, as parameters."""
    if len(name) > _LONGEST_NAME:
        return make_case(name)
    params: dict[str, Scalar] = {}
    kept: list[str] = []
    for part in re.split(r"/(?![^<]*>)", name):
        found = _ARGUMENT.fullmatch(part) if kept else None
        if found is None:
            kept.append(part)
        elif found[1] not in _SETTINGS:
            label = found[1] or f"arg{len(params)}"
            params[label] = float(found[2]) if "." in found[2] else int(found[2])
    return make_case("/".join(kept), params)


def _of_runs(case: Case, rows: list[Value]) -> Record:
    errors = [row for row in rows if _failed(row)]
    good = [row for row in rows if not _failed(row)]
    samples: dict[str, list[float]] = {}
    for row in good:
        for name, number in _numbers(row):
            samples.setdefault(name, []).append(number)
    metrics = {name: measure(values, *_meaning(name)) for name, values in samples.items()}
    details = {
        "iterations": [row.get("iterations").scalar() for row in good],
        "label": rows[0].get("label").text(""),
    }
    if not errors:
        return make_record(case, metrics, details=details)
    said = errors[0].get("error_message").text("") or errors[0].get("skip_message").text("no reason given")
    status = Status.FAILED if errors[0].get("error_occurred").data else Status.SKIPPED
    return make_record(case, metrics, status=status, reason=said, details=details)


def _failed(row: Value) -> bool:
    return bool(row.get("error_occurred").data or row.get("skipped").data)


def _of_aggregates(case: Case, rows: list[Value]) -> Record | None:
    """Only summaries were kept: the median is the value, mean and deviation go beside it. Big O is no measurement."""
    named = {row.get("aggregate_name").text(""): row for row in rows}
    middle = named.get("median") or named.get("mean")
    if middle is None:
        return None
    metrics = {name: single(number, *_meaning(name)) for name, number in _numbers(middle)}
    for aggregate, suffix in _STATISTICS.items():
        for name, number in _numbers(named[aggregate]) if aggregate in named else ():
            unit, direction = _meaning(name)
            metrics[f"{name}{suffix}"] = single(number, unit, direction if suffix == "_mean" else None)
    return make_record(case, metrics, details={"repetitions": middle.get("repetitions").scalar()})


def _numbers(row: Value) -> Iterator[tuple[str, float]]:
    """The times of a row, in seconds, and its counters."""
    unit = row.get("time_unit").text("ns")
    factor = seconds_in(unit)
    if factor is None:
        raise row.wrong(f"time_unit {unit!r} is no unit of time")
    for theirs, ours in _TIMES.items():
        yield ours, row[theirs].number() * factor
    for name, value in row.items():
        if name not in _NO_COUNTERS and value.is_number():
            yield name, value.number()


def _meaning(name: str) -> tuple[str | None, Direction | None]:
    if name in _TIMES.values():
        return "s", "lower"
    if name in _COUNTERS:
        return _COUNTERS[name]
    metric = describe(name)
    return metric.unit, metric.direction

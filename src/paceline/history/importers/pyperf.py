"""pyperf: benchmark suites in JSON, packed by gzip or not, of pyperf 0.9.6 and later (also of pyperformance)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import make_batch, make_case, make_record, make_session, measure
from paceline.history.importers.document import Value
from paceline.history.importers.values import environment, time_from_text, time_of_file
from paceline.history.session_info import Batch
from paceline.model import Direction, Measurement, Record, Status
from paceline.record.codec import digest

FORMAT = "pyperf"
_UNITS: Mapping[str, tuple[str, str | None, Direction | None]] = {
    "second": ("duration", "s", "lower"),
    "byte": ("memory", "bytes", "lower"),
    "integer": ("value", None, None),
}
_PEAKS = ("command_max_rss", "mem_max_rss", "mem_peak_pagefile_usage")


def matches(data: Any) -> bool:
    runs = data.get("benchmarks") if isinstance(data, dict) and "version" in data else None
    return (
        isinstance(runs, list)
        and bool(runs)
        and all(isinstance(item, dict) and "runs" in item for item in runs)
    )


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """One session: a suite, which later runs may have been appended to."""
    suite = document.get("metadata")
    benchmarks = list(document["benchmarks"].each())
    facts = Facts([suite, *(item.get("metadata") for item in benchmarks), *_runs_metadata(benchmarks)])
    started_at = min(filter(None, map(time_from_text, facts.all("date"))), default="")
    session = make_session(
        FORMAT,
        (started_at, facts.first("hostname"), *([] if started_at else [digest(document.data)])),
        started_at=started_at or time_of_file(path),
        revision=facts.first("commit_id"),
        branch=facts.first("commit_branch"),
        commit_time=time_from_text(facts.first("commit_date")),
        directory=str(path.absolute().parent),
        meta={"file": path.name, "version": facts.first("perf_version")},
    )
    yield make_batch(session, facts.environment(), (_record(item, suite) for item in benchmarks))


def _runs_metadata(benchmarks: list[Value]) -> Iterator[Value]:
    for item in benchmarks:
        for run in item["runs"].each():
            yield run.get("metadata")


class Facts:
    """What a suite says of itself: on top, in its benchmarks and, where they differ, in their runs."""

    def __init__(self, places: list[Value]) -> None:
        self._places = places

    def all(self, name: str) -> Iterator[str]:
        return (place.get(name).text() for place in self._places if place.get(name).data is not None)

    def first(self, name: str) -> str:
        return next(self.all(name), "")

    def environment(self) -> dict[str, Any]:
        system, _, rest = self.first("platform").partition("-")
        return environment(
            hostname=self.first("hostname"),
            machine=next((part for part in rest.split("-") if part in _MACHINES), ""),
            cpu=self.first("cpu_model_name"),
            cpus=Value(self.first("cpu_count"), "").count(),
            os=system,
            kernel=rest.partition("-")[0],
            python=self.first("python_version"),
            implementation=self.first("python_implementation"),
        )


_MACHINES = frozenset(
    {"x86_64", "AMD64", "aarch64", "arm64", "i686", "ppc64le", "riscv64", "s390x", "armv7l"}
)


def _record(item: Value, suite: Value) -> Record:
    metadata = {**_plain(suite), **_plain(item.get("metadata"))}
    runs = list(item["runs"].each())
    values = [run.get("values").numbers() for run in runs]
    samples = [sample for run in values for sample in run]
    case = make_case(str(metadata.get("name") or "benchmark"))
    if not samples:
        return make_record(case, {}, status=Status.FAILED, reason="pyperf kept no values of it")
    unit = str(metadata.get("unit") or "second")
    name, our_unit, direction = _UNITS.get(unit, ("value", unit, None))
    return make_record(
        case,
        {name: measure(samples, our_unit, direction), **_peak_memory(runs, metadata)},
        started_at=min(filter(None, map(_date, runs)), default=""),
        details={
            "loops": metadata.get("loops"),
            "inner_loops": metadata.get("inner_loops"),
            "description": metadata.get("description"),
            "samples_of_runs": [len(run) for run in values if run],
            "warmups": [list(item.numbers()) for run in runs for item in run.get("warmups").each()],
        },
    )


def _plain(metadata: Value) -> dict[str, Any]:
    return {} if metadata.data is None else metadata.fields


def _date(run: Value) -> str:
    return time_from_text(run.get("metadata").get("date").text(""))


def _peak_memory(runs: list[Value], metadata: Mapping[str, Any]) -> dict[str, Measurement]:
    """The most memory each worker process held, where pyperf looked."""
    for name in _PEAKS:
        found = [run.get("metadata").get(name) for run in runs if run.get("values").data]
        peaks = [value.number() for value in found if value.is_number()]
        shared = metadata.get(name)
        if not peaks and isinstance(shared, int | float):
            peaks = [float(shared)]
        if peaks:
            return {"peak_memory": measure(peaks, "bytes", "lower")}
    return {}

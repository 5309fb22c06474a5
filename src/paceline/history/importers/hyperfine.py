"""hyperfine: the JSON of `--export-json`, of hyperfine 1 and of hyperfine 2."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import make_batch, make_case, make_record, make_session, measure, single
from paceline.history.importers.document import Value
from paceline.history.importers.values import (
    environment,
    number_or_text,
    time_from_text,
    time_of_file,
)
from paceline.history.session_info import Batch
from paceline.metrics import describe
from paceline.model import Measurement, Record, Scalar, Status
from paceline.record.codec import digest

FORMAT = "hyperfine"
_NAMES = {
    "time_wall_clock": "duration",
    "time_user": "user_time",
    "time_system": "system_time",
    "time_cpu": "cpu_time",
    "memory_peak_resident": "peak_memory",
}
_UNITS = {"second": "s", "byte": "bytes"}


def matches(data: Any) -> bool:
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, list) or not results:
        return False
    return all(
        isinstance(item, dict) and "command" in item and {"mean", "measurements"} & item.keys()
        for item in results
    )


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """One session: a call of hyperfine. Version 1 does not say when that was; its file's time stands for it."""
    metadata = document.get("metadata")
    started_at = time_from_text(metadata.get("start_time").text(""))
    session = make_session(
        FORMAT,
        (digest(document.data),),
        started_at=started_at or time_of_file(path),
        directory=str(path.absolute().parent),
        meta={"file": path.name, "version": metadata.get("hyperfine_version").text("")},
    )
    platform = metadata.get("platform")
    surroundings = environment(os=platform.get("os").text(""), machine=platform.get("architecture").text(""))
    yield make_batch(session, surroundings, map(_record, document["results"].each()))


def _record(item: Value) -> Record:
    runs = list(item.get("measurements").each())
    codes = [run.get("exit_code") for run in runs] or list(item.get("exit_codes").each())
    failures = [code.scalar() for code in codes if code.data != 0]
    command = item["command"].text()
    return make_record(
        make_case(item.get("name").text(command), _params(item)),
        _of_runs(runs) if runs else _of_summary(item),
        status=Status.FAILED if failures else Status.PASSED,
        reason=_reason(failures, len(codes)),
        details={"command": command, "exit_codes": [code.scalar() for code in codes] if failures else None},
    )


def _params(item: Value) -> dict[str, Scalar]:
    """hyperfine writes every value as text; those that are numbers become numbers."""
    return {name: number_or_text(value) for name, value in item.get("parameters").scalars().items()}


def _reason(failures: list[Scalar], runs: int) -> str:
    if not failures:
        return ""
    codes = ", ".join(dict.fromkeys("a signal" if code is None else str(code) for code in failures))
    return f"{len(failures)} of {runs} runs ended with {codes} instead of 0"


def _of_summary(item: Value) -> dict[str, Measurement]:
    """Version 1: all times, and of the rest the mean."""
    times, peaks = item.get("times").numbers(), item.get("memory_usage_byte").numbers()
    duration = measure(times, "s", "lower") if times else single(_middle(item).number(), "s", "lower")
    means = {f"{name}_time": item.get(name) for name in ("user", "system")}
    found = {name: single(value.number(), "s", "lower") for name, value in means.items() if value.is_number()}
    peak = {"peak_memory": measure(peaks, "bytes", "lower")} if peaks else {}
    return {"duration": duration, **found, **peak}


def _middle(item: Value) -> Value:
    return item.get("median") if item.get("median").is_number() else item["mean"]


def _of_runs(runs: list[Value]) -> dict[str, Measurement]:
    """Version 2: every metric of every run; all of them are costs."""
    samples: dict[str, list[float]] = {}
    units: dict[str, str | None] = {}
    for run in runs:
        for name, found in run.items():
            if name == "exit_code" or found.data is None:
                continue
            unit = found.get("unit").text("")
            ours = _NAMES.get(name, name)
            samples.setdefault(ours, []).append(found["value"].number())
            units[ours] = _UNITS.get(unit, unit) or describe(ours).unit
    return {name: measure(values, units[name], "lower") for name, values in samples.items()}

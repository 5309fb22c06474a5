"""A test that ran becomes a record, which travels to the process that stores it on the report of its teardown."""

import numbers
import os
import statistics
from collections.abc import Generator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pytest

from paceline.metrics import describe
from paceline.model import Case, Measurement, Metric, Record, Status
from paceline.pytest_plugin import asks_for_ours
from paceline.pytest_plugin.cases import case_of, forget_sources, source_of
from paceline.pytest_plugin.measuring import (
    MEASURED,
    STAGES,
    Measured,
    Stage,
    how_measured,
    is_metric,
    rounds_of,
    samples_of,
    warn_of_rounds,
)
from paceline.record.codec import dump, dump_plain, to_json
from paceline.record.masking import mask_record
from paceline.record.redact import Redactor, secret_values
from paceline.run.conditions import wanted_of_machine

LINE = "paceline_line"
"""The attribute of a report that carries a line of the journal."""

RECORD = "paceline_record"
"""That of a report which does not leave this process, and so may carry the record itself."""

PHASES = ("setup", "call", "teardown")
LONGEST_ERROR = 20_000

# What the fields are called in a record that the rows of a test run had under these names.
_DETAIL_NAMES = {"start": "started", "end": "ended"}
_LOWER_BYTES, _LOWER_S = ("bytes", "lower"), ("s", "lower")
_OWN_METRICS: Mapping[str, tuple[str, Any]] = {
    "duration": _LOWER_S,
    "average_memory": _LOWER_BYTES,
    "peak_memory": _LOWER_BYTES,
    "kernel_peak_memory": _LOWER_BYTES,
    "compute_time": _LOWER_S,
    "compute_cpu_time": _LOWER_S,
    "disk_spill_time": _LOWER_S,
    "serializing_time": _LOWER_S,
    "transfer_time": _LOWER_S,
    "shuffle_disk_time": _LOWER_S,
    "disk_spill_bytes": _LOWER_BYTES,
    "scheduler_cpu_avg": ("cores", "lower"),
    "scheduler_memory_max": _LOWER_BYTES,
    "worker_max_tick": _LOWER_S,
    "scheduler_max_tick": _LOWER_S,
}


class Recorder:
    """Makes the records of the tests that run in this process."""

    def __init__(self, config: pytest.Config) -> None:
        worker: Mapping[str, Any] = getattr(config, "workerinput", {})
        self._worker = str(worker.get("workerid", ""))
        self._workers = int(worker.get("workercount", 1))
        self._redactor = Redactor(secret_values(os.environ))
        self._stage = STAGES[-1] or Stage()
        forget_sources()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._stage.item = item

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        measured = item.stash.get(MEASURED, None)
        if measured is None and report.when == "setup" and report.failed and asks_for_ours(item):
            # A fixture before ours failed; that a benchmark could not begin is worth a record.
            measured = item.stash[MEASURED] = Measured()
        if measured is None:
            return report
        measured.reports[report.when or ""] = report
        if measured.profiling is not None:
            return report
        if report.when == "setup":
            measured.case = case_of(item, self._redactor)
            # All that is needed to make a record of the test if nothing more is heard of it.
            case = measured.case
            started = {
                "name": case.name,
                "entry": case.entry,
                "key": case.key,
                "params": dict(case.params),
                "variant": case.variant,
                "test_name": item.name,
                "setup_outcome": report.outcome,
                "started_at": _iso(report.start),
            }
            line = dump_plain({"started": started})
            if self._redactor.finds(line):
                line = dump({"started": started}, redactor=self._redactor)
            setattr(report, LINE, line.decode())
        elif report.when == "teardown":
            del item.stash[MEASURED]  # One that is run again measures anew.
            self._send_record(report, self._record(item, measured))
        return report

    def _record(self, item: pytest.Item, measured: Measured) -> Record:
        case = measured.case or case_of(item, self._redactor)
        status, reason = outcome_of(measured.reports)
        beside = ""
        if self._workers > 1:
            others = f"{self._workers - 1} other worker{'s' if self._workers > 2 else ''} of pytest-xdist"
            measured.warn(f"measured beside {others}: its times are not comparable with those of a run alone")
            beside = "" if wanted_of_machine() == "ignore" else f"measured beside {others}"
        if measured.is_empty and status is Status.PASSED:
            measured.warn("nothing was measured: the test asks for a benchmark fixture and does not use it")
        timings_s = {when: report.duration for when, report in measured.reports.items()}
        metrics = measurements_of(measured)  # It may warn.
        return Record(
            session="",
            case=case,
            attempt=1,
            status=status,
            reason=reason,
            started_at=_iso(measured.reports["setup"].start),
            exec_time_s=timings_s.get("call", 0.0),
            timings_s=timings_s,
            metrics=metrics,
            warnings=tuple(measured.warnings),
            disturbed=(beside,) if beside else (),
            details=self._details(item, case, measured),
        )

    def _details(self, item: pytest.Item, case: Case, measured: Measured) -> dict[str, Any]:
        details: dict[str, Any] = names_of(case, item.name)
        for when, report in measured.reports.items():
            details[f"{when}_outcome"] = report.outcome
        if measured.started_s:
            details["started"], details["ended"] = _iso(measured.started_s), _iso(measured.ended_s)
        source = source_of(item)
        if source is not None:
            details["source"], details["source_hash"] = source
        if measured.rounds:
            details["bench"] = how_measured(measured)
        optional = {"error": error_of(measured.reports), "worker": self._worker, **measured.details}
        for name, value in measured.values.items():
            if not is_metric(name, value):
                optional[_DETAIL_NAMES.get(name, name)] = value
        details |= {name: value for name, value in optional.items() if not _is_nothing(value)}
        return details

    def _send_record(self, report: pytest.TestReport, record: Record) -> None:
        line = dump_plain({"record": to_json(record)})
        if self._redactor.finds(line):
            record = mask_record(record, self._redactor)
            line = dump_plain({"record": to_json(record)})
        setattr(report, LINE, line.decode())
        if not self._worker:
            setattr(report, RECORD, record)


def names_of(case: Case, test_name: str) -> dict[str, Any]:
    path, _, _ = case.name.partition("::")
    original = case.entry.rpartition("::")[2]
    return {"nodeid": case.name, "path": path, "test_name": test_name, "original_name": original}


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)


def _iso(seconds: float) -> str:
    """A time as all our files have it; most tests of a suite fall into the same second as the one before."""
    whole = int(seconds)
    return f"{_whole_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=16)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def outcome_of(reports: Mapping[str, pytest.TestReport]) -> tuple[Status, str]:
    """Failed if one of its phases did; skipped if one was; the reason says which phase and why."""
    for when in PHASES:
        report = reports.get(when)
        if report is not None and report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash is not None else report.longreprtext.strip().rpartition("\n")[2]
            return Status.FAILED, f"{when}: {str(text).partition(chr(10))[0][:500]}"
    for report in reports.values():
        if report.skipped:
            xfail = getattr(report, "wasxfail", None)
            if xfail is not None:
                return Status.SKIPPED, f"failed as expected: {xfail}"
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
            return Status.SKIPPED, str(why).removeprefix("Skipped: ")
    return Status.PASSED, ""


def error_of(reports: Mapping[str, pytest.TestReport]) -> str:
    """What pytest says of each phase that failed, without the middle if it is very long."""
    text = "\n\n".join(report.longreprtext for report in reports.values() if report.failed)
    if len(text) <= LONGEST_ERROR:
        return text
    half = LONGEST_ERROR // 2
    return f"{text[:half]}\n… {len(text) - LONGEST_ERROR:,} characters …\n{text[-half:]}"


def measurements_of(measured: Measured) -> dict[str, Measurement]:
    """All metrics with their samples."""
    calls = rounds_of(measured)
    warn_of_rounds(measured)
    return {
        name: _measurement(name, samples, describe("duration" if name in calls else name))
        for name, samples in samples_of(measured).items()
    }


def _measurement(name: str, samples: Sequence[Any], known: Metric) -> Measurement:
    unit, direction = _OWN_METRICS.get(name, (known.unit, known.direction))
    plain = tuple(_number(value) for value in samples)
    value = plain[0] if len(plain) == 1 else statistics.median(map(float, samples))
    return Measurement(value=value, unit=unit, direction=direction, samples=plain)


def _number(value: Any) -> int | float:
    if type(value) is float or type(value) is int:
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)

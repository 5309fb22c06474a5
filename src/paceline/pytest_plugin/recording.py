"""A test that ran becomes a record, which travels to the process that keeps it on the report of its teardown."""

import os
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pytest

from paceline.model import Case, Record, Status
from paceline.pytest_plugin.cases import case_of, forget_sources, source_of
from paceline.pytest_plugin.fixtures import asks_for_ours
from paceline.pytest_plugin.measurements import is_metric, measurements_of
from paceline.pytest_plugin.measuring import MEASURED, STAGES, Measured, Stage
from paceline.pytest_plugin.outcomes import error_of, outcome_of
from paceline.record.codec import dump, dump_plain, to_json
from paceline.record.masking import mask_record
from paceline.record.redact import Redactor, secret_values

LINE = "paceline_line"
"""The attribute of a report that carries a line of the journal."""

RECORD = "paceline_record"
"""That of a report which does not leave this process, and so may carry the record itself."""

# What the fields are called in a record that the rows of a test run had under these names.
_DETAIL_NAMES = {"start": "started", "end": "ended"}


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
        measured = _measured_of(item, report)
        if measured is None:
            return report
        measured.reports[report.when or ""] = report
        if measured.profiling is not None:
            return report
        if report.when == "setup":
            measured.case = case_of(item, self._redactor)
            self._send(report, {"started": _started(measured.case, item, report)})
        elif report.when == "teardown":
            del item.stash[MEASURED]  # One that is run again measures anew.
            self._send_record(report, self._record(item, measured))
        return report

    def _record(self, item: pytest.Item, measured: Measured) -> Record:
        case = measured.case or case_of(item, self._redactor)
        status, reason = outcome_of(measured.reports)
        if self._workers > 1:
            others = f"{self._workers - 1} other worker{'s' if self._workers > 2 else ''} of pytest-xdist"
            measured.warn(f"measured beside {others}: its times are not comparable with those of a run alone")
        if measured.is_empty and status is Status.PASSED:
            measured.warn("nothing was measured: the test asks for a benchmark fixture and does not use it")
        timings_s = {when: report.duration for when, report in measured.reports.items()}
        metrics = measurements_of(measured)
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

    def _send(self, report: pytest.TestReport, data: Mapping[str, Any]) -> None:
        line = dump_plain(data)
        if self._redactor.finds(line):
            line = dump(data, redactor=self._redactor)
        setattr(report, LINE, line.decode())


def _measured_of(item: pytest.Item, report: pytest.TestReport) -> Measured | None:
    found = item.stash.get(MEASURED, None)
    if found is None and report.when == "setup" and report.failed and asks_for_ours(item):
        # A fixture before ours failed; that a benchmark could not begin is worth a record.
        found = item.stash[MEASURED] = Measured()
    return found


def _started(case: Case, item: pytest.Item, report: pytest.TestReport) -> dict[str, Any]:
    """What is needed to make a record of the test if nothing more is heard of it."""
    return {
        "name": case.name,
        "entry": case.entry,
        "key": case.key,
        "params": dict(case.params),
        "test_name": item.name,
        "setup_outcome": report.outcome,
        "started_at": _iso(report.start),
    }


def names_of(case: Case, test_name: str) -> dict[str, Any]:
    path, _, _ = case.name.partition("::")
    original = case.entry.rpartition("::")[2]
    return {"nodeid": case.name, "path": path, "test_name": test_name, "original_name": original}


def _iso(seconds: float) -> str:
    """A time as all our files have it; most tests of a suite fall into the same second as the one before."""
    whole = int(seconds)
    return f"{_whole_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=16)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)

"""How a test ended, from the reports of its phases."""

from collections.abc import Mapping

import pytest

from paceline.model import Status

PHASES = ("setup", "call", "teardown")
LONGEST_ERROR = 20_000


def outcome_of(reports: Mapping[str, pytest.TestReport]) -> tuple[Status, str]:
    """Failed if one of its phases did; skipped if one was; the reason says which phase and why."""
    for when in PHASES:
        report = reports.get(when)
        if report is not None and report.failed:
            return Status.FAILED, f"{when}: {_message(report)}"
    for report in reports.values():
        if report.skipped:
            xfail = getattr(report, "wasxfail", None)
            return Status.SKIPPED, _skip_reason(report) if xfail is None else f"failed as expected: {xfail}"
    return Status.PASSED, ""


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext.strip().rpartition("\n")[2]
    return str(text).partition("\n")[0][:500]


def _skip_reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return "skipped"


def error_of(reports: Mapping[str, pytest.TestReport]) -> str:
    """What pytest says of each phase that failed, without the middle if it is very long."""
    text = "\n\n".join(report.longreprtext for report in reports.values() if report.failed)
    if len(text) <= LONGEST_ERROR:
        return text
    half = LONGEST_ERROR // 2
    return f"{text[:half]}\n… {len(text) - LONGEST_ERROR:,} characters …\n{text[-half:]}"

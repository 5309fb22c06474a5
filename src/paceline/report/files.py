"""The report's three files, written when a session ends."""

from paceline.model import Report
from paceline.record.atomic import write_atomic
from paceline.record.directory import SessionDir
from paceline.report import json_report, junit, markdown


def write_report(report: Report, directory: SessionDir) -> str:
    """Write `report.json`, `report.md` and `junit.xml`; what went wrong in a line, or an empty text."""
    files = {
        "report.json": json_report.parts(report),
        "report.md": markdown.parts(report, directory),
        "junit.xml": junit.parts(report, directory),
    }
    try:
        for name, parts in files.items():
            write_atomic(directory.path / name, parts)
    except OSError as error:
        return f"the report could not be written into {directory.path}: {error.strerror or error}"
    return ""

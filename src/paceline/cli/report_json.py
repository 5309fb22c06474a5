"""The report as JSON on standard output, record by record."""

from paceline.cli.output import write_bytes
from paceline.model import Report
from paceline.report import json_report


def print_report(report: Report) -> None:
    """Write what `report.json` holds; a session of any size takes no memory."""
    for part in json_report.parts(report):
        write_bytes(part)

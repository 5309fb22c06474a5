"""The report as JSON on standard output, record by record."""

import sys

from paceline.model import Report
from paceline.report import json_report


def print_report(report: Report) -> None:
    """Write what `report.json` holds; a session of any size takes no memory."""
    sys.stdout.flush()
    for part in json_report.parts(report):
        sys.stdout.buffer.write(part)

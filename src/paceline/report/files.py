"""The report's three files, written when a session ends."""

from collections.abc import Callable
from pathlib import Path

from paceline.model import Report
from paceline.record.directory import SessionDir, write_atomic
from paceline.report import json_report, junit, markdown

"""Where results are sent: a class with `open(plan)`, `record(record)` and `close(report)`, each a no-op by default."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.model import Plan, Record, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What a sink may know besides its options."""

    name: str
    session: str
    session_dir: Path
    environment: Mapping[str, Any]


class Sink:
    """The interface; derive from it or write a class with the same methods."""

    def __init__(self, options: Mapping[str, Any], context: SinkContext) -> None:
        self.options = options
        self.context = context

    def open(self, plan: Plan) -> None:
        """The session begins."""

    def record(self, record: Record) -> None:
        """A case has its record."""

    def close(self, report: Report) -> None:
        """The session has ended."""

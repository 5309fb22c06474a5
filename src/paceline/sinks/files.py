"""Plain files in a directory of one's choice: a session's records as JSON lines and as a table."""

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Plan, Record, Report
from paceline.record import below
from paceline.record.codec import dump, dump_plain, finding_json, plain, to_json
from paceline.record.files import plain_cells
from paceline.record.layout import safe_name
from paceline.sinks import Sink, SinkContext

Format = Literal["jsonl", "csv"]
COLUMNS = (
    *("key", "session", "case", "attempt", "status", "started_at", "revision"),
    *("metric", "value", "unit", "direction", "samples"),
)


class FilesOptions(BaseModel):
    """Where to, and in which form."""

    model_config = ConfigDict(extra="forbid")

    directory: str = Field(min_length=1, description="Where the files go; it is made if need be.")
    formats: list[Format] = Field(
        default=["jsonl", "csv"],
        min_length=1,
        description="`jsonl`: a record a line. `csv`: a metric a line.",
    )


class FilesSink(Sink):
    """Writes `SESSION.jsonl`, `SESSION.csv` and, at the end, `SESSION.summary.json`."""

    Options = FilesOptions

    def __init__(self, options: FilesOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self._directory = Path(options.directory)
        self._is_first = True

    def open(self, plan: Plan) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        if "csv" in self.options.formats and not below.status(self._directory, self._name("csv")):
            below.write(self._directory, self._name("csv"), _csv_line(COLUMNS))

    def record(self, record: Record) -> None:
        for kind in self.options.formats:
            if self._is_first:
                # Only the first call of a process can be one that an earlier process began.
                self._remove_lines(self._name(kind))
            self._append(kind, record)
        self._is_first = False

    def close(self, report: Report) -> None:
        summary = {
            "session": self.context.session,
            "ok": report.ok,
            "counts": {status.value: count for status, count in report.counts.items()},
            "findings": [finding_json(finding) for finding in report.findings],
        }
        below.write(self._directory, self._name("summary.json"), dump(summary, pretty=True))

    def _append(self, kind: Format, record: Record) -> None:
        key = self.context.key
        data = (
            dump_plain({"key": key, **to_json(record)}) + b"\n"
            if kind == "jsonl"
            else b"".join(_csv_line(row) for row in _rows(key, record))
        )
        fd = below.open_below(self._directory, self._name(kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            below.write_all(fd, data)
        finally:
            os.close(fd)

    def _remove_lines(self, name: str) -> None:
        """Take out what an earlier process may have written of this very call, and a line it did not finish."""
        try:
            with below.open_file(self._directory, name) as file:
                data = file.read()
        except FileNotFoundError:
            return
        whole, _, torn = data.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        kept = [line for line in lines if self.context.key.encode() not in line[: 2 * len(self.context.key)]]
        if torn or len(kept) != len(lines):
            below.write(self._directory, name, b"".join(line + b"\n" for line in kept))

    def _name(self, ending: str) -> str:
        return f"{safe_name(self.context.session)}.{ending}"


def _rows(key: str, record: Record) -> Iterator[tuple[object, ...]]:
    """One row a metric; a record without metrics has one, too."""
    head = (
        *(key, record.session, record.case.name, record.attempt, record.status.value),
        *(record.started_at, record.revision),
    )
    for name, measured in record.metrics.items():
        samples = dump(measured.samples).decode()
        yield (*head, name, plain(measured.value), measured.unit or "", measured.direction or "", samples)
    if not record.metrics:
        yield (*head, "", "", "", "", "")


def _csv_line(values: tuple[object, ...]) -> bytes:
    text = io.StringIO()
    # A line break in a value would make two lines of one, and lines are what is taken out again.
    csv.writer(text, lineterminator="\n").writerow(
        " ".join(cell.splitlines()) if isinstance(cell, str) else cell for cell in plain_cells(values)
    )
    return text.getvalue().encode("utf-8", "replace")

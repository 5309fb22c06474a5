"""The report's three files, written when a session ends."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Protocol

from paceline.model import REPORT_SCHEMA, Record, Report
from paceline.record.codec import dump, dump_plain, encode, to_json
from paceline.record.directory import SessionDir
from paceline.record.files import open_atomic
from paceline.report.junit import JunitWriter
from paceline.report.markdown import MarkdownWriter


class Writer(Protocol):
    """One form of a report, made record by record, so that a session of any size takes no memory."""

    def begin(self) -> bytes: ...
    def add(self, record: Record) -> bytes: ...
    def end(self) -> bytes: ...


class JsonWriter:
    """`report.json`, and what `paceline run --json` prints."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._separator = b"\n"

    def begin(self) -> bytes:
        session, ok = dump(self._report.plan.session), dump(self._report.ok)
        return b'{\n"schema": %d,\n"session": %s,\n"ok": %s,\n"records": [' % (REPORT_SCHEMA, session, ok)

    def add(self, record: Record) -> bytes:
        separator, self._separator = self._separator, b",\n"
        return separator + dump_plain(to_json(record))

    def end(self) -> bytes:
        return b'\n],\n"findings": %s\n}\n' % dump([encode(finding) for finding in self._report.findings])


def pieces(writer: Writer, records: Iterable[Record]) -> Iterator[bytes]:
    """One form of a report from its beginning to its end."""
    yield writer.begin()
    yield from map(writer.add, records)
    yield writer.end()


def write_report(report: Report, directory: SessionDir) -> str:
    """Write `report.json`, `report.md` and `junit.xml` in one pass; what went wrong in a line, or an empty text."""
    writers: dict[str, Writer] = {
        "report.json": JsonWriter(report),
        "report.md": MarkdownWriter(report, directory),
        "junit.xml": JunitWriter(report, directory),
    }
    try:
        with ExitStack() as stack:
            files = [
                (stack.enter_context(open_atomic(directory.path / name)), writer)
                for name, writer in writers.items()
            ]
            for write, writer in files:
                write(writer.begin())
            for record in report.records:
                for write, writer in files:
                    write(writer.add(record))
            for write, writer in files:
                write(writer.end())
    except OSError as error:
        return f"the report could not be written into {directory.path}: {error.strerror or error}"
    return ""

"""The report's three files, written when a session ends."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Protocol
from xml.sax.saxutils import escape, quoteattr

from paceline.model import REPORT_SCHEMA, Finding, Record, Report, Status
from paceline.record.below import open_atomic
from paceline.record.codec import dump, dump_plain, finding_json, to_json
from paceline.record.directory import SessionDir
from paceline.report.markdown import MarkdownWriter, output_tail

TAIL_LINES = 50
_ELEMENTS: Mapping[Status, str] = {
    Status.FAILED: "failure",
    Status.REQUIREMENT_FAILED: "failure",
    Status.TIMEOUT: "failure",
    Status.LAUNCH_ERROR: "error",
    Status.INFRA_ERROR: "error",
    Status.INTERRUPTED: "error",
    Status.SKIPPED: "skipped",
}
# XML 1.0 has no way to write these, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JunitWriter:
    """The report as JUnit XML, in pieces."""

    def __init__(self, report: Report, directory: SessionDir) -> None:
        self._report = report
        self._directory = directory
        # What got worse counts as a failed test beside that of its case, which may well have passed.
        self._regressions = [finding for finding in report.findings if finding.fails]

    def begin(self) -> bytes:
        found = dict.fromkeys(("failure", "error", "skipped"), 0)
        for status, count in self._report.counts.items():
            if status in _ELEMENTS:
                found[_ELEMENTS[status]] += count
        regressions = len(self._regressions)
        counts = (
            f' tests="{sum(self._report.counts.values()) + regressions}" failures="{found["failure"] + regressions}"'
            f' errors="{found["error"]}" skipped="{found["skipped"]}"'
        )
        name = attribute("name", self._report.plan.session)
        head = '<?xml version="1.0" encoding="utf-8"?>'
        return f"{head}\n<testsuites{counts}>\n<testsuite{name}{counts}>\n".encode()

    def add(self, record: Record) -> bytes:
        return _testcase(record, self._directory).encode()

    def end(self) -> bytes:
        return "".join([*map(_regression, self._regressions), "</testsuite>\n</testsuites>\n"]).encode()


def _testcase(record: Record, directory: SessionDir) -> str:
    group = "data_setup" if record.case.kind == "data_setup" else record.case.entry
    time_s = record.exec_time_s if math.isfinite(record.exec_time_s) else 0.0
    names = attribute("classname", group) + attribute("name", record.case.name)
    lines = [f'<testcase{names} time="{time_s:.6f}">']
    if record.metrics:
        values = ((name, str(measured.value)) for name, measured in record.metrics.items())
        given = (f"<property{attribute('name', n)}{attribute('value', v)}/>" for n, v in values)
        lines += ["<properties>", *given, "</properties>"]
    element, about = _ELEMENTS.get(record.status), attribute("message", record.reason)
    if element == "skipped":
        lines.append(f"<skipped{about}/>")
    elif element is not None:
        details = [f"{check.metric}: {check.reason}" for check in record.requirements if not check.ok]
        text = xml_text("\n".join([record.reason, *details]))
        lines.append(f'<{element} type="{record.status.value}"{about}>{text}</{element}>')
    output = [] if record.status.ok else output_tail(directory, record.case, TAIL_LINES)
    if output:
        lines.append(f"<system-out>{xml_text(chr(10).join(output))}</system-out>")
    return "\n".join([*lines, "</testcase>", ""])


def _regression(finding: Finding) -> str:
    names = attribute("classname", "regressions") + attribute("name", f"{finding.case} {finding.metric}")
    about = attribute("message", finding.message)
    return f'<testcase{names} time="0">\n<failure type="regression"{about}/>\n</testcase>\n'


def xml_text(text: str) -> str:
    return escape(printable(text), {"\r": "&#13;"})


def attribute(name: str, value: str) -> str:
    """An attribute with the blank before it."""
    return f" {name}={quoteattr(printable(value))}"


def printable(text: str) -> str:
    """The text with each character that XML cannot hold replaced."""
    return _NOT_XML.sub("\ufffd", text)


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
        why = self._report.inconclusive
        note = b'"inconclusive": %s,\n' % dump(why) if why else b""
        head = b'{\n"schema": %d,\n"session": %s,\n"ok": %s,\n%s"records": ['
        return head % (REPORT_SCHEMA, session, ok, note)

    def add(self, record: Record) -> bytes:
        separator, self._separator = self._separator, b",\n"
        return separator + dump_plain(to_json(record))

    def end(self) -> bytes:
        return b'\n],\n"findings": %s\n}\n' % dump(
            [finding_json(finding) for finding in self._report.findings]
        )


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
                (stack.enter_context(open_atomic(directory.path, name)), writer)
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

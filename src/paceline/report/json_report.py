"""`report.json`, and what `paceline run --json` prints: written record by record, so that its size costs no memory."""

from collections.abc import Iterator

from paceline.model import Report
from paceline.record.codec import dump, dump_plain, finding_json, to_json

REPORT_SCHEMA = 1


def parts(report: Report) -> Iterator[bytes]:
    """The report as JSON, in pieces."""
    session, ok = dump(report.plan.session), dump(report.ok)
    yield b'{\n"schema": %d,\n"session": %s,\n"ok": %s,\n"records": [' % (REPORT_SCHEMA, session, ok)
    separator = b"\n"
    for record in report.records:
        yield separator + dump_plain(to_json(record))
        separator = b",\n"
    yield b'\n],\n"findings": %s\n}\n' % dump([finding_json(finding) for finding in report.findings])

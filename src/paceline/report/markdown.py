"""`report.md`: the session on one page, for people and pull requests. Names and output in it are foreign text."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from paceline.model import Case, Record, Report, Status
from paceline.numbers import duration, spread_note
from paceline.record import below, codec
from paceline.record.directory import SessionDir
from paceline.record.repository import git_of_suite
from paceline.report.cases import key_metrics, not_run, summary
from paceline.report.format import checked, measured, output_line, quantity, tolerance_of, visible

TAIL_LINES = 20
MOST_DETAILS = 100
"""Failures and warnings past this number are in the table and in their records only."""
_TAIL_BYTES = 1 << 14
_SYMBOLS: Mapping[Status, str] = {Status.PASSED: "✅", Status.SKIPPED: "➖", Status.INTERRUPTED: "⏹️"}
_SPECIAL = re.compile(r"[\\`*\[\]|~#]|(?<![^\W_])_|_(?![^\W_])")
_FACTS = ("hostname", "os", "kernel", "run_reason", "viewer_url", "id", "class_id")


class MarkdownWriter:
    """The report as Markdown, in pieces."""

    def __init__(self, report: Report, directory: SessionDir) -> None:
        self._report = report
        self._directory = directory
        self._failed: list[Record] = []
        self._warned: list[Record] = []
        self._spreads: tuple[str, ...] = ()
        # What is read back from a record does not say what was required of it.
        self._waiting = {case.name: case for case in (*report.plan.setups, *report.plan.cases)}

    def begin(self) -> bytes:
        report = self._report
        lines = [f"# {'✅' if report.ok else '❌'} {escape(report.plan.session)}", "", f"{summary(report)}."]
        notes = filter(None, (report.unfinished, report.inconclusive))
        lines += [line for text in notes for line in ("", f"**{escape(text)}**")]
        return _text(
            [*lines, "", "| case | status | time | metrics | requirements |", "|---|---|---:|---|---|"]
        )

    def add(self, record: Record) -> bytes:
        if not record.status.ok and len(self._failed) < MOST_DETAILS:
            self._failed.append(record)
        if record.warnings and len(self._warned) < MOST_DETAILS:
            self._warned.append(record)
        row = _row(record, self._waiting.pop(record.case.name, record.case))
        self._spreads = self._spreads or spread_note([row])
        return _text([row])

    def end(self) -> bytes:
        report = self._report
        hidden = sum(number for status, number in report.counts.items() if not status.ok) - len(self._failed)
        lines = ["", f"{self._spreads[0]}."] if self._spreads else []
        lines += ["", "## Failures"] if self._failed else []
        for record in self._failed:
            lines += ["", f"### {escape(record.case.name)}: {record.status.value.replace('_', ' ')}", ""]
            lines.append(escape(record.reason) or "No reason is known.")
            output = output_tail(self._directory, record.case, TAIL_LINES)
            if output:
                lines += ["", "The last lines of its output:", "", *_fenced(output)]
        lines += ["", f"… and {hidden:,} more."] if self._failed and hidden > 0 else []
        before = [name for name in self._waiting if name in report.done_before]
        if before:
            lines += ["", "## Done before", "", "An earlier session has the results of these:", ""]
            lines += [
                f"- {escape(name)}: {escape(report.done_before[name])}" for name in before[:MOST_DETAILS]
            ]
        lines += ["", f"… and {len(before) - MOST_DETAILS:,} more."] if len(before) > MOST_DETAILS else []
        waiting = (
            [name for name in self._waiting if name not in report.done_before] if not_run(report) else []
        )
        if waiting:
            lines += ["", "## Not run", "", "The session ended before these began:", ""]
            lines += [f"- {escape(name)}" for name in waiting[:MOST_DETAILS]]
        lines += ["", f"… and {len(waiting) - MOST_DETAILS:,} more."] if len(waiting) > MOST_DETAILS else []
        lines += ["", "## Warnings", ""] if self._warned else []
        for record in self._warned:
            lines += [f"- {escape(record.case.name)}: {escape(text)}" for text in record.warnings]
        lines += ["", "## Findings", ""] if report.findings else []
        for finding in report.findings:
            where = f"{escape(finding.case)}, {escape(finding.metric)}"
            mark = "❌ " if finding.fails else ""
            lines.append(f"- {mark}**{finding.word}**: {where}: {escape(finding.message)}")
        facts = list(_environment_facts(self._directory.path))
        lines += ["", "## Environment", "", "| | |", "|---|---|"] if facts else []
        lines += [f"| {escape(name.replace('_', ' '))} | {escape(value)} |" for name, value in facts]
        return _text(lines)


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _row(record: Record, case: Case) -> str:
    numbers = (escape(measured(name, value)) for name, value in key_metrics(record))
    checks = []
    for check in record.requirements:
        unit = record.metrics[check.metric].unit if check.metric in record.metrics else None
        mark = "❔" if not check.judged else "✅" if check.ok else "⚠️" if check.severity == "warn" else "❌"
        checks.append(f"{mark} {escape(checked(check, tolerance_of(check, case.requirements), unit))}")
    status = f"{_SYMBOLS.get(record.status, '❌')} {record.status.value.replace('_', ' ')}"
    status += "" if record.is_measurable else "<br>❔ not measurable"
    time = duration(record.exec_time_s) if record.exec_time_s else ""
    return (
        f"| {escape(record.case.name)} | {status} | {time} | {'<br>'.join(numbers)} | {'<br>'.join(checks)} |"
    )


def _environment_facts(session_dir: Path) -> Iterator[tuple[str, str]]:
    try:
        data = codec.load(below.read(session_dir, "environment.json"))
    except (OSError, ValueError):
        return
    if not isinstance(data, dict):
        return

    def mapping(value: Any) -> Mapping[str, Any]:
        return value if isinstance(value, dict) else {}

    cpu, git = mapping(data.get("cpu")), git_of_suite(data)
    yield from ((name, str(data[name])) for name in _FACTS if data.get(name))
    yield "cpu", f"{cpu.get('count', '?')} × {cpu.get('model', 'unknown')}"
    if isinstance(data.get("memory_bytes"), int):
        yield "memory", quantity(data["memory_bytes"], "bytes")
    gpus = [str(mapping(gpu).get("name")) for gpu in data.get("gpus") or ()]
    if gpus:
        yield "gpus", f"{', '.join(gpus)} (driver {data.get('gpu_driver')})"
    yield "python", str(mapping(data.get("python")).get("version", "unknown"))
    if "revision" in git:
        yield "git", f"{git['revision']}{' with changes' if git.get('dirty') else ''}"
    yield from _other_machines(session_dir)


def _other_machines(session_dir: Path) -> Iterator[tuple[str, str]]:
    """Where else records were made: on nodes of a pool, or before the session was resumed."""
    for name in below.names(session_dir):
        if not (name.startswith("environment-") and name.endswith(".json")):
            continue
        try:
            data = codec.load(below.read(session_dir, name))
        except (OSError, ValueError):
            continue
        cpu = data.get("cpu") if isinstance(data, dict) else None
        if isinstance(cpu, dict):
            facts = f"{cpu.get('count', '?')} × {cpu.get('model', 'unknown')}, class {data.get('class_id')}"
            yield "another machine", f"{data.get('hostname', 'unknown')}: {facts}"


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    """The lines as a code block whose fence is longer than any in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}text", *lines, fence)


def escape(text: str) -> str:
    """Foreign text on one line of Markdown, shown as it is: no markup, no HTML, no table border."""
    safe = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", safe)


def output_tail(directory: SessionDir, case: Case, count: int) -> list[str]:
    """The last lines that a case's latest run printed, harmless to show; none where there is no log."""
    try:
        data = directory.output_tail(case, _TAIL_BYTES)
    except OSError:
        return []
    lines = data.decode("utf-8", "replace").rstrip().split("\n")
    return (
        [output_line(line) for line in islice(lines, max(0, len(lines) - count), None)]
        if data.strip()
        else []
    )

"""What Slack shows of a session, an entry and a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.model import Record, Status
from paceline.report.format import duration
from paceline.report.table import Row
from paceline.sinks.chart import sparkline
from paceline.sinks.digest import Change, Digest, chosen_metrics, mark, problems, shortened, words
from paceline.sinks.slack_text import (
    Block,
    code,
    code_lines,
    cut_text,
    escape,
    header,
    link,
    mention,
    sections,
)

MOST_LISTED = 30
MOST_LINES = 50
LONGEST_LINE = 500
_WHO_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a session has come."""

    session: str
    counts: Mapping[Status, int]
    total: int
    link: str = ""


def progress_blocks(progress: Progress) -> list[Block]:
    """The session's message while it runs."""
    done = sum(progress.counts.values())
    parts = [
        f"{progress.counts[status]:,} {words(status)}" for status in Status if progress.counts.get(status)
    ]
    total = max(progress.total, done)
    lines = [f"*Running*: {done:,} of {total:,} done{': ' if parts else ''}{', '.join(parts)}"]
    return [header(f"⏳ {progress.session}"), *sections([*lines, *_link_line(progress.link)])]


def report_blocks(digest: Digest, mentions: Sequence[str] = ()) -> list[Block]:
    """The session's message at its end: how it went, what failed, what changed."""
    blocks = [header(f"{'✅' if digest.ok else '❌'} {digest.session}")]
    blocks += sections([f"*{escape(digest.summary)}*", *_unfinished(digest), *_link_line(digest.link)])
    failed = [_failed_line(row) for row in digest.failed]
    hidden = digest.table.hidden_failed
    if failed:
        listed = shortened(failed, MOST_LISTED)
        more = [f"… and {hidden:,} more failed"] if hidden else []
        blocks += sections(["*Failed*", *listed, *more])
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        if changes:
            lines = shortened([f"• {_change_line(change)}" for change in changes], MOST_LISTED)
            blocks += sections([f"*{title}*", *lines])
    return blocks + _mention_blocks(mentions)


def record_blocks(
    record: Record, metrics: Sequence[str], *, mentions: Sequence[str] = (), log: Sequence[str] = ()
) -> list[Block]:
    """An entry's reply: its outcome, its numbers, what it did not meet, what it said last."""
    took = f" in {duration(record.exec_time_s)}" if record.exec_time_s else ""
    title = f"{mark(record.status)} {code(record.case.name)} *{words(record.status)}*{took}"
    lines = [f"• {escape(text)}" for text in chosen_metrics(record, metrics)]
    lines += [f"❌ {escape(text)}" for text in problems(record)]
    lines += [f"⚠️ {escape(text)}" for text in record.warnings]
    shown = (cut_text(line, LONGEST_LINE) for line in shortened(lines, MOST_LINES))
    blocks = [*sections([title, *shown]), *code_lines(log)]
    return blocks + (_mention_blocks(mentions) if not record.status.ok else [])


def change_blocks(change: Change, *, drawn: bool) -> list[Block]:
    """A metric that changed; with a line of bars where no picture goes with it."""
    lines = [f"{'📉' if change.worse else '📈'} {_change_line(change)}"]
    lines += [escape(change.message)] if change.message else []
    lines += [code(sparkline(change.values))] if change.values and not drawn else []
    return sections([*lines, *_link_line(change.link)])


def _change_line(change: Change) -> str:
    what = "worse" if change.worse else "better"
    return f"{code(change.case)} {code(change.metric)} {what}: *{escape(change.effect) or what}*"


def _failed_line(row: Row) -> str:
    why = f": {escape('; '.join(row.complaints))}" if row.complaints else ""
    return cut_text(f"• {mark(row.status)} {code(row.case)} {words(row.status)}{why}", LONGEST_LINE)


def _unfinished(digest: Digest) -> list[str]:
    return [f"⚠️ {escape(digest.unfinished)}"] if digest.unfinished else []


def _link_line(url: str) -> list[str]:
    return [link(url, "Open the report")] if url else []


def _mention_blocks(mentions: Sequence[str]) -> list[Block]:
    return sections([" ".join(mention(who) for who in mentions[:_WHO_MOST])])

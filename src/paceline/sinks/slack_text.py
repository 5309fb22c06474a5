"""What Slack shows of a session, an entry and a change: escaped, split at its limits, packed into messages."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.model import Record, Status
from paceline.numbers import duration, spread_note
from paceline.record.repository import git_of_suite
from paceline.report.cases import Row
from paceline.report.format import visible
from paceline.sinks.chart import sparkline
from paceline.sinks.digest import Change, Digest, chosen_metrics, mark, problems, shortened, words

MOST_BLOCKS = 50
MOST_SECTION = 3000
MOST_HEADER = 150
MOST_FALLBACK = 3000
MOST_IN_MESSAGE = 12_000
"""Characters of a message's blocks as JSON. The manual speaks of 40,000 for a message, but messages whose blocks
have more than about 13,200 are refused with `msg_blocks_too_long`."""

Block = dict[str, Any]

_TOKEN = re.compile(r"&(?:amp|lt|gt);|<[^<>\n]{1,200}>|.", re.DOTALL)
_USER = re.compile(r"[UW][A-Z0-9]{2,}")
_GROUP = re.compile(r"S[A-Z0-9]{2,}")

MOST_LISTED = 30
MOST_LINES = 50
LONGEST_LINE = 500
_WHO_MOST = 20


def width(text: str) -> int:
    """Its length as services written in Java and JavaScript count it; never less than that in characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def escape(text: str) -> str:
    """Foreign text on one line, in which nothing is a link or a mention."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """A name, shown as it is."""
    return f"`{escape(text).replace('`', chr(0x2B9))}`" if text else ""


def link(url: str, label: str) -> str:
    """A link; an address that could break out of it is shown as text."""
    safe = url.startswith(("https://", "http://")) and not re.search(r"[<>|\s]", url)
    return f"<{url}|{escape(label)}>" if safe else escape(url)


def mention(who: str) -> str:
    """A user or a group by its id, which Slack then tells; anything else is only text."""
    name = who.strip().lstrip("@")
    if _USER.fullmatch(name):
        return f"<@{name}>"
    return f"<!subteam^{name}>" if _GROUP.fullmatch(name) else f"@{escape(name)}"


def split_text(text: str, limit: int = MOST_SECTION) -> list[str]:
    """Pieces that are no longer than the limit: cut at line ends if possible, never within an entity or a link."""
    pieces: list[str] = []
    current = ""
    for line in _short_lines(text, limit):
        joined = f"{current}\n{line}" if current else line
        if width(joined) <= limit:
            current = joined
        else:
            pieces.append(current)
            current = line
    return [*pieces, current] if current else pieces


def _short_lines(text: str, limit: int) -> Iterator[str]:
    for line in text.split("\n"):
        if width(line) <= limit:
            yield line
        else:
            yield from _cut(line, limit)


def _cut(line: str, limit: int) -> Iterator[str]:
    piece: list[str] = []
    size = 0
    for token in _TOKEN.findall(line):
        wide = width(token)
        if size + wide > limit:
            yield "".join(piece)
            piece, size = [], 0
        piece.append(token)
        size += wide
    yield "".join(piece)


def cut_text(text: str, limit: int) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if width(text) <= limit:
        return text
    return (split_text(text, limit - 1) or [""])[0] + "…"


def header(text: str) -> Block:
    shown = cut_text(visible(text).strip() or "paceline", MOST_HEADER)
    return {"type": "header", "text": {"type": "plain_text", "text": shown, "emoji": True}}


def sections(lines: Iterable[str]) -> list[Block]:
    """Lines of Slack's markup as blocks."""
    pieces = split_text("\n".join(lines))
    return [_section(piece) for piece in pieces if piece.strip()]


def _section(text: str) -> Block:
    """Markup in which a bare address or a channel's name does not become a link."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def code_lines(lines: Sequence[str]) -> list[Block]:
    """Lines of output in a box; what would end the box early is changed."""
    text = "\n".join(lines).replace("```", "ʹʹʹ")
    room = MOST_SECTION - len("```\n\n```")
    pieces = split_text(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"), room)
    boxes = (f"```\n{piece}\n```" for piece in pieces if piece.strip())
    return [_section(box) for box in boxes]


def pack(blocks: Iterable[Block]) -> list[list[Block]]:
    """The blocks in as many messages as they need."""
    messages: list[list[Block]] = []
    room = count = 0
    for block in blocks:
        size = width(json.dumps(block, ensure_ascii=False)) + 2
        if not messages or count == MOST_BLOCKS or size > room:
            messages.append([])
            room, count = MOST_IN_MESSAGE - 2, 0
        messages[-1].append(block)
        room -= size
        count += 1
    return messages


def fallback(blocks: Sequence[Block], limit: int = MOST_FALLBACK) -> str:
    """What a notification shows of a message, and what is sent if Slack refuses its blocks."""
    texts = (_fallback_text(block) for block in blocks if "text" in block)
    return cut_text("\n".join(texts), limit) or "paceline"


def _fallback_text(block: Block) -> str:
    text: str = block["text"]["text"]
    return escape(text) if block["text"]["type"] == "plain_text" else text


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
    blocks = [header(f"{'✅' if digest.ok else '❌'} {digest.sentence}")]
    about = f"{code(digest.session)}{': ' if digest.rest else ''}{escape(digest.rest)}"
    blocks += sections([*_link_line(digest.link), about, *_unfinished(digest)])
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
    numbers = chosen_metrics(record, metrics)
    lines = [*(f"• {escape(text)}" for text in numbers), *spread_note(numbers)]
    lines += [f"❌ {escape(text)}" for text in problems(record)]
    lines += [f"⚠️ {escape(text)}" for text in record.warnings]
    shown = (cut_text(line, LONGEST_LINE) for line in shortened(lines, MOST_LINES))
    blocks = [*sections([title, *shown]), *code_lines(log)]
    return blocks + (_mention_blocks(mentions) if not record.status.ok else [])


def metrics_line(record: Record, metrics: Sequence[str]) -> str:
    """An entry with its numbers, on one line."""
    shown = ", ".join(escape(text) for text in chosen_metrics(record, metrics))
    took = f" in {duration(record.exec_time_s)}" if record.exec_time_s else ""
    line = f"• {mark(record.status)} {code(record.case.name)}{took}{': ' if shown else ''}{shown}"
    return cut_text(line, LONGEST_LINE)


def environment_lines(environment: Mapping[str, Any]) -> list[str]:
    """Where a session ran, as a file says that anybody may have edited; nothing where nothing is known."""
    cpu, python = (
        found if isinstance(found := environment.get(name), dict) else {} for name in ("cpu", "python")
    )
    git, memory, gpus = git_of_suite(environment), environment.get("memory_bytes"), environment.get("gpus")
    facts = {
        "host": environment.get("hostname"),
        "platform": environment.get("platform"),
        "CPU": cpu.get("model") and f"{cpu['model']} × {cpu.get('count')}",
        "memory": f"{memory / (1 << 30):.1f} GiB" if isinstance(memory, int) else None,
        "GPUs": len(gpus) if isinstance(gpus, list) else None,
        "Python": python.get("version"),
        "revision": git.get("revision")
        and f"{str(git['revision'])[:12]}{' (dirty)' if git.get('dirty') else ''}",
        "branch": git.get("branch"),
    }
    known = [f"{name} {escape(str(fact))}" for name, fact in facts.items() if fact]
    return ["*Environment*", " · ".join(known)] if known else []


def change_blocks(change: Change, *, drawn: bool) -> list[Block]:
    """A metric that changed; with a line of bars where no picture goes with it."""
    lines = [f"{'📉' if change.worse else '📈'} {_change_line(change)}"]
    lines += [escape(change.message)] if change.message else []
    lines += [code(sparkline(change.values))] if change.values and not drawn else []
    return sections(lines)


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

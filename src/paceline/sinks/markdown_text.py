"""A session as Markdown of a bounded size: what failed and what changed first, then as many entries as fit."""

from collections.abc import Iterator

from paceline.report.markdown import escape
from paceline.sinks.digest import Change, Digest, mark, words


def digest_markdown(digest: Digest, most_bytes: int, *, marker: str = "") -> str:
    """The session's page; lines that do not fit are left out, and that they are is said."""
    left_out = "\n… shortened: the rest is in the session's report."
    room = most_bytes - len(left_out.encode()) - 1
    kept: list[str] = []
    for line in _lines(digest, marker):
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return "\n".join([*kept, left_out, ""])
        kept.append(line)
    return "\n".join([*kept, ""])


def _lines(digest: Digest, marker: str) -> Iterator[str]:
    yield from [marker] if marker else []
    yield from (
        f"## {'✅' if digest.ok else '❌'} {escape(digest.session)}",
        "",
        f"{escape(digest.summary)}.",
    )
    yield from ("", f"**{escape(digest.unfinished)}**") if digest.unfinished else ()
    yield from ("", f"[Open the report]({digest.link})") if _is_plain(digest.link) else ()
    yield from _failed(digest)
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        yield from ("", f"### {title}", "", *map(_change, changes)) if changes else ()
    yield from _entries(digest)


def _failed(digest: Digest) -> Iterator[str]:
    if digest.failed:
        yield from ("", "### Failed", "")
    for row in digest.failed:
        why = f": {escape('; '.join(row.complaints))}" if row.complaints else ""
        yield f"- {mark(row.status)} **{escape(row.case)}** {words(row.status)}{why}"


def _change(change: Change) -> str:
    sign = "📉" if change.worse else "📈"
    said = f": {escape(change.message)}" if change.message else ""
    shown = f"{sign} **{escape(change.case)}**, {escape(change.metric)} {escape(change.effect)}{said}"
    return f"- {shown} ([details]({change.link}))" if _is_plain(change.link) else f"- {shown}"


def _entries(digest: Digest) -> Iterator[str]:
    if digest.table.rows:
        yield from ("", "### Entries", "", "| entry | outcome | time | metrics |", "|---|---|---:|---|")
    for row in digest.table.rows:
        metrics = "<br>".join(escape(text) for text in row.metrics)
        yield f"| {escape(row.case)} | {mark(row.status)} {words(row.status)} | {row.time} | {metrics} |"
    yield from ("", *digest.table.footnotes) if digest.table.footnotes else ()


def _is_plain(url: str) -> bool:
    """Whether an address can stand in a link as it is."""
    return url.startswith(("https://", "http://")) and not any(char in url for char in " \t\r\n()<>\"'")

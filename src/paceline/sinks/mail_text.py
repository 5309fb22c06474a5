"""A session as a mail: plain text for every reader, HTML for those who want it."""

from collections.abc import Iterator
from html import escape

from paceline.sinks.chart import sparkline
from paceline.sinks.digest import Change, Digest, mark, words

_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"


def plain_text(digest: Digest) -> str:
    """The mail for readers without HTML."""
    return "\n".join(_plain_lines(digest)) + "\n"


def _plain_lines(digest: Digest) -> Iterator[str]:
    yield from (digest.session, "", f"{digest.summary}.")
    yield from ("", digest.unfinished) if digest.unfinished else ()
    yield from ("", f"Report: {digest.link}") if digest.link else ()
    if digest.failed:
        yield from ("", "Failed")
    for row in digest.failed:
        yield f"- {row.case}: {words(row.status)}"
        yield from (f"    {line}" for line in row.complaints)
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        yield from ("", title) if changes else ()
        for change in changes:
            yield from _plain_change(change)
    if digest.table.rows:
        yield from ("", "Entries")
    for row in digest.table.rows:
        yield "  ".join(filter(None, (f"- {row.case}: {words(row.status)}", row.time, *row.metrics)))
    yield from digest.table.footnotes


def _plain_change(change: Change) -> Iterator[str]:
    yield f"- {change.title}"
    yield from (f"    {line}" for line in (change.message, sparkline(change.values), change.link) if line)


def html_page(digest: Digest) -> str:
    """The mail in HTML; all foreign text is escaped, nothing is loaded from anywhere."""
    return "\n".join(_html_lines(digest)) + "\n"


def _html_lines(digest: Digest) -> Iterator[str]:
    yield '<!DOCTYPE html><html><body style="font-family:sans-serif">'
    yield f"<h2>{'✅' if digest.ok else '❌'} {escape(digest.session)}</h2><p>{escape(digest.summary)}.</p>"
    yield from [f"<p><b>{escape(digest.unfinished)}</b></p>"] if digest.unfinished else []
    yield from [_link(digest.link, "Open the report")] if digest.link else []
    if digest.failed:
        yield "<h3>Failed</h3><ul>"
        for row in digest.failed:
            why = "".join(f"<br>{escape(line)}" for line in row.complaints)
            yield f"<li><b>{escape(row.case)}</b>: {words(row.status)}{why}</li>"
        yield "</ul>"
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        if changes:
            yield f"<h3>{title}</h3><ul>{''.join(map(_html_change, changes))}</ul>"
    yield from _html_table(digest)
    yield "</body></html>"


def _html_change(change: Change) -> str:
    parts = [escape(change.title), escape(change.message), sparkline(change.values)]
    parts += [_link(change.link, "details")] if change.link else []
    return f"<li>{'<br>'.join(filter(None, parts))}</li>"


def _html_table(digest: Digest) -> Iterator[str]:
    if not digest.table.rows:
        return
    yield "<h3>Entries</h3><table>"
    for row in digest.table.rows:
        outcome = f"{mark(row.status)} {words(row.status)}"
        cells = (escape(row.case), outcome, row.time, "<br>".join(map(escape, row.metrics)))
        yield "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"
    yield "</table>"
    yield from (f"<p>{escape(note)}</p>" for note in digest.table.footnotes)


def _link(url: str, label: str) -> str:
    """A link of the web; any other address is shown only."""
    if not url.startswith(("https://", "http://")):
        return f"<p>{escape(url)}</p>"
    return f'<p><a href="{escape(url, quote=True)}">{escape(label)}</a></p>'

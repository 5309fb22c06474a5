"""A bisection's result for people: lines for a terminal, Markdown, and a page that stands alone."""

from collections.abc import Iterator

from paceline.experiments.bisect.curve import draw_curve, escape
from paceline.experiments.bisect.result import BisectionResult, Candidate, difference_text
from paceline.report.format import aligned, duration, visible
from paceline.report.markdown import escape as inline
from paceline.report.page import CLOSE_PAGE, open_page

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c2024; background: #fff; }
h1 { font-size: 1.4rem; } table { border-collapse: collapse; } pre { overflow-x: auto; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #e3e6ea; }
tr.culprit td { font-weight: 600; } .message { font-size: 1.1rem; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: #5b636d; }
.grid { stroke: #e3e6ea; } .level { stroke: #5b636d; stroke-width: 2; stroke-dasharray: 5 3; }
svg .culprit { stroke: #c62a2f; stroke-width: 2; } .likely { fill: #e5989b; }
circle.good { fill: #2b78c5; } circle.bad { fill: #c62a2f; } svg text.unbuildable { fill: #a15c00; font-size: 14px; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #16181b; } td, th { border-color: #33383e; } .grid { stroke: #33383e; }
  svg text { fill: #a0a8b0; } circle.good { fill: #6cb2f5; } circle.bad, .likely { fill: #f07178; }
}
"""


def bisection_lines(result: BisectionResult) -> Iterator[str]:
    """The end of a bisection on a terminal."""
    yield result.message
    if result.named:
        yield from _named_lines(result)
    yield from (f"note: {visible(note)}" for note in result.notes)
    yield ""
    yield from aligned([("", "candidate", "runs", result.metric, "likely", ""), *_rows(result)])


def _named_lines(result: BisectionResult) -> Iterator[str]:
    if len(result.suspects) > 1:
        names = ", ".join(result.candidates[index].label for index in result.suspects)
        yield f"  one of {names}: what lies between them could not be measured"
    if result.change:
        yield f"  {visible(result.change)}"
    yield from (f"  {visible(line)}" for line in result.diff_stat.splitlines())


def bisection_markdown(result: BisectionResult) -> str:
    """What `bisect.md` holds."""
    return "\n".join(_markdown_lines(result)) + "\n"


def _markdown_lines(result: BisectionResult) -> Iterator[str]:
    yield from (f"# Bisection of {inline(result.metric)} of {inline(result.case)}", "", result.message, "")
    named = result.named
    if named:
        yield f"- {named.kind}: `{named.ident}` {inline(named.title)}".rstrip()
    if len(result.suspects) > 1:
        suspects = ", ".join(f"`{result.candidates[index].label}`" for index in result.suspects)
        yield f"- cannot be told apart: {suspects} ({result.suspects_confidence * 100:.1f} % together)"
    yield from (f"- {name}: {inline(text)}" for name, text in _facts(result))
    yield from (f"- note: {inline(note)}" for note in result.notes)
    if result.diff_stat:
        yield from ("", "```text", *map(visible, result.diff_stat.splitlines()), "```")
    yield from ("", "| | candidate | runs | value | likely | |", "|---|---|---:|---:|---:|---|")
    for row in _rows(result):
        yield "| " + " | ".join(inline(cell) for cell in row) + " |"


def _facts(result: BisectionResult) -> Iterator[tuple[str, str]]:
    if result.difference:
        yield "difference of bad to good", difference_text(result.difference)
    yield "good", _named(result.good)
    yield "bad", _named(result.bad)
    yield "candidates", str(len(result.candidates))
    yield "runs", f"{result.runs} in {duration(result.took_s)}"


def _named(candidate: Candidate) -> str:
    return f"{candidate.label} {candidate.title}".strip()


def _rows(result: BisectionResult) -> Iterator[tuple[str, ...]]:
    """What was tried, from good to bad."""
    for tested in result.tested:
        likely = result.posterior[tested.index] if 0 <= tested.index < len(result.posterior) else None
        mark = "→" if result.culprit is not None and tested.index == result.culprit else ""
        value = result.shown(tested.mean) if tested.values else "none"
        chance = "" if likely is None else f"{likely * 100:.1f} %"
        name = "good" if tested.index < 0 else ""
        why = "" if tested.values else tested.reason
        words = "; ".join(filter(None, (name, tested.candidate.title, why)))
        yield mark, tested.candidate.label, str(len(tested.values)), value, chance, visible(words)


def bisection_page(result: BisectionResult) -> str:
    """What `bisect.html` holds: one file that loads nothing."""
    return "".join(f"{line}\n" for line in _page_lines(result))


def _page_lines(result: BisectionResult) -> Iterator[str]:
    title = escape(f"Bisection of {result.metric} of {result.case}")
    yield open_page(title, _STYLE)
    yield f'<h1>{title}</h1><p class="message">{escape(result.message)}</p>'
    named = result.named
    if named:
        yield f"<p>{escape(named.kind)} <code>{escape(named.ident)}</code> {escape(named.title)}</p>"
    yield draw_curve(result)
    yield "<p>Points are single runs; bars below them say how likely each candidate is the culprit.</p>"
    if result.diff_stat:
        lines = "\n".join(map(escape, result.diff_stat.splitlines()))
        yield f"<pre>{lines}</pre>"
    yield from _table(result)
    facts = [*_facts(result), *(("note", note) for note in result.notes)]
    yield "<ul>" + "".join(f"<li>{escape(name)}: {escape(text)}</li>" for name, text in facts) + "</ul>"
    yield CLOSE_PAGE


def _table(result: BisectionResult) -> Iterator[str]:
    heads = ("", "candidate", "runs", result.metric, "likely", "")
    yield (
        "<table><thead><tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr></thead><tbody>"
    )
    for row in _rows(result):
        kind = ' class="culprit"' if row[0] else ""
        yield f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table>"

"""What other places show of a site: badges for a README, and an Atom feed of what got worse or better."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape

from paceline.findings.telling import culprit_text
from paceline.numbers import change
from paceline.report.format import visible

CLOSED = frozenset({"expected", "fixed", "false"})
"""States in which a finding needs nobody any more."""

_ATOM = "http://www.w3.org/2005/Atom"
_WORDS = {"worse": "got worse", "better": "got better"}
_GREEN, _RED, _GREY = "#1a7f5a", "#b3400a", "#5b6470"
_CHARACTER_WIDTH = 6.6

_BADGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img" aria-label="{name}: {text}">'
    "<title>{name}: {text}</title>"
    '<rect width="{width:.0f}" height="20" rx="4" fill="#3b424c"/>'
    '<path d="M{left:.0f} 0h{right:.0f}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{right:.0f}z" fill="{colour}"/>'
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
    '<text x="{first:.1f}" y="14">{name}</text><text x="{second:.1f}" y="14">{text}</text></g></svg>\n'
)


def badge(name: str, text: str, colour: str) -> bytes:
    """A badge with a name on the left and what there is to say on the right."""
    left, right = (len(part) * _CHARACTER_WIDTH + 12 for part in (name, text))
    return _BADGE.format(
        **{"width": left + right, "left": left, "right": right - 4, "colour": colour},
        **{"first": left / 2, "second": left + right / 2, "name": escape(name), "text": escape(text)},
    ).encode()


def badge_files(overview: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The badges of a site, by their paths: how the last session went, and what got worse."""
    nights = [session for session in overview["sessions"] if session.get("kind") != "ab"]
    counts: Mapping[str, int] = nights[0].get("counts", {}) if nights else {}
    total, passed = sum(counts.values()), counts.get("passed", 0)
    text = f"{passed} of {total} passed" if total else "no results"
    yield (
        "badges/session.svg",
        badge("benchmarks", text, _GREY if not total else _GREEN if passed == total else _RED),
    )
    worse = {
        found.get("incident") or found.get("id")
        for found in overview["findings"]
        if found.get("verdict") == "worse" and found.get("state") not in CLOSED
    }
    text = f"{len(worse)} open" if worse else "none"
    yield "badges/regressions.svg", badge("regressions", text, _RED if worse else _GREEN)


def feed_file(overview: Mapping[str, Any]) -> bytes:
    """The feed; its links are relative to where it lies."""
    feed = Element("feed", xmlns=_ATOM)
    _add(feed, "title", f"{overview['title']}: regressions")
    _add(feed, "id", "urn:paceline:regressions")
    findings = overview["findings"]
    moments = [_moment(found) for found in findings]
    _add(feed, "updated", max(moments, default="") or overview["made_at"])
    _add(SubElement(feed, "author"), "name", "paceline")
    SubElement(feed, "link", href="index.html")
    for found in findings:
        feed.append(_entry(found, overview["made_at"]))
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + tostring(feed) + b"\n"


def _entry(found: Mapping[str, Any], made_at: str) -> Element:
    entry = Element("entry")
    case, metric = str(found.get("case")), str(found.get("metric"))
    effect = found.get("effect")
    by = f" by {change(effect)}" if isinstance(effect, float) else ""
    words = _WORDS.get(str(found.get("verdict")), str(found.get("verdict")))
    if found.get("stage") == "not_reproduced":
        words, by = "did not reproduce", ""
    _add(entry, "title", f"{case}: {metric} {words}{by}")
    _add(entry, "id", f"urn:paceline:finding:{quote(str(found.get('id')), safe='')}")
    _add(entry, "updated", _moment(found) or made_at)
    address = f"index.html#/case/{quote(case, safe='')}?m={quote(metric, safe='')}"
    SubElement(entry, "link", href=address)
    bad, good = found.get("first_bad") or {}, found.get("last_good") or {}
    span = f"first seen in {bad.get('session', '?')}, last good in {good.get('session', '?')}"
    cause = f"{culprit_text(found['culprit'])}; " if found.get("culprit") else ""
    _add(entry, "summary", f"{cause}{span}; {found.get('state') or 'new'}")
    return entry


def _moment(found: Mapping[str, Any]) -> str:
    return str((found.get("first_bad") or {}).get("time") or "")


def _add(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, tag).text = visible(text)  # XML has no control characters

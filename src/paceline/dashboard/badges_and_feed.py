"""What other places show of a site: badges for a README, and an Atom feed of what got worse or better."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape

from paceline.numbers import change, count
from paceline.report.format import visible

_ATOM = "http://www.w3.org/2005/Atom"
_WORDS = {"worse": "got worse", "better": "got better"}
_TOLD = frozenset({"worse", "question", "stopped", "better"})
_MOST_ENTRIES = 60
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
    worse = overview["totals"]["open"]
    text = f"{worse:,} open" if worse else "none"
    yield "badges/regressions.svg", badge("regressions", text, _RED if worse else _GREEN)


def feed_file(overview: Mapping[str, Any]) -> bytes:
    """The feed: the incidents, the newest first; its links are relative to where it lies."""
    feed = Element("feed", xmlns=_ATOM)
    _add(feed, "title", f"{overview['title']}: {count(overview['totals']['open'], 'open regression')}")
    _add(feed, "id", "urn:paceline:regressions")
    told = [one for one in overview["incidents"] if one["kind"] in _TOLD]
    told = sorted(told, key=lambda one: (one.get("when", ""), one["id"]), reverse=True)[:_MOST_ENTRIES]
    _add(feed, "updated", (told[0].get("when") if told else "") or overview["made_at"])
    _add(SubElement(feed, "author"), "name", "paceline")
    SubElement(feed, "link", href="index.html")
    for one in told:
        feed.append(_entry(one, overview["made_at"]))
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + tostring(feed) + b"\n"


def _entry(one: Mapping[str, Any], made_at: str) -> Element:
    entry = Element("entry")
    words = "stopped" if one["change"] == "stopped" else _WORDS.get(one["verdict"], "changed")
    by = f" by {change(one['effect'])}" if "effect" in one else ""
    name = f" ({one['name']})" if "name" in one else ""
    others = f" and {one['series'] - 1:,} more series" if one["series"] > 1 else ""
    _add(entry, "title", f"{one['case']}{name}: {one['metric']} {words}{by}{others}")
    _add(entry, "id", f"urn:paceline:incident:{quote(one['id'], safe='')}")
    _add(entry, "updated", one.get("when") or made_at)
    SubElement(entry, "link", href=f"index.html#/incident/{quote(one['id'], safe='')}")
    cause = one.get("cause", {}).get("text", "")
    told = (f"{one['stage']}: {cause}" if cause else "", one["state"], one.get("owner", ""))
    _add(entry, "summary", "; ".join(filter(None, told)))
    return entry


def _add(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, tag).text = visible(text)  # XML has no control characters

"""The Atom feed of what got worse or better."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from paceline.report.format import visible

_ATOM = "http://www.w3.org/2005/Atom"
_WORDS = {"worse": "got worse", "better": "got better"}


def feed_file(overview: Mapping[str, Any]) -> bytes:
    """The feed; its links are relative to where it lies."""
    feed = Element("feed", xmlns=_ATOM)
    _add(feed, "title", f"{overview['title']}: regressions")
    _add(feed, "id", "urn:paceline:regressions")
    findings = overview["findings"]
    moments = [_moment(found) for found in findings]
    _add(feed, "updated", max(moments, default="") or overview["made_at"])
    SubElement(feed, "author").append(_text("name", "paceline"))
    SubElement(feed, "link", href="index.html")
    for found in findings:
        feed.append(_entry(found, overview["made_at"]))
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + tostring(feed) + b"\n"


def _entry(found: Mapping[str, Any], made_at: str) -> Element:
    entry = Element("entry")
    case, metric = str(found.get("case")), str(found.get("metric"))
    effect = found.get("effect")
    change = f" by {effect:+.1%}" if isinstance(effect, float) else ""
    words = _WORDS.get(str(found.get("verdict")), str(found.get("verdict")))
    _add(entry, "title", f"{case}: {metric} {words}{change}")
    _add(entry, "id", f"urn:paceline:finding:{quote(str(found.get('id')), safe='')}")
    _add(entry, "updated", _moment(found) or made_at)
    address = f"index.html#/case/{quote(case, safe='')}?m={quote(metric, safe='')}"
    SubElement(entry, "link", href=address)
    bad, good = found.get("first_bad") or {}, found.get("last_good") or {}
    span = f"first seen in {bad.get('session', '?')}, last good in {good.get('session', '?')}"
    _add(entry, "summary", f"{span}; {found.get('state') or 'new'}")
    return entry


def _moment(found: Mapping[str, Any]) -> str:
    return str((found.get("first_bad") or {}).get("time") or "")


def _add(parent: Element, tag: str, text: str) -> None:
    parent.append(_text(tag, text))


def _text(tag: str, text: str) -> Element:
    element = Element(tag)
    element.text = visible(text)  # XML has no control characters
    return element

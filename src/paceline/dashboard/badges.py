"""Badges: small pictures for a README that say how the last session went and what got worse."""

from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

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
    """The badges of a site, by their paths."""
    yield "badges/session.svg", _session_badge(overview["sessions"])
    worse = len({_incident(found) for found in overview["findings"] if _is_open(found)})
    text = f"{worse} open" if worse else "none"
    yield "badges/regressions.svg", badge("regressions", text, _RED if worse else _GREEN)


def _session_badge(sessions: list[Mapping[str, Any]]) -> bytes:
    nights = [session for session in sessions if session.get("kind") != "ab"]
    counts: Mapping[str, int] = nights[0].get("counts", {}) if nights else {}
    total, passed = sum(counts.values()), counts.get("passed", 0)
    if not total:
        return badge("benchmarks", "no results", _GREY)
    return badge("benchmarks", f"{passed} of {total} passed", _GREEN if passed == total else _RED)


def _incident(found: Mapping[str, Any]) -> Any:
    return found.get("incident") or found.get("id")


def _is_open(found: Mapping[str, Any]) -> bool:
    return found.get("verdict") == "worse" and found.get("state") not in CLOSED


CLOSED = frozenset({"expected", "fixed", "false"})
"""States in which a finding needs nobody any more."""

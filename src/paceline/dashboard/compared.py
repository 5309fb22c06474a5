"""Two sides that a page of the server asks about, compared as `paceline compare` does."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.findings.comparing import Compared, Outcome, compare_sides
from paceline.findings.sides import Sides
from paceline.history import Store

_IDS = re.compile(r"[0-9a-f]{32}(,[0-9a-f]{32}){0,199}")


def compare_asked(store: Store, query: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """What the sessions `a` and `b` of a query give; None if it is not such a query, or a side has no results."""
    texts = [query.get(name, [""])[0] for name in ("a", "b")]
    if not all(_IDS.fullmatch(text) for text in texts):
        return None
    sides = Sides(store, None, lambda _: None)
    known = {one.id: one for one in store.sessions()}
    found = [[known[ident] for ident in text.split(",") if ident in known] for text in texts]
    if not all(found):
        return None
    a, b = (sides.of_sessions(name, several) for name, several in zip("AB", found, strict=True))
    anyway = query.get("anyway") == ["1"]
    if a.classes and b.classes and not anyway and not a.classes & b.classes:
        return {"rows": [], "missing": [], "unlike": True}
    return pack(compare_sides(a, b, anyway=anyway, history=store))


def pack(found: Outcome) -> dict[str, Any]:
    """A comparison as the page has its own: `rows`, and what could not be compared."""
    return {
        "rows": [_row(one) for one in found.compared],
        "missing": [{"case": one.case, "metric": one.metric or "", "why": one.why} for one in found.missing],
    }


def _row(one: Compared) -> dict[str, Any]:
    judged, key = one.comparison, one.key
    told = {
        **{"case": key.case, "variant": key.variant, "version": key.version, "metric": key.metric},
        **{"unit": key.unit, "direction": one.direction, "verdict": one.word, "between": one.between},
        **{"ratio": judged.ratio, "low": judged.low, "high": judged.high, "p": one.p_adjusted},
        **{"before": judged.baseline, "after": judged.candidate, "detectable": judged.minimum_detectable},
        **{"starts": list(one.sessions), "reason": one.reason, "question": one.question},
    }
    # JSON has no infinity; the page takes what is not there for it.
    return {name: fact for name, fact in told.items() if not isinstance(fact, float) or math.isfinite(fact)}

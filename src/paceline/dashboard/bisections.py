"""What the bisection that found a culprit tried, from its own file, if that is within reach."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.record import below
from paceline.record.codec import load

_FILE = "bisect.json"
_MOST_BYTES = 8 << 20
_MOST_TRIED, _MOST_VALUES, _LONGEST = 100, 60, 200


def read_tried(results: Path | None, culprit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The revisions that were tried with what they gave, from the good end on; none if the file is elsewhere.

    Only a directory inside the results counts, and what its file says is data.
    """
    place = culprit.get("bisection")
    if results is None or not isinstance(place, str):
        return []
    root = results.resolve()
    try:
        name = str(Path(place).relative_to(root) / _FILE)
        tried = load(below.read(root, name, _MOST_BYTES))["tested"]
        return [_packed(one) for one in sorted(tried, key=lambda one: int(one["index"]))[:_MOST_TRIED]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []


def _packed(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: str(one[name])[:_LONGEST] for name in ("revision", "title", "reason")},
        "values": [float(value) for value in one["values"] if math.isfinite(value)][:_MOST_VALUES],
        "mean": None if one["mean"] is None else float(one["mean"]),
        "probability": None if one["probability"] is None else float(one["probability"]),
    }

"""Improvements that are too good to be taken as such: did it still do the work?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paceline.history.store.environments import to_stored
from paceline.metrics import KNOWN
from paceline.model import Direction, Record, is_finite
from paceline.report.format import number, visible

BEYOND_BELIEF = 20.0
"""From this factor on a program does something else rather than the same thing faster."""
QUESTION = "did it still do the work?"
_MOST_CHANGES = 6
_WORK = frozenset({"io_write_bytes", "num_items_processed"})
"""Of the metrics that we take of every run, those that tell how much was done."""


def is_beyond_belief(ratio: float, direction: Direction) -> bool:
    """Whether new over old is an improvement by a factor that no change of a program explains."""
    if direction == "higher":
        return ratio >= BEYOND_BELIEF
    return ratio <= 1 / BEYOND_BELIEF


def ask(changes: Sequence[str]) -> str:
    """The question, with what else changed."""
    if not changes:
        return f"{QUESTION} Nothing else is known to have changed"
    more = len(changes) - _MOST_CHANGES
    shown = [*changes[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])]
    return f"{QUESTION} What else changed: {'; '.join(shown)}"


def work_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The counts of what a run did: numbers of the benchmark's own that are neither good nor bad."""
    return {
        name: float(one.value)
        for name, one in metrics.items()
        if one.direction is None
        and is_finite(one.value)
        and (name in _WORK or (name not in KNOWN and not name.startswith("task_")))
    }


def work_changes(old: Mapping[str, float], new: Mapping[str, float]) -> list[str]:
    """Counts that differ or are gone, those that are zero now first."""
    gone = [name for name in old if old[name] and not new.get(name, 0.0)]
    other = [
        name
        for name in old
        if name not in gone and name in new and not math.isclose(old[name], new[name], rel_tol=0.01)
    ]
    shown = {name: number(new[name]) if name in new else "nothing" for name in (*gone, *other)}
    return [visible(f"{name} {number(old[name])} → {after}") for name, after in shown.items()]


def does_nothing(old: Mapping[str, float], new: Mapping[str, float]) -> bool:
    """Whether something was done before, and nothing is done now."""
    return any(old[name] > 0 and new.get(name) == 0 for name in old)


def record_changes(
    old: Record,
    new: Record,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> Iterator[str]:
    """What differs between two records of a case besides what is judged: work, script, revision, packages."""
    yield from work_changes(work_of(old.metrics), work_of(new.metrics))
    if old.case.formula == new.case.formula and old.case.fingerprint != new.case.fingerprint:
        yield "its script, arguments or variables"
    if old.details.get("source_hash") != new.details.get("source_hash"):
        yield "its source"
    if old.revision != new.revision:
        yield visible(f"revision {old.revision[:10] or 'unknown'} → {new.revision[:10] or 'unknown'}")
    if before and after:
        packages = dict(to_stored(before).packages), dict(to_stored(after).packages)
        for name in sorted({*packages[0], *packages[1]}):
            versions = [listed.get(name, "nothing") for listed in packages]
            if versions[0] != versions[1]:
                yield visible(f"{name} {versions[0]} → {versions[1]}")

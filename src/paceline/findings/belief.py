"""Improvements that are too good to be taken as such: did it still do the work?"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from paceline.finding import Finding, Place
from paceline.history import Store
from paceline.history.store.environments import to_stored
from paceline.history.store.names import read_names
from paceline.judge.requirements import QUESTION, is_beyond_belief
from paceline.metrics import KNOWN
from paceline.model import Direction, Record, Scalar, is_finite
from paceline.numbers import number
from paceline.report.format import visible

_MOST_CHANGES = 6
_WORK = frozenset({"io_write_bytes", "num_items_processed"})
"""Of the metrics that we take of every run, those that tell how much was done."""


def ask(changes: Sequence[str]) -> str:
    """The question, with what else changed."""
    if not changes:
        return f"{QUESTION} Nothing else is known to have changed"
    more = len(changes) - _MOST_CHANGES
    shown = [*changes[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])]
    return f"{QUESTION} What else changed: {'; '.join(shown)}"


def work_of(record: Record) -> dict[str, float]:
    """The counts of what a run did: numbers of the benchmark's own that are neither good nor bad."""
    return _counts((name, one.direction, one.value) for name, one in record.metrics.items())


def _counts(metrics: Iterable[tuple[str, str | None, Scalar]]) -> dict[str, float]:
    return {
        name: float(value)
        for name, direction, value in metrics
        if is_work(name, direction) and is_finite(value)
    }


def is_work(name: str, direction: str | None) -> bool:
    """Whether a metric counts what a run did."""
    return not direction and (name in _WORK or (name not in KNOWN and not name.startswith("task_")))


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
    yield from work_changes(work_of(old), work_of(new))
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


_METRICS = """
SELECT d.name, d.direction, m.value FROM record r JOIN session s ON s.id = r.session_id
JOIN "case" c ON c.id = r.case_id JOIN series d ON d.case_id = c.id
JOIN metric m ON m.series_id = d.id AND m.record_id = r.id
WHERE s.ident = ? AND c.variant = ? AND c.version = ? AND c.key IN ({keys}) ORDER BY r.attempt"""


def find_questions(
    store: Store, findings: Iterable[Finding], describe: Callable[[Mapping[str, Any]], str]
) -> dict[str, str]:
    """The question to ask about each of the improvements that are too good, by its id.

    `describe` words a suspect.
    """
    questions = {}
    work = _Work(store)
    for one in findings:
        if one.verdict != "better" or one.effect is None:
            continue
        old, new = (work.at(one, place) for place in (one.last_good, one.first_bad))
        direction: Direction = "higher" if one.effect > 0 else "lower"
        if is_beyond_belief(one.metric, 1 + one.effect, direction) or does_nothing(old, new):
            questions[one.id] = ask([*work_changes(old, new), *map(describe, one.suspects)])
    return questions


class _Work:
    """The counts of work of cases in sessions; the metrics of a case that changed together are asked for once."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        with self._database.reading():
            self._names = read_names(self._database)
        self._known: dict[tuple[str, ...], dict[str, float]] = {}

    def at(self, one: Finding, place: Place) -> dict[str, float]:
        """Those of the case that a finding is about, in the session of a place."""
        if not place.session_id:
            return {}
        wanted = (place.session_id, *one.series[:3])
        if wanted not in self._known:
            keys = self._names.all_of(one.case)
            statement = _METRICS.format(keys=", ".join("?" * len(keys)))
            named = (bytes.fromhex(place.session_id), *one.series[1:3])
            with self._database.reading():
                self._known[wanted] = _counts(self._database.rows(statement, (*named, *keys)))
        return self._known[wanted]

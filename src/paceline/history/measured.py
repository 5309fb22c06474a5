"""Which cases were measured at which revisions, by what, and on which machines."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from paceline.history.store.database import Database, chunks
from paceline.record.codec import load

PASSED_OVER = "passed_over"
"""Stands in the details of records of sessions in which a case could not run at its revision."""
_ROWS = """
SELECT r.revision, c.key, g.data, r.status, r.outcome, e.class_id
FROM record r JOIN "case" c ON c.id = r.case_id JOIN setting g ON g.id = r.setting_id
JOIN environment e ON e.id = r.environment_id
WHERE c.kind = 'entry' AND c.variant = '' AND r.revision IN ({marks})
UNION ALL
SELECT s.revision, c.key, g.data, r.status, r.outcome, e.class_id
FROM session s JOIN record r ON r.session_id = s.id AND r.revision IS NULL
JOIN "case" c ON c.id = r.case_id JOIN setting g ON g.id = r.setting_id
JOIN environment e ON e.id = r.environment_id
WHERE c.kind = 'entry' AND c.variant = '' AND s.revision IN ({marks})"""


class Measured(NamedTuple):
    """A case at a revision; the fingerprint says what ran there."""

    revision: str
    key: str
    fingerprint: str
    status: str
    is_passed_over: bool
    """Whether it could not run there, and will not later: the revision does not build, or lacks the benchmark."""
    class_id: str


def read_measured(database: Database, revisions: Iterable[str]) -> Iterator[Measured]:
    """All that was measured at these revisions, in any order."""
    fingerprints: dict[str, str] = {}
    for some in chunks(revisions, 200):
        rows = database.rows(_ROWS.format(marks=", ".join("?" * len(some))), (*some, *some))
        for revision, key, data, status, outcome, class_id in rows:
            if data not in fingerprints:
                fingerprints[data] = str(load(data.encode()).get("fingerprint", ""))
            details = load(outcome.encode()).get("details", {}) if outcome else {}
            yield Measured(
                revision, key, fingerprints[data], status, bool(details.get(PASSED_OVER)), class_id
            )

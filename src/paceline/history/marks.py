"""Whether a case has anything new: a mark of all that decides its series, from a few sums and not from its points."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from paceline.history.store.database import Database
from paceline.history.store.names import read_epochs, read_names

# A digest is a large number, and a sum of them would be too large; a replaced record changes the rest all the same.
_RECORDS = """
SELECT c.id, c.key, count(*), max(r.id), sum(r.digest & 1048575)
FROM "case" c JOIN record r ON r.case_id = c.id WHERE c.kind = 'entry' GROUP BY c.id, c.key ORDER BY c.id"""
_DIRECTIONS = "SELECT case_id, id, direction FROM series WHERE direction <> '' ORDER BY id"


def case_marks(database: Database, sums: Iterable[Sequence[Any]] | None = None) -> dict[str, str]:
    """For each case that has records and something to judge: a text that changes when its series do.

    `sums` are the rows of the statement above, from somebody who has seen all records already.
    """
    names = read_names(database)
    epochs = read_epochs(database, names)
    judged: defaultdict[int, list[str]] = defaultdict(list)
    for case_id, series_id, direction in database.rows(_DIRECTIONS):
        judged[case_id].append(f"{series_id}{direction}")
    told: defaultdict[str, list[str]] = defaultdict(list)
    for case_id, key, *numbers in database.rows(_RECORDS) if sums is None else sums:
        if case_id in judged:
            told[names.current(key)].append(
                repr((case_id, [int(number) for number in numbers], judged[case_id]))
            )
    return {key: _digest([*parts, *epochs.of(key)]) for key, parts in told.items()}


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

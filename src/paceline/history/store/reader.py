"""Rows into series: case by case, so that memory holds one case's numbers at a time."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from paceline.history.series import Floats, Names, Records, Series
from paceline.history.store.columns import Ints, SeriesRows, read_metrics, read_series_rows
from paceline.history.store.database import Database, Row
from paceline.history.store.names import CaseNames, matcher, read_epochs, read_names

_HEADS = """
SELECT started_at, id, session_id, environment_id, ident, status, revision, source_id, disturbed, attempt
FROM record WHERE case_id = ? AND started_at >= ?"""
_CASES = 'SELECT id, variant, version, current_key, key FROM "case" WHERE '


class CaseRow(NamedTuple):
    """A case of the database: cases of several rows may go by one name."""

    id: int
    variant: str
    version: str


class Wanted(NamedTuple):
    """Which points to read."""

    cases: Iterable[str] | None = None
    metrics: Sequence[str] | None = None
    since: str = ""
    environment_class: str | None = None
    all_epochs: bool = False
    judged_only: bool = False
    samples: bool = False


Part = tuple[str, int]
"""Environment class and epoch: points of different parts are not compared."""


class Reader:
    """Reads series; each case as of one moment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: tuple[Any, Names] | None = None

    def iter_columns(self, wanted: Wanted) -> Iterator[Series]:
        """The series of all cases and metrics whose names match, by name."""
        database = self._database
        with database.reading():
            names = read_names(database)
            epochs = read_epochs(database, names)
            groups = self._groups(wanted.cases, names)
        for key in sorted(groups):
            # A transaction for each, so that whoever takes the series may write in between.
            with database.reading():
                found = list(self._of_case(key, groups[key], epochs.of(key), wanted))
            yield from found

    def _groups(self, cases: Iterable[str] | None, names: CaseNames) -> dict[str, list[CaseRow]]:
        patterns = None if cases is None else list(cases)
        matches = matcher(patterns).fullmatch
        exact = {one for text in patterns or () for one in names.patterns(text)}
        groups: defaultdict[str, list[CaseRow]] = defaultdict(list)
        for *row, key, former in self._case_rows(patterns, names):
            if key in exact or matches(key) or matches(former):
                groups[key].append(CaseRow(*row))
        return groups

    def _case_rows(self, patterns: Sequence[str] | None, names: CaseNames) -> list[Row]:
        """The rows of cases that patterns may mean: of a single name those that it had or has, else all.

        Only a name means the set-up of data.
        """
        if patterns is None or len(patterns) != 1 or {"*", "?"} & set(patterns[0]):
            return self._database.rows(f"{_CASES} kind = 'entry' ORDER BY id")
        spellings = names.spellings(patterns[0])
        marks = ", ".join("?" * len(spellings))
        return self._database.rows(f"{_CASES} key IN ({marks}) ORDER BY id", spellings)

    def _of_case(
        self, key: str, rows: Sequence[CaseRow], resets: Sequence[str], wanted: Wanted
    ) -> Iterator[Series]:
        """The series of a case: of each version and variant, metric, class of machines and epoch."""
        for version, variant in sorted({(row.version, row.variant) for row in rows}):
            ids = [row.id for row in rows if (row.version, row.variant) == (version, variant)]
            heads = [row for number in ids for row in self._database.rows(_HEADS, (number, wanted.since))]
            parts = self._parts(heads, resets, wanted)
            metrics = self._series_rows(ids, wanted) if parts else {}
            numbers = np.sort(np.array([head[1] for head in heads], dtype=np.int64))
            places = {part: np.searchsorted(numbers, records.numbers) for part, records in parts.items()}
            whole, samples = not wanted.since, wanted.samples
            for metric in read_metrics(self._database, metrics, numbers, whole=whole, samples=samples):
                for part in sorted(parts):
                    values, records, at = _present(metric.values, places[part], parts[part])
                    if len(values):
                        yield Series(
                            case_key=key,
                            version=version,
                            variant=variant or None,
                            metric=metric.name,
                            unit=metric.unit or None,
                            direction=metric.direction or None,  # type: ignore[arg-type]
                            environment_class=part[0],
                            epoch=part[1],
                            values=values,
                            records=records,
                            samples=metric.samples_at(at) if samples else None,
                        )

    def _parts(self, heads: list[Row], resets: Sequence[str], wanted: Wanted) -> dict[Part, Records]:
        """The records of a case in the order of time, the last attempt of each session; by what is compared."""
        if not heads:
            return {}
        heads = _last_attempts(heads)
        heads.sort(key=lambda head: head[:2])
        columns: Any = list(zip(*heads, strict=True))
        names = self._names()
        every = Records(names, *columns[:-1])
        classes = {number: names.environments[number][1] for number in set(every.environments)}
        if len(set(classes.values())) == 1 and not resets:
            (class_id,) = set(classes.values())
            return {(class_id, 0): every} if wanted.environment_class in (None, class_id) else {}
        found: defaultdict[Part, list[int]] = defaultdict(list)
        for i, (time, environment) in enumerate(zip(every.times, every.environments, strict=True)):
            found[classes[environment], bisect_right(resets, time)].append(i)
        oldest = 0 if wanted.all_epochs else len(resets)
        return {
            part: every.take(places)
            for part, places in found.items()
            if part[1] >= oldest and wanted.environment_class in (None, part[0])
        }

    def _series_rows(self, case_ids: Sequence[int], wanted: Wanted) -> SeriesRows:
        """The wanted metrics by name and unit: their numbers under each of the case's rows, and their direction."""
        found = read_series_rows(self._database, case_ids)
        matches = matcher(wanted.metrics).fullmatch
        return {
            named: found[named]
            for named in sorted(found)
            if matches(named[0]) and (found[named][1] or not wanted.judged_only)
        }

    def _names(self) -> Names:
        """What was read before, unless somebody wrote since."""
        version = self._database.version()
        if self._known is None or version is None or self._known[0] != version:
            self._known = version, _read_names_of_all(self._database)
        return self._known[1]


def _read_names_of_all(database: Database) -> Names:
    sessions = database.rows("SELECT id, name, revision, ident FROM session")
    environments = database.rows("SELECT id, ident, class_id FROM environment")
    return Names(
        sessions={number: (name, revision, ident.hex()) for number, name, revision, ident in sessions},
        environments={number: (ident, class_id) for number, ident, class_id in environments},
        sources=dict(database.rows("SELECT id, hash FROM source")),
    )


def _last_attempts(heads: list[Row]) -> list[Row]:
    """Without attempts that were repeated: they are kept, and not drawn."""
    if all(head[9] == 1 for head in heads):
        return heads
    last: defaultdict[int, int] = defaultdict(int)
    for head in heads:
        last[head[2]] = max(last[head[2]], head[9])
    return [head for head in heads if head[9] == last[head[2]]]


def _present(values: Floats, places: Ints, records: Records) -> tuple[Floats, Records, Ints]:
    """The values of these records, without those that have none."""
    chosen = values[places]
    missing = np.isnan(chosen)
    if not missing.any():
        return chosen, records, places
    (there,) = (~missing).nonzero()
    return chosen[there], records.take(there.tolist()), places[there]

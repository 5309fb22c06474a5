"""Which series a search reads whole: those that are new, that somebody waits for, or whose newest points are odd.

A search leaves for each case what its records were, and for each series a screen (`judge.screen`). If since then
records have only come at the end, the screens are given their values; a series whose screen stays quiet is not read.
"""

import math
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.errors import PacelineError
from paceline.finding import SeriesKey
from paceline.findings.order import Order
from paceline.findings.segments import Judged
from paceline.findings.watched import watched
from paceline.history import Store
from paceline.history.findings import Added, CaseHead, read_added, read_left, write_left
from paceline.history.series import Series
from paceline.judge.discoveries import FLOOR
from paceline.judge.screen import Screen, make_screen
from paceline.metrics import is_steady

Part = tuple[SeriesKey, int]
"""A series, and the epoch of its case."""


@dataclass(slots=True, kw_only=True)
class Left:
    """What a search leaves of a case; of a series without a screen the next search reads all points."""

    head: CaseHead
    newest: str = ""
    revision: str = ""
    """That of the last point in the order of commits; empty where commits are not known."""
    screens: dict[Part, Screen | None] = field(default_factory=dict)
    unrest: dict[Part, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Screened:
    """The cases of a night: those that are read whole, the series of others that are, and what is left of them."""

    whole: set[str]
    parts: dict[str, set[Part]]
    left: dict[str, Left]
    quiet: int = 0
    """Series that have new points and are not read."""

    def read(self, store: Store) -> Iterator[Series]:
        """The series that are to be judged."""
        if self.whole:
            yield from watched(store, store.iter_columns(cases=sorted(self.whole), judged_only=True))
        for case, parts in sorted(self.parts.items()):
            names = sorted({key.metric for key, _ in parts})
            several = store.iter_columns(cases=[case], metrics=names, judged_only=True)
            yield from (one for one in several if (one.key, one.epoch) in parts)

    def is_read(self, key: SeriesKey) -> bool:
        """Whether all that is known of a series is found anew."""
        return key.case in self.whole or any(key == one for one, _ in self.parts.get(key.case, ()))

    def judged(self, one: Judged, order: Order, *, waited_for: bool) -> None:
        """Keep what a whole look at a series leaves; nothing of one that is read on the next night in any case."""
        part, key = (one.key, one.epoch), one.key.case
        screen = None if waited_for else make_screen(one.points.values, one.analysis, sure=FLOOR)
        left = self.left[key]
        left.newest = max(left.newest, one.newest)
        left.revision = _later(order, left.revision, one.revision or "")
        left.screens[part] = None if one.revision is None else screen
        left.unrest.pop(part, None)
        if one.analysis.unrest:
            left.unrest[part] = one.analysis.unrest


def screen(
    store: Store,
    order: Order,
    heads: Mapping[str, CaseHead],
    mark: str,
    waited_for: Container[SeriesKey] | None,
) -> Screened:
    """What to read of the cases that have something new; `waited_for` are series that are read whatever they do.

    With None all are. `mark` stands for the detector and the order: what was left under another one says nothing.
    """
    with store.database.reading():
        known = {key: left for key, left in _read(store, heads) if left[0] == mark and waited_for is not None}
        added = {
            key: found
            for key, (_, left) in known.items()
            if (found := read_added(store.database, left.head, heads[key])) and found.since > left.newest
        }
    screened = Screened(
        whole=set(heads) - set(added),
        parts={},
        left={
            key: replace(known[key][1], head=head, newest=max(known[key][1].newest, added[key].until))
            if key in added
            else Left(head=head)
            for key, head in heads.items()
        },
    )
    if added and waited_for is not None:
        _pass(store, order, screened, added, waited_for)
    return screened


def _pass(
    store: Store,
    order: Order,
    screened: Screened,
    added: Mapping[str, Added],
    waited_for: Container[SeriesKey],
) -> None:
    """Give the screens what is new."""
    since = min(one.since for one in added.values())
    looked: defaultdict[str, set[Part]] = defaultdict(set)
    quiet: dict[str, dict[Part, Screen | None]] = {}
    revisions: dict[str, str] = {}
    for series in watched(store, store.iter_columns(cases=sorted(added), since=since, judged_only=True)):
        key, part = series.case_key, (series.key, series.epoch)
        left = screened.left[key]
        if part not in left.screens:
            screened.whole.add(key)
            continue
        values, follows, last = _new(series, order, added[key].after, left.revision)
        passed = left.screens[part]
        for value in values:
            passed = passed.after(value) if passed else None
        if not follows:
            screened.whole.add(key)
        elif values and (passed is None or series.key in waited_for):
            looked[key].add(part)
        else:
            quiet.setdefault(key, {})[part] = passed
        revisions[key] = _later(order, revisions.get(key, left.revision), last)
    for key in added.keys() - screened.whole:
        left = screened.left[key]
        left.screens |= quiet.get(key, {})
        left.revision = revisions.get(key, left.revision)
        screened.quiet += len(quiet.get(key, ()))
    screened.parts = {key: parts for key, parts in looked.items() if parts and key not in screened.whole}
    for key in screened.whole:
        screened.left[key] = Left(head=screened.left[key].head)


def _new(series: Series, order: Order, after: int, last: str) -> tuple[list[float], bool, str]:
    """The values that came after a record of this number, whether they follow all others, and the last revision."""
    steady = is_steady(series.metric, series.unit)
    new = [i for i, number in enumerate(series.records.numbers) if number > after]
    records = series.records.take(new)
    chosen = order.chosen(records, steady)
    places = range(len(new)) if chosen is None else chosen
    values = [float(series.values[new[i]]) for i in places]
    told = records.revisions()
    ranks = [order.places.get(told[i]) for i in places]
    before = order.places.get(last) if last else None
    if before is None:
        follows = not last and all(rank is None for rank in ranks)
    else:
        follows = all(rank is not None and rank >= before for rank in ranks)
    return values, follows, told[places[-1]] if len(places) and before is not None else ""


def _later(order: Order, one: str, other: str) -> str:
    places = order.places
    return max(one, other, key=lambda revision: places.get(revision, -1))


def keep(store: Store, screened: Screened, mark: str) -> None:
    """Leave it for the next search, within a transaction that is open."""
    write_left(store.database, {key: _packed(one, mark) for key, one in screened.left.items()})


def _packed(left: Left, mark: str) -> Mapping[str, Any]:
    return {
        "mark": mark,
        "rows": [[case, *numbers] for case, numbers in left.head.rows.items()],
        "rest": left.head.rest,
        "newest": left.newest,
        "revision": left.revision,
        "screens": [
            [*part[0], part[1], *([one.left, one.level, one.scale, *one.averages] if one else [])]
            for part, one in left.screens.items()
        ],
        "unrest": [[*part[0], part[1], value] for part, value in left.unrest.items()],
    }


def _read(store: Store, cases: Container[str]) -> Iterator[tuple[str, tuple[str, Left]]]:
    for key, packed in read_left(store.database):
        if key in cases:
            try:
                yield key, (str(packed["mark"]), _unpacked(packed))
            except (KeyError, TypeError, ValueError, PacelineError):
                continue  # Left by another version: the case is read whole.


def _unpacked(packed: Mapping[str, Any]) -> Left:
    rows = {case: (count, last, total) for case, count, last, total in packed["rows"]}
    return Left(
        head=CaseHead(rows=rows, rest=packed["rest"]),
        newest=packed["newest"],
        revision=packed["revision"],
        screens=dict(_screen_of(row) for row in packed["screens"]),
        unrest={_part_of(row): float(row[-1]) for row in packed["unrest"]},
    )


def _part_of(row: Any) -> Part:
    return SeriesKey(*row[:6]), int(row[6])


def _screen_of(row: Any) -> tuple[Part, Screen | None]:
    part, numbers = _part_of(row), [float(one) for one in row[7:]]
    if not numbers:
        return part, None
    left, level, scale, *averages = numbers
    if not (math.isfinite(level) and scale > 0):
        raise ValueError(row)
    return part, Screen(left=int(left), level=level, scale=scale, averages=tuple(averages))


def read_unrest(store: Store) -> dict[SeriesKey, float]:
    """By how much the level of each restless series moves by itself within a week, as the last search saw it."""
    with store.database.reading():
        found = [_unpacked(packed).unrest for _, packed in read_left(store.database) if packed.get("unrest")]
    return {key: value for of_case in found for (key, _), value in of_case.items()}

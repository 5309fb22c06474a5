"""Which series raise alarms: what nobody asked for is recorded and shown, and is quiet."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import groupby

from paceline.history import Store
from paceline.history.findings import read_watched
from paceline.history.series import Series
from paceline.metrics import AUTOMATIC

_Case = tuple[str, str, str]


def watched(store: Store, several: Iterable[Series]) -> Iterator[Series]:
    """Of the series of cases, one case after the other, those that raise alarms.

    The metrics that are taken of every run do so if the suite says so, or if the case has no other with a direction.
    """
    with store.database.reading():
        asked = read_watched(store.database)
    for case, group in groupby(several, _case_of):
        series = [one for one in group if one.direction is not None]
        has_own = any(one.metric not in AUTOMATIC for one in series)
        yield from (one for one in series if not has_own or is_watched(one.metric, asked.get(case, ())))


def _case_of(series: Series) -> _Case:
    return series.case_key, series.variant or "", series.version


def is_watched(metric: str, asked: Iterable[str]) -> bool:
    """Whether a metric of a case that has others is watched; `asked` is what its suite names."""
    return metric not in AUTOMATIC or any(fnmatchcase(metric, name) for name in asked)

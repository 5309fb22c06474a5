"""Which series raise alarms: what nobody asked for is recorded and shown, and is quiet."""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TypeVar

from paceline.history import Store
from paceline.history.findings import read_watched
from paceline.history.series import Column, Series
from paceline.metrics import AUTOMATIC

_Read = TypeVar("_Read", Series, Column)
_Case = tuple[str, str, str]


def watched(store: Store, several: Iterable[_Read]) -> Iterator[_Read]:
    """Of the series of cases, one case after the other, those that raise alarms.

    The metrics that are taken of every run do so if the suite says so, or if the case has no other with a direction.
    """
    with store.database.reading():
        asked = read_watched(store.database)
    for case, group in groupby(several, _case_of):
        series = [one for one in group if one.direction is not None]
        has_own = any(one.metric not in AUTOMATIC for one in series)
        yield from (one for one in series if not has_own or _is_watched(one.metric, case, asked))


def _case_of(series: Series | Column) -> _Case:
    return series.case_key, series.variant or "", series.version


def _is_watched(metric: str, case: _Case, asked: Mapping[_Case, tuple[str, ...]]) -> bool:
    return metric not in AUTOMATIC or any(fnmatchcase(metric, name) for name in asked.get(case, ()))

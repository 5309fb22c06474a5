"""The level that a metric has had so far, for requirements that are relative to it."""

import statistics
from collections.abc import Iterable, Mapping

from paceline.findings.segments import ordered_points, series_key
from paceline.history import Series, Store
from paceline.history.findings import SeriesKey, StoredFinding
from paceline.judge import change_points
from paceline.judge.requirements import Baseline

_RECENT = 20
"""Points that a level is taken from, if there are so many since the last change."""


CaseKey = tuple[str, str, str, str]
"""Key, variant and version of a case, and the class of machines."""
Baselines = Mapping[CaseKey, Mapping[str, Baseline]]


def read_baselines(store: Store, wanted: Mapping[str, Iterable[str]], *, but: str) -> Baselines:
    """The level of each of these metrics of these cases, without what the session named `but` measured."""
    open_findings = [one for one in store.findings() if one.verdict == "worse" and one.state == "new"]
    found: dict[CaseKey, dict[str, Baseline]] = {}
    for key, metrics in wanted.items():
        for series in store.iter_series(cases=[key], metrics=sorted(metrics), judged_only=True):
            told = series_key(series)
            # Asked for by the name in the suite, which may be an older one.
            case = (key, told.variant, told.version, told.environment_class)
            found.setdefault(case, {})[series.metric] = _baseline(series, told, open_findings, but)
    return found


def _baseline(series: Series, key: SeriesKey, open_findings: Iterable[StoredFinding], but: str) -> Baseline:
    """The level before the first regression that nobody has answered yet, since the last change before that."""
    points = [point for point in ordered_points(series.points, {}) if point.session != but]
    good_until = min((one.last_good.time for one in open_findings if one.series == key), default="")
    values = [point.value for point in points if not good_until or point.time <= good_until]
    if not values:
        return Baseline(level=0.0, results=0)
    changes = change_points(values)
    recent = values[changes[-1].index :] if changes else values
    return Baseline(level=statistics.median(recent[-_RECENT:]), results=len(recent))

"""The values around a change, for those who draw it."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.findings.segments import ordered_points, series_key
from paceline.history import Store
from paceline.history.findings import StoredFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values in the order in which they are judged; the new level begins at `index`, or is not among them."""

    values: tuple[float, ...] = ()
    index: int | None = None


def read_curve(store: Store, one: StoredFinding, places: Mapping[str, int], *, window: int) -> Curve:
    """As many values before and after a change as `window` says, if there are so many."""
    for series in store.iter_series(cases=[one.series.case], metrics=[one.series.metric], judged_only=True):
        if series_key(series) == one.series:
            points = ordered_points(series.points, dict(places))
            at = next((i for i, point in enumerate(points) if point.record_id == one.at_record), None)
            middle = len(points) if at is None else at
            first = max(0, middle - window)
            values = tuple(point.value for point in points[first : middle + window])
            return Curve(values=values, index=None if at is None else at - first)
    return Curve()

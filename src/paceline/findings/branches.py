"""A session of another branch than the default one, held against the level where its branch began."""

import math
import statistics
from collections.abc import Iterator, Sequence

from paceline.finding import MERGE_BASE
from paceline.findings.order import Order
from paceline.findings.segments import SMALLEST_EFFECT, level_values
from paceline.findings.watched import watched
from paceline.history import SessionInfo, Store
from paceline.history.series import Point, Series
from paceline.judge.comparison import student_quantile
from paceline.model import Finding
from paceline.numbers import interval

_FEWEST, _MOST = 8, 200
"""Results of the level that it takes to know its noise, and that are looked at."""
_CHANCE = 0.05
"""How likely a session that is like the level may be called worse or better in any of its metrics."""
_BEYOND = 1.5
"""How much farther off than any result of the level a value must lie at least: spikes are usual in some series."""


def branch_findings(
    store: Store, session: SessionInfo, order: Order, cases: Sequence[str]
) -> tuple[Finding, ...]:
    """What is worse or better in a session of a branch. It is a finding of that session, and of no series."""
    several = list(watched(store, store.iter_columns(cases=sorted(cases), judged_only=True)))
    chance = _CHANCE / max(len(several), 1)
    found = [one for series in several for one in _held(series, session, order, chance)]
    return tuple(sorted(found, key=lambda one: -abs(one.effect or 0.0)))


def _held(series: Series, session: SessionInfo, order: Order, chance: float) -> Iterator[Finding]:
    measured = [point for point in series.points if point.session_id == session.id and not point.disturbed]
    values = [point.value for point in measured if point.status in ("passed", "requirement_failed")]
    level = level_values(_before_branch(series, session, order))[-_MOST:]
    if not values or len(level) < _FEWEST or series.direction is None or min(*values, *level) <= 0:
        return
    change = _change([math.log(value) for value in level], [math.log(value) for value in values], chance)
    if change is None or abs(change[0]) < SMALLEST_EFFECT:
        return
    base = (
        f"the level at its merge base {session.merge_base[:10]}"
        if session.merge_base
        else "the level before it"
    )
    where = (
        f"on the branch {session.branch}"
        if session.branch
        else f"at {session.revision[:10]}, not on the default branch"
    )
    yield Finding(
        judge=MERGE_BASE,
        case=series.case_key,
        metric=series.metric,
        verdict="worse" if (change[0] > 0) == (series.direction == "lower") else "better",
        effect=change[0],
        low=change[1],
        high=change[2],
        message=f"{interval(*change)} {where}, against {base}",
    )


def _before_branch(series: Series, session: SessionInfo, order: Order) -> Sequence[Point]:
    """The points of the default branch up to where the session's branch left it; without places, those before it."""
    points = order.points(series)
    base = order.places.get(session.merge_base)
    if base is None:
        return [point for point in points if point.time < session.started_at]
    within = [i for i, point in enumerate(points) if order.places.get(point.revision, base + 1) <= base]
    return points[: max(within, default=-1) + 1]


def _change(
    level: Sequence[float], values: Sequence[float], chance: float
) -> tuple[float, float, float] | None:
    """By how much the values lie beside the level, with an interval of 95 %; None if that may be noise."""
    middle = statistics.median(level)
    away = statistics.median(values) - middle
    farthest = max(abs(value - middle) for value in level)
    # The median of the level is as exact as a mean of its results / 1.57.
    error = statistics.stdev(level) * math.sqrt(1 / len(values) + 1.57 / len(level))
    surely, usually = (student_quantile(1 - one / 2, len(level) - 1) * error for one in (chance, 0.05))
    # With tails like Student's t of three degrees, a value is b times farther off than n others once in b³ n times.
    beyond = max(_BEYOND, (chance * (len(level) + 1)) ** (-1 / 3))
    if abs(away) <= max(surely, beyond * farthest):
        return None
    return math.expm1(away), math.expm1(away - usually), math.expm1(away + usually)

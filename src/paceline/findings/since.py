"""How a new result compares with those before it: for the line that a session prints about a case."""

from collections.abc import Iterable
from typing import NamedTuple

from paceline.finding import Finding, Since
from paceline.findings.between import noise_of
from paceline.findings.order import read_order
from paceline.findings.segments import CaseKey, level_values, open_regressions
from paceline.history import Store
from paceline.history.series import Point
from paceline.history.store.names import read_names
from paceline.judge.comparison import LEVEL, compare_sessions
from paceline.model import Measurement, is_number

_DRAWN = 11
"""Results before the new one that are drawn."""
_COMPARED = 30
_FEWEST = 4
"""Results of the level from which on a new one can be held against it."""


class Past(NamedTuple):
    """The results of a metric before a session, and its regressions that nobody has answered."""

    higher_is_better: bool
    points: list[Point]
    regressions: tuple[Finding, ...]


def read_pasts(store: Store, cases: Iterable[str], *, but: str) -> dict[CaseKey, dict[str, Past]]:
    """The past of each judged metric of these cases, without what the session named `but` measured."""
    order, answers = read_order(store), open_regressions(store)
    with store.database.reading():
        names = read_names(store.database)
    # Asked for by the names in the suite, which may be older ones.
    wanted = {names.current(key): key for key in cases}
    found: dict[CaseKey, dict[str, Past]] = {}
    for series in store.iter_columns(cases=list(wanted), judged_only=True):
        points = [point for point in order.points(series) if point.session != but]
        key = series.key
        past = Past(series.direction == "higher", points, tuple(answers.get(key, ())))
        case = (wanted.get(key.case, key.case), key.variant, key.version, key.environment_class)
        found.setdefault(case, {})[series.metric] = past
    return found


def since(past: Past, new: Measurement, *, comparisons: int) -> Since:
    """How a new result compares with the level before it, as one of so many comparisons that are looked at."""
    drawn = tuple(point.value for point in past.points[-_DRAWN:])
    level = level_values(past.points, past.regressions)[-_COMPARED:]
    samples = [float(one) for one in new.samples or (new.value,) if is_number(one)]
    if len(level) < _FEWEST or not samples:
        return Since(drawn)
    compared = compare_sessions(
        [[value] for value in level],
        [samples],
        noise=noise_of(level),
        higher_is_better=past.higher_is_better,
        level=1 - (1 - LEVEL) / max(comparisons, 1),
    )
    return Since(drawn, compared.ratio - 1, compared.verdict)

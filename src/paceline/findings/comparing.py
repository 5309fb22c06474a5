"""Two sides compared: each metric of each case that both have, with every sample.

What is called worse or better is significant after Holm's correction over all that is compared, and beyond the margin.
The noise between sessions comes from the history, where it knows it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from paceline.errors import PacelineError
from paceline.finding import SeriesKey
from paceline.findings.belief import ask, does_nothing, record_changes, work_of
from paceline.findings.between import read_noise
from paceline.findings.sides import Measured, Side
from paceline.findings.vanished import MEASURED, OTHER_MACHINES, CaseKey, Missing, case_key, find_missing
from paceline.findings.watched import is_watched
from paceline.history import Store
from paceline.judge.comparison import (
    FEWEST_SESSIONS,
    LEVEL,
    Comparison,
    Noise,
    compare_sessions,
)
from paceline.judge.discoveries import holm
from paceline.judge.requirements import is_beyond_belief
from paceline.metrics import AUTOMATIC, is_steady
from paceline.model import Direction, Measurement, Record, is_finite

MARGIN = 0.03
Between = Literal["history", "sides", "assumed"]
"""Where the noise between sessions is known from, or that it is not known."""
_FOLDED_FROM = 0.5
"""A row that could not show less than this says nothing that anyone could act on."""


class MetricKey(NamedTuple):
    """A metric of a case."""

    case: str
    variant: str
    version: str
    metric: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric of one case on both sides."""

    key: MetricKey
    direction: Direction
    comparison: Comparison
    samples: tuple[int, int]
    sessions: tuple[int, int]
    between: Between
    p_adjusted: float = 1.0
    """The p-value after correction for all that was compared."""
    reason: str = ""
    """Why nothing can be said, where it is not for want of samples: a side was disturbed."""
    question: str = ""
    """What to ask about a change that is too good to be believed."""
    is_watched: bool = True
    """Whether somebody asked for it: what is taken of every run is shown and fails nothing."""

    @property
    def word(self) -> str:
        """The verdict, or that it is a question."""
        return "question" if self.question else self.comparison.verdict

    @property
    def is_idle(self) -> bool:
        """Whether nobody can act on it: undecided, and nothing that is likely would have been seen."""
        seen = self.comparison.minimum_detectable if self.is_watched else math.inf
        return self.word == "inconclusive" and not self.reason and not seen < _FOLDED_FROM

    @property
    def size(self) -> float:
        ratio = self.comparison.ratio
        return abs(math.log(ratio)) if ratio > 0 else abs(ratio - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A comparison of two sides; those that differ come first, the larger the earlier."""

    baseline: Side
    candidate: Side
    compared: tuple[Compared, ...]
    missing: tuple[Missing, ...]
    unlike: tuple[str, ...]
    """What is different about the machines, if they are of different kinds."""
    margin: float = MARGIN
    allow_missing: bool = False

    def geometric_means(self) -> dict[str, float]:
        """For each metric the mean ratio over all cases, of ratios that there are and that say something."""
        logs: dict[str, list[float]] = {}
        for one in self.compared:
            if 0 < one.comparison.ratio < math.inf and not one.is_idle:
                logs.setdefault(one.key.metric, []).append(math.log(one.comparison.ratio))
        return {metric: math.exp(math.fsum(values) / len(values)) for metric, values in logs.items()}

    @property
    def is_worse(self) -> bool:
        return any(one.comparison.verdict == "worse" for one in self.compared)

    @property
    def is_disturbed(self) -> bool:
        """Whether no time and no rate could be judged, since what measured them was disturbed."""
        telling = [one for one in self.compared if not is_steady(one.key.metric, one.key.unit or None)]
        return bool(telling) and all(one.reason for one in telling)

    @property
    def gone(self) -> tuple[Missing, ...]:
        """What A has and B has lost, unless that is allowed."""
        return tuple(one for one in self.missing if one.kind == "gone" and not self.allow_missing)

    @property
    def failing(self) -> tuple[Missing, ...]:
        """The cases that passed and now fail."""
        return tuple(one for one in self.missing if one.kind == "failing")

    @property
    def exit_code(self) -> int:
        """1 for what a gate is there to stop, 2 if there is nothing to tell by, else 0."""
        if self.is_worse or self.failing:
            return 1
        if not self.compared:
            return 2
        return 1 if self.gone else 2 if self.is_disturbed else 0


class _Values(NamedTuple):
    direction: Direction | None
    starts: list[list[float]]
    records: list[Record]
    classes: set[str]

    def undisturbed(self) -> "_Values":
        """Without the records of disturbed runs, if there are others."""
        kept = [place for place, record in enumerate(self.records) if not record.disturbance]
        if not kept:
            return self
        return _Values(
            self.direction,
            [self.starts[place] for place in kept],
            [self.records[place] for place in kept],
            self.classes,
        )


def compare_sides(
    baseline: Side,
    candidate: Side,
    *,
    cases: Any = None,
    metrics: Any = None,
    anyway: bool = False,
    margin: float = MARGIN,
    allow_missing: bool = False,
    history: Store | None = None,
    unlike_work: bool = False,
) -> Outcome:
    """Compare what both have; unlike machines are an error unless it is done anyway or they are what is compared.

    `cases` and `metrics` are functions that say whether a name is wanted. The history tells how sessions differ by
    themselves. Of `unlike_work`, such as two cases of a session, no difference is too large to be believed.
    """
    whole = baseline, candidate
    baseline, candidate, unlike = _on_like_machines(baseline, candidate, anyway=anyway)
    strangers: list[Missing] = []
    if not unlike and not anyway:
        baseline, candidate, strangers = _case_by_case(baseline, candidate, cases)
    old, new = (_values(side, cases, metrics) for side in (baseline, candidate))
    noise = _noise(history, old, new)
    quiet = frozenset() if metrics else _unwatched(new)
    compared = [
        replace(_compared(key, old[key], new[key], noise, margin), is_watched=key not in quiet)
        for key in old
        if key in new
    ]
    compared = _corrected(compared)
    if not unlike_work:
        compared = [_questioned(one, (baseline, old[one.key]), (candidate, new[one.key])) for one in compared]
    decided = ("worse", "better", "question")
    order = sorted(compared, key=lambda one: (one.word not in decided, -one.size, one.key))
    return Outcome(
        baseline=baseline,
        candidate=candidate,
        compared=tuple(order),
        missing=(*strangers, *_missing(whole, candidate, (old, new), strangers, cases)),
        unlike=unlike,
        margin=margin,
        allow_missing=allow_missing,
    )


def _on_like_machines(a: Side, b: Side, *, anyway: bool) -> tuple[Side, Side, tuple[str, ...]]:
    """The sides as far as they ran on machines of the same classes, or all of them if they never did."""
    common = a.classes & b.classes
    if common:
        return _only(a, common), _only(b, common), ()
    if not a.classes or not b.classes:
        return a, b, ()
    unlike = tuple(_differences(a, b)) or ("their classes",)
    if not anyway and not (a.is_environment and b.is_environment):
        raise PacelineError(
            f"{a.name} and {b.name} ran on unlike machines ({'; '.join(unlike)}): --force compares them all the same"
        )
    return a, b, unlike


def _case_by_case(a: Side, b: Side, wanted: Any) -> tuple[Side, Side, list[Missing]]:
    """The sides with each case on machines of one class, that which both have most records of.

    A pool may have run a case on a node of another class than before: then there is nothing to hold it against.
    """
    counts: defaultdict[CaseKey, tuple[Counter[str], Counter[str]]]
    counts = defaultdict(lambda: (Counter(), Counter()))
    for place, side in enumerate((a, b)):
        for one in side.measured:
            if one.environment_class and one.record.status in MEASURED:
                counts[case_key(one.record)][place][one.environment_class] += 1
    chosen: dict[CaseKey, str] = {}
    strangers = []
    for key, (old, new) in counts.items():
        common = sorted(old.keys() & new.keys(), key=lambda name: (-min(old[name], new[name]), name))
        if common:
            chosen[key] = common[0]
        elif old and new:
            chosen[key] = ""
            if not wanted or wanted(key[0]):
                strangers.append(Missing(case=key[0], metric=None, side=b.name, why=OTHER_MACHINES))

    def kept(side: Side) -> Side:
        def fits(one: Measured) -> bool:
            key = case_key(one.record)
            return key not in chosen or (one.environment_class in ("", chosen[key]) and chosen[key] != "")

        return replace(side, measured=tuple(one for one in side.measured if fits(one)))

    return kept(a), kept(b), strangers


def _only(side: Side, classes: frozenset[str]) -> Side:
    kept = tuple(
        one for one in side.measured if one.environment_class in classes or not one.environment_class
    )
    return replace(side, measured=kept)


def _differences(a: Side, b: Side) -> Iterator[str]:
    old, new = (side.machines.get(min(side.classes), {}) for side in (a, b))
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{name} {_shown(old.get(name))} → {_shown(new.get(name))}"


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)[:80]


def _values(side: Side, cases: Any, metrics: Any) -> dict[MetricKey, _Values]:
    """Every sample of each judged metric, record by record."""
    found: dict[MetricKey, _Values] = {}
    for one in side.measured:
        record = one.record
        if record.status not in MEASURED or (cases and not cases(record.case.key)):
            continue
        for name, measurement in record.metrics.items():
            samples = _samples(measurement)
            if measurement.direction is None or not samples or (metrics and not metrics(name)):
                continue
            case = record.case
            key = MetricKey(case.key, case.variant or "", case.version, name, measurement.unit or "")
            values = found.setdefault(key, _Values(measurement.direction, [], [], set()))
            values.starts.append(samples)
            values.records.append(record)
            values.classes.add(one.environment_class)
    return found


def _samples(measurement: Measurement) -> list[float]:
    """The samples that are finite numbers, or the value where only that was kept."""
    given = measurement.samples or (measurement.value,)
    return [float(value) for value in given if is_finite(value)]


_Side = Mapping[MetricKey, _Values]


def _noise(history: Store | None, old: _Side, new: _Side) -> Mapping[SeriesKey, Noise]:
    """The noise between sessions that the history knows of what both have, without the sessions that are compared."""
    common = old.keys() & new.keys()
    if history is None or not common:
        return {}
    records = [record for side in (old, new) for key in common for record in side[key].records]
    names = {record.session for record in records}
    until = max(record.started_at for record in records)
    return read_noise(history, sorted({key.case for key in common}), but=names, until=until)


def _unwatched(side: _Side) -> frozenset[MetricKey]:
    """What is taken of every run, where the case has metrics of its own and the suite does not ask for it."""
    own = {key[:3] for key in side if key.metric not in AUTOMATIC}
    return frozenset(
        key
        for key, values in side.items()
        if key[:3] in own and not is_watched(key.metric, values.records[-1].case.watch)
    )


def _compared(
    key: MetricKey, old: _Values, new: _Values, noise: Mapping[SeriesKey, Noise], margin: float
) -> Compared:
    direction = old.direction or new.direction
    assert direction is not None
    reason = ""
    if not is_steady(key.metric, key.unit or None):
        old, new = old.undisturbed(), new.undisturbed()
        disturbed = [(name, side.records[0].disturbance) for name, side in (("A", old), ("B", new))]
        reason = "; ".join(f"{name} was disturbed: {text}" for name, text in disturbed if text)
    # Of unlike machines the louder one counts.
    heard = [noise[told] for name in old.classes | new.classes if (told := SeriesKey(*key, name)) in noise]
    known = max(heard, key=lambda one: one.absolute, default=None)
    sessions = len(old.starts), len(new.starts)
    comparison = compare_sessions(
        old.starts, new.starts, noise=known, higher_is_better=direction == "higher", margin=margin
    )
    if reason:
        comparison = replace(comparison, verdict="inconclusive", p_value=1.0)
    return Compared(
        key=key,
        direction=direction,
        reason=reason,
        comparison=comparison,
        samples=(sum(map(len, old.starts)), sum(map(len, new.starts))),
        sessions=sessions,
        between="history" if known else "sides" if min(sessions) >= FEWEST_SESSIONS else "assumed",
    )


def _corrected(compared: Sequence[Compared]) -> list[Compared]:
    """The comparisons with verdicts that hold for all of them together."""
    # What cannot tell, whatever was measured, is not looked at.
    tests = [
        place
        for place, one in enumerate(compared)
        if one.comparison.high < math.inf and not one.reason and one.is_watched
    ]
    adjusted = dict(zip(tests, holm([compared[place].comparison.p_value for place in tests]), strict=True))
    found = []
    for place, one in enumerate(compared):
        judged, p_adjusted = one.comparison, adjusted.get(place, 1.0)
        if judged.verdict in ("better", "worse") and p_adjusted > 1 - LEVEL:
            judged = replace(judged, verdict="inconclusive")
        found.append(replace(one, comparison=judged, p_adjusted=p_adjusted))
    return found


def _questioned(one: Compared, old: tuple[Side, _Values], new: tuple[Side, _Values]) -> Compared:
    """The comparison; a change that is too good, or of a run that does nothing any more, is a question."""
    (before, after), judged = (values.records[-1] for _, values in (old, new)), one.comparison
    idle = judged.verdict == "better" and does_nothing(work_of(before), work_of(after))
    if not idle and not is_beyond_belief(one.key.metric, judged.ratio, one.direction):
        return one
    known = [side.environments.get(record.environment) for (side, _), record in ((old, before), (new, after))]
    changes = list(record_changes(before, after, *known))
    return replace(one, comparison=replace(judged, verdict="inconclusive"), question=ask(changes))


def _missing(
    sides: tuple[Side, Side],
    compared: Side,
    values: tuple[_Side, _Side],
    strangers: Sequence[Missing],
    cases: Any,
) -> Iterator[Missing]:
    told: list[dict[CaseKey, set[str]]] = [{}, {}]
    for place, side in enumerate(values):
        for key in side:
            told[place].setdefault(key[:3], set()).add(key.metric)
    known = {one.case for one in strangers}
    found = find_missing(*sides, (told[0], told[1]), cases, compared=compared)
    return (one for one in found if one.case not in known)

"""Two sides compared: each metric of each case that both have, with every sample."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from paceline.errors import PacelineError
from paceline.findings.belief import ask, does_nothing, record_changes, work_of
from paceline.findings.sides import Measured, Side
from paceline.judge import Comparison, compare
from paceline.judge.requirements import is_beyond_belief
from paceline.metrics import is_steady
from paceline.model import Direction, Measurement, Record, Status, is_finite

FEWEST_STARTS = 3
"""Records on each side from which on each counts as one start; of fewer, every sample does."""
_MEASURED = frozenset({Status.PASSED, Status.REQUIREMENT_FAILED})
CaseKey = tuple[str, str, str]
"""Key, variant and version of a case."""


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
    baseline: float
    candidate: float
    samples: tuple[int, int]
    reason: str = ""
    """Why nothing can be said, where it is not for want of samples: a side was disturbed."""
    question: str = ""
    """What to ask about a change that is too good to be believed."""

    @property
    def word(self) -> str:
        """The verdict, or that it is a question."""
        return "question" if self.question else self.comparison.verdict

    @property
    def size(self) -> float:
        ratio = self.comparison.ratio
        return abs(math.log(ratio)) if ratio > 0 else abs(ratio - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What only one side has; all of a case if `metric` is None."""

    case: str
    metric: str | None
    side: str
    """The side that lacks it."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A comparison of two sides; those that differ come first, the larger the earlier."""

    baseline: Side
    candidate: Side
    compared: tuple[Compared, ...]
    missing: tuple[Missing, ...]
    unlike: tuple[str, ...]
    """What is different about the machines, if they are of different kinds."""

    def geometric_means(self) -> dict[str, float]:
        """For each metric the mean ratio over all cases, of ratios that there are."""
        logs: dict[str, list[float]] = {}
        for one in self.compared:
            if 0 < one.comparison.ratio < math.inf:
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
    def exit_code(self) -> int:
        return 1 if self.is_worse else 2 if self.is_disturbed else 0


class _Values(NamedTuple):
    direction: Direction | None
    starts: list[list[float]]
    records: list[Record]

    def undisturbed(self) -> "_Values":
        """Without the records of disturbed runs, if there are others."""
        kept = [place for place, record in enumerate(self.records) if not record.disturbance]
        if not kept:
            return self
        return _Values(
            self.direction, [self.starts[place] for place in kept], [self.records[place] for place in kept]
        )


def compare_sides(
    baseline: Side,
    candidate: Side,
    *,
    cases: Any = None,
    metrics: Any = None,
    anyway: bool = False,
) -> Outcome:
    """Compare what both have; unlike machines are an error unless it is done anyway or they are what is compared.

    `cases` and `metrics` are functions that say whether a name is wanted.
    """
    baseline, candidate, unlike = _on_like_machines(baseline, candidate, anyway=anyway)
    strangers: list[Missing] = []
    if not unlike and not anyway:
        baseline, candidate, strangers = _case_by_case(baseline, candidate, cases)
    old, new = (_values(side, cases, metrics) for side in (baseline, candidate))
    compared = [_compared(key, old[key], new[key]) for key in old if key in new]
    compared = [_questioned(one, (baseline, old[one.key]), (candidate, new[one.key])) for one in compared]
    decided = ("worse", "better", "question")
    order = sorted(compared, key=lambda one: (one.word not in decided, -one.size, one.key))
    return Outcome(
        baseline=baseline,
        candidate=candidate,
        compared=tuple(order),
        missing=(*strangers, *_missing(baseline, candidate, old, new)),
        unlike=unlike,
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
            f"{a.name} and {b.name} ran on unlike machines ({'; '.join(unlike)}): --anyway compares them all the same"
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
            if one.environment_class and one.record.status in _MEASURED:
                counts[_case_key(one.record)][place][one.environment_class] += 1
    chosen: dict[CaseKey, str] = {}
    strangers = []
    for key, (old, new) in counts.items():
        common = sorted(old.keys() & new.keys(), key=lambda name: (-min(old[name], new[name]), name))
        if common:
            chosen[key] = common[0]
        elif old and new:
            chosen[key] = ""
            if not wanted or wanted(key[0]):
                why = "ran on machines of another class; --anyway compares them"
                strangers.append(Missing(case=key[0], metric=None, side=b.name, why=why))

    def kept(side: Side) -> Side:
        def fits(one: Measured) -> bool:
            key = _case_key(one.record)
            return key not in chosen or (one.environment_class in ("", chosen[key]) and chosen[key] != "")

        return replace(side, measured=tuple(one for one in side.measured if fits(one)))

    return kept(a), kept(b), strangers


def _case_key(record: Record) -> CaseKey:
    return record.case.key, record.case.variant or "", record.case.version


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
        if record.status not in _MEASURED or (cases and not cases(record.case.key)):
            continue
        for name, measurement in record.metrics.items():
            samples = _samples(measurement)
            if measurement.direction is None or not samples or (metrics and not metrics(name)):
                continue
            case = record.case
            key = MetricKey(case.key, case.variant or "", case.version, name, measurement.unit or "")
            values = found.setdefault(key, _Values(measurement.direction, [], []))
            values.starts.append(samples)
            values.records.append(record)
    return found


def _samples(measurement: Measurement) -> list[float]:
    """The samples that are finite numbers, or the value where only that was kept."""
    given = measurement.samples or (measurement.value,)
    return [float(value) for value in given if is_finite(value)]


def _compared(key: MetricKey, old: _Values, new: _Values) -> Compared:
    direction = old.direction or new.direction
    assert direction is not None
    reason = ""
    if not is_steady(key.metric, key.unit or None):
        old, new = old.undisturbed(), new.undisturbed()
        disturbed = [(name, side.records[0].disturbance) for name, side in (("A", old), ("B", new))]
        reason = "; ".join(f"{name} was disturbed: {text}" for name, text in disturbed if text)
    flat = (
        [value for start in old.starts for value in start],
        [value for start in new.starts for value in start],
    )
    by_start = min(len(old.starts), len(new.starts)) >= FEWEST_STARTS
    higher = direction == "higher"
    comparison = (
        compare(old.starts, new.starts, higher_is_better=higher)
        if by_start
        else compare(flat[0], flat[1], higher_is_better=higher)
    )
    if reason:
        comparison = replace(comparison, verdict="inconclusive")
    return Compared(
        key=key,
        direction=direction,
        reason=reason,
        comparison=comparison,
        baseline=median(flat[0]),
        candidate=median(flat[1]),
        samples=(len(flat[0]), len(flat[1])),
    )


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
    a: Side,
    b: Side,
    old: Mapping[MetricKey, _Values],
    new: Mapping[MetricKey, _Values],
) -> Iterator[Missing]:
    for side, has, lacks in ((b, old, new), (a, new, old)):
        known = {key[:3] for key in lacks}
        gone = sorted({key[:3] for key in has} - known)
        for case in gone:
            yield Missing(case=case[0], metric=None, side=side.name, why=_why(side, case))
        for key in sorted(has):
            if key not in lacks and key[:3] in known:
                yield Missing(case=key.case, metric=key.metric, side=side.name)


def _why(side: Side, case: Sequence[str]) -> str:
    """How the case ended on the side that has no numbers of it."""
    for one in side.measured:
        record = one.record
        if (record.case.key, record.case.variant or "", record.case.version) == tuple(case):
            return record.status.value.replace("_", " ")
    return ""

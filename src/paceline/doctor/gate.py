"""Whether the gates turn red: the newest records, made worse on purpose in a copy, go through the real judgements."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from paceline.errors import PacelineError
from paceline.findings.comparing import MARGIN, Compared, Outcome, compare_sides
from paceline.findings.segments import Baselines, read_baselines
from paceline.findings.sides import Side
from paceline.history import Store
from paceline.judge.requirements import NO_BASELINE, check
from paceline.metrics import KNOWN
from paceline.model import Measurement, Record, Requirement, Status, is_finite
from paceline.numbers import change, count, percent
from paceline.report.format import visible

WORSE = 0.1
"""How much worse things are made: a gate that lets this pass is none."""
CLOCK = "exec_time_s"
_MORE = 1.02
"""How far beyond a bound that allows more than that."""

Delayed = Callable[[str, float], Side]
"""Runs a case of the suite with a delay of so many seconds, and hands back what it measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate, and whether it turned red when things were made worse; None if that could not be tried."""

    name: str
    is_red: bool | None
    text: str


def check_gates(
    side: Side, store: Store | None, delayed: Delayed | None, margin: float = MARGIN
) -> list[Gate]:
    """Try all gates that stand before a session; `delayed` is None where no suite is at hand that could be run."""
    records = [one.record for one in side.measured if one.record.status is Status.PASSED]
    if not any(_scaled(record, WORSE)[1] for record in records):
        raise PacelineError(f"nothing was checked: {side.about} has no passed case with a number to judge")
    found = [_check_compare(side, store, margin)]
    clock = _timed_only(records)
    if clock is not None and delayed is None:
        found.append(
            Gate(name="compare, real delay", is_red=None, text="no paceline.yaml here that could be run")
        )
    elif clock is not None and delayed is not None:
        found.append(_check_delay(side, clock, store, delayed, margin))
    found += _check_requirements(side, store)
    return found


def _scaled(record: Record, by: float) -> tuple[Record, int]:
    """A copy of a record whose judged numbers are worse, and how many these are."""
    factors = {"lower": 1 + by, "higher": 1 / (1 + by)}

    def worse(one: Measurement) -> Measurement:
        factor = factors[one.direction or "lower"]
        value = one.value * factor if is_finite(one.value) else one.value  # type: ignore[operator]
        samples = tuple(sample * factor if is_finite(sample) else sample for sample in one.samples)  # type: ignore[operator]
        return replace(one, value=value, samples=samples)

    judged = {
        name: worse(one) for name, one in record.metrics.items() if one.direction and is_finite(one.value)
    }
    return replace(record, session=f"{record.session} made worse", metrics={**record.metrics, **judged}), len(
        judged
    )


def _check_compare(side: Side, store: Store | None, margin: float) -> Gate:
    worse = tuple(replace(one, record=_scaled(one.record, WORSE)[0]) for one in side.measured)
    found = compare_sides(
        side, replace(side, name="made worse", measured=worse), margin=margin, history=store
    )
    words = Counter(one.word for one in found.compared)
    cases = len({one.key.case for one in found.compared})
    numbers = f"{count(len(found.compared), 'number')} of {count(cases, 'case')}"
    text = f"{change(WORSE)} on {numbers}: {words['worse']:,} worse"
    alone = sum(one.comparison.minimum_detectable <= WORSE for one in found.compared)
    text += f", {alone:,} would be seen alone"
    if not found.is_worse:
        text += f"; {_blind(found)}"
    return Gate(name="compare", is_red=found.exit_code == 1, text=text)


def _blind(found: Outcome) -> str:
    """Why a comparison does not see what is there."""
    if any(one.between == "assumed" for one in found.compared):
        return "the noise is not known: use 'repeat', or run some nights more"
    best = min((one.comparison.minimum_detectable for one in found.compared), default=0.0)
    return f"the numbers are too noisy: {percent(best)} would be seen at best; more samples tell more"


def _timed_only(records: list[Record]) -> Record | None:
    """The quickest case that is judged by its time alone: it has no number of its own, or a bound on its time."""

    def is_timed(record: Record) -> bool:
        own = any(one.direction and name not in KNOWN for name, one in record.metrics.items())
        return CLOCK in record.metrics and (not own or any(one.metric == CLOCK for one in _bounds(record)))

    timed = [record for record in records if record.case.kind == "entry" and is_timed(record)]
    return min(timed, key=lambda record: record.exec_time_s, default=None)


def _check_delay(side: Side, record: Record, store: Store | None, delayed: Delayed, margin: float) -> Gate:
    """A run that really takes longer, against the one that did not."""
    name, key = "compare, real delay", record.case.key
    seconds = WORSE * record.exec_time_s
    after = delayed(record.case.name, seconds)
    found = compare_sides(
        side, after, cases=key.__eq__, metrics=CLOCK.__eq__, anyway=True, margin=margin, history=store
    )
    told: Compared | None = next(iter(found.compared), None)
    if told is None:
        return Gate(name=name, is_red=False, text=visible(f"{key} gave no time when it was run again"))
    seen = f"{change(told.comparison.ratio - 1)}, {told.word}"
    text = f"{CLOCK} of {key} with a delay of {1000 * seconds:,.0f} ms: {seen}"
    text += "" if told.word == "worse" else f"; {told.reason or _blind(found)}"
    return Gate(name=name, is_red=found.is_worse, text=visible(text))


def _check_requirements(side: Side, store: Store | None) -> Iterator[Gate]:
    """Each bound on how much a metric may get worse, with a value just beyond what it allows."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    relative = [
        (one.environment_class, one.record, bound)
        for one in side.measured
        for bound in _bounds(one.record)
        if bound.kind == "max_regression"
    ]
    for _, record, bound in relative:
        wanted[record.case.key].add(bound.metric)
    levels = read_baselines(store, wanted, but="") if store is not None and wanted else {}
    yield from (_check_requirement(name, record, bound, levels) for name, record, bound in relative)


def _bounds(record: Record) -> Iterator[Requirement]:
    """The requirements of a record's case; the history keeps them as what was checked."""
    if record.case.requirements:
        yield from record.case.requirements
        return
    for one in record.requirements:
        yield Requirement(metric=one.metric, kind=one.kind, bound=one.bound, severity=one.severity)


def _check_requirement(class_id: str, record: Record, bound: Requirement, levels: Baselines) -> Gate:
    case = record.case
    known = levels.get((case.key, case.variant or "", case.version, class_id), {})
    level = known.get(bound.metric, NO_BASELINE)
    measured = record.metrics.get(bound.metric)
    allowed = float(bound.bound) + bound.tolerance if isinstance(bound.bound, int | float) else 0.0
    by = WORSE if allowed < WORSE else allowed * _MORE
    told = {}
    if measured is not None:
        value = level.level * (1 + by if measured.direction != "higher" else 1 - by)
        told = {bound.metric: replace(measured, value=value)}
    (found,) = check([bound], told, {bound.metric: level})
    is_red = found.judged and not found.ok and found.severity == "fail"
    why = "" if is_red else " (it only warns)" if found.judged and not found.ok else f" ({found.reason})"
    text = f"{case.name} {bound.metric} made {percent(by)} worse, {percent(allowed)} allowed{why}"
    return Gate(name="max_regression", is_red=is_red, text=visible(text))

"""Requirements: bounds on single metrics of one record."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from paceline.metrics import is_steady
from paceline.model import (
    Check,
    CheckKind,
    Direction,
    Measurement,
    Record,
    Requirement,
    Scalar,
    Status,
    is_number,
)
from paceline.numbers import number, percent, quantity

_REASONS_SHOWN = 5
_PHRASES = {"exact_value": "exactly", "min_value": "at least", "max_value": "at most"}


class Baseline(NamedTuple):
    """The level that a metric had so far, and of how many results that is known."""

    level: float
    results: int
    elsewhere: int = 0
    """Results on machines of other classes, which nothing is held against."""


DISTURBED = "the run was disturbed"
BEYOND_BELIEF = 20.0
"""From this factor on a program does something else rather than the same thing faster."""
QUESTION = "did it still do the work?"
NO_BASELINE = Baseline(level=0.0, results=0)

FEWEST_RESULTS = 3
"""Below this many, a level is hardly known, and nothing is held against it."""


def judge(record: Record, baselines: Mapping[str, Baseline] | None = None) -> Record:
    """Hold a passed record against its case's requirements; any other record is returned as it is.

    `baselines` has the level that each metric had before, for requirements that are relative to it.
    """
    if record.status is not Status.PASSED:
        return record
    checks = check(record.case.requirements, _measured(record), baselines or {}, record.disturbance)
    failed = [item.reason for item in checks if not item.ok and item.severity == "fail"]
    warned = [item.reason for item in checks if not item.ok and item.severity == "warn"]
    judged = replace(record, requirements=checks, warnings=(*record.warnings, *warned))
    if not failed:
        return judged
    return replace(judged, status=Status.REQUIREMENT_FAILED, reason=_joined(failed))


def check(
    requirements: Sequence[Requirement],
    metrics: Mapping[str, Measurement],
    baselines: Mapping[str, Baseline] | None = None,
    disturbance: str = "",
) -> tuple[Check, ...]:
    """Hold each requirement against the metric it names; what is not there, or not a number, does not meet it.

    What was measured while others disturbed it is not held against the history. A bound that the suite itself gives
    holds all the same.
    """
    known = baselines or {}
    return tuple(
        _check_regression(one, metrics.get(one.metric), known.get(one.metric), disturbance)
        if one.kind == "max_regression"
        else _check(one, metrics.get(one.metric))
        for one in requirements
    )


def is_beyond_belief(metric: str, ratio: float, direction: Direction) -> bool:
    """Whether new over old is an improvement by a factor that no change of a program explains.

    CPU times are counted in ticks, of which a short run may have none.
    """
    if metric in ("cpu_user_s", "cpu_system_s"):
        return False
    return ratio >= BEYOND_BELIEF if direction == "higher" else ratio <= 1 / BEYOND_BELIEF


def why_inconclusive(checks: Sequence[Check]) -> str:
    """Why nothing can be said of checks against the history: all that could be judged was disturbed; else empty."""
    disturbed = [one for one in checks if not one.judged and DISTURBED in one.reason]
    if not disturbed or any(one.judged for one in checks):
        return ""
    return f"nothing could be judged: {disturbed[0].reason}"


def _measured(record: Record) -> dict[str, Measurement]:
    """The record's metrics, and what else a requirement may name unless the script used the name itself."""
    return {
        "exit_code": Measurement(value=record.returncode),
        "returncode": Measurement(value=record.returncode),
        "exec_time_s": Measurement(value=record.exec_time_s, unit="s"),
        **record.metrics,
    }


def _joined(reasons: Sequence[str]) -> str:
    more = len(reasons) - _REASONS_SHOWN
    return "; ".join([*reasons[:_REASONS_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _check(requirement: Requirement, measurement: Measurement | None) -> Check:
    actual = measurement.value if measurement is not None else None
    wrong = "is missing" if measurement is None else _unfit(requirement, actual)
    ok = not wrong and _is_met(requirement, actual)
    return Check(
        metric=requirement.metric,
        kind=requirement.kind,
        bound=requirement.bound,
        actual=actual,
        margin=None if wrong else _margin(requirement, actual, ok),
        ok=ok,
        severity=requirement.severity,
        reason="" if ok else _reason(requirement, actual, wrong, measurement.unit if measurement else None),
    )


def _check_regression(
    requirement: Requirement,
    measurement: Measurement | None,
    baseline: Baseline | None,
    disturbance: str,
) -> Check:
    """A bound against the history; where there is none, nothing fails, and the check says that it was not judged."""
    actual = measurement.value if measurement is not None else None
    loss, reason = _loss(requirement, measurement, baseline)
    if (
        disturbance
        and math.isfinite(loss)
        and measurement
        and not is_steady(requirement.metric, measurement.unit)
    ):
        loss, reason = -math.inf, f"{reason}, and {DISTURBED}: {disturbance}"
    elif measurement and baseline and _is_doubtful(requirement.metric, measurement, baseline, loss):
        loss, reason = -math.inf, f"{reason}: {QUESTION}"
    allowed = _float(requirement.bound) + requirement.tolerance if is_number(requirement.bound) else 0.0
    ok = loss <= allowed
    return Check(
        metric=requirement.metric,
        kind=requirement.kind,
        bound=requirement.bound,
        actual=actual,
        margin=None if math.isinf(loss) else allowed - loss,
        ok=ok,
        severity=requirement.severity,
        reason=reason if ok or math.isinf(loss) else f"{reason}; at most {percent(allowed)} are allowed",
        judged=loss != -math.inf,
    )


def _loss(
    requirement: Requirement, measurement: Measurement | None, baseline: Baseline | None
) -> tuple[float, str]:
    """How much worse the value is than the baseline (infinite: cannot be said; -infinite: nothing to say), and why."""
    name, value = requirement.metric, measurement.value if measurement is not None else None
    if measurement is None or not is_number(value) or value != value:
        wrong = "is missing" if measurement is None else f"is {_shown(value)}, no number,"
        return math.inf, f"{name} {wrong} and must not get worse"
    if measurement.direction is None:
        return math.inf, f"{name} has no direction, so nothing is worse: use min_value or max_value"
    if baseline is None or baseline.results < FEWEST_RESULTS:
        return -math.inf, f"{name} has {_too_few(baseline or NO_BASELINE)}"
    change = (_float(value) - baseline.level) / (abs(baseline.level) or 1.0)
    word = "lower" if change < 0 else "higher"
    unit = measurement.unit
    shown, level = _shown(value, name, unit), _shown(baseline.level, name, unit)
    told = f"{name} is {shown}, {percent(abs(change))} {word} than its level {level}"
    return (change if measurement.direction == "lower" else -change), told


def _is_doubtful(metric: str, measurement: Measurement, baseline: Baseline, loss: float) -> bool:
    value, direction = measurement.value, measurement.direction
    if (
        not math.isfinite(loss)
        or loss >= 0
        or not baseline.level
        or direction is None
        or not is_number(value)
    ):
        return False
    return is_beyond_belief(metric, _float(value) / baseline.level, direction)


def _too_few(baseline: Baseline) -> str:
    """What there is to hold a result against, if that is not enough."""
    count = baseline.results
    here = f"{count or 'no'} earlier result{'' if count == 1 else 's'}"
    if baseline.elsewhere:
        here += f" on machines of this class ({baseline.elsewhere:,} on others)"
    return f"{here}, and {FEWEST_RESULTS} are needed to hold one against"


def _unfit(requirement: Requirement, actual: Scalar) -> str | None:
    """Why the value cannot be compared with the bound at all, if it cannot."""
    bound = requirement.bound
    if actual is None:
        return "has no value"
    if is_number(actual) and is_number(bound):
        return "is not a number (NaN)" if actual != actual or bound != bound else None
    if requirement.kind != "exact_value" or type(actual) is not type(bound):
        return f"is {_shown(actual)}, {_kind(actual)},"
    return None


def _is_met(requirement: Requirement, actual: Scalar) -> bool:
    bound = requirement.bound
    if not is_number(actual) or not is_number(bound):
        return actual == bound
    slack = _slack(requirement)
    # Without a tolerance the numbers are compared as they are: as floats, large integers would lose digits.
    low, high = (_float(bound) - slack, _float(bound) + slack) if slack else (bound, bound)
    if requirement.kind == "min_value":
        return actual >= low
    if requirement.kind == "max_value":
        return actual <= high
    return low <= actual <= high


def _slack(requirement: Requirement) -> float:
    """How far past the bound a value may lie."""
    bound = requirement.bound
    if not is_number(bound) or not requirement.tolerance or math.isinf(_float(bound)):
        return 0.0
    return requirement.tolerance * abs(_float(bound))


def _margin(requirement: Requirement, actual: Scalar, ok: bool) -> float | None:
    """How far the value lies inside the widened bound, as a share of the bound (of one, if the bound is 0)."""
    bound = requirement.bound
    if not is_number(actual) or not is_number(bound):
        return None
    inside = _slack(requirement) + _past(requirement.kind, actual, bound)
    margin = inside / (abs(_float(bound)) or 1.0)
    if margin != margin:
        margin = 0.0 if ok else -math.inf
    # Rounding must not turn the sign against the outcome.
    return max(margin, 0.0) if ok else min(margin, 0.0)


def _past(kind: CheckKind, actual: float, bound: float) -> float:
    """How far the value lies on the good side of the bound itself."""
    if actual == bound:
        return 0.0
    difference = _float(actual) - _float(bound)
    if kind == "exact_value":
        return -abs(difference)
    return difference if kind == "min_value" else -difference


def _reason(requirement: Requirement, actual: Scalar, wrong: str | None, unit: str | None) -> str:
    if _are_close(actual, requirement.bound):
        unit = None  # all digits count
    shown, bound = (_shown(value, requirement.metric, unit) for value in (actual, requirement.bound))
    if shown == bound:
        # Too close for the short form to show the difference.
        shown, bound = repr(actual), repr(requirement.bound)
    must = f"must be {_PHRASES[requirement.kind]} {bound}"
    if wrong:
        return f"{requirement.metric} {wrong} but {must}"
    notes = [text for text in (_tolerance_note(requirement), _distance_note(requirement, actual)) if text]
    return f"{requirement.metric} is {shown} but {must}" + (f" ({', '.join(notes)})" if notes else "")


def _tolerance_note(requirement: Requirement) -> str:
    return f"tolerance {percent(requirement.tolerance)}" if _slack(requirement) else ""


def _distance_note(requirement: Requirement, actual: Scalar) -> str:
    bound = requirement.bound
    if not is_number(actual) or not is_number(bound):
        return ""
    share = abs(_past(requirement.kind, actual, bound)) / (abs(_float(bound)) or math.inf)
    word = {"min_value": "short", "max_value": "over", "exact_value": "off"}[requirement.kind]
    return f"{percent(share)} {word}" if 0 < share < 1e4 else ""


def _float(number: float) -> float:
    """The number as a float; integers that are too large for one become infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _kind(value: Scalar) -> str:
    return "a flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "a number"


def _are_close(one: Scalar, other: Scalar) -> bool:
    return is_number(one) and is_number(other) and math.isclose(_float(one), _float(other), rel_tol=0.01)


def _shown(value: Scalar, metric: str = "", unit: str | None = None) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else f"{value[:79]}…")
    # A metric such as words_per_s says its unit itself.
    return quantity(value, unit) if unit and "_per_" not in metric else number(value, 6)

"""Requirements: bounds on single metrics of one record."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.model import Check, Measurement, Record, Requirement, Scalar, Status

_REASONS_SHOWN = 5
_PHRASES = {"exact_value": "exactly", "min_value": "at least", "max_value": "at most"}


def judge(record: Record) -> Record:
    """Hold a passed record against its case's requirements; any other record is returned as it is."""
    if record.status is not Status.PASSED:
        return record
    checks = check(record.case.requirements, _measured(record))
    failed = [item.reason for item in checks if not item.ok and item.severity == "fail"]
    warned = [item.reason for item in checks if not item.ok and item.severity == "warn"]
    judged = replace(record, requirements=checks, warnings=(*record.warnings, *warned))
    if not failed:
        return judged
    return replace(judged, status=Status.REQUIREMENT_FAILED, reason=_joined(failed))


def check(requirements: Sequence[Requirement], metrics: Mapping[str, Measurement]) -> tuple[Check, ...]:
    """Hold each requirement against the metric it names; what is not there, or not a number, does not meet it."""
    return tuple(_check(requirement, metrics.get(requirement.metric)) for requirement in requirements)


def _measured(record: Record) -> dict[str, Measurement]:
    """The record's metrics, and what else a requirement may name unless the script used the name itself."""
    return {
        "exit_code": Measurement(value=record.returncode),
        "returncode": Measurement(value=record.returncode),
        "exec_time_s": Measurement(value=record.exec_time_s),
        **record.metrics,
    }


def _joined(reasons: Sequence[str]) -> str:
    more = len(reasons) - _REASONS_SHOWN
    return "; ".join([*reasons[:_REASONS_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _check(requirement: Requirement, measurement: Measurement | None) -> Check:
    actual = measurement.value if measurement is not None else None
    wrong = "is missing" if measurement is None else _unfit(requirement, actual)
    distance = None if wrong else _distance_inside(requirement, actual)
    ok = not wrong and _is_met(requirement, actual)
    return Check(
        metric=requirement.metric,
        kind=requirement.kind,
        bound=requirement.bound,
        actual=actual,
        margin=_agreeing(distance, ok),
        ok=ok,
        severity=requirement.severity,
        reason="" if ok else _reason(requirement, actual, wrong, distance),
    )


def _unfit(requirement: Requirement, actual: Scalar) -> str | None:
    """Why the value cannot be compared with the bound at all, if it cannot."""
    bound = requirement.bound
    if actual is None:
        return "has no value"
    if _is_number(bound) and _is_number(actual):
        return f"is {_shown(actual)}" if _is_nan(actual) or _is_nan(bound) else None
    if requirement.kind != "exact_value" or type(actual) is not type(bound):
        return f"is {_shown(actual)} ({_kind(actual)})"
    return None


def _is_met(requirement: Requirement, actual: Scalar) -> bool:
    bound = requirement.bound
    if not _is_number(bound) or not _is_number(actual):
        return actual == bound
    slack = requirement.tolerance * abs(_float(bound)) if requirement.tolerance else 0
    if requirement.kind == "min_value":
        return actual >= (bound - slack if slack else bound)
    if requirement.kind == "max_value":
        return actual <= (bound + slack if slack else bound)
    return actual == bound or (bool(slack) and abs(_float(actual) - _float(bound)) <= slack)

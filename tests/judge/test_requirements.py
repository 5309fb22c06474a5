"""Bounds held against what was measured."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.judge.requirements import check, judge
from paceline.model import Case, Check, CheckKind, Measurement, Record, Requirement, Scalar, Status

KINDS: tuple[CheckKind, ...] = ("exact_value", "min_value", "max_value")


def one(kind: CheckKind, bound: Any, actual: Any, tolerance: float = 0.0) -> Check:
    requirement = Requirement(metric="m", kind=kind, bound=bound, tolerance=tolerance)
    [result] = check([requirement], {"m": Measurement(value=actual)})
    return result


def record_of(*requirements: Requirement, **fields: Any) -> Record:
    case = Case(name="c", entry="c", key="c", requirements=requirements)
    return Record(
        **{"session": "s", "case": case, "attempt": 1, "status": Status.PASSED, "returncode": 0, **fields}
    )


@pytest.mark.parametrize(
    ("kind", "bound", "actual", "tolerance", "ok", "margin"),
    [
        ("min_value", 100, 110, 0.0, True, 0.1),
        ("min_value", 100, 100, 0.0, True, 0.0),
        ("min_value", 100, 90, 0.0, False, -0.1),
        ("min_value", 100, 95, 0.05, True, 0.0),
        ("min_value", 100, 94, 0.05, False, -0.01),
        ("min_value", -100, -104, 0.05, True, 0.01),
        ("max_value", 10, 8, 0.0, True, 0.2),
        ("max_value", 10, 12.5, 0.0, False, -0.25),
        ("max_value", 10, 10.5, 0.1, True, 0.05),
        ("max_value", 0, -2, 0.0, True, 2.0),
        ("max_value", 0, 3, 0.5, False, -3.0),
        ("exact_value", 5, 5, 0.0, True, 0.0),
        ("exact_value", 5, 5.0, 0.0, True, 0.0),
        ("exact_value", 5, 6, 0.0, False, -0.2),
        ("exact_value", 100, 97, 0.05, True, 0.02),
        ("exact_value", 100, 106, 0.05, False, -0.01),
        ("exact_value", 0, 0, 0.05, True, 0.0),
        ("exact_value", True, True, 0.0, True, None),
        ("exact_value", "xenna", "xenna", 0.0, True, None),
        ("exact_value", "xenna", "ray", 0.0, False, None),
        ("exact_value", True, False, 0.0, False, None),
        ("min_value", 1, math.inf, 0.0, True, math.inf),
        ("max_value", math.inf, 5, 0.5, True, 0.0),
        ("exact_value", 10**30, 10**30 + 1, 0.0, False, 0.0),
        ("min_value", 10**400, 10**400 + 1, 0.1, True, 0.0),
    ],
)
def test_outcome_and_margin(
    kind: CheckKind, bound: Any, actual: Any, tolerance: float, ok: bool, margin: float | None
) -> None:
    result = one(kind, bound, actual, tolerance)
    assert result.ok is ok
    assert result.margin == (margin if margin is None else pytest.approx(margin))
    assert (result.bound, result.actual, result.kind) == (bound, actual, kind)
    assert bool(result.reason) is not ok


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("actual", [math.nan, None, "5", "NaN", True, False])
def test_what_is_no_number_never_meets_a_number(kind: CheckKind, actual: Any) -> None:
    for bound in (0, 1, 5, 5.0, -1e9, 1e9):
        result = one(kind, bound, actual, 0.5)
        assert not result.ok
        assert result.margin is None
        assert result.reason.startswith("m ")
        assert "must be" in result.reason


@pytest.mark.parametrize(
    ("bound", "actual"),
    [(True, 1), (1, True), (False, 0), (0, False), (True, "true"), ("1", 1), (5, math.nan)],
)
def test_exact_values_do_not_mix_types(bound: Any, actual: Any) -> None:
    assert not one("exact_value", bound, actual).ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_that_is_not_a_number_is_never_met(kind: CheckKind) -> None:
    assert not one(kind, math.nan, 5.0).ok
    assert not one(kind, None, None).ok


def test_a_missing_metric() -> None:
    [result] = check([Requirement(metric="m", kind="min_value", bound=3)], {})
    assert not result.ok
    assert result.actual is None
    assert result.reason == "m is missing but must be at least 3"


@pytest.mark.parametrize(
    ("kind", "bound", "actual", "tolerance", "reason"),
    [
        ("min_value", 60_000, 55_000, 0.0, "m is 55,000 but must be at least 60,000 (8.33 % short)"),
        ("min_value", 60_000, 55_000.0, 0.0, "m is 55,000 but must be at least 60,000 (8.33 % short)"),
        ("max_value", 10, 12.5, 0.0, "m is 12.5 but must be at most 10 (25 % over)"),
        ("max_value", 10, 12.5, 0.1, "m is 12.5 but must be at most 10 (tolerance 10 %, 25 % over)"),
        ("exact_value", 6, 5, 0.0, "m is 5 but must be exactly 6 (16.7 % off)"),
        ("exact_value", True, False, 0.0, "m is false but must be exactly true"),
        ("exact_value", True, 1, 0.0, "m is 1, a number, but must be exactly true"),
        ("exact_value", 1, True, 0.0, "m is true, a flag, but must be exactly 1"),
        ("exact_value", "a", "b", 0.0, "m is 'b' but must be exactly 'a'"),
        ("min_value", 1, "fast", 0.0, "m is 'fast', text, but must be at least 1"),
        ("min_value", 1, math.nan, 0.0, "m is not a number (NaN) but must be at least 1"),
        ("min_value", 1, None, 0.0, "m has no value but must be at least 1"),
        ("max_value", 0, 3, 0.0, "m is 3 but must be at most 0"),
        ("min_value", 0.5, 0.25, 0.0, "m is 0.25 but must be at least 0.5 (50 % short)"),
        (
            "exact_value",
            0.3,
            0.1 + 0.2,
            0.0,
            "m is 0.30000000000000004 but must be exactly 0.3 (< 0.01 % off)",
        ),
        ("max_value", 1e-6, 2e-6, 0.0, "m is 0.000002 but must be at most 0.000001 (100 % over)"),
        ("max_value", 1, math.inf, 0.0, "m is inf but must be at most 1"),
    ],
)
def test_reasons_have_bound_and_actual(
    kind: CheckKind, bound: Any, actual: Any, tolerance: float, reason: str
) -> None:
    assert one(kind, bound, actual, tolerance).reason == reason


def test_several_requirements_on_one_metric_are_all_kept() -> None:
    both = [
        Requirement(metric="m", kind=kind, bound=bound)
        for kind, bound in (("min_value", 5), ("max_value", 1))
    ]  # type: ignore[arg-type]
    assert [result.ok for result in check(both, {"m": Measurement(value=3)})] == [False, False]


def test_a_failed_requirement_fails_the_record() -> None:
    required = Requirement(metric="rate", kind="min_value", bound=10)
    judged = judge(record_of(required, metrics={"rate": Measurement(value=5)}))
    assert judged.status is Status.REQUIREMENT_FAILED
    assert judged.reason == "rate is 5 but must be at least 10 (50 % short)"
    assert not judged.requirements[0].ok


def test_a_warning_leaves_the_status() -> None:
    required = Requirement(metric="rate", kind="min_value", bound=10, severity="warn")
    judged = judge(record_of(required, metrics={"rate": Measurement(value=5)}, warnings=("before",)))
    assert judged.status is Status.PASSED
    assert judged.reason == ""
    assert judged.warnings == ("before", "rate is 5 but must be at least 10 (50 % short)")
    assert judged.requirements[0].severity == "warn"


def test_all_met() -> None:
    required = Requirement(metric="rate", kind="min_value", bound=10)
    judged = judge(record_of(required, metrics={"rate": Measurement(value=15)}))
    assert judged.status is Status.PASSED
    assert judged.requirements[0].ok
    assert judged.requirements[0].margin == 0.5


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_only_passed_records_are_judged(status: Status) -> None:
    record = record_of(Requirement(metric="m", kind="min_value", bound=1), status=status, reason="why")
    assert judge(record) is record


def test_what_the_runner_knows_can_be_required_too() -> None:
    required = (
        Requirement(metric="exit_code", kind="exact_value", bound=0),
        Requirement(metric="returncode", kind="exact_value", bound=0),
        Requirement(metric="exec_time_s", kind="max_value", bound=100),
    )
    assert judge(record_of(*required, exec_time_s=5.0)).status is Status.PASSED
    own = {"exec_time_s": Measurement(value=200.0)}
    assert judge(record_of(*required, exec_time_s=5.0, metrics=own)).status is Status.REQUIREMENT_FAILED


def test_many_reasons_are_cut() -> None:
    required = [Requirement(metric=f"m{number}", kind="min_value", bound=1) for number in range(12)]
    judged = judge(record_of(*required))
    assert judged.reason.endswith("; and 7 more")
    assert len(judged.requirements) == 12


numbers = st.integers() | st.floats(allow_nan=False)
scalars: st.SearchStrategy[Scalar] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
)
tolerances = st.floats(0, 1)


@given(st.sampled_from(KINDS), scalars, scalars, tolerances)
def test_no_value_is_an_error(kind: CheckKind, bound: Scalar, actual: Scalar, tolerance: float) -> None:
    result = one(kind, bound, actual, tolerance)
    assert isinstance(result.ok, bool)
    assert bool(result.reason) is not result.ok
    if result.margin is not None:
        assert result.margin >= 0 if result.ok else result.margin <= 0


@given(numbers, numbers)
def test_without_a_tolerance_it_is_the_plain_comparison(bound: float, actual: float) -> None:
    assert one("min_value", bound, actual).ok is (actual >= bound)
    assert one("max_value", bound, actual).ok is (actual <= bound)
    assert one("exact_value", bound, actual).ok is (actual == bound)


@given(numbers, numbers, numbers, tolerances)
def test_more_is_never_worse_for_a_floor_nor_better_for_a_ceiling(
    bound: float, one_value: float, other: float, tolerance: float
) -> None:
    low, high = sorted((one_value, other))
    assert one("min_value", bound, high, tolerance).ok or not one("min_value", bound, low, tolerance).ok
    assert one("max_value", bound, low, tolerance).ok or not one("max_value", bound, high, tolerance).ok


@given(st.sampled_from(KINDS), numbers, numbers, tolerances, tolerances)
def test_more_tolerance_never_fails_what_less_allows(
    kind: CheckKind, bound: float, actual: float, less: float, more: float
) -> None:
    less, more = sorted((less, more))
    assert one(kind, bound, actual, more).ok or not one(kind, bound, actual, less).ok

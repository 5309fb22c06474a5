"""The final table of a session and the line that sums it up."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.judge.requirements import judge
from paceline.metrics import describe
from paceline.model import Check, Measurement, Record, Requirement, Scalar, Status
from paceline.report.cases import MOST_FAILURES, MOST_ROWS, key_metrics, make_table, plain_lines, summary
from paceline.report.format import checked
from report.reports import MISSED, make_case, make_record, make_report


def test_lines_up_and_shows_what_failed() -> None:
    records = [
        make_record(
            "alm",
            exec_time_s=3.25,
            metrics={
                "items_per_s": Measurement(
                    value=1234.5, unit=None, direction="higher", samples=(1200.0, 1269.0)
                ),
                "cpu_user_s": Measurement(value=1.0, unit="s", direction="lower"),
                "note": Measurement(value=7),
            },
        ),
        make_record("名前", Status.REQUIREMENT_FAILED, exec_time_s=70, reason="…", requirements=(MISSED,)),
    ]
    lines = list(plain_lines(make_table(make_report(records))))
    assert lines == [
        "case  status              time    metrics",
        "alm   passed              3.25 s  items_per_s 1,230 ±4.0 % ↑  note 7",
        "名前  requirement_failed  70 s",
        "    windows ≥ 100: got 50",
        "± is the standard deviation of a case's samples, as a share of their mean",
    ]


def test_shows_failures_first_when_there_are_many() -> None:
    records = [make_record(f"p{i}") for i in range(300)]
    records[250:250] = [make_record(f"f{i}", Status.FAILED, reason="exit code 1") for i in range(3)]
    table = make_table(make_report(records))
    assert [row.case for row in table.rows[:4]] == ["f0", "f1", "f2", "p0"]
    assert len(table.rows) == MOST_ROWS
    assert list(plain_lines(table))[-1] == f"… and {300 - (MOST_ROWS - 3)} more passed"


def test_caps_failures_too() -> None:
    table = make_table(make_report([make_record(f"f{i}", Status.TIMEOUT) for i in range(1000)]))
    assert len(table.rows) == MOST_FAILURES
    assert table.footnotes == ("… and 800 more failed",)


def test_reads_each_record_once() -> None:
    class Once(list[Record]):
        reads = 0

        def __iter__(self) -> Iterator[Record]:
            Once.reads += 1
            return super().__iter__()

    report = make_report([make_record(f"p{i}") for i in range(60)])
    make_table(replace(report, records=Once(report.records)))
    assert Once.reads == 1


def test_warn_requirements_are_marked() -> None:
    check = Check(metric="m", kind="max_value", bound=1, actual=2, margin=-1, ok=False, severity="warn")
    table = make_table(make_report([make_record("a", requirements=(check,))]))
    assert table.rows[0].complaints == ("warning: m ≤ 1: got 2",)


def test_names_the_reason_where_a_metric_is_missing() -> None:
    check = Check(
        metric="m", kind="max_value", bound=1, actual=None, margin=None, ok=False, reason="not reported"
    )
    table = make_table(make_report([make_record("a", Status.REQUIREMENT_FAILED, requirements=(check,))]))
    assert table.rows[0].complaints == ("m ≤ 1: not reported",)


@pytest.mark.parametrize(
    ("requirement", "actual", "line"),
    [
        (
            Requirement(metric="v", kind="min_value", bound=0),
            "5",
            "v is '5', text, but must be at least 0",
        ),
        (
            Requirement(metric="f", kind="exact_value", bound=0.3),
            0.1 + 0.2,
            "f is 0.30000000000000004 but must be exactly 0.3",
        ),
        (
            Requirement(metric="t", kind="max_value", bound=100, tolerance=0.05),
            110,
            "t is 110 but must be at most 100 (tolerance 5 %, 10 % over)",
        ),
    ],
)
def test_an_unmet_requirement_is_told_in_the_words_of_its_judge(
    requirement: Requirement, actual: Scalar, line: str
) -> None:
    case = make_case("a", requirements=(requirement,))
    measured_one = {requirement.metric: Measurement(value=actual)}
    judged = judge(replace(make_record("a", metrics=measured_one), case=case))
    (complaint,) = make_table(make_report([judged])).rows[0].complaints
    assert complaint.startswith(line)


@pytest.mark.parametrize(
    ("bound", "actual", "tolerance", "line"),
    [
        (0.3, 0.1 + 0.2, 0.0, "m = 0.3: got 0.30000000000000004"),
        (100, 110, 0.05, "m = 100 (tolerance 5 %): got 110"),
        ("5", 5, 0.0, "m = '5': got 5"),
        ("a" * 50, "a" * 51, 0.0, f"m = '{'a' * 50}': got '{'a' * 51}'"),
        (True, "true", 0.0, "m = true: got 'true'"),
    ],
)
def test_without_a_reason_the_values_tell_the_difference(
    bound: Scalar, actual: Scalar, tolerance: float, line: str
) -> None:
    check = Check(metric="m", kind="exact_value", bound=bound, actual=actual, margin=None, ok=False)
    assert checked(check, tolerance) == line


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.sampled_from([None, "s", "bytes"]))
def test_values_that_differ_look_different(bound: float, actual: float, unit: str | None) -> None:
    check = Check(metric="m", kind="exact_value", bound=bound, actual=actual, margin=None, ok=False)
    asked, _, got = checked(check, 0.0, unit).removeprefix("m = ").partition(": got ")
    assert (asked == got) == (bound == actual)


@pytest.mark.parametrize(
    ("own", "required_ones", "shown"),
    [
        (("accepted", "docs_per_s"), (), ["docs_per_s", "accepted", "peak_memory_bytes"]),
        (("accepted", "docs_per_s", "x", "y"), (), ["docs_per_s", "accepted", "x"]),
        (("accepted", "docs_per_s", "x"), ("x", "io_read_bytes"), ["x", "io_read_bytes", "docs_per_s"]),
        ((), (), ["peak_memory_bytes"]),
        (("is_success", "task_a_process_time_mean"), (), ["peak_memory_bytes"]),
    ],
)
def test_metrics_a_reader_looks_for(
    own: Sequence[str], required_ones: Sequence[str], shown: list[str]
) -> None:
    names = ("exec_time_s", "peak_memory_bytes", "io_read_bytes", "load_before", *own)
    metrics = {
        name: Measurement(value=name == "is_success" or 7, direction=describe(name).direction)
        for name in names
    }
    metrics["label"] = Measurement(value="text")
    checks = tuple(
        Check(metric=name, kind="min_value", bound=1, actual=7, margin=6, ok=True) for name in required_ones
    )
    found = key_metrics(make_record("a", metrics=metrics, requirements=checks))
    assert [name for name, _ in found] == shown


def test_summary_tells_how_many_never_began() -> None:
    report = make_report([make_record("a"), make_record("b", Status.INTERRUPTED)], interrupted=True)
    plan = replace(report.plan, cases=(*report.plan.cases, make_case("c")))
    stopped = replace(report, plan=plan)
    assert summary(stopped) == "Interrupted: 1 passed, 1 interrupted, 1 not run of 3 cases"
    assert summary(replace(stopped, counts={})) == "Interrupted: 3 not run of 3 cases"


def test_summary_counts_by_status() -> None:
    records = [
        make_record("a"),
        make_record("b", Status.TIMEOUT),
        make_record("c", Status.REQUIREMENT_FAILED),
    ]
    assert summary(make_report(records), 61) == "1 passed, 1 requirement failed, 1 timeout of 3 cases in 61 s"
    assert summary(make_report(records[:1])) == "1 passed of 1 case"
    assert summary(make_report([], interrupted=True)) == "Interrupted: nothing ran of 0 cases"

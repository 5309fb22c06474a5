"""What is known of metrics by their names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.reference.metrics import render

from paceline.metrics import KNOWN, RULES, ask_for_directions, describe, unheard_of
from paceline.model import Measurement, Metric, as_float

DOCS = Path(__file__).parents[1] / "docs" / "metrics.md"


@pytest.mark.parametrize(
    ("name", "unit", "direction"),
    [
        ("exec_time_s", "s", "lower"),
        ("cpu_user_s", "s", "lower"),
        ("peak_memory_bytes", "bytes", "lower"),
        ("io_read_bytes", "bytes", None),
        ("voluntary_context_switches", None, None),
        ("gpu_mean_utilization_pct", "%", None),
        ("load_before", None, None),
        ("time_taken", "s", "lower"),
        ("time_taken_s", "s", "lower"),
        ("execution_time_s", "s", "lower"),
        ("throughput_mb_s", "MB/s", "higher"),
        ("throughput_entries_per_sec", "entries/s", "higher"),
        ("windows_per_s", "windows/s", "higher"),
        ("rows_processed", None, None),
        ("peak_memory_gb", "GB", "lower"),
        ("num_removed", None, None),
        ("num_output_tasks", None, None),
        ("num_errors", None, None),
        ("total_builder_windows", None, None),
        ("total_filtered_duration_s", "s", None),
        ("total_time_s", "s", "lower"),
        ("is_success", None, None),
        ("latency_p99_ms", "ms", "lower"),
        ("latency_ms_p99", "ms", "lower"),
        ("request_latency", "s", "lower"),
        ("duration", "s", "lower"),
        ("sort_us", "us", "lower"),
        ("sort_seconds", "s", "lower"),
        ("ns_per_op", "ns/op", "lower"),
        ("speedup", None, "higher"),
        ("plan_overhead", None, "lower"),
        ("stub_overhead_ms", "ms", "lower"),
        ("accuracy", None, "higher"),
        ("compression_ratio", None, None),
        ("instructions", None, "lower"),
        ("allocations", None, "lower"),
        ("function_calls", None, "lower"),
        ("calls_per_sec", "calls/s", "higher"),
        ("output_size_bytes", "bytes", "lower"),
        ("input_size_bytes", "bytes", None),
        ("batch_size", None, None),
        ("wheel_size_kb", "kB", "lower"),
        ("peak_allocated_bytes", "bytes", "lower"),
        ("something", None, None),
        ("", None, None),
        ("Time_Taken_S", "s", "lower"),
    ],
)
def test_unit_and_direction(name: str, unit: str | None, direction: str | None) -> None:
    metric = describe(name)
    assert (metric.name, metric.unit, metric.direction) == (name, unit, direction)


@pytest.mark.parametrize(
    ("name", "unit", "direction"),
    [
        ("stage_jsonl_reader_process_time_sum", "s", "lower"),
        ("stage_file_partitioning_process_time_mean", "s", "lower"),
        ("stage_file_partitioning_process_time_std", "s", None),
        ("task_read_process_time_sum", "s", "lower"),
        ("task_read_process_time_mean", "s", "lower"),
        ("task_read_process_time_std", "s", None),
        ("task_read_actor_idle_time_mean", "s", None),
        ("task_read_input_data_size_mb_sum", "MB", None),
        ("task_read_num_items_processed_sum", None, None),
        ("task_read_custom.tokens_per_sec_mean", "tokens/s", "higher"),
        ("task_read_custom.tokens_per_sec_sum", "tokens/s", None),
        ("task_read_custom.parse_s_sum", "s", "lower"),
        ("task_read_custom.whatever_mean", None, None),
    ],
)
def test_metrics_of_stages(name: str, unit: str | None, direction: str | None) -> None:
    metric = describe(name)
    assert (metric.unit, metric.direction) == (unit, direction)


def test_the_suite_says_what_a_metric_means_then_the_script_then_its_name() -> None:
    said = (Metric(name="frobs", unit="frobs", label="Frobs"), Metric(name="*obs*", direction="higher"))
    assert describe("frobs", None, "lower", said) == Metric(
        name="frobs", unit="frobs", direction="higher", label="Frobs"
    )
    assert describe("time_taken", None, "higher").direction == "higher"
    assert describe("time_taken", said=(Metric(name="time_taken", unit="ms"),)).direction == "lower"


def test_only_what_nobody_knows_is_asked_about() -> None:
    measured = {
        name: Measurement(value=value, direction=describe(name, unit).direction)
        for name, unit, value in (
            ("frobs", None, 3),
            ("sorting", "s", 1.5),
            ("num_rows", None, 7),
            ("is_success", None, True),
            ("text", None, "a"),
            ("seed", None, 1),
        )
    }
    assert list(unheard_of(measured)) == ["frobs", "seed"]
    assert list(unheard_of(measured, (Metric(name="seed"),))) == ["frobs"]
    assert "for a, b, c, d, e and 2 more, so no change" in ask_for_directions("abcdefg")


def test_a_given_unit_wins_and_speaks_for_unknown_names() -> None:
    assert describe("time_taken", "ms").unit == "ms"
    assert describe("sorting", "s").direction == "lower"
    assert describe("sorting", "docs/s").direction == "higher"
    assert describe("sorting", "apples").direction is None
    assert describe("num_audio", "s").direction is None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.note)
def test_every_rule_is_the_first_to_match_its_example(rule: object) -> None:
    assert getattr(rule, "note", None)
    first = next(other for other in RULES if other.match(getattr(rule, "note", "")))
    assert first is rule


@pytest.mark.parametrize("name", KNOWN)
def test_known_names_are_their_own(name: str) -> None:
    assert describe(name).unit == KNOWN[name].unit
    assert describe(name).direction == KNOWN[name].direction


@given(
    st.text() | st.from_regex(r"[a-z_.]{0,40}_(s|ms|mb|per_s|sum|std)", fullmatch=True), st.none() | st.text()
)
def test_any_name_can_be_described(name: str, unit: str | None) -> None:
    metric = describe(name, unit)
    assert metric.name == name
    assert metric.direction in {"lower", "higher", None}


def test_a_name_of_a_megabyte_is_not_searched() -> None:
    assert describe("memory_" * 150_000 + "x").direction is None


def test_the_documentation_is_current() -> None:
    assert DOCS.read_text() == render(), "run: make reference"


def test_flags_and_numbers_are_floats_and_nothing_else_is() -> None:
    assert (as_float(True), as_float(3), as_float(0.5)) == (1.0, 3.0, 0.5)
    assert as_float("3") is as_float(None) is as_float(10**400) is None

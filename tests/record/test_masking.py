import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import example, given, settings

from paceline import metrics
from paceline.cli.schema import json_schema
from paceline.model import RUN_DIR, Check, Measurement, Plan, Report, Status
from paceline.record import masking
from paceline.record.codec import dump, load, plain, to_json
from paceline.record.directory import SessionDir
from paceline.record.environment import capture
from paceline.record.events import EventLog
from paceline.record.files import read_lines
from paceline.record.masking import mask_case, mask_plan, mask_record, mask_result
from paceline.record.redact import MASK, Redactor, is_maskable
from paceline.report.files import JsonWriter, pieces
from record.secret_words import (
    OWN_WORDS,
    PLANTED,
    own_words,
    planted_case,
    planted_plan,
    planted_record,
    planted_result,
    shape_of,
    unmarked,
)

HARMLESS = "u-1"


@contextmanager
def session_with(words: list[str]) -> Iterator[SessionDir]:
    with tempfile.TemporaryDirectory() as where:
        yield SessionDir.create(Plan(session="s1", directory=Path(where) / "s1"), Redactor(words))


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_a_stored_record_is_whole_when_our_words_are_secrets(words: list[str]) -> None:
    record = planted_record(HARMLESS)
    with session_with([*words, PLANTED]) as directory:
        directory.write_record(record)
        stored = load((directory.entry_dir(record.case) / "record.json").read_bytes())
        read = directory.read_record(record.case)
    jsonschema.validate(stored, json_schema("record"))
    assert stored == to_json(record)
    assert read is not None and to_json(read) == to_json(record)


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_a_report_of_masked_records_is_whole(words: list[str]) -> None:
    records = [mask_record(planted_record(HARMLESS), Redactor(words))]
    report = Report(plan=planted_plan(), records=records, counts={Status.REQUIREMENT_FAILED: 1})
    written = load(b"".join(pieces(JsonWriter(report), report.records)))
    jsonschema.validate(written, json_schema("report"))
    assert written["records"] == [to_json(planted_record(HARMLESS))]


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_a_result_line_is_whole_when_our_words_are_secrets(words: list[str]) -> None:
    data = planted_result(HARMLESS)
    with session_with(words) as directory:
        directory.entry_dir(planted_case()).mkdir()
        directory.append_result_line(planted_case(), data)
        stored = load((directory.entry_dir(planted_case()) / "results.jsonl").read_bytes())
    assert stored == plain(data)


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_an_event_is_whole_when_our_words_are_secrets(words: list[str]) -> None:
    own = {
        "case": "name",
        "session": "status",
        "status": Status.PASSED,
        "label": "repeat-1",
        "run_id": "abcd12",
    }
    counts = {Status.PASSED: 2, Status.FAILED: 1}
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "events.jsonl"
        with EventLog(path, Redactor([*words, PLANTED])) as events:
            events.write("case_finished", **own, counts=counts, reason=f"r {PLANTED}")
        (event,) = read_lines(path)
    assert event.pop("time").startswith("20")
    assert event == plain({"event": "case_finished", **own, "counts": counts, "reason": f"r {MASK}"})


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_a_planted_secret_is_gone_whatever_else_is_secret(words: list[str]) -> None:
    redactor = Redactor([*words, PLANTED])
    shown = [
        mask_record(planted_record(), redactor),
        mask_plan(planted_plan(), redactor),
        mask_result(planted_result(), redactor),
    ]
    assert PLANTED not in repr(shown)
    with session_with([*words, PLANTED]) as directory:
        directory.write_record(planted_record())
        directory.append_result_line(planted_case(), planted_result())
        files = [path for path in directory.path.rglob("*") if path.is_file()]
        assert len(files) >= 3 and not any(PLANTED.encode() in path.read_bytes() for path in files)


def test_every_field_that_is_not_ours_is_masked() -> None:
    redactor = Redactor([PLANTED])
    assert unmarked(mask_record(planted_record(), redactor)) == repr(planted_record(MASK))
    expected = replace(planted_plan(MASK), secret_values=())
    assert unmarked(mask_plan(planted_plan(), redactor)) == repr(expected)
    result = mask_result(planted_result(), redactor)
    assert unmarked(result) == repr({**planted_result(MASK), "command": result["command"]})
    assert PLANTED not in result["command"] and MASK in result["command"]


def test_two_metrics_stay_two_when_their_names_hold_secrets() -> None:
    redactor = Redactor(["abcd1234", "zzzz9999"])
    names = ("abcd1234x_s", "zzzz9999x_s", "plain_s")
    metrics = {name: Measurement(value=float(i)) for i, name in enumerate(names)}
    checks = tuple(
        Check(metric=name, kind="max_value", bound=1, actual=0, margin=1, ok=True) for name in names
    )
    masked = mask_record(replace(planted_record(), metrics=metrics, requirements=checks), redactor)
    assert [one.value for one in masked.metrics.values()] == [0, 1, 2]
    assert [check.metric for check in masked.requirements] == list(masked.metrics)
    assert all(name.startswith(MASK) and name.endswith("x_s") for name in list(masked.metrics)[:2])
    result = mask_result({"script_metrics": dict.fromkeys(names, 1), "tasks": []}, redactor)
    assert list(result["script_metrics"]) == list(masked.metrics)


def test_a_masked_case_is_found_where_the_case_is(tmp_path: Path) -> None:
    case = replace(planted_case(), name=f"n {PLANTED}", needs=(f"n {PLANTED}",))
    masked = mask_case(case, Redactor([PLANTED]))
    directory = SessionDir.create(Plan(session="s1", directory=tmp_path / "s1"))
    assert directory.entry_dir(masked) == directory.entry_dir(case)
    assert (masked.key, masked.fingerprint, masked.needs) == (case.key, case.fingerprint, case.needs)


def test_the_mark_of_the_runs_directory_stays() -> None:
    masked = mask_case(planted_case(), Redactor(["run_dir", PLANTED]))
    assert masked.argv[2] == masked.results_path == f"{RUN_DIR}/{MASK}"


def test_nothing_is_copied_where_there_are_no_secrets() -> None:
    record = planted_record()
    assert mask_record(record, Redactor()) is record
    assert mask_case(record.case, Redactor()) is record.case


def test_own_metrics_are_those_we_document() -> None:
    assert frozenset(metrics.KNOWN) == masking.OWN_METRICS
    units = {rule.unit for rule in metrics.KNOWN.values() if rule.unit and is_maskable(rule.unit)}
    redactor = Redactor(units)
    for unit in units:
        record = replace(planted_record(), metrics={"x": Measurement(value=1, unit=unit)})
        assert mask_record(record, redactor).metrics["x"].unit == unit


def test_environment_facts_keep_their_keys_and_hashes(tmp_path: Path) -> None:
    words = ["python", "variables", "machine", "kernel", "command_line", "comparable", "hostname"]
    given_facts: dict[str, Any] = {
        "cwd": tmp_path,
        "environ": {"RAY_URL": f"x {PLANTED}", "CONDA_PREFIX": ""},
        "command_line": ["paceline", PLANTED],
    }
    bare = capture(**given_facts)
    masked = capture(**given_facts, redactor=Redactor([*words, PLANTED]))
    assert shape_of(plain(masked.data)) == shape_of(plain(bare.data))
    assert masked.class_id == bare.class_id
    assert PLANTED.encode() not in dump(masked.data)
    assert masked.data["variables"]["RAY_URL"] == f"x {MASK}"

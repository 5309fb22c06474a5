"""Secrets whose values are words of our own files, and one that is planted wherever a user's text can stand."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from hypothesis import strategies as st

from paceline.model import (
    RUN_DIR,
    Case,
    Check,
    CheckKind,
    Measurement,
    Plan,
    Record,
    Requirement,
    Settings,
    Severity,
    SinkSpec,
    Status,
)
from paceline.plan import plan_json
from paceline.record.codec import result_data, to_json
from paceline.record.redact import is_maskable

PLANTED = "pl4nt3d/v&l"


def planted_case(text: str = PLANTED) -> Case:
    """A case with the text in every field that a user fills and nothing is found by."""
    return Case(
        name="c-1",
        entry="c-1",
        key="c-1",
        fingerprint="f1f2f3",
        params={"x1": text, "x2": 1},
        argv=("x", f"--y={text}", f"{RUN_DIR}/{text}"),
        env={"X1": f"{RUN_DIR}:{text}"},
        cwd=f"/{text}",
        results_path=f"{RUN_DIR}/{text}",
        cluster={"num_cpus": 2, "dashboard_host": text},
        requirements=(
            Requirement(metric=f"m.{text}", kind="exact_value", bound=text, severity="warn"),
            Requirement(metric="exec_time_s", kind="max_value", bound=3.0),
        ),
        tags=(f"t {text}",),
        sink_data={"k1": {"ping": [text], text: 1}},
        blocked=f"b {text}",
    )


def planted_record(text: str = PLANTED) -> Record:
    return Record(
        session="s1",
        case=planted_case(text),
        attempt=2,
        status=Status.REQUIREMENT_FAILED,
        reason=f"r {text}",
        started_at="2025-01-02T03:04:05.678Z",
        exec_time_s=1.5,
        timings_s={"total": 2.0, "run": 1.5},
        returncode=1,
        command=("x", f"--y={text}"),
        metrics={
            "exec_time_s": Measurement(value=1.5, unit="s", direction="lower", samples=(1.0, 2.0)),
            "peak_memory_bytes": Measurement(value=5, unit="bytes", direction="lower"),
            f"m.{text}": Measurement(value=text, unit=text, direction="higher", samples=(text, 1, None)),
        },
        params={f"p {text}": {text: [text, 1.5]}},
        requirements=(
            Check(
                metric=f"m.{text}",
                kind="exact_value",
                bound=text,
                actual=text,
                margin=None,
                ok=False,
                severity="warn",
                reason=f"c {text}",
            ),
        ),
        environment="e1e2e3",
        revision="abcd1234",
        warnings=(f"w {text}",),
        artifacts=("logs/stdout.log", "attempts/repeat-1/logs/stderr.log", f"artifacts/{text}"),
        details={f"d {text}": [text]},
    )


def planted_plan(text: str = PLANTED) -> Plan:
    case = planted_case(text)
    sink = SinkSpec(type="k1", name="k1", options={"q1": text, "q2": {text: [text]}}, blocked=f"b {text}")
    return Plan(
        session="s1",
        directory=Path("d1/s1"),
        setups=(case,),
        cases=(case,),
        sinks=(sink,),
        secret_values=(text,),
        settings=Settings(errors=(f"e {text}",), run_reason=text),
        warnings=(f"w {text}",),
    )


def planted_result(text: str = PLANTED) -> dict[str, Any]:
    stage = {"stage_name": f"g {text}", "process_time": 1.0, "custom_metrics": {text: 2.0}}
    task = {"dataset_name": text, "task_id": text, "stages": [stage]}
    return result_data(planted_record(text), Path("d1/s1/c-1"), [task])


def words_in(value: Any) -> Iterator[str]:
    """All keys of nested data."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from (str(key), *words_in(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from words_in(item)


def shape_of(value: Any) -> Any:
    """Nested data with its keys, and types in place of values."""
    if isinstance(value, Mapping):
        return {key: shape_of(item) for key, item in value.items()}
    return [shape_of(item) for item in value] if isinstance(value, list) else type(value)


def unmarked(value: object) -> str:
    """How something is shown without the marks that keep masked names apart."""
    return re.sub(r"(?<=\*\*\*)[0-9a-f]{8}", "", repr(value))


_DOCUMENTS = [to_json(planted_record("u")), plan_json(planted_plan("u")), planted_result("u")]
_ENUMS = ("lower", "higher", "entry", *Status, *get_args(CheckKind), *get_args(Severity))
_OTHERS = ("run_dir", "logs", "stdout", "event", "case_finished", "s1/c-1", "f1f2", "e1e2", "2025", "abcd")
OWN_WORDS = sorted({word for word in (*words_in(_DOCUMENTS), *_ENUMS, *_OTHERS) if is_maskable(word)})

own_words = st.lists(st.sampled_from(OWN_WORDS), min_size=1, max_size=6)

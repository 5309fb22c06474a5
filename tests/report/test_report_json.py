import json
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import jsonschema
import pytest

from paceline.cli.schema import json_schema
from paceline.model import (
    Case,
    Check,
    Finding,
    Measurement,
    Plan,
    Record,
    Report,
    Requirement,
    Settings,
    Status,
)
from paceline.plan import plan_json
from paceline.record.codec import dump, to_json
from paceline.report.files import JsonWriter, pieces


def make_record(number: int = 0) -> Record:
    case = Case(name=f"case {number}", entry="case", key="case", params={"n": number})
    checks = (
        Check(metric="t", kind="max_value", bound=1, actual=2.0, margin=-1.0, ok=False, reason="2 > 1"),
        Check(
            metric="gone", kind="exact_value", bound="x", actual=None, margin=None, ok=False, severity="warn"
        ),
    )
    metrics = {
        "t": Measurement(value=2.0, unit="s", direction="lower", samples=(1.5, 2.0, 2.5)),
        "odd": Measurement(value=float("nan"), samples=(float("inf"), "text", True, None)),
    }
    return Record(
        session="s",
        case=case,
        attempt=1,
        status=Status.REQUIREMENT_FAILED,
        reason="t: 2 > 1",
        exec_time_s=2.0,
        timings_s={"run": 2.0},
        returncode=0,
        metrics=metrics,
        params={"deep": {"list": [1, 2]}},
        requirements=checks,
    )


def make_report(records: Sequence[Record]) -> Report:
    finding = Finding(
        judge="j", case="case", metric="t", verdict="worse", effect=float("inf"), values=(1.0, float("inf"))
    )
    plan = Plan(session="s", directory=Path("results/s"))
    return Report(
        plan=plan, records=records, findings=(finding,), counts={Status.REQUIREMENT_FAILED: len(records)}
    )


def read(report: Report) -> Any:
    return json.loads(b"".join(pieces(JsonWriter(report), report.records)))


@pytest.mark.parametrize("schema", [json_schema(name) for name in ("record", "report", "plan")])
def test_the_schemas_are_schemas_and_describe_every_field(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)

    def fields(part: Any) -> Iterator[tuple[str, Any]]:
        for name, field in part.get("properties", {}).items():
            yield name, field
            yield from fields(field)
            yield from fields(field.get("items", {}))

    assert [name for name, field in fields(schema) if not field.get("description")] == []


def test_a_record_follows_its_schema() -> None:
    jsonschema.validate(json.loads(dump(to_json(make_record()))), json_schema("record"))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_report_follows_its_schema(count: int) -> None:
    report = make_report([make_record(number) for number in range(count)])
    written = read(report)
    jsonschema.validate(written, json_schema("report"))
    assert list(written) == ["schema", "session", "ok", "records", "findings"]
    assert [record["case"]["name"] for record in written["records"]] == [f"case {n}" for n in range(count)]
    assert written["ok"] is False and written["findings"][0]["effect"] == "Infinity"


def test_a_plan_follows_its_schema() -> None:
    requirement = Requirement(metric="t", kind="min_value", bound=1.0)
    case = Case(
        name="a", entry="a", key="a", argv=("x",), env={"A": "1"}, requirements=(requirement,), cluster={}
    )
    plan = Plan(
        session="s",
        directory=Path("results/s"),
        cases=(case,),
        setups=(case,),
        settings=Settings(errors=("e",)),
    )
    jsonschema.validate(json.loads(dump(plan_json(plan))), json_schema("plan"))


def test_a_wrong_record_does_not_follow_the_schema() -> None:
    written = json.loads(dump(to_json(make_record())))
    for name, value in (("status", "fine"), ("attempt", 0), ("case", {}), ("schema", 2)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**written, name: value}, json_schema("record"))


class MadeRecords(Sequence[Record]):
    """Many records, none of which is kept."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice) or index >= self._count:
            raise IndexError(index)
        return make_record(index)


def test_memory_does_not_grow_with_the_records() -> None:
    def peak_bytes(count: int) -> int:
        tracemalloc.start()
        report = make_report(MadeRecords(count))
        for _ in pieces(JsonWriter(report), report.records):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(10)
    assert peak_bytes(2000) < peak_bytes(20) + 100_000

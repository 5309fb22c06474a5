import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PacelineError
from paceline.model import Case, Check, Measurement, Record, Status
from paceline.record.codec import NewerSchema, dump, from_json, load, read_record, result_data, to_json
from paceline.record.redact import Redactor

# The three spellings of non-finite numbers are read back as numbers, so no text may be one of them.
text = st.text(max_size=20).filter(lambda t: t not in ("NaN", "Infinity", "-Infinity"))
numbers = st.floats() | st.integers(-(10**30), 10**30)
scalars = text | numbers | st.booleans() | st.none()
nested = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
)
texts = st.lists(text, max_size=3).map(tuple)

cases = st.builds(
    Case,
    name=text,
    entry=text,
    key=text,
    fingerprint=text,
    params=st.dictionaries(text, scalars, max_size=3),
    variant=text | st.none(),
    version=text,
    kind=st.sampled_from(["entry", "data_setup"]),
    tags=texts,
)
measurements = st.builds(
    Measurement,
    value=scalars,
    unit=text | st.none(),
    direction=st.sampled_from(["lower", "higher", None]),
    samples=st.lists(scalars, max_size=4).map(tuple),
)
checks = st.builds(
    Check,
    metric=text,
    kind=st.sampled_from(["exact_value", "min_value", "max_value"]),
    bound=scalars,
    actual=scalars,
    margin=st.floats() | st.none(),
    ok=st.booleans(),
    severity=st.sampled_from(["fail", "warn"]),
    reason=text,
)
records = st.builds(
    Record,
    session=text,
    case=cases,
    attempt=st.integers(1, 1000),
    status=st.sampled_from(Status),
    reason=text,
    started_at=text,
    exec_time_s=st.floats(),
    timings_s=st.dictionaries(text, st.floats(), max_size=3),
    returncode=st.integers(-64, 255) | st.none(),
    command=texts,
    metrics=st.dictionaries(text, measurements, max_size=3),
    params=st.dictionaries(text, nested, max_size=3),
    requirements=st.lists(checks, max_size=2).map(tuple),
    environment=text,
    revision=text,
    warnings=texts,
    artifacts=texts,
    details=st.dictionaries(text, nested, max_size=3),
)


def make_record(**changes: Any) -> Record:
    case = Case(name="a", entry="a", key="a", params={"size": 10})
    return replace(Record(session="s", case=case, attempt=1, status=Status.PASSED), **changes)


@given(records)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    written = dump(to_json(record))
    json.loads(written, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    # Compared by repr: NaN is not equal to itself, and 1 must not come back as 1.0 or True.
    assert repr(from_json(load(written))) == repr(record)


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20))
def test_data_that_is_no_record_is_one_clear_error(data: Any) -> None:
    with pytest.raises(PacelineError, match="not a record"):
        from_json(data)


@given(records, st.data())
def test_a_damaged_record_is_read_or_refused_but_never_breaks(record: Record, data: st.DataObject) -> None:
    written = json.loads(dump(to_json(record)))
    victim = data.draw(st.sampled_from([written, written["case"]]))
    victim[data.draw(st.sampled_from(sorted(victim)))] = data.draw(nested)
    with suppress(PacelineError):
        assert isinstance(from_json(written), Record)


def test_the_keys_are_the_documented_ones() -> None:
    check = Check(metric="m", kind="min_value", bound=1, actual=2, margin=1.0, ok=True)
    record = make_record(metrics={"m": Measurement(value=1.5, unit="s")}, requirements=(check,))
    written = to_json(record)
    assert " ".join(written) == (
        "schema session case attempt status reason started_at exec_time_s timings_s returncode command metrics "
        "params requirements environment revision warnings artifacts"
    )
    case_keys = ["name", "key", "params", "variant", "version", "fingerprint", "entry", "kind", "tags"]
    assert list(written["case"]) == case_keys
    assert written["metrics"] == {"m": {"value": 1.5, "unit": "s", "direction": None, "samples": []}}
    assert list(written["requirements"][0]) == [
        "metric",
        "kind",
        "bound",
        "actual",
        "margin",
        "ok",
        "severity",
    ]


def test_optional_keys_may_be_missing() -> None:
    record = from_json({"schema": 1, "case": {"name": "a"}, "status": "passed"})
    assert (record.case.key, record.attempt, record.metrics) == ("a", 1, {})


def test_a_newer_schema_says_to_update() -> None:
    with pytest.raises(NewerSchema, match=r"schema 99 .* update paceline"):
        from_json({"schema": 99, "case": {"name": "a"}, "status": "passed"})


def test_what_json_cannot_hold_is_written_as_text() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    params = {
        "object": Odd(),
        "path": Path("a/b"),
        "set": {2, 1},
        "status": Status.FAILED,
        "bytes": b"\xff",
        "huge": 1 << 20_000,
        "surrogate": "\udc80x",
        3: None,
        None: math.inf,
        (1, 2): True,
        "deep": deep,
    }
    read = load(dump(params))
    assert read.pop("huge") == hex(1 << 20_000)
    assert "nested too deeply" in str(read.pop("deep"))
    assert read == {
        "object": "<odd>",
        "path": "a/b",
        "set": [1, 2],
        "status": "failed",
        "bytes": "b'\\xff'",
        "surrogate": "?x",
        "3": None,
        "null": "Infinity",
        "[1, 2]": True,
    }


def test_masking_never_breaks_the_json() -> None:
    redactor = Redactor(["1234", '"}}}', "sécret/ü"])
    written = dump({"n": 1234, "s": "a1234", "q": 'x"}}}', "u": "sécret/ü"}, redactor=redactor)
    assert load(written) == {"n": 1234, "s": "a***", "q": "x***", "u": "***"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"schema": 1, "case": {"name": ', b"\xff\x00", b"[" * 100_000]
)
def test_a_half_or_foreign_file_counts_as_missing(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    assert read_record(path) is None
    assert str(path) in caplog.text


def test_the_result_of_a_sink_has_the_known_keys(tmp_path: Path) -> None:
    record = make_record(
        status=Status.TIMEOUT,
        exec_time_s=2.5,
        returncode=-15,
        command=("python", "my script.py"),
        params={"size": 1},
        metrics={"throughput": Measurement(value=3.0)},
    )
    result: Mapping[str, Any] = result_data(record, tmp_path, [{"stage": "read"}])
    assert result == {
        "name": "a",
        "success": False,
        "exec_time_s": 2.5,
        "timeout": True,
        "script_params": {"size": 1},
        "script_metrics": {"throughput": 3.0},
        "tasks": [{"stage": "read"}],
        "command": "python 'my script.py'",
        "returncode": -15,
        "stdouterr_file": str(tmp_path / "stdouterr.log"),
    }


def test_what_is_nested_too_deeply_is_no_json() -> None:
    for inner in (b"", b"1234567890123456789012"):
        with pytest.raises(ValueError, match=r"."):
            load(b"[" * 100_000 + inner + b"]" * 100_000)

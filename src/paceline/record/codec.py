"""Record ⇄ JSON. Non-finite numbers are written as the strings "NaN", "Infinity" and "-Infinity"."""

import json
import logging
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import orjson

from paceline.errors import PacelineError
from paceline.model import (
    RECORD_SCHEMA,
    Case,
    CaseKind,
    Check,
    CheckKind,
    Direction,
    Finding,
    Measurement,
    Record,
    Severity,
    State,
    Status,
    Verdict,
)
from paceline.record.redact import Redactor

log = logging.getLogger(__name__)

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MAX_DEPTH = 100
_MAX_INT_BITS = 10_000  # Python refuses to print integers of more than 4,300 digits.
_BIG_INT = re.compile(rb"\d{19}")


class NewerSchema(PacelineError):
    """A file was written by a later version of paceline."""


def dump(value: Any, *, pretty: bool = False, redactor: Redactor | None = None) -> bytes:
    """Any value as JSON; what JSON does not know becomes its `repr`. A redactor masks values, never keys."""
    data = plain(value)
    return dump_plain(redactor.values(data) if redactor else data, pretty=pretty)


def dump_plain(data: Any, *, pretty: bool = False) -> bytes:
    """The same for data that is plain already, such as `to_json` makes."""
    try:
        return orjson.dumps(data, option=orjson.OPT_INDENT_2 if pretty else None)
    except TypeError:  # Integers past 64 bits, lone surrogates.
        text = json.dumps(data, ensure_ascii=False, indent=2 if pretty else None)
        return text.encode("utf-8", "replace")


def load(data: bytes) -> Any:
    """The value of a JSON text; raises `ValueError`. Strings for non-finite numbers stay strings."""
    if _BIG_INT.search(data):  # orjson would round these to floats.
        return json.loads(data)
    return orjson.loads(data)


def plain(value: Any, depth: int = 0) -> Any:
    """The value made of nothing but what JSON has."""
    kind = type(value)  # Looked at first because it is five times as fast as `isinstance`.
    if kind is str or kind is bool or value is None:
        return value
    if kind is float or isinstance(value, float):
        return float(value) if math.isfinite(value) else _non_finite_text(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() < _MAX_INT_BITS else hex(value)
    if depth > _MAX_DEPTH:
        return "(nested too deeply)"
    if isinstance(value, Mapping):
        return {_key(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    return _plain_object(value, depth)


def _plain_object(value: Any, depth: int) -> Any:
    if isinstance(value, set | frozenset):
        return [plain(item, depth + 1) for item in sorted(value, key=repr)]
    if isinstance(value, Enum):
        return plain(value.value, depth + 1)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, date):
        return value.isoformat()
    return repr(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    written = plain(key, _MAX_DEPTH)
    return written if isinstance(written, str) else json.dumps(written)


def _non_finite_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def revive(value: Any) -> Any:
    """Nested data as it was before `plain` wrote its non-finite numbers as strings."""
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [revive(item) for item in value]
    return value


def to_json(record: Record) -> dict[str, Any]:
    """A record as `record.json` has it."""
    written = {
        "schema": RECORD_SCHEMA,
        "session": record.session,
        "case": _case_json(record.case),
        "attempt": record.attempt,
        "status": record.status.value,
        "reason": record.reason,
        "started_at": record.started_at,
        "exec_time_s": plain(record.exec_time_s),
        "timings_s": plain(record.timings_s),
        "returncode": record.returncode,
        "command": list(record.command),
        "metrics": {name: _measurement_json(value) for name, value in record.metrics.items()},
        "params": plain(record.params),
        "requirements": [_check_json(check) for check in record.requirements],
        "environment": record.environment,
        "revision": record.revision,
        "warnings": list(record.warnings),
        "artifacts": list(record.artifacts),
    }
    return {**written, "details": plain(record.details)} if record.details else written


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "key": case.key,
        "params": plain(case.params),
        "variant": case.variant,
        "version": case.version,
        "fingerprint": case.fingerprint,
        "entry": case.entry,
        "kind": case.kind,
        "tags": list(case.tags),
    }


def _measurement_json(measurement: Measurement) -> dict[str, Any]:
    return {
        "value": plain(measurement.value),
        "unit": measurement.unit,
        "direction": measurement.direction,
        "samples": plain(measurement.samples),
    }


def _check_json(check: Check) -> dict[str, Any]:
    written = {
        "metric": check.metric,
        "kind": check.kind,
        "bound": plain(check.bound),
        "actual": plain(check.actual),
        "margin": plain(check.margin),
        "ok": check.ok,
        "severity": check.severity,
    }
    return {**written, "reason": check.reason} if check.reason else written


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as `report.json` has it."""
    return {
        "judge": finding.judge,
        "case": finding.case,
        "metric": finding.metric,
        "verdict": finding.verdict,
        "effect": plain(finding.effect),
        "low": plain(finding.low),
        "high": plain(finding.high),
        "evidence": plain(finding.evidence),
        "message": finding.message,
        "id": finding.id,
        "state": finding.state,
    }


def finding_from_json(data: Any) -> Finding:
    """The finding in the data of a `report.json`."""
    try:
        effect, low, high = (revive(data[name]) for name in ("effect", "low", "high"))
        return Finding(
            judge=_str(data["judge"]),
            case=_str(data["case"]),
            metric=_str(data["metric"]),
            verdict=_one_of(get_args(Verdict), data["verdict"]),
            effect=effect,
            low=low,
            high=high,
            evidence=data.get("evidence", {}),
            message=_str(data["message"]),
            id=_str(data.get("id", "")),
            state=_one_of(get_args(State), data.get("state", "new")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PacelineError(f"not a finding: {_complaint(error)}") from error


def from_json(data: Any) -> Record:
    """The record in the data of a `record.json`; a newer schema and data that is no record are errors."""
    if not isinstance(data, dict):
        raise PacelineError(f"not a record: expected a JSON object, found {type(data).__name__}")
    _check_schema(data.get("schema", RECORD_SCHEMA))
    try:
        return _record(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PacelineError(f"not a record: {_complaint(error)}") from error


def read_record(path: Path) -> Record | None:
    """The record in a file; None if there is none, or (logged) none that can be read."""
    try:
        return from_json(load(path.read_bytes()))
    except FileNotFoundError:
        return None
    except NewerSchema as error:
        raise NewerSchema(f"{path}: {error}") from error
    except (OSError, ValueError, PacelineError, RecursionError) as error:
        log.warning("%s cannot be read and counts as missing: %s", path, error)
        return None


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, int) or schema < 1:
        raise PacelineError(f"not a record: {schema!r} is no schema number")
    if schema > RECORD_SCHEMA:
        known = f"this paceline reads up to {RECORD_SCHEMA}"
        raise NewerSchema(f"the record has schema {schema} and {known}: update paceline to read it")


def _complaint(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _record(data: Mapping[str, Any]) -> Record:
    return Record(
        session=_str(data.get("session", "")),
        case=_case(data["case"]),
        attempt=_int(data.get("attempt", 1)),
        status=Status(data["status"]),
        reason=_str(data.get("reason", "")),
        started_at=_str(data.get("started_at", "")),
        exec_time_s=_float(data.get("exec_time_s", 0.0)),
        timings_s={name: _float(value) for name, value in data.get("timings_s", {}).items()},
        returncode=_optional(_int, data.get("returncode")),
        command=_strings(data.get("command", ())),
        metrics={name: _measurement(value) for name, value in data.get("metrics", {}).items()},
        params=revive(dict(data.get("params", {}))),
        requirements=tuple(_check(item) for item in data.get("requirements", ())),
        environment=_str(data.get("environment", "")),
        revision=_str(data.get("revision", "")),
        warnings=_strings(data.get("warnings", ())),
        artifacts=_strings(data.get("artifacts", ())),
        details=revive(dict(data.get("details", {}))),
    )


def _case(data: Mapping[str, Any]) -> Case:
    name = _str(data["name"])
    return Case(
        name=name,
        entry=_str(data.get("entry", name)),
        key=_str(data.get("key", name)),
        fingerprint=_str(data.get("fingerprint", "")),
        params=revive(dict(data.get("params", {}))),
        variant=_optional(_str, data.get("variant")),
        version=_str(data.get("version", "1")),
        kind=_one_of(get_args(CaseKind), data.get("kind", "entry")),
        tags=_strings(data.get("tags", ())),
    )


def _measurement(data: Mapping[str, Any]) -> Measurement:
    return Measurement(
        value=_scalar(data["value"]),
        unit=_optional(_str, data.get("unit")),
        direction=_one_of((*get_args(Direction), None), data.get("direction")),
        samples=tuple(map(_scalar, data.get("samples", ()))),
    )


def _check(data: Mapping[str, Any]) -> Check:
    return Check(
        metric=_str(data["metric"]),
        kind=_one_of(get_args(CheckKind), data["kind"]),
        bound=_scalar(data["bound"]),
        actual=_scalar(data.get("actual")),
        margin=_optional(_float, data.get("margin")),
        ok=bool(data["ok"]),
        severity=_one_of(get_args(Severity), data.get("severity", "fail")),
        reason=_str(data.get("reason", "")),
    )


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.40}")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected an integer, found {value!r:.40}")
    return value


def _float(value: Any) -> float:
    number = revive(value)
    if not isinstance(number, int | float):
        raise TypeError(f"expected a number, found {value!r:.40}")
    return float(number)


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise TypeError(f"expected one value, found {value!r:.40}")
    return revive(value)


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {value!r:.40}")
    return tuple(map(_str, value))


def _optional(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _one_of(choices: Iterable[Any], value: Any) -> Any:
    if value not in choices:
        raise ValueError(f"{value!r:.40} is none of {', '.join(map(str, choices))}")
    return value


def result_data(record: Record, entry_dir: Path, tasks: Iterable[Any] = ()) -> dict[str, Any]:
    """What a sink is given for one record, and a line of `results.jsonl`."""
    return {
        "name": record.case.name,
        "success": record.status.ok,
        "exec_time_s": record.exec_time_s,
        "timeout": record.status is Status.TIMEOUT,
        "script_params": dict(record.params),
        "script_metrics": {name: measurement.value for name, measurement in record.metrics.items()},
        "tasks": list(tasks),
        "command": shlex.join(record.command),
        "returncode": record.returncode,
        "stdouterr_file": str(entry_dir / "stdouterr.log"),
    }

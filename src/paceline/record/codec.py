"""The types that flow ⇄ JSON, by their fields.

Non-finite numbers are written as the strings "NaN", "Infinity" and "-Infinity".
"""

import hashlib
import json
import logging
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import orjson

from paceline.errors import PacelineError
from paceline.finding import Finding, Place
from paceline.model import RECORD_SCHEMA, Case, Check, Measurement, Record, Scalar, Status, is_number
from paceline.record import below
from paceline.record.redact import Redactor

T = TypeVar("T")

log = logging.getLogger(__name__)

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MAX_RECORD_BYTES = 256 << 20
_MAX_DEPTH = 100
_MAX_INT_BITS = 10_000  # Python refuses to print integers of more than 4,300 digits.
_BIG_INT = re.compile(rb"\d{19}")


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


def digest(value: Any) -> str:
    """A short hash of a JSON value, the same however its file is laid out."""
    return hashlib.sha256(dump(value)).hexdigest()[:16]


def load(data: bytes) -> Any:
    """The value of a JSON text; raises `ValueError`. Strings for non-finite numbers stay strings."""
    try:
        # orjson would round large integers to floats.
        return json.loads(data) if _BIG_INT.search(data) else orjson.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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


class NewerSchema(PacelineError):
    """A file was written by a later version of paceline."""


KEPT_FIELDS: Mapping[type, tuple[str, ...]] = {
    Case: (
        *("name", "key", "params", "variant", "version", "fingerprint", "formula", "entry", "kind", "tags"),
        "watch",
    ),
    Place: ("revision", "session", "time", "committed"),
}
"""Of these types files hold some fields only, in this order; what else a case has is in the plan, and ids of sessions
and environments mean something to one history only."""
LEFT_OUT_WHEN_DEFAULT: Mapping[type, Mapping[str, Any]] = {
    Record: {"disturbed": (), "details": {}},
    Check: {"reason": "", "judged": True},
    Measurement: {"label": None},
    Case: {"formula": 1, "watch": ()},
    Place: {"committed": ""},
}
_WHERE_MISSING: Mapping[type, Mapping[str, Any]] = {
    Record: {"session": "", "attempt": 1},
    Check: {"actual": None, "margin": None},
}
_REQUIRED = object()

_Convert = Callable[[Any], Any]


def field_hints(kind: type) -> dict[str, Any]:
    """The fields of a type that files hold, in their order, with their hints."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in KEPT_FIELDS.get(kind, tuple(hints))}


def bare(hint: Any) -> Any:
    """A hint without what is said about it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def encode(value: Any) -> dict[str, Any]:
    """One of the types that flow as JSON has it."""
    return _encoder(type(value))(value)  # type: ignore[no-any-return]


def _make_encoder(kind: Any) -> _Convert:
    skipped = LEFT_OUT_WHEN_DEFAULT.get(kind, {})
    fields = [
        (name, _encoding(hint), skipped.get(name, _REQUIRED)) for name, hint in field_hints(kind).items()
    ]

    def encode_fields(value: Any) -> dict[str, Any]:
        written = {}
        for name, convert, default in fields:
            item = getattr(value, name)
            if default is _REQUIRED or item != default:
                written[name] = convert(item) if convert else item
        return written

    return encode_fields


_encoder: Callable[[Any], _Convert] = cache(_make_encoder)


def _encoding(hint: Any) -> _Convert | None:
    """How a field is written; None if it is JSON as it is."""
    hint = bare(hint)
    arguments = get_args(hint)
    if is_dataclass(hint):
        return _encoder(hint)
    if type(None) in arguments and is_dataclass(arguments[0]):
        inner = _encoder(arguments[0])
        return lambda item: None if item is None else inner(item)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return attrgetter("value")
    if get_origin(hint) is tuple and is_dataclass(arguments[0]):
        one = _encoder(arguments[0])
        return lambda items: [one(item) for item in items]
    if get_origin(hint) is Mapping and is_dataclass(arguments[1]):
        one = _encoder(arguments[1])
        return lambda items: {name: one(item) for name, item in items.items()}
    return None if hint in (str, int, bool) else plain


def decode(kind: type[T], data: Any) -> T:
    """One of the types that flow, out of its JSON; a PacelineError if it is none."""
    name = kind.__name__.lower()
    if not isinstance(data, dict):
        raise PacelineError(f"not a {name}: expected a JSON object, found {type(data).__name__}")
    try:
        return _decoder(kind)(data)  # type: ignore[no-any-return]
    except KeyError as error:
        raise PacelineError(f"not a {name}: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise PacelineError(f"not a {name}: {error}") from error


def _make_decoder(kind: Any) -> _Convert:
    known = {one.name: one for one in fields(kind)}
    missing = _WHERE_MISSING.get(kind, {})
    rows = []
    for name, hint in field_hints(kind).items():
        default = missing.get(name, _REQUIRED if known[name].default is MISSING else known[name].default)
        if known[name].default_factory is not MISSING:
            default = MappingProxyType({})
        rows.append((name, _decoding(bare(hint)), default))

    def decode_fields(data: Mapping[str, Any]) -> Any:
        if kind is Case:
            data = {"entry": data["name"], "key": data["name"], **data}
        found = {}
        for name, convert, default in rows:
            value = data.get(name, default)
            if value is not default:
                found[name] = convert(value)
            elif default is _REQUIRED:
                raise KeyError(name)
            else:
                found[name] = {} if type(default) is MappingProxyType else default
        return kind(**found)

    return decode_fields


_decoder: Callable[[Any], _Convert] = cache(_make_decoder)


def _decoding(hint: Any) -> _Convert:
    arguments = get_args(hint)
    if hint == Scalar:
        return _scalar
    if is_dataclass(hint):
        return _decoder(hint)
    if get_origin(hint) is tuple:
        return _sequence(_decoding(arguments[0]))
    if get_origin(hint) is Mapping:
        return _mapping(_decoding(arguments[1]))
    if get_origin(hint) is Literal:
        return _one_of(arguments)
    if type(None) in arguments:
        (inner,) = (argument for argument in arguments if argument is not type(None))
        convert = _decoding(inner)
        return lambda value: None if value is None else convert(value)
    simple: dict[Any, _Convert] = {str: _str, int: _int, float: _float, bool: bool, Any: revive}
    found: _Convert = simple.get(hint, hint)
    return found


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


def _sequence(convert: _Convert) -> _Convert:
    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise TypeError(f"expected a list, found {value!r:.40}")
        return tuple(map(convert, value))

    return read


def _mapping(convert: _Convert) -> _Convert:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"expected a mapping, found {value!r:.40}")
        return {name: convert(item) for name, item in value.items()}

    return read


def _one_of(choices: tuple[Any, ...]) -> _Convert:
    def read(value: Any) -> Any:
        if value not in choices:
            raise ValueError(f"{value!r:.40} is none of {', '.join(map(str, choices))}")
        return value

    return read


def to_json(record: Record) -> dict[str, Any]:
    """A record as `record.json` has it."""
    return {"schema": RECORD_SCHEMA, **encode(record)}


def from_json(data: Any) -> Record:
    """The record in the data of a `record.json`; a newer schema and data that is no record are errors."""
    schema = data.get("schema", RECORD_SCHEMA) if isinstance(data, dict) else RECORD_SCHEMA
    if not isinstance(schema, int) or schema < 1:
        raise PacelineError(f"not a record: {schema!r} is not a schema number")
    if schema > RECORD_SCHEMA:
        known = f"this paceline reads up to {RECORD_SCHEMA}"
        raise NewerSchema(f"the record has schema {schema} and {known}: update paceline to read it")
    return decode(Record, data)


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as every file, service, page and command has it."""
    return {**encode(finding), "state": finding.state, "evidence": plain(finding.evidence)}


def read_finding(data: Any) -> Finding:
    """A finding out of its JSON; earlier versions had most of it under `evidence`."""
    if isinstance(data, dict) and "stage" not in data:
        told = data.get("evidence")
        data = {**_lifted(told if isinstance(told, dict) else {}), **data}
    if isinstance(data, dict):
        data = {"own_state": data.get("state", "new"), **data}
    return decode(Finding, data)


def _lifted(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a finding that an earlier version had in its evidence, as far as they are readable."""
    names = ("incident", "p_value", "last_good", "first_bad", "suspects", "question")
    series = ("variant", "version", "environment_class")
    found = {name: evidence[name] for name in (*names, *series, "index") if evidence.get(name) is not None}
    points = evidence.get("values") or evidence.get("points")
    if isinstance(points, list):
        values = [point.get("value") if isinstance(point, dict) else point for point in points]
        numbers = [value for value in values if is_number(value)]
        found |= {"values": numbers, "index": found.get("index") if len(numbers) == len(values) else None}
    culprit = evidence.get("culprit")
    if culprit:
        name = "revision" if evidence.get("kind") == "commit" else "name"
        facts = {fact: evidence.get(fact) for fact in ("kind", "subject", "runs", "bisection")}
        found["culprit"] = {**facts, name: culprit, "probability": evidence.get("confidence")}
    confirmed = evidence.get("confirmed")
    held = "suspected" if confirmed is None else "bisected" if culprit else "confirmed"
    return {**found, "stage": "not_reproduced" if confirmed is False else held}


def read_record(path: Path, root: Path | None = None) -> Record | None:
    """The record in a file; None if there is none, or (logged) none that can be read. No link below `root` counts."""
    root = root or path.parent
    return read_record_below(root, str(path.relative_to(root)))


def read_record_below(root: Path, name: str) -> Record | None:
    """The same by its name below a directory that others may have made."""
    try:
        return from_json(load(below.read(root, name, MAX_RECORD_BYTES)))
    except FileNotFoundError:
        return None
    except NewerSchema as error:
        raise NewerSchema(f"{root / name}: {error}") from error
    except (OSError, ValueError, PacelineError, RecursionError) as error:
        log.warning("%s cannot be read and counts as missing: %s", ascii(str(root / name)), error)
        return None


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

"""The kinds of values that configuration keys hold, each with one message of its own when it does not fit."""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from paceline.model import is_number

SIZE_UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(("k", "M", "G", "T"), 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate(("K", "M", "G", "T"), 1)},
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]+)")
_UNIT_BY_LOWER = {unit.lower(): factor for unit, factor in SIZE_UNITS.items()}
_LINE_BREAK = re.compile("[\0\n\r]")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Below this, a whole number given as a size was almost surely meant as a fraction or in another unit.
SMALLEST_OBJECT_STORE_BYTES = 1024**2


def shown(value: Any) -> str:
    """A value as an error message names it, kept short."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…" + text[0]


def wrong(expected: str, value: Any) -> PydanticCustomError:
    return PydanticCustomError(
        "wrong_value", "expected {expected}, got {got}", {"expected": expected, "got": shown(value)}
    )


def is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _fitting(
    expected: str, fits: Callable[[Any], bool], convert: Callable[[Any], Any] = lambda value: value
) -> BeforeValidator:
    """Takes only values that fit, and says what it expected otherwise."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise wrong(expected, value)
        return convert(value)

    return BeforeValidator(check)


def _tolerance(value: Any) -> Any:
    number = value
    if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)? *%", value):
        number = float(value.rstrip("% ")) / 100
    if not is_number(number) or not 0 <= number < math.inf:
        raise wrong("a fraction such as 0.05 or a percentage such as '5%'", value)
    return float(number)


_DURATION = re.compile(r"(?:([0-9.]+) *h)? *(?:([0-9.]+) *m(?:in)?)? *(?:([0-9.]+) *s?)?")


def parse_duration_s(value: Any) -> float:
    """A number of seconds, or a time such as `90s`, `30m` or `1h 30m`; raises ValueError."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    text = [part or "0" for part in found.groups()] if found else []
    try:
        seconds = (
            float(value)
            if is_number(value)
            else sum(float(t) * f for t, f in zip(text, (3600, 60, 1), strict=True))
        )
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{shown(value)} is no time: write it like 90s, 30m or 2h")
    return seconds


def _duration(value: Any) -> float:
    try:
        return parse_duration_s(value)
    except ValueError:
        raise wrong("a time such as '90s', '30m' or '2h'", value) from None


def parse_size_bytes(value: Any) -> int:
    """A number of bytes, or a size such as `4GiB` or `500 MB`."""
    if _is_count(value):
        return int(value)
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    factor = _UNIT_BY_LOWER.get(match[2].lower()) if match else None
    if match is None or factor is None or len(match[1]) > 30:
        raise wrong("a number of bytes or a size such as '4GiB' or '500MB'", value)
    return int(float(match[1]) * factor)


def _object_store_size(value: Any) -> Any:
    if value == "default" or (isinstance(value, float) and 0 < value <= 1):
        return value
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise wrong("a fraction of the memory from 0.0 to 1.0, a number of bytes, a size or 'default'", value)
    size_bytes = parse_size_bytes(value)
    if size_bytes < SMALLEST_OBJECT_STORE_BYTES:
        raise wrong("at least 1MiB (a whole number is bytes; a fraction has a point, as 1.0 has)", value)
    return size_bytes


def _text_or_list(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise wrong("a string or a list of strings", value)
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, str):
            raise wrong("a list of strings", item)
    return value


def _name(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("empty", "must not be empty")
    if _LINE_BREAK.search(value):
        raise PydanticCustomError("newline", "must be one line")
    return value


def _variable_name(value: str) -> str:
    if not _VARIABLE_NAME.fullmatch(value):
        raise wrong("the name of an environment variable", value)
    return value


def _variable_pattern(value: str) -> str:
    if not _VARIABLE_NAME.fullmatch(value.replace("*", "_")):
        raise wrong("the name of an environment variable, with `*` for any letters", value)
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not name or "=" in name:
            raise wrong("names of environment variables", name)
    return value


def _labels(value: Any) -> Any:
    if not isinstance(value, dict):
        raise wrong("a mapping from labels to values", value)
    for item in value.values():
        if not is_scalar(item) or item is None:
            raise wrong("a text for each label", item)
    return {name: shown(item) if isinstance(item, bool) else str(item) for name, item in value.items()}


_SIZE_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}

Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"minLength": 1})]
Number = Annotated[int | float, _fitting("a number", lambda v: is_number(v) and not math.isnan(v))]
Scalar = Annotated[str | int | float | bool | None, _fitting("a string, a number or a boolean", is_scalar)]
Bound = Annotated[
    str | int | float | bool,
    # What does not equal itself is not a number.
    _fitting("a number, a boolean or a string", lambda v: v is not None and is_scalar(v) and v == v),
]
Seconds = Annotated[
    float,
    _fitting("a number of seconds greater than 0", lambda v: is_number(v) and 0 < v < math.inf, float),
    Field(json_schema_extra={"exclusiveMinimum": 0}),
]
GraceSeconds = Annotated[
    float,
    _fitting("a number of seconds, 0 or more", lambda v: is_number(v) and 0 <= v < math.inf, float),
    Field(json_schema_extra={"minimum": 0}),
]
Duration = Annotated[
    float,
    BeforeValidator(_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}),
]
Count = Annotated[
    int, _fitting("a whole number, 0 or more", _is_count), Field(json_schema_extra={"minimum": 0})
]
PositiveCount = Annotated[
    int,
    _fitting("a whole number, 1 or more", lambda v: _is_count(v) and v > 0),
    Field(json_schema_extra={"minimum": 1}),
]
Fraction = Annotated[
    float,
    _fitting("a fraction from 0 to 1", lambda v: is_number(v) and 0 <= v <= 1, float),
    Field(json_schema_extra={"minimum": 0, "maximum": 1}),
]
Tolerance = Annotated[
    float,
    BeforeValidator(_tolerance),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "%$"}]}),
]
Bytes = Annotated[int, BeforeValidator(parse_size_bytes), WithJsonSchema(_SIZE_SCHEMA)]
ObjectStoreSize = Annotated[
    int | float | str,
    BeforeValidator(_object_store_size),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}),
]
TextOrList = Annotated[str | list[str], BeforeValidator(_text_or_list)]
VariableName = Annotated[str, AfterValidator(_variable_name)]
VariablePattern = Annotated[str, AfterValidator(_variable_pattern)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]
Labels = Annotated[dict[str, str], BeforeValidator(_labels)]

"""`paceline schema`: the formats, for editors and other programs."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

import click

from paceline.cli.output import write_json
from paceline.finding import Finding, State
from paceline.model import RECORD_SCHEMA, REPORT_SCHEMA, Case, Record, Scalar
from paceline.record.codec import LEFT_OUT_WHEN_DEFAULT, bare, field_hints

_NON_FINITE = ["NaN", "Infinity", "-Infinity"]
_MORE: Mapping[tuple[type, str], Mapping[str, Any]] = {(Record, "attempt"): {"minimum": 1}}
_OLDEST = frozenset({"judge", "case", "metric", "verdict", "effect", "low", "high", "message"})
# Fields that an older version did not write.
_ADDED_LATER: Mapping[type, frozenset[str]] = {
    Finding: frozenset(one.name for one in fields(Finding)) - _OLDEST
}
_SIMPLE: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"anyOf": [{"type": "number"}, {"enum": _NON_FINITE}]},
    Any: {},
}


def schema_of(kind: type) -> dict[str, Any]:
    """An object with all fields of a type; later versions may add more, so further ones are allowed."""
    optional = frozenset(LEFT_OUT_WHEN_DEFAULT.get(kind, ())) | _ADDED_LATER.get(kind, frozenset())
    properties = {
        name: {**_value(hint), **_MORE.get((kind, name), {})} for name, hint in field_hints(kind).items()
    }
    return _object(properties, (kind.__doc__ or "").partition("\n")[0], optional)


def _object(
    properties: Mapping[str, Any], description: str, optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
    }


def _value(hint: Any) -> dict[str, Any]:
    """The schema of a field; what is said beside its hint is the description."""
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    hint = bare(hint)
    arguments = get_args(hint)
    found: dict[str, Any]
    if hint == Scalar:
        found = {"type": ["string", "number", "boolean", "null"]}
    elif is_dataclass(hint):
        found = schema_of(hint)  # type: ignore[arg-type]
    elif get_origin(hint) is tuple:
        found = {"type": "array", "items": _value(arguments[0])}
    elif get_origin(hint) is Mapping:
        inner = _value(arguments[1])
        found = {"type": "object", **({"additionalProperties": inner} if inner else {})}
    elif get_origin(hint) is Literal:
        found = {"enum": list(arguments)}
    elif type(None) in arguments:
        found = _or_null(_value(next(one for one in arguments if one is not type(None))))
    elif isinstance(hint, type) and issubclass(hint, Enum):
        found = {"enum": [one.value for one in hint]}
    else:
        found = dict(_SIMPLE[hint])
    return {**found, **({"description": said[0]} if said else {})}


def _or_null(found: dict[str, Any]) -> dict[str, Any]:
    if "enum" in found:
        return {**found, "enum": [*found["enum"], None]}
    if "anyOf" in found:
        return {**found, "anyOf": [*found["anyOf"], {"type": "null"}]}
    return {**found, "type": [found["type"], "null"]}


def _list(items: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": dict(items), "description": description}


def _version(number: int) -> dict[str, Any]:
    return {"type": "integer", "const": number, "description": "The version of this format."}


def record_schema() -> dict[str, Any]:
    """What `record.json` holds."""
    found = schema_of(Record)
    properties = {"schema": _version(RECORD_SCHEMA), **found["properties"]}
    return {**found, "properties": properties, "required": ["schema", *found["required"]]}


def report_schema() -> dict[str, Any]:
    """What `report.json` holds."""
    return _object(
        {
            "schema": _version(REPORT_SCHEMA),
            "session": {"type": "string", "description": "The session's name."},
            "ok": {"type": "boolean", "description": "Whether all passed and nothing got worse."},
            "inconclusive": {
                "type": "string",
                "description": "Why nothing could be held against the history, if nothing could.",
            },
            "records": _list(record_schema(), "A record for each case."),
            "findings": _list(_finding_schema(), "What the judges found."),
        },
        "A session's outcome.",
        frozenset({"inconclusive"}),
    )


def _finding_schema() -> dict[str, Any]:
    found = schema_of(Finding)
    states = {"enum": list(get_args(State)), "description": "What became of it; only new ones fail anything."}
    former = {"type": "object", "description": "The same by the names of earlier versions."}
    return {**found, "properties": {**found["properties"], "state": states, "evidence": former}}


def plan_schema() -> dict[str, Any]:
    """What `paceline plan --json` prints."""
    names = ("name", "key", "params", "timeout_s", "resources", "requirements", "blocked")
    hints = {one.name: one.type for one in fields(Case)}
    known = {name: _value(hints[name]) for name in names}
    known["resources"]["required"].remove("labels")
    text = {"type": "string"}
    case = _object(
        {
            **known,
            "argv": _list(text, "The command, word by word, with the directories it would have."),
            "env": _list(text, "The names of the variables that the case sets; values may be secret."),
            "ray": {"type": ["object", "null"], "description": "The Ray cluster it gets; null: none."},
        },
        "A case with everything resolved.",
        frozenset({"blocked"}),
    )
    return _object(
        {
            "session": {"type": "string", "description": "The name the session would have."},
            "cases": _list(case, "What would run, in order."),
            "errors": _list(text, "What keeps cases or sinks from running, one line each."),
            "setups": _list(case, "Data set-ups, run first."),
            "warnings": _list(text, "What is odd and keeps nothing from running."),
        },
        "What a session would do.",
        frozenset({"setups", "warnings"}),
    )


SCHEMAS = {"plan": plan_schema, "record": record_schema, "report": report_schema}


def json_schema(name: str) -> dict[str, Any]:
    """The schema of a format by its name: plan, record or report."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": f"paceline {name}", **SCHEMAS[name]()}


EPILOG = """\b
Examples:
  paceline schema > paceline.schema.json             for an editor that checks YAML
  paceline schema record
  paceline schema report | python -m json.tool | less
"""


@click.command("schema", epilog=EPILOG)
@click.argument(
    "format_", metavar="[FORMAT]", default="config", type=click.Choice(["config", "plan", "record", "report"])
)
def command(format_: str) -> None:
    """Print the JSON Schema of a FORMAT: config (the default), plan, record or report.

    \b
    config   the YAML files that plan and run take
    plan     what 'paceline plan --json' prints
    record   record.json, one for each case of a session
    report   report.json, and what 'paceline run --json' prints
    """
    if format_ == "config":
        from paceline.config.evals import WholeConfig

        write_json(WholeConfig.model_json_schema())
    else:
        from paceline.cli.schema import json_schema

        write_json(json_schema(format_))

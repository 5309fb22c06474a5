"""JSON Schemas (draft 2020-12) of the files that other programs read: record, report and plan."""

from collections.abc import Mapping
from typing import Any, get_args

from paceline.model import RECORD_SCHEMA, CaseKind, CheckKind, Direction, Severity, State, Status, Verdict
from paceline.report.json_report import REPORT_SCHEMA

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NON_FINITE = ["NaN", "Infinity", "-Infinity"]


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _number(description: str, *, optional: bool = False) -> dict[str, Any]:
    """A number; JSON has no infinities, so these are written as text."""
    kinds: list[dict[str, Any]] = [{"type": "number"}, {"enum": _NON_FINITE}]
    return {"anyOf": [*kinds, {"type": "null"}] if optional else kinds, "description": description}


def _scalar(description: str) -> dict[str, Any]:
    return {"type": ["string", "number", "boolean", "null"], "description": description}


def _mapping(values: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(values), "description": description}


def _object(
    properties: Mapping[str, Any], description: str, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """An object that has all of these; later versions may add more, so further ones are allowed."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "description": description,
        "properties": dict(properties),
        "required": required,
    }


_CASE = _object(
    {
        "name": _text("The case's name, unique in the session; the entry's name and, of a matrix, the cell."),
        "key": _text("The case's identity in history: its name and sorted parameters."),
        "params": _mapping(_scalar("A parameter's value."), "The parameters that the matrix set."),
        "variant": {"type": ["string", "null"], "description": "The arm of a comparison, if it is one's."},
        "version": _text("Changes when the benchmark's meaning does."),
        "fingerprint": _text("A hash of all that decides the result; a resumed session keeps equal ones."),
        "entry": _text("The entry of the configuration that the case comes from."),
        "kind": {
            "enum": list(get_args(CaseKind)),
            "description": "A benchmark, or a step that prepares data.",
        },
        "tags": _texts("The tags of the entry."),
    },
    "What ran.",
)

_MEASUREMENT = _object(
    {
        "value": _scalar("The median of the samples if they are numbers."),
        "unit": {"type": ["string", "null"], "description": "The unit, such as s or bytes."},
        "direction": {
            "enum": [*get_args(Direction), None],
            "description": "Which way is better; null: neither.",
        },
        "samples": {"type": "array", "items": _scalar("A sample."), "description": "Every value measured."},
    },
    "A metric's value with every sample it came from.",
)

_CHECK = _object(
    {
        "metric": _text("The metric that is bounded."),
        "kind": {"enum": list(get_args(CheckKind)), "description": "The kind of bound."},
        "bound": _scalar("The bound."),
        "actual": _scalar("What was measured; null when it was not."),
        "margin": _number("How far the value lies inside the bound; negative: outside.", optional=True),
        "ok": {"type": "boolean", "description": "Whether the requirement is met."},
        "severity": {"enum": list(get_args(Severity)), "description": "What an unmet one does to the case."},
        "reason": _text("Why it is not met."),
    },
    "A requirement held against what was measured.",
    optional=("reason",),
)

_RECORD = _object(
    {
        "schema": {"type": "integer", "const": RECORD_SCHEMA, "description": "The version of this format."},
        "session": _text("The session's name."),
        "case": _CASE,
        "attempt": {"type": "integer", "minimum": 1, "description": "Which attempt at the case this was."},
        "status": {"enum": [status.value for status in Status], "description": "How the case ended."},
        "reason": _text("Why it ended so; empty when it passed."),
        "started_at": _text("When it started: UTC, ISO 8601."),
        "exec_time_s": _number("Wall time of the command in seconds, the median if it was repeated."),
        "timings_s": _mapping(_number("Seconds."), "How long each phase took: cluster_start, run, …"),
        "returncode": {
            "type": ["integer", "null"],
            "description": "The command's exit code; negative: ended by that signal; null: never started.",
        },
        "command": _texts("The command line that ran, secrets masked."),
        "metrics": _mapping(_MEASUREMENT, "What was measured, by name."),
        "params": {"type": "object", "description": "The parameters that the benchmark itself wrote."},
        "requirements": {"type": "array", "items": _CHECK, "description": "Every requirement, checked."},
        "environment": _text("The id of the environment in environment.json."),
        "revision": _text("The git revision of the suite."),
        "warnings": _texts("What was noticed and did not decide the status."),
        "artifacts": _texts("Files kept with the record, relative to its directory."),
        "details": {
            "type": "object",
            "description": "What only some kinds of cases know; absent when empty.",
        },
    },
    "What happened when a case ran.",
    optional=("details",),
)

_FINDING = _object(
    {
        "judge": _text("Who says so."),
        "case": _text("The case's key."),
        "metric": _text("The metric."),
        "verdict": {"enum": list(get_args(Verdict)), "description": "What changed."},
        "effect": _number("The relative change.", optional=True),
        "low": _number("The lower end of the effect's interval.", optional=True),
        "high": _number("The upper end of the effect's interval.", optional=True),
        "evidence": {"type": "object", "description": "What the verdict rests on."},
        "message": _text("The finding in a sentence."),
        "id": _text("Its id in the history; empty if it has none."),
        "state": {
            "enum": list(get_args(State)),
            "description": "What became of it; only new ones fail anything.",
        },
    },
    "What a judge says about one metric of one case.",
    optional=("id", "state"),
)

_REQUIREMENT = _object(
    {
        "metric": _text("The metric that is bounded."),
        "kind": {"enum": list(get_args(CheckKind)), "description": "The kind of bound."},
        "bound": _scalar("The bound."),
        "tolerance": _number("The share of the bound by which it is widened."),
        "severity": {"enum": list(get_args(Severity)), "description": "What an unmet one does to the case."},
    },
    "A bound on a metric, as configured.",
)

_RESOURCES = _object(
    {
        "cpus": _number("CPU cores."),
        "gpus": {"type": "integer", "description": "GPUs."},
        "memory_bytes": {"type": "integer", "description": "Memory in bytes; 0: not accounted for."},
        "exclusive": {"type": "boolean", "description": "Whether nothing may run beside it."},
        "labels": _mapping({"type": "string"}, "Labels that its node must have."),
    },
    "What the case takes while it runs.",
    optional=("labels",),
)

_PLANNED_CASE = _object(
    {
        "name": _text("The case's name."),
        "key": _text("The case's identity in history."),
        "params": _mapping(_scalar("A parameter's value."), "The parameters that the matrix set."),
        "argv": _texts("The command, word by word, with the directories it would have."),
        "env": _texts("The names of the variables that the case sets; values may be secret."),
        "timeout_s": _number("Seconds after which the command is ended."),
        "resources": _RESOURCES,
        "ray": {"type": ["object", "null"], "description": "The Ray cluster it gets; null: none."},
        "requirements": {"type": "array", "items": _REQUIREMENT, "description": "Bounds on its metrics."},
        "blocked": {"type": ["string", "null"], "description": "What keeps the case from running."},
    },
    "A case with everything resolved.",
    optional=("blocked",),
)


def _document(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"$schema": _DRAFT, "title": name, **schema}


RECORD = _document("paceline record", _RECORD)

REPORT = _document(
    "paceline report",
    _object(
        {
            "schema": {
                "type": "integer",
                "const": REPORT_SCHEMA,
                "description": "The version of this format.",
            },
            "session": _text("The session's name."),
            "ok": {"type": "boolean", "description": "Whether all passed and nothing got worse."},
            "records": {"type": "array", "items": _RECORD, "description": "A record for each case."},
            "findings": {"type": "array", "items": _FINDING, "description": "What the judges found."},
        },
        "A session's outcome.",
    ),
)

PLAN = _document(
    "paceline plan",
    _object(
        {
            "session": _text("The name the session would have."),
            "cases": {"type": "array", "items": _PLANNED_CASE, "description": "What would run, in order."},
            "errors": _texts("What keeps cases or sinks from running, one line each."),
            "setups": {"type": "array", "items": _PLANNED_CASE, "description": "Data set-ups, run first."},
            "warnings": _texts("What is odd and keeps nothing from running."),
        },
        "What a session would do.",
        optional=("setups", "warnings"),
    ),
)

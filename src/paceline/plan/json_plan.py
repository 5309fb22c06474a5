"""The plan as others read it: as JSON, and what stands in its way."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.model import Case, Plan, SinkSpec
from paceline.record.layout import entry_path
from paceline.record.masking import mask_plan
from paceline.record.redact import Redactor


def plan_errors(plan: Plan) -> tuple[str, ...]:
    """Why cases and sinks are blocked, a line each: `file:line: entries[3] (name): …`."""
    return plan.settings.errors


def plan_json(plan: Plan, redactor: Redactor) -> dict[str, Any]:
    """The plan as `paceline plan --json` prints it, without secrets."""
    masked = mask_plan(plan, redactor)
    return {
        "session": masked.session,
        "directory": str(masked.directory),
        "setups": [_case_json(case, masked.directory, redactor) for case in masked.setups],
        "cases": [_case_json(case, masked.directory, redactor) for case in masked.cases],
        "sinks": [_sink_json(sink) for sink in masked.sinks],
        "warnings": list(masked.warnings),
        "errors": list(plan_errors(masked)),
    }


def _case_json(case: Case, directory: Path, redactor: Redactor) -> dict[str, Any]:
    """A masked case; its texts are masked again with the directory put in, of which a secret may be a part."""
    run_dir = entry_path(directory, case)
    return {
        "name": case.name,
        "key": case.key,
        "params": dict(case.params),
        "argv": [redactor.text(case.at(word, run_dir)) for word in case.argv],
        "env": sorted(case.env),
        "cwd": redactor.text(case.at(case.cwd, run_dir)) if case.cwd else None,
        "timeout_s": case.timeout_s,
        "resources": {
            "cpus": case.resources.cpus,
            "gpus": case.resources.gpus,
            "memory_bytes": case.resources.memory_bytes,
            "exclusive": case.resources.exclusive,
            **({"labels": dict(case.resources.labels)} if case.resources.labels else {}),
        },
        "ray": case.cluster,
        "requirements": [asdict(requirement) for requirement in case.requirements],
        "repeat": case.repeat,
        "warmup": case.warmup,
        "tags": list(case.tags),
        "needs": list(case.needs),
        "fingerprint": case.fingerprint,
        "blocked": case.blocked,
    }


def _sink_json(sink: SinkSpec) -> dict[str, Any]:
    return {
        "name": sink.name,
        "type": sink.type,
        "required": sink.required,
        "options": dict(sink.options),
        "blocked": sink.blocked,
    }

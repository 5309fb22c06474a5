"""Secrets are masked in what comes from outside, never in our own words.

A secret may have the value `name` or `passed`. Masked over a whole document it would take away keys and statuses, and
nothing could read the document again; so each part is masked here before documents are made of it. What things are
found by stays as it is: names of sessions, cases and sinks, fingerprints, ids, times.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paceline.model import (
    RUN_DIR,
    Case,
    Check,
    Finding,
    Measurement,
    Plan,
    Record,
    Requirement,
    Settings,
    SinkSpec,
)
from paceline.record import layout
from paceline.record.packages import CONDA
from paceline.record.redact import MIN_SECRET_LENGTH, Redactor, mask_urls

OWN_METRICS = frozenset(
    {
        *("exec_time_s", "cpu_user_s", "cpu_system_s", "peak_memory_bytes", "mean_memory_bytes"),
        *("io_read_bytes", "io_write_bytes", "voluntary_context_switches", "involuntary_context_switches"),
        *("load_before", "other_cpu_cores", "cpu_pressure_pct", "io_pressure_pct", "memory_pressure_pct"),
        *("gpu_peak_memory_bytes", "gpu_mean_utilization_pct", "gpu_peak_temperature_c"),
        *("is_success", "exit_code", "returncode"),
        *("process_time", "actor_idle_time", "input_data_size_mb", "num_items_processed"),
    }
)
"""Names of metrics that are ours, or that scripts and requirements have from our documentation."""

# Those of at least as many letters as a secret has; the shorter ones are never masked.
_OWN_UNIT = re.compile("(?:bytes|cores|hours|minutes|iops|flops|[kMGT]i?B)(?:/(?:s|h|min|minute|hour|day))?")
_OWN_FILES = frozenset(
    {
        *(layout.LOGS, layout.ARTIFACTS, layout.ATTEMPTS),
        *(
            "stdout.log",
            "stderr.log",
            layout.OUTPUT,
            "pip-freeze.txt",
            CONDA,
            "resources.csv",
            "gpustats.csv",
        ),
    }
)
_RUN_LABEL = re.compile(r"(?:warmup|repeat|attempt)-\d+")
_OWN_EVENT_FIELDS = frozenset({"time", "event", "status", "session", "case", "label", "run_id"})


def mask_record(record: Record, redactor: Redactor) -> Record:
    """A record without secrets; the same object when there are none to mask."""
    if not redactor:
        return record
    return replace(
        record,
        case=mask_case(record.case, redactor),
        reason=redactor.text(record.reason),
        command=redactor.data(record.command),
        metrics={
            _metric_name(name, redactor): _measurement(value, redactor)
            for name, value in record.metrics.items()
        },
        params=redactor.data(record.params),
        requirements=tuple(_check(check, redactor) for check in record.requirements),
        warnings=redactor.data(record.warnings),
        artifacts=tuple(_artifact(path, redactor) for path in record.artifacts),
        details=redactor.data(record.details),
    )


def mask_case(case: Case, redactor: Redactor) -> Case:
    """A case without secrets, to be shown or sent: it has the same name and place, but cannot be run."""
    if not redactor:
        return case
    return replace(
        case,
        params=_inside(case.params, redactor),
        script=case.script and _located(case.script, redactor),
        argv=tuple(_located(word, redactor) for word in case.argv),
        env={name: _located(value, redactor) for name, value in case.env.items()},
        cwd=case.cwd and _located(case.cwd, redactor),
        results_path=_located(case.results_path, redactor),
        cluster=None if case.cluster is None else redactor.values(case.cluster),
        requirements=tuple(_requirement(one, redactor) for one in case.requirements),
        tags=redactor.data(case.tags),
        sink_data=_inside(case.sink_data, redactor),
        blocked=case.blocked and redactor.text(case.blocked),
    )


def mask_plan(plan: Plan, redactor: Redactor) -> Plan:
    """A plan without secrets, to be shown or sent; also without the list of their values."""
    return replace(
        plan,
        setups=tuple(mask_case(case, redactor) for case in plan.setups),
        cases=tuple(mask_case(case, redactor) for case in plan.cases),
        sinks=tuple(_sink(sink, redactor) for sink in plan.sinks),
        secret_values=(),
        settings=_mask_settings(plan.settings, redactor),
        warnings=redactor.data(plan.warnings),
    )


def _mask_settings(settings: Settings, redactor: Redactor) -> Settings:
    pool = settings.pool
    if pool is not None:
        pool = replace(
            pool,
            address=redactor.text(pool.address),
            files=redactor.data(pool.files),
            exclude=redactor.data(pool.exclude),
        )
    return replace(
        settings,
        run_reason=redactor.data(settings.run_reason),
        viewer_url=redactor.data(settings.viewer_url),
        results_url=redactor.text(settings.results_url),
        pool=pool,
        config_files=redactor.data(settings.config_files),
        errors=redactor.data(settings.errors),
    )


def mask_result(data: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """What `result_data` made of a record, without secrets."""
    return {key: _result_part(key, value, redactor) for key, value in data.items()}


def mask_event(fields: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The fields of an event without secrets in the texts that are not ours."""
    return {
        name: value if name in _OWN_EVENT_FIELDS else redactor.values(value) for name, value in fields.items()
    }


def _result_part(key: str, value: Any, redactor: Redactor) -> Any:
    if key in ("name", "stdouterr_file"):
        return value
    if key == "script_metrics":
        return {_metric_name(name, redactor): redactor.data(item) for name, item in value.items()}
    return [_task(task, redactor) for task in value] if key == "tasks" else redactor.data(value)


def _task(value: Any, redactor: Redactor) -> Any:
    """A task's summary: its keys are ours, but for those of the metrics that a stage made up."""
    if isinstance(value, Mapping):
        return {
            key: redactor.data(item) if key == "custom_metrics" else _task(item, redactor)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_task(item, redactor) for item in value]
    return redactor.data(value)


def _metric_name(name: str, redactor: Redactor) -> str:
    return name if name in OWN_METRICS else redactor.name(name)


def _measurement(measurement: Measurement, redactor: Redactor) -> Measurement:
    unit, samples = measurement.unit, measurement.samples
    if unit is not None and len(unit) >= MIN_SECRET_LENGTH and not _OWN_UNIT.fullmatch(unit):
        unit = redactor.text(unit)
    has_text = type(measurement.value) is str or str in map(type, samples)
    if unit == measurement.unit and not has_text:
        return measurement
    return replace(
        measurement, unit=unit, value=redactor.data(measurement.value), samples=redactor.data(samples)
    )


def _check(check: Check, redactor: Redactor) -> Check:
    return replace(
        check,
        metric=_metric_name(check.metric, redactor),
        bound=redactor.data(check.bound),
        actual=redactor.data(check.actual),
        reason=redactor.text(check.reason),
    )


def _requirement(requirement: Requirement, redactor: Redactor) -> Requirement:
    metric, bound = _metric_name(requirement.metric, redactor), redactor.data(requirement.bound)
    if metric is requirement.metric and bound is requirement.bound:
        return requirement
    return replace(requirement, metric=metric, bound=bound)


def _sink(sink: SinkSpec, redactor: Redactor) -> SinkSpec:
    return replace(
        sink,
        options=_inside(mask_urls(sink.options), redactor),
        blocked=sink.blocked and redactor.text(sink.blocked),
    )


def _inside(mapping: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """What a mapping holds, masked throughout, under keys that others know: axes, options, names of sinks."""
    return dict(zip(mapping, redactor.data(tuple(mapping.values())), strict=True))


def _located(text: str, redactor: Redactor) -> str:
    """A text of a case, with the mark of the run's directory left in it."""
    if RUN_DIR not in text:
        return redactor.text(text)
    return RUN_DIR.join(map(redactor.text, text.split(RUN_DIR)))


def _artifact(path: str, redactor: Redactor) -> str:
    """The path of a file that was kept: the directories it begins with are ours, and some of the names."""
    parts = path.split("/")
    own = 0
    while own < len(parts) and (parts[own] in _OWN_FILES or _RUN_LABEL.fullmatch(parts[own])):
        own += 1
    return "/".join([*parts[:own], *([redactor.text("/".join(parts[own:]))] if own < len(parts) else [])])


def mask_finding(finding: Finding, redactor: Redactor) -> Finding:
    """A finding without secrets; subjects of commits, names of packages and what people said are foreign text."""

    def masked(cause: Mapping[str, Any]) -> dict[str, Any]:
        return {**redactor.values(dict(cause)), "kind": cause.get("kind")}

    said = finding.said
    return replace(
        finding,
        message=redactor.text(finding.message),
        question=redactor.text(finding.question),
        suspects=tuple(map(masked, finding.suspects)),
        culprit=masked(finding.culprit) if finding.culprit else None,
        said=replace(said, why=redactor.text(said.why), who=redactor.text(said.who)) if said else None,
    )

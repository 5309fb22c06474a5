"""A record in MLflow's words: metrics, parameters, tags, times and links."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from paceline.model import Plan, Record, Report, Scalar
from paceline.record.codec import dump, plain
from paceline.record.repository import git_of_suite
from paceline.sinks import SinkContext

if TYPE_CHECKING:
    from mlflow.entities import Metric, Param

KEY = "paceline.key"
LONGEST_NAME, LONGEST_VALUE = 250, 5000
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_\-. :/]")
# MLflow takes names for paths and refuses those that a path would not keep.
_NOT_A_PATH = re.compile(r"(^[./]+)|((?<=/)[./]+)|([./]+$)")


def make_metrics(record: Record) -> "list[Metric]":
    """Each metric with its samples as steps; where there are several, the record's value comes last."""
    from mlflow.entities import Metric

    at_ms = started_at_ms(record)
    found = []
    for name, measured in record.metrics.items():
        key = safe_name(name)
        values = measured.samples if len(measured.samples) > 1 else ()
        for step, value in enumerate([*values, measured.value]):
            number = as_number(value)
            if number is not None:
                found.append(Metric(key=key, value=number, timestamp=at_ms, step=step))
    return found


def make_counts(report: Report, context: SinkContext) -> "list[Metric]":
    """How many cases ended how; the same at every try, and a step for each time that the session came to an end."""
    from mlflow.entities import Metric

    at_ms = as_ms(str(context.environment.get("captured_at", "")))
    step = int(context.key.rpartition("-")[2])
    return [
        Metric(key=status.value, value=float(count), timestamp=at_ms, step=step)
        for status, count in report.counts.items()
    ]


def make_params(record: Record) -> "list[Param]":
    from mlflow.entities import Param

    given = {**record.case.params, **record.params}
    return [Param(safe_name(name), _text(value)) for name, value in given.items()]


def as_number(value: Scalar) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None


def safe_name(name: str) -> str:
    """A name that MLflow takes; one that had to be changed ends with a hash, so that no two become one."""
    kept = _NOT_A_PATH.sub("_", _NOT_IN_NAMES.sub("_", name))[:LONGEST_NAME]
    if kept == name and name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{kept[: LONGEST_NAME - 7]}-{digest}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else dump(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def session_tags(plan: Plan, context: SinkContext) -> dict[str, str]:
    """What is known of a session before it runs: who it is, the repository, the machine."""
    return {
        KEY: context.session_id,
        "paceline.session": context.session,
        "paceline.cases": str(len(plan.cases)),
        **dict(_environment_tags(context.environment)),
        **({"paceline.reason": reason} if (reason := plan.settings.run_reason) else {}),
        **({"paceline.report": context.report_url} if context.report_url else {}),
    }


def _environment_tags(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    git = git_of_suite(environment)
    names = {"revision": "mlflow.source.git.commit", "branch": "mlflow.source.git.branch"}
    for name, tag in names.items():
        if git.get(name):
            yield tag, str(git[name])
    if "dirty" in git:
        yield "paceline.git.dirty", str(git["dirty"]).lower()
    cpu, python = environment.get("cpu") or {}, environment.get("python") or {}
    facts = {
        "hostname": environment.get("hostname"),
        "platform": environment.get("platform"),
        "environment": environment.get("id"),
        "environment_class": environment.get("class_id"),
        "cpu": cpu.get("model"),
        "cpus": cpu.get("count"),
        "memory_bytes": environment.get("memory_bytes"),
        "python": python.get("version"),
    }
    for name, fact in facts.items():
        if fact is not None:
            yield f"paceline.{name}", _text(str(fact))


def record_tags(record: Record, context: SinkContext, parent: str) -> dict[str, str]:
    """What a child run is found by, and what of its record is neither number nor parameter."""
    texts = {
        f"metric.{safe_name(name)}": _text(plain(measured.value))
        for name, measured in record.metrics.items()
        if as_number(measured.value) is None
    }
    facts = {
        "mlflow.parentRunId": parent,
        KEY: context.key,
        "paceline.session": record.session,
        "paceline.case": record.case.name,
        "paceline.case_key": record.case.key,
        "paceline.attempt": str(record.attempt),
        "paceline.status": record.status.value,
        "paceline.reason": record.reason,
        "paceline.environment": record.environment,
        "mlflow.source.git.commit": record.revision,
        "paceline.tags": ",".join(record.case.tags),
        "paceline.warnings": "\n".join(record.warnings),
    }
    return {**texts, **{name: _text(fact) for name, fact in facts.items() if fact}}


def started_at_ms(record: Record) -> int:
    return as_ms(record.started_at)


def as_ms(time: str) -> int:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def ends_at_ms(record: Record) -> int:
    return started_at_ms(record) + round(1000 * record.exec_time_s)


def link_to(uri: str, experiment: str, run: str, environ: Mapping[str, str]) -> str:
    """Where people look at a run: an address, or the command that serves it."""
    page = f"experiments/{experiment}/runs/{run}"
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}/#/{page}"
    if uri.startswith("databricks"):
        return f"{environ.get('DATABRICKS_HOST', 'databricks:').rstrip('/')}/#mlflow/{page}"
    return f"run {run}, to be seen by: mlflow ui --backend-store-uri {uri}"

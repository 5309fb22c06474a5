"""Prometheus: the session's numbers as a text file for the node exporter, or pushed to a gateway."""

import base64
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paceline.model import Record, Report, Scalar
from paceline.record.files import write_atomic
from paceline.sinks import Sink, SinkContext, Undeliverable
from paceline.sinks.http import request

_OWN_LABELS = frozenset({"case", "metric", "unit", "status", "verdict", "job"})

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class PrometheusOptions(BaseModel):
    """Where the numbers go, and by which labels they are found."""

    model_config = ConfigDict(extra="forbid")

    textfile: Path | None = Field(
        default=None, description="A file in the node exporter's directory, `*.prom`."
    )
    pushgateway: str | None = Field(default=None, description="A Pushgateway's address.")
    job: str = Field(default="paceline", min_length=1, description="The job that the gateway groups by.")
    grouping: dict[str, str] = Field(default={}, description="Further labels that the gateway groups by.")
    labels: dict[str, str] = Field(default={}, description="Labels on every sample.")
    username: str | None = Field(default=None, description="For a gateway that asks for a name.")
    password_env: str = Field(default="PUSHGATEWAY_PASSWORD", description="The variable with the password.")
    password_file: str | None = Field(default=None, description="A file with it, in place of the variable.")

    @field_validator("labels", "grouping")
    @classmethod
    def _good_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not LABEL_NAME.fullmatch(name) or name.startswith("__") or name in _OWN_LABELS:
                raise ValueError(f"{name!r} is no name for a label here")
        return value

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.textfile is None and self.pushgateway is None:
            raise ValueError("give `textfile`, `pushgateway` or both")
        return self

    def secrets(self) -> dict[str, str | None]:
        """The variables that hold what it cannot do without, each with a file that may stand in for it."""
        asks = self.pushgateway is not None and self.username is not None
        return {self.password_env: self.password_file} if asks else {}


class PrometheusSink(Sink):
    """Tells a session's numbers when it has ended; each time they take the place of the earlier ones."""

    Options = PrometheusOptions
    options: PrometheusOptions

    def __init__(self, options: PrometheusOptions, context: SinkContext) -> None:
        super().__init__(options, context)

    def close(self, report: Report) -> None:
        families = list(make_families(report))
        if self.options.textfile is not None:
            self._write(self.options.textfile, format_families(families, self.options.labels))
        if self.options.pushgateway is not None:
            self._push(self.options.pushgateway, format_families(families, self.options.labels))

    def _write(self, path: Path, page: bytes) -> None:
        try:
            write_atomic(path, page)
        except OSError as error:
            raise Undeliverable(f"cannot write {path}: {error.strerror or error}") from None

    def _push(self, gateway: str, page: bytes) -> None:
        headers = {"Content-Type": CONTENT_TYPE}
        if self.options.username is not None:
            password = self.context.secret(self.options.password_env, self.options.password_file)
            pair = base64.b64encode(f"{self.options.username}:{password}".encode()).decode()
            self.context.keep_secret(pair)
            headers["Authorization"] = f"Basic {pair}"
        address = (
            f"{gateway.rstrip('/')}/metrics/{group_path({'job': self.options.job, **self.options.grouping})}"
        )
        timeout_s = min(self.context.timeout_s / 3, 20.0)
        # PUT takes the place of the whole group, so that a repeated push changes nothing.
        request("PUT", address, body=page, headers=headers, timeout_s=timeout_s)


def group_path(labels: dict[str, str]) -> str:
    """The gateway's address of a group; values that a path cannot hold are in base64, the empty one as `=`."""
    return "/".join(_group_part(name, value) for name, value in labels.items())


def _group_part(name: str, value: str) -> str:
    if value and "/" not in value:
        return f"{name}/{quote(value, safe='')}"
    encoded = base64.urlsafe_b64encode(value.encode()).decode().rstrip("=") or "="
    return f"{name}@base64/{encoded}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric of Prometheus: a name, what it means, and its samples by label."""

    name: str
    meaning: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        self.samples.append((labels, value))


def make_families(report: Report) -> Iterator[Family]:
    """The families of a session; data set-ups are no benchmarks and have none."""
    values = Family(name="paceline_metric", meaning="A metric's value in the latest session.")
    times = Family(name="paceline_case_seconds", meaning="Wall time of a case.")
    passed = Family(name="paceline_case_passed", meaning="Whether a case passed.")
    for record in report.records:
        if record.case.kind == "entry":
            _add_record(record, values, times, passed)
    effects = Family(name="paceline_change_ratio", meaning="Relative change that a judge found.")
    for finding in report.findings:
        if finding.effect is not None and finding.verdict in ("worse", "better"):
            effects.add(finding.effect, case=finding.case, metric=finding.metric, verdict=finding.verdict)
    counts = Family(name="paceline_cases", meaning="Cases of the latest session by outcome.")
    for status, count in report.counts.items():
        counts.add(float(count), status=status.value)
    yield from (values, times, passed, effects, counts)
    yield _single("paceline_session_ok", "Whether the latest session was good.", float(report.ok))
    ended = datetime.now(UTC).timestamp()
    yield _single("paceline_session_end_timestamp_seconds", "When the latest session was told.", ended)


def _add_record(record: Record, values: Family, times: Family, passed: Family) -> None:
    case = record.case.name
    for name, measurement in record.metrics.items():
        number = as_number(measurement.value)
        if number is not None:
            values.add(number, case=case, metric=name, unit=measurement.unit or "")
    times.add(record.exec_time_s, case=case)
    passed.add(float(record.status.ok), case=case)


def as_number(value: Scalar) -> float | None:
    """A metric's value as Prometheus holds it; None for text, and for integers past all floats."""
    if value is None or isinstance(value, str):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _single(name: str, meaning: str, value: float) -> Family:
    family = Family(name=name, meaning=meaning)
    family.add(value)
    return family


def format_families(families: Iterable[Family], labels: Mapping[str, str]) -> bytes:
    """The page; `labels` go on every sample."""
    return "".join(f"{line}\n" for family in families for line in _lines(family, labels)).encode(
        "utf-8", "replace"
    )


def _lines(family: Family, common: Mapping[str, str]) -> Iterator[str]:
    if not family.samples:
        return
    yield f"# HELP {family.name} {escape_help(family.meaning)}"
    yield f"# TYPE {family.name} gauge"
    for labels, value in family.samples:
        written = ",".join(f'{name}="{escape_label(text)}"' for name, text in {**common, **labels}.items())
        yield (
            f"{family.name}{{{written}}} {format_value(value)}"
            if written
            else f"{family.name} {format_value(value)}"
        )


def escape_label(text: str) -> str:
    """A label's value: backslash, quote and line feed are written with a backslash."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def format_value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))

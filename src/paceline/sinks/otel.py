"""OpenTelemetry: an entry's numbers as gauges, by OTLP over HTTP in JSON."""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Measurement, Record, Scalar
from paceline.sinks import Sink, SinkContext, TryLater, Undeliverable
from paceline.sinks.http import Answer, post_json, retry_after_s

_EVERY_STATUS = frozenset(range(300, 600))
_PASSING = frozenset({429, 502, 503, 504})
"""The statuses after which the protocol allows another try; a 500 is final."""

_UNITS: Mapping[str, str] = {
    "bytes": "By",
    "KiB": "KiBy",
    "MiB": "MiBy",
    "GiB": "GiBy",
    "kB": "kBy",
    "MB": "MBy",
}
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_./-]")
_LONGEST_NAME = 255


class OtelOptions(BaseModel):
    """Which collector, and as which service."""

    model_config = ConfigDict(extra="forbid")

    endpoint: str | None = Field(
        default=None, description="`OTEL_EXPORTER_OTLP_ENDPOINT`, else http://localhost:4318."
    )
    service_name: str = Field(default="paceline", min_length=1, description="`service.name` of the resource.")
    attributes: dict[str, str] = Field(default={}, description="Further attributes of the resource.")
    headers_env: str = Field(
        default="OTEL_EXPORTER_OTLP_HEADERS",
        description="The variable with headers, `name=value,…`, such as a key.",
    )


class OtelSink(Sink):
    """Sends each record's metrics; a point has the record's time, so a repeated one takes its own place.

    The session's end adds nothing: its outcome is in its entries' points.
    """

    Options = OtelOptions
    options: OtelOptions

    def __init__(self, options: OtelOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        given = options.endpoint or context.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        self._url = f"{(given or 'http://localhost:4318').rstrip('/')}/v1/metrics"
        self._headers = parse_headers(context.find_secret(options.headers_env) or "")
        for value in self._headers.values():
            context.keep_secret(value)

    def record(self, record: Record) -> None:
        metrics = list(record_metrics(record))
        if metrics:
            self._send(metrics)

    def _send(self, metrics: list[dict[str, Any]]) -> None:
        resource = {
            "service.name": self.options.service_name,
            "paceline.session": self.context.session,
            "host.name": str(self.context.environment.get("hostname") or ""),
            **self.options.attributes,
        }
        scope = {"scope": {"name": "paceline"}, "metrics": metrics}
        data = {
            "resourceMetrics": [{"resource": {"attributes": attributes(resource)}, "scopeMetrics": [scope]}]
        }
        timeout_s = min(self.context.timeout_s / 3, 20.0)
        answer = post_json(
            self._url, data, headers=self._headers, timeout_s=timeout_s, expected=_EVERY_STATUS
        )
        _check(answer)


def _check(answer: Answer) -> None:
    if answer.status >= 300:
        text = f"the OpenTelemetry collector answered {answer.status}"
        if answer.status in _PASSING:
            raise TryLater(text, after_s=retry_after_s(answer.headers.get("retry-after")))
        raise Undeliverable(text)
    data = answer.json() if answer.body.strip() else {}
    partial = data.get("partialSuccess") if isinstance(data, dict) else None
    rejected = int((partial or {}).get("rejectedDataPoints") or 0)
    if rejected:
        raise Undeliverable(f"the OpenTelemetry collector took all but {rejected} points")


def record_metrics(record: Record) -> Iterator[dict[str, Any]]:
    """A record's metrics as gauges of one point each."""
    labels = {
        "paceline.case": record.case.name,
        "paceline.status": record.status.value,
        "paceline.revision": record.revision,
        **{f"paceline.param.{name}": value for name, value in record.case.params.items()},
    }
    time = _nanoseconds(record)
    measured = {"exec_time_s": Measurement(value=record.exec_time_s, unit="s"), **record.metrics}
    for name, measurement in measured.items():
        number = _number(measurement.value)
        if number is not None:
            point = {"timeUnixNano": str(time), "attributes": attributes(labels), **number}
            unit = _UNITS.get(measurement.unit or "", measurement.unit or "")
            yield {"name": metric_name(name), "unit": unit, "gauge": {"dataPoints": [point]}}


def _nanoseconds(record: Record) -> int:
    """When the record was made: its start and what it took."""
    try:
        start_s = datetime.fromisoformat(record.started_at).timestamp()
    except ValueError:
        start_s = 0.0
    return int((start_s + record.exec_time_s) * 1e9)


def _number(value: Scalar) -> dict[str, Any] | None:
    """A point's value; whole numbers of 64 bits are text in this encoding, larger ones are no points."""
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, int):
        whole = int(value)
        return {"asInt": str(whole)} if -(2**63) <= whole < 2**63 else None
    return {"asDouble": value} if math.isfinite(value) else None


def metric_name(name: str) -> str:
    """A name that instruments may have."""
    return f"paceline.{_OTHER_CHARACTERS.sub('_', name)}"[:_LONGEST_NAME]


def attributes(values: Mapping[str, Scalar]) -> list[dict[str, Any]]:
    """Attributes as the protocol writes them; empty ones are left out."""
    return [
        {"key": key, "value": _any_value(value)} for key, value in values.items() if value not in (None, "")
    ]


def _any_value(value: Scalar) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    number = _number(value)
    if number is None:
        return {"stringValue": str(value)}
    return {"intValue": number["asInt"]} if "asInt" in number else {"doubleValue": number["asDouble"]}


def parse_headers(text: str) -> dict[str, str]:
    """Headers as OpenTelemetry's variable has them."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}

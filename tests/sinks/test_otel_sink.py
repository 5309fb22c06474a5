"""OpenTelemetry against a collector that reads the JSON encoding as it is defined."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from loopback import Asked, Loopback, Reply
from paceline.model import Case, Measurement
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.otel import OtelSink, metric_name, parse_headers
from service_sessions import build, make_record, run_session

KEY = "planted-api-key"


def value_of(value: dict[str, Any]) -> Any:
    """What an attribute or a point holds; whole numbers of 64 bits are texts here."""
    ((kind, content),) = value.items()
    if kind in ("intValue", "asInt"):
        assert isinstance(content, str) and -(2**63) <= int(content) < 2**63
        return int(content)
    assert (
        type(content)
        is {"stringValue": str, "boolValue": bool, "doubleValue": float, "asDouble": float}[kind]
    )
    return content


class FakeCollector(Loopback):
    """Points by name and attributes."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.points: dict[tuple[str, str, str], Any] = {}
        self.attributes: dict[str, Any] = {}
        self.resource: dict[str, Any] = {}
        self.units: dict[str, str] = {}
        self.reply: Reply | None = None

    def _serve(self, asked: Asked) -> Reply:
        if self.reply:
            return self.reply
        assert (asked.method, asked.path) == ("POST", "/v1/metrics")
        assert asked.headers["content-type"] == "application/json"
        if asked.headers.get("x-api-key") != KEY:
            return Reply(401, b"{}")
        json_format.Parse(
            asked.body, ExportMetricsServiceRequest()
        )  # refuses what the protocol does not have
        data = json.loads(asked.body, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
        (resource,) = data["resourceMetrics"]
        self.resource = {one["key"]: value_of(one["value"]) for one in resource["resource"]["attributes"]}
        for metric in resource["scopeMetrics"][0]["metrics"]:
            self._take(metric)
        return Reply(200, b"{}")

    def _take(self, metric: dict[str, Any]) -> None:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]{0,254}", metric["name"])
        (point,) = metric["gauge"]["dataPoints"]
        assert point["timeUnixNano"].isdecimal()
        self.attributes = {one["key"]: value_of(one["value"]) for one in point["attributes"]}
        number = {key: value for key, value in point.items() if key.startswith("as")}
        self.points[metric["name"], self.attributes["paceline.case"], point["timeUnixNano"]] = value_of(
            number
        )
        self.units[metric["name"]] = metric["unit"]


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with FakeCollector() as server:
        yield server


def sink_for(collector: FakeCollector, place: Path, key: str = KEY) -> OtelSink:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{collector.url}/",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={key},x-odd=a%20b",
    }
    options = {"attributes": {"deployment.environment": "ci"}}
    return build(OtelSink, place, options, environ, environment={"hostname": "box"})


def test_every_number_of_a_record_is_a_point(collector: FakeCollector, tmp_path: Path) -> None:
    case = Case(
        name="sort[n=3]", entry="sort", key="sort", params={"n": 3, "fast": True, "x": 0.5, "none": None}
    )
    odd = {
        "peak_memory_bytes": Measurement(value=2**40, unit="bytes"),
        "a b/ü": Measurement(value=1.5),
        "nan": Measurement(value=math.nan),
        "huge": Measurement(value=2**70),
        "text": Measurement(value="x"),
        "ok": Measurement(value=True),
    }
    for _ in range(2):  # a repeated point takes its own place
        run_session(sink_for(collector, tmp_path), [make_record(case=case, metrics=odd, revision="1a2b")])
    shown = {name: value for (name, _, _), value in collector.points.items()}
    assert shown == {
        "paceline.exec_time_s": 1.5,
        "paceline.peak_memory_bytes": 2**40,
        "paceline.a_b/_": 1.5,
        "paceline.ok": 1,
    }
    assert len(collector.points) == 4
    assert {time for _, _, time in collector.points} == {"1793491201500000000"}
    assert collector.units["paceline.peak_memory_bytes"] == "By"
    assert collector.attributes == {
        "paceline.case": "sort[n=3]",
        "paceline.status": "passed",
        "paceline.revision": "1a2b",
        "paceline.param.n": 3,
        "paceline.param.fast": True,
        "paceline.param.x": 0.5,
    }
    assert collector.resource == {
        "service.name": "paceline",
        "paceline.session": "night",
        "host.name": "box",
        "deployment.environment": "ci",
    }


@pytest.mark.parametrize(
    ("status", "kind"), [(429, TryLater), (503, TryLater), (500, Undeliverable), (400, Undeliverable)]
)
def test_only_what_the_protocol_allows_is_tried_again(
    collector: FakeCollector, tmp_path: Path, status: int, kind: type[Exception]
) -> None:
    collector.reply = Reply(status, b"", {"Retry-After": "4"})
    with pytest.raises(kind, match=f"answered {status}") as refusal:
        sink_for(collector, tmp_path).record(make_record())
    assert getattr(refusal.value, "after_s", 4.0) == 4.0


def test_points_that_were_refused_are_said(collector: FakeCollector, tmp_path: Path) -> None:
    collector.reply = Reply(
        200, b'{"partialSuccess": {"rejectedDataPoints": "2", "errorMessage": "too old"}}'
    )
    with pytest.raises(Undeliverable, match="all but 2 points"):
        sink_for(collector, tmp_path).record(make_record())


def test_a_key_is_never_shown(collector: FakeCollector, tmp_path: Path) -> None:
    kept: list[str] = []
    sink = sink_for(collector, tmp_path, key="another-planted-key")
    with pytest.raises(Undeliverable) as refusal:
        sink.record(make_record())
    assert "planted" not in str(refusal.value)
    build(
        OtelSink,
        tmp_path,
        {},
        {"OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=planted%21"},
        keep_secret=kept.append,
    )
    assert "planted!" in kept


def test_names_and_headers() -> None:
    assert metric_name("x" * 400) == "paceline." + "x" * 246
    assert parse_headers("a=1, b = c=d ,nonsense") == {"a": "1", "b": "c=d"}

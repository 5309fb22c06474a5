"""Prometheus' text as its own parser reads it, a file that is whole at any time, and a gateway."""

import base64
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from loopback import Asked, Loopback, Reply
from paceline.model import Case, Measurement
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.prometheus import Family, PrometheusSink, format_families, group_path
from service_sessions import REGRESSION, build, make_record, make_report, run_session, too_slow

Sample = tuple[str, tuple[tuple[str, str], ...]]
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", re.DOTALL)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
UNESCAPED = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}


def parse(page: bytes) -> dict[Sample, float]:
    """The samples of a page, read as strictly as the format is defined; each only once, families together."""
    found: dict[Sample, float] = {}
    seen: list[str] = []
    *lines, last = page.decode().split("\n")
    assert last == ""
    for line in lines:
        if line.startswith("# "):
            assert re.match(r"# (HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* ", line)
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match[1], match[2] or "", match[3]
        assert seen[-1:] == [name] or name not in seen
        seen.append(name)
        pairs = LABEL.findall(labels)
        assert "".join(f'{label}="{text}",' for label, text in pairs).rstrip(",") == labels.rstrip(",")
        unescaped = tuple((label, re.sub(r"\\.", lambda m: UNESCAPED[m[0]], text)) for label, text in pairs)
        assert (name, unescaped) not in found
        found[name, unescaped] = float(value.replace("Inf", "inf"))
    return found


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXT, st.floats(), min_size=1, max_size=8), TEXT)
def test_any_labels_and_values_are_read_back(values: dict[str, float], common: str) -> None:
    family = Family(name="paceline_metric", meaning="a\\b\nc")
    for text, value in values.items():
        family.add(value, case=text)
    read = parse(format_families([family], {"team": common}))
    expected = {
        ("paceline_metric", (("team", common), ("case", text))): value for text, value in values.items()
    }
    assert read.keys() == expected.keys()
    for key, value in expected.items():
        assert read[key] == value or (math.isnan(read[key]) and math.isnan(value))


@given(st.dictionaries(TEXT, st.floats(allow_nan=False), min_size=1, max_size=8))
def test_prometheus_own_client_reads_the_same(values: dict[str, float]) -> None:
    family = Family(name="paceline_metric", meaning="a\\b\nc")
    for text, value in values.items():
        family.add(value, case=text)
    (read,) = text_string_to_metric_families(format_families([family], {}).decode())
    assert (read.name, read.type, read.documentation) == ("paceline_metric", "gauge", "a\\b\nc")
    assert {sample.labels["case"]: sample.value for sample in read.samples} == values


def test_a_session_is_a_file_that_the_exporter_reads(tmp_path: Path) -> None:
    path = tmp_path / "paceline.prom"
    setup = make_record(case=Case(name="sort", entry="sort", key="sort", kind="data_setup"))
    odd = {
        "text": Measurement(value="abc"),
        "huge": Measurement(value=10**400),
        "yes": Measurement(value=True),
    }
    records = [make_record("sort"), too_slow('jo"in\\'), make_record("odd", metrics=odd), setup]
    sink = build(PrometheusSink, tmp_path, {"textfile": str(path), "labels": {"team": "a"}})
    run_session(sink, records, [REGRESSION])
    read = {
        (name, dict(labels).get("case"), dict(labels).get("metric")): v
        for (name, labels), v in parse(path.read_bytes()).items()
    }
    assert read["paceline_metric", "sort", "docs_per_sec"] == 93.0
    assert read["paceline_case_passed", 'jo"in\\', None] == 0.0
    assert read["paceline_metric", "odd", "yes"] == 1.0
    assert ("paceline_metric", "odd", "text") not in read and ("paceline_metric", "odd", "huge") not in read
    assert read["paceline_change_ratio", "sort", "docs_per_sec"] == -0.125
    assert read["paceline_session_ok", None, None] == 0.0
    assert path.stat().st_mode & 0o444 == 0o444
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["paceline.prom"]


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    sink = build(PrometheusSink, tmp_path, {"textfile": str(tmp_path / "no" / "x.prom")})
    with pytest.raises(Undeliverable, match=r"cannot write .*x\.prom: No such file or directory"):
        sink.close(make_report([make_record()]))


class FakeGateway(Loopback):
    """Groups by their labels, each with the page that was put there last."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.groups: dict[str, dict[Sample, float]] = {}
        self.busy = 0

    def _serve(self, asked: Asked) -> Reply:
        if self.busy:
            self.busy -= 1
            return Reply(503, b"", {"Retry-After": "3"})
        expected = "Basic " + base64.b64encode(b"bench:planted-password").decode()
        if asked.headers.get("authorization") != expected:
            return Reply(401, b"Unauthorized")
        assert asked.method == "PUT" and asked.headers["content-type"].startswith("text/plain; version=0.0.4")
        self.groups[json.dumps(labels_of(asked.path.removeprefix("/metrics/")))] = parse(asked.body)
        return Reply(200)


def labels_of(path: str) -> dict[str, str]:
    """A group's labels as the gateway reads them out of its address."""
    parts = path.split("/")
    assert parts[0] in ("job", "job@base64") and len(parts) % 2 == 0
    found = {}
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        if name.endswith("@base64"):
            padded = "" if value == "=" else value + "=" * (-len(value) % 4)
            found[name.removesuffix("@base64")] = base64.urlsafe_b64decode(padded).decode()
        else:
            assert value
            found[name] = unquote(value)
    return found


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.text("a/ %?#ü", max_size=6))
def test_groups_of_any_labels_have_an_address(job: str, instance: str) -> None:
    assert labels_of(group_path({"job": job, "instance": instance})) == {"job": job, "instance": instance}


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as server:
        yield server


def test_a_session_is_pushed_in_place_of_the_last(gateway: FakeGateway, tmp_path: Path) -> None:
    options = {"pushgateway": gateway.url, "grouping": {"branch": "a/b"}, "username": "bench"}
    environ = {"PUSHGATEWAY_PASSWORD": "planted-password"}
    gateway.busy = 1
    with pytest.raises(TryLater) as later:
        build(PrometheusSink, tmp_path, options, environ).close(make_report([make_record()]))
    assert later.value.after_s == 3.0
    for record in (make_record("old"), make_record("new")):
        build(PrometheusSink, tmp_path, options, environ).close(make_report([record]))
    ((group, samples),) = gateway.groups.items()
    assert json.loads(group) == {"job": "paceline", "branch": "a/b"}
    assert {dict(labels).get("case") for _, labels in samples} == {"new", None}


def test_a_wrong_password_is_never_shown(gateway: FakeGateway, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("planted-and-wrong\n")
    options = {"pushgateway": gateway.url, "username": "bench", "password_file": str(file)}
    with pytest.raises(Undeliverable, match="401") as refusal:
        build(PrometheusSink, tmp_path, options).close(make_report([make_record()]))
    assert "planted" not in str(refusal.value)


@pytest.mark.parametrize("labels", [{"bad-name": "x"}, {"__name__": "x"}, {"case": "x"}])
def test_labels_must_be_usable(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is no name for a label here"):
        PrometheusSink.Options(textfile="x.prom", labels=labels)


def test_a_place_is_needed() -> None:
    with pytest.raises(ValueError, match="give `textfile`, `pushgateway` or both"):
        PrometheusSink.Options()

"""github-action-benchmark: the `data.js` of its pages, or the JSON of `external-data-json-path`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import make_batch, make_case, make_record, make_session, single
from paceline.history.importers.document import Value, complain, parse, read_bytes
from paceline.history.importers.values import (
    environment,
    seconds_in,
    time_from_epoch,
    time_from_text,
)
from paceline.history.session_info import Batch
from paceline.model import Direction, Measurement, Record

FORMAT = "github-action-benchmark"
PREFIX = b"window.BENCHMARK_DATA"
_BIGGER_IS_BETTER = frozenset({"benchmarkjs", "pytest", "customBiggerIsBetter"})
_TIME = re.compile(r"(ns|us|µs|ms|s|sec)(?:/(?:iter|op|iteration|ops))?")
_RATE = re.compile(r"(\w+)/s(?:ec)?")


def matches(data: Any) -> bool:
    return isinstance(data, dict) and {"entries", "lastUpdate"} <= data.keys()


def read_script(path: Path) -> Value:
    """The data in a `data.js`: JSON that is assigned to a variable."""
    _, equals, data = read_bytes(path).partition(b"=")
    if not equals:
        raise complain(path, "assigns nothing", "copy it again from the pages' branch")
    return parse(data.strip().removesuffix(b";"), path)


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """A session for each commit of each suite."""
    repository = document.get("repoUrl").text("")
    # The action does not say where it ran: all its points are of one class.
    surroundings = environment()
    for suite, points in document["entries"].items():
        for point in points.each():
            yield _batch(point, suite, repository, surroundings, path)


def _batch(point: Value, suite: str, repository: str, surroundings: dict[str, Any], path: Path) -> Batch:
    commit, date = point["commit"], point["date"].number()
    revision = commit["id"].text()
    commit_time = time_from_text(commit.get("timestamp").text(""))
    tool = point.get("tool").text("")
    session = make_session(
        FORMAT,
        (repository, suite, revision, str(date)),
        started_at=time_from_epoch(date / 1000) or commit_time,
        revision=revision,
        commit_time=commit_time,
        directory=str(path.absolute().parent),
        meta={"suite": suite, "measured_by": tool, "commit_url": commit.get("url").text("")},
    )
    return make_batch(
        session, surroundings, (_record(bench, suite, tool) for bench in point["benches"].each())
    )


def _record(bench: Value, suite: str, tool: str) -> Record:
    """Only a summary is kept; what it says of its spread is text."""
    name, metric = _measurement(bench, tool)
    texts = {key: bench.get(key).text("") for key in ("range", "extra")}
    return make_record(make_case(f"{suite}/{bench['name'].text()}"), {name: metric}, details=texts)


def _measurement(bench: Value, tool: str) -> tuple[str, Measurement]:
    value, unit = bench["value"].number(), bench.get("unit").text("").strip()
    time, rate = _TIME.fullmatch(unit), _RATE.fullmatch(unit)
    factor = seconds_in(time[1]) if time else None
    bigger: Direction = "higher" if tool in _BIGGER_IS_BETTER else "lower"
    if factor is not None and bigger == "lower":
        return "duration", single(value * factor, "s", "lower")
    if rate:
        return "ops" if rate[1] in ("iter", "ops") else "throughput", single(value, f"{rate[1]}/s", "higher")
    return "value", single(value, unit or None, bigger)

"""pytest-benchmark: the JSON of `--benchmark-json`, `--benchmark-save` and `--benchmark-autosave`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import make_batch, make_case, make_record, make_session, measure, single
from paceline.history.importers.document import Value
from paceline.history.importers.values import environment, time_from_text, time_of_file
from paceline.history.session_info import Batch
from paceline.model import Direction, Measurement, Record, Scalar
from paceline.record.codec import digest

FORMAT = "pytest-benchmark"
_UNKNOWN = frozenset({"unversioned", "unknown", "(unknown)", "(detached head)"})
_SUMMARIES: tuple[tuple[str, str, Direction | None], ...] = (
    ("min", "duration_min", "lower"),
    ("mean", "duration_mean", "lower"),
    ("max", "duration_max", "lower"),
    ("stddev", "duration_std", None),
)


def matches(data: Any) -> bool:
    return isinstance(data, dict) and {"machine_info", "benchmarks"} <= data.keys()


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """One session: a run of pytest."""
    machine, commit = document.get("machine_info"), document.get("commit_info")
    time = document.get("datetime").text("")
    started_at = time_from_text(time) or time_of_file(path)
    revision = _known(commit.get("id"))
    session = make_session(
        FORMAT,
        (revision, time, machine.get("node").text("")) if time else (digest(document.data),),
        started_at=started_at,
        revision=revision,
        branch=_known(commit.get("branch")),
        commit_time=time_from_text(commit.get("time").text("")),
        directory=str(path.absolute().parent),
        meta={"file": path.name, "version": document.get("version").text(""), **_project(commit)},
    )
    yield make_batch(session, _environment(machine), map(_record, document["benchmarks"].each()))


def _known(value: Value) -> str:
    text = value.text("")
    return "" if text in _UNKNOWN else text


def _project(commit: Value) -> dict[str, Any]:
    return {"project": commit.get("project").text(""), "dirty": bool(commit.get("dirty").data)}


def _environment(machine: Value) -> dict[str, Any]:
    cpu = machine.get("cpu")
    return environment(
        hostname=machine.get("node").text(""),
        machine=machine.get("machine").text(""),
        cpu=cpu.get("brand_raw").text("") or cpu.get("brand").text(""),
        cpus=cpu.get("count").count(),
        os=machine.get("system").text(""),
        kernel=machine.get("release").text(""),
        python=machine.get("python_version").text(""),
        implementation=machine.get("python_implementation").text(""),
    )


def _record(item: Value) -> Record:
    fullname, stats, options = item["fullname"].text(), item["stats"], item.get("options")
    params: Mapping[str, Scalar] = item.get("params").scalars()
    stem = fullname.partition("[")[0] if params else fullname
    return make_record(
        make_case(stem, params),
        _metrics(stats),
        params={**params, **item.get("extra_info").scalars()},
        details={
            "nodeid": fullname,
            "path": stem.partition("::")[0],
            "test_name": item.get("name").text(""),
            "original_name": stem.rpartition("::")[2],
            "group": item.get("group").text(""),
            "timer": options.get("timer").text(""),
            "rounds": stats.get("rounds").scalar(),
            "iterations": stats.get("iterations").scalar(),
        },
    )


def _metrics(stats: Value) -> dict[str, Measurement]:
    samples = stats.get("data").numbers()
    if samples:
        return {"duration": measure(samples, "s", "lower")}
    kept = {name: single(stats[key].number(), "s", direction) for key, name, direction in _SUMMARIES}
    return {"duration": single(stats["median"].number(), "s", "lower"), **kept}

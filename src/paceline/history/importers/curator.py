"""NeMo Curator's benchmarking: a session's directory, with `env.json` and a `results.json` in each entry's."""

import csv
import shlex
import statistics
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from paceline.errors import HistoryError
from paceline.history.importers.batch import (
    OnProblem,
    make_batch,
    make_case,
    make_record,
    make_session,
    once,
    single,
)
from paceline.history.importers.document import Value, complain, read_bytes, read_head, read_json
from paceline.history.importers.values import environment, time_from_epoch, time_from_text, time_of_file
from paceline.history.session_info import Batch
from paceline.metrics import describe
from paceline.model import Measurement, Record, Scalar, Status
from paceline.record import below

FORMAT = "curator"
_RESULTS, _ENVIRONMENT = "results.json", "env.json"


def found(directory: Path) -> bool:
    """Whether a directory is a session; one of which only entries are left is one as well."""
    results = _result_files(directory)
    if below.is_file(directory, _ENVIRONMENT):
        return any(results)
    return any(_is_result(path) for path in islice(results, 3))


def _result_files(directory: Path) -> Iterator[Path]:
    """The results of each entry; what a link leads to is not the session's."""
    names = (f"{name}/{_RESULTS}" for name in below.names(directory))
    return (directory / name for name in names if below.is_file(directory, name))


def _is_result(path: Path) -> bool:
    """Whether a file named as Curator's results is one; files of that name are many."""
    try:
        head = read_head(path, 1 << 16)
    except HistoryError:
        return False
    return all(word in head for word in (b'"run_id"', b'"success"', b'"exec_time_s"'))


def batches(directory: Path, on_problem: OnProblem) -> Iterator[Batch]:
    """One session. Curator gives it a name only, so its earliest run on that host tells it from others."""
    path = directory / _ENVIRONMENT
    env = read_json(path) if below.is_file(directory, _ENVIRONMENT) else Value(None, str(path))
    entries = list(_entries(directory, on_problem))
    if not entries:
        raise complain(directory, f"no {_RESULTS} in it can be read", "copy the session again")
    begun = sorted(_begun(entry) for entry, _ in entries)
    host, revision = _said(env.get("hostname")), _said(env.get("git_commit"))
    session = make_session(
        FORMAT,
        (host, revision, begun[0]),
        started_at=begun[0] or time_of_file(directory),
        revision=revision,
        directory=str(directory.absolute()),
        meta={
            "session": directory.name,
            **{
                name: _said(env.get(name))
                for name in ("run_reason", "viewer_url", "image_digest", "ray_version")
            },
        },
    )
    session = replace(session, name=directory.name or session.name)
    yield make_batch(session, _environment(env), (record for _, record in entries))


def _entries(directory: Path, on_problem: OnProblem) -> Iterator[tuple[Value, Record]]:
    """Each entry's results, and the record they make; an entry whose file is damaged is said and left out."""
    for path in _result_files(directory):
        try:
            entry = read_json(path)
            yield entry, _with_gpus(_record(entry), path.parent / "gpustats.csv")
        except HistoryError as problem:
            on_problem(problem)


def _begun(entry: Value) -> str:
    """The time of an entry's start, in seconds since 1970 or, in early versions, as text."""
    time = entry.get("exec_started_at")
    if time.is_number():
        return time_from_epoch(time.number())
    return time_from_text(time.text(""))


def _said(value: Value) -> str:
    """A text that Curator has written; "null" and a space stand for None and for nothing."""
    text = value.text("").strip()
    return "" if text in ("null", "unknown") else text


def _environment(env: Value) -> dict[str, Any]:
    system, _, rest = _said(env.get("platform")).partition("-")
    gpus = _said(
        env.get("cuda_visible_devices")
    )  # An inventory such as "8X NVIDIA H100", in spite of its name.
    return environment(
        hostname=_said(env.get("hostname")),
        os=system,
        kernel=rest.partition("-")[0],
        memory_bytes=env.get("total_system_memory_bytes").count(),
        python=_said(env.get("python_version")),
        gpus=[gpus] if gpus else [],
    )


def _record(entry: Value) -> Record:
    code, took = entry.get("exit_code"), entry.get("exec_time_s")
    exec_time_s = float(took.number()) if took.is_number() else 0.0
    status, reason = _status(entry)
    record = make_record(
        make_case(entry["name"].text()),
        {"exec_time_s": once(exec_time_s, "s", "lower"), **_metrics(entry.get("metrics"))},
        status=status,
        reason=reason,
        started_at=_begun(entry),
        exec_time_s=exec_time_s,
        params={name: _restored(value) for name, value in entry.get("params").scalars().items()},
        details={"run_id": entry.get("run_id").text("")},
    )
    return replace(
        record,
        returncode=code.data if isinstance(code.data, int) else None,
        command=_command(entry.get("cmd")),
        warnings=tuple(warning.text() for warning in entry.get("warnings").each()),
    )


def _command(command: Value) -> tuple[str, ...]:
    if isinstance(command.data, list):
        return tuple(word.text() for word in command.each())
    try:
        return tuple(shlex.split(command.text("")))
    except ValueError:  # A quote without its partner.
        return (command.text(),)


def _status(entry: Value) -> tuple[Status, str]:
    if entry.get("timed_out").data is True:
        return Status.TIMEOUT, "the entry ran into its timeout"
    unmet = dict(entry.get("requirements_not_met").scalars())
    if unmet:
        return Status.REQUIREMENT_FAILED, "; ".join(f"{metric}: {text}" for metric, text in unmet.items())
    if entry["success"].data is True:
        return Status.PASSED, ""
    return Status.FAILED, entry.get("error").text(
        ""
    ) or f"the script ended with {entry.get('exit_code').text('?')}"


def _metrics(metrics: Value) -> dict[str, Measurement]:
    """Numbers, flags and texts; lists of tasks and the like are no metrics."""
    plain = {name: value for name, value in metrics.items() if not isinstance(value.data, dict | list)}
    meanings = {name: describe(name) for name in plain}
    return {
        name: once(_restored(value.scalar()), meanings[name].unit, meanings[name].direction)
        for name, value in plain.items()
    }


def _restored(value: Scalar) -> Scalar:
    """Curator writes None as "null" and no text as a space."""
    return None if value == "null" else "" if value == " " else value


def _with_gpus(record: Record, path: Path) -> Record:
    """The record with what the recorder of GPUs saw, which Curator itself never sums up."""
    if not below.is_file(path.parent, path.name):
        return record
    rows = list(csv.DictReader(read_bytes(path).decode(errors="replace").splitlines()))
    busy, heat = _column(rows, "utilization_gpu_pct"), _column(rows, "temperature_c")
    seen = {
        "gpu_mean_utilization_pct": single(statistics.fmean(busy), "%", None) if busy else None,
        "gpu_peak_temperature_c": single(max(heat), "°C", None) if heat else None,
    }
    return replace(
        record, metrics={**{name: value for name, value in seen.items() if value}, **record.metrics}
    )


def _column(rows: list[dict[str, str]], name: str) -> list[float]:
    texts = (str(row.get(name) or "").strip() for row in rows)
    return [float(text) for text in texts if text.replace(".", "", 1).isdecimal()]

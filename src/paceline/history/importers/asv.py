"""airspeed velocity: a result file of one commit, with the `machine.json` and `benchmarks.json` that lie around it."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from paceline.asv.labels import from_repr
from paceline.history.importers.batch import (
    make_batch,
    make_case,
    make_record,
    make_session,
    measure,
    once,
    single,
)
from paceline.history.importers.document import Value, read_json
from paceline.history.importers.values import (
    environment,
    time_from_epoch,
    time_of_file,
)
from paceline.history.session_info import Batch, SessionInfo
from paceline.model import Case, Direction, Measurement, Record, Scalar, Status

FORMAT = "asv"
_KINDS: Mapping[str, tuple[str, str]] = {
    "time": ("duration", "s"),
    "timeraw": ("duration", "s"),
    "memory": ("memory", "bytes"),
    "mem": ("memory", "bytes"),
    "peakmemory": ("peak_memory", "bytes"),
    "peakmem": ("peak_memory", "bytes"),
}
_PREFIX = re.compile(r"(?i:timeraw|time|peakmem|mem)(?=_|[A-Z])")
_MOST_CELLS = 100_000
_FEW_CELLS = 256
"""Of how many cells a benchmark's cases are remembered from file to file."""


def matches(data: Any) -> bool:
    return isinstance(data, dict) and {"commit_hash", "results", "params"} <= data.keys()


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """One session: a commit on a machine in one of asv's environments."""
    machine = _beside(path.parent / "machine.json")
    about = _beside(path.parent.parent / "benchmarks.json")
    rows = list(_rows(document))
    begun = min(filter(None, (_time(row.get("started_at")) for _, row in rows)), default="")
    commit = document["commit_hash"].text()
    commit_time = _time(document.get("date"))
    name = machine.get("machine").text("") or document["params"].get("machine").text("")
    session = make_session(
        FORMAT,
        (name, commit, document.get("env_name").text("") or path.stem),
        started_at=begun or commit_time or time_of_file(path),
        revision=commit,
        commit_time=commit_time,
        directory=str(path.absolute().parent),
        meta={"file": path.name, "machine": name, "env_name": document.get("env_name").text("")},
    )
    of = session, _environment(document, machine, name)
    variant = _variant(document)
    records = (record for name, row in rows for record in _records(name, row, about.get(name), variant, of))
    yield make_batch(*of, records)


def _beside(path: Path) -> Value:
    """What another of asv's files says; nothing if there is none."""
    try:
        status = path.stat()
    except OSError:
        return Value(None, str(path))
    return _read_once(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_once(path: Path, _modified_ns: int, _size: int) -> Value:
    """Thousands of result files lie beside one `benchmarks.json`."""
    return read_json(path)


def _rows(document: Value) -> Iterator[tuple[str, Value]]:
    """Each benchmark's results by the names of their columns, as asv's format 2 has them; format 1 is like that."""
    columns = [column.text() for column in document.get("result_columns").each()]
    for name, found in document["results"].items():
        if isinstance(found.data, list) and columns:
            row: Any = dict(zip(columns, found.data, strict=False))
        elif isinstance(found.data, dict):
            row = found.data
        else:
            row = {"result": found.data if isinstance(found.data, list) else [found.data]}
        yield name, Value(row, found.file, found.path)


def _variant(document: Value) -> str | None:
    """What asv's matrix installed or set for this environment: another variant, another series."""
    settings = {**document.get("requirements").scalars(), **document.get("env_vars").scalars()}
    return ",".join(f"{name}={value or ''}" for name, value in sorted(settings.items())) or None


def _environment(document: Value, machine: Value, name: str) -> dict[str, Any]:
    facts = machine if machine.data is not None else document["params"]
    python = document.get("python").text(
        ""
    )  # A version, or for an environment that was there already, a path.
    return environment(
        machine_name=name,
        machine=facts.get("arch").text(""),
        cpu=facts.get("cpu").text(""),
        cpus=facts.get("num_cpu").count(),
        memory_bytes=facts.get("ram").count() * 1024,
        os=facts.get("os").text(""),
        python=python if python[:1].isdecimal() else "",
    )


def _records(
    name: str, row: Value, about: Value, variant: str | None, of: tuple[SessionInfo, Mapping[str, Any]]
) -> Iterator[Record]:
    """One record a cell of the benchmark's parameters, in asv's order: the last parameter changes first.

    An import may have a million cells, so what they share is looked at once, and only odd ones know their place.
    """
    axes = tuple([tuple([value.text() for value in axis.each()]) for axis in row.get("params").each()])
    count = math.prod(map(len, axes))
    if count > _MOST_CELLS:
        raise row.wrong(f"has more than {_MOST_CELLS:,} combinations of parameters")
    labels = tuple([label.text() for label in about.get("param_names").each()])
    version = row.get("version").text("") or about.get("version").text("1")
    cases = (_known_cases if count <= _FEW_CELLS else _cases)(name, labels, axes, version, variant)
    meaning = _meaning(name.rpartition(".")[2], about)
    started_at = _time(row.get("started_at")) or of[0].started_at
    source = _source(about) if about.get("version").data == row.get("version").data else {}
    result, samples = row.get("result"), row.get("samples")
    # Where asv has one result for all, they have all failed.
    cells = result.data if isinstance(result.data, list) else [result.data] * count
    columns = [_scalars(row.get(name), count) for name in ("stats_number", "stats_repeat")]
    for position, (case, cell, number, repeat) in enumerate(zip(cases, cells, *columns, strict=False)):
        value = cell if cell is None or type(cell) is float else _at(result, position).number()
        status = Status.FAILED if value is None else Status.SKIPPED if value != value else Status.PASSED
        yield make_record(
            case,
            {} if value is None or value != value else _metrics(meaning, value, _at(samples, position)),
            status=status,
            reason=_REASONS[status],
            started_at=started_at,
            details={"number": number, "repeat": repeat, **source},
            of=of,
        )


def _cases(
    name: str, labels: Sequence[str], axes: Sequence[Sequence[str]], version: str, variant: str | None
) -> tuple[Case, ...]:
    """The case of each combination of parameters; asv may not have names for all of these."""
    named = [*labels, *(f"param{number}" for number in range(len(labels) + 1, len(axes) + 1))]
    every = (dict(zip(named, map(from_repr, values), strict=False)) for values in product(*axes))
    return tuple(make_case(name, params, version=version, variant=variant) for params in every)


_known_cases = lru_cache(maxsize=1024)(_cases)
"""The same: thousands of files have the same cases."""


def _scalars(column: Value, count: int) -> list[Scalar]:
    """A column's value for each cell, None where it has none."""
    known = [value.scalar() for value in column.each()] if isinstance(column.data, list) else []
    return known + [None] * (count - len(known))


def _at(column: Value, position: int) -> Value:
    """A column's value for one cell, of None where it has none."""
    items = column.data if isinstance(column.data, list) else ()
    found = items[position] if position < len(items) else None
    return column if found is column.data else Value(found, column.file, f"{column.path}[{position}]")


def _source(about: Value) -> dict[str, str]:
    code = about.get("code").text("")
    return {"source": code, "source_hash": hashlib.sha256(code.encode()).hexdigest()} if code else {}


_REASONS = {
    Status.PASSED: "",
    Status.FAILED: "asv has no result: the benchmark failed or took too long",
    Status.SKIPPED: "asv has not a number for it: its setup said that it does not apply",
}


def _metrics(
    meaning: tuple[str, str | None, Direction | None], value: float, samples: Value
) -> dict[str, Measurement]:
    metric, unit, direction = meaning
    numbers = samples.numbers() if isinstance(samples.data, list) else ()
    if numbers:
        return {metric: measure(numbers, unit, direction)}
    # Of times asv keeps only the median unless told otherwise; anything else it measures once.
    return {metric: (single if metric == "duration" else once)(value, unit, direction)}


def _meaning(function: str, about: Value) -> tuple[str, str | None, Direction | None]:
    """By the kind that asv has found, else by the prefix that it finds it by; what it tracks has no direction."""
    prefix = _PREFIX.match(function)
    kind = about.get("type").text(prefix[0].lower() if prefix else "")
    if kind in _KINDS:
        return *_KINDS[kind], "lower"
    unit = about.get("unit").text("")
    return "value", unit if unit not in ("", "unit") else None, None


def _time(milliseconds: Value) -> str:
    return time_from_epoch(milliseconds.number() / 1000) if milliseconds.is_number() else ""

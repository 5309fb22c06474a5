"""Rows of a benchmark's data: from local files, from the Hugging Face hub, or from the sample in this package.

Local files have the hub's columns. In `data_dir` they are `<subset>.jsonl`, `.json`, `.csv` or `.parquet`, or files of
any name in a directory `<subset>`, as a snapshot of the hub has them.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from paceline.errors import MissingExtra, PacelineError


class DataError(PacelineError):
    """A benchmark's data: not there, or a row that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row, and where it stands, for messages."""

    where: str
    values: Mapping[str, Any]

    def text(self, column: str, default: str | None = None) -> str:
        """A column that must hold a text, unless there is a default."""
        value = self.values.get(column)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise DataError(f"{self.where}: {column!r} is to be a text, not {value!r}")
        return value

    def texts(self, *columns: str) -> tuple[str, ...]:
        """The first of these columns that is there, as texts: one alone, or a list of them."""
        for column in columns:
            value = self.values.get(column)
            if value is None:
                continue
            items = list(value) if isinstance(value, list | tuple) or hasattr(value, "tolist") else [value]
            return tuple(str(item) for item in items)
        return ()

    def count(self, column: str) -> int | None:
        """A whole number, if the column is there."""
        value = self.values.get(column)
        if value is None or value == "":
            return None
        try:
            return int(value)
        except (TypeError, ValueError):
            raise DataError(f"{self.where}: {column!r} is to be a whole number, not {value!r}") from None


def data_files(directory: Path, subset: str, shared: Sequence[str] = ()) -> list[Path]:
    """The local files that a subset's rows are in, or those that it shares with others."""
    for name in (subset, *shared):
        paths = [path for suffix in READERS if (path := directory / f"{name}{suffix}").is_file()]
        if not paths and (directory / name).is_dir():
            paths = sorted(path for path in (directory / name).iterdir() if path.suffix in READERS)
        if len({path.suffix for path in paths}) > 1:
            raise DataError(f"{directory} has {name} twice: {paths[0].name} and {paths[-1].name}; keep one")
        if paths:
            return paths
    known = ", ".join(f"{name}{suffix}" for name in (subset, *shared) for suffix in READERS)
    raise DataError(f"{directory} has no data of {subset}: neither {known} nor a directory {subset}")


def read_file(path: Path) -> list[Row]:
    """The rows of one file."""
    try:
        return list(READERS[path.suffix](path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _read_jsonl(path: Path) -> Iterable[Row]:
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line.strip():
            yield Row(where=f"{path}:{number}", values=_object(f"{path}:{number}", line))


def _object(where: str, text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{where}: a row is an object")
    return found


def _read_json(path: Path) -> Iterable[Row]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise DataError(f"{path}: a list of objects is wanted")
    return [Row(where=f"{path}[{index}]", values=item) for index, item in enumerate(found)]


def _read_csv(path: Path) -> Iterable[Row]:
    csv.field_size_limit(1 << 30)  # contexts are longer than the 128 kB that it takes by itself
    with path.open(encoding="utf-8", newline="") as file:
        for index, values in enumerate(csv.DictReader(file)):
            yield Row(where=f"{path}[{index}]", values={name: _cell(text) for name, text in values.items()})


def _cell(text: str | None) -> Any:
    """A list in a cell is written as JSON."""
    if text is None or not text.startswith("["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_parquet(path: Path) -> Iterable[Row]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("reading parquet files", "evals") from error
    return _rows(str(path), pq.read_table(path).to_pylist())


def _rows(where: str, items: Iterable[Mapping[str, Any]]) -> list[Row]:
    return [Row(where=f"{where}[{index}]", values=item) for index, item in enumerate(items)]


READERS: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


def read_hub(dataset: str, config: str | None, split: str, revision: str) -> list[Row]:
    """A subset's rows from the hub, or from its cache on this machine."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtra(f"loading {dataset} from the Hugging Face hub", "evals") from error
    return _rows(
        f"{dataset}/{config or split}", load_dataset(dataset, config, split=split, revision=revision)
    )


def read_sample(benchmark: str, subset: str) -> list[Row]:
    """The rows of this package's sample; a row of it may stand for several subsets, in `subsets`."""
    file = resources.files("paceline.evals.benchmarks") / "samples" / f"{benchmark}.jsonl"
    rows = [
        Row(where=f"{file}:{number}", values=json.loads(line))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    ]
    return [row for row in rows if subset in row.values["subsets"]]


def select(rows: Sequence[Row], column: str, value: str) -> list[Row]:
    """The rows whose column has a value; all of them where the column is missing."""
    return [row for row in rows if row.values.get(column) in (None, value)]

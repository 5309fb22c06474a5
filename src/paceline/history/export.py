"""The history as a table in a file that every tool reads: one row for each metric of each record, or each sample."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from paceline.errors import HistoryError, needs_extra
from paceline.history.store.database import Database, Row, chunks
from paceline.history.store.names import matcher, read_names
from paceline.history.store.views import export_select, measured
from paceline.record import below
from paceline.record.codec import dump_plain
from paceline.record.files import plain_cells, write_atomic

Format = Literal["csv", "json", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "json", "parquet")

_NUMBERS = {"value": "number", **dict.fromkeys(("sample_count", "sample", "attempt", "epoch"), "count")}
_ROWS_AT_ONCE = 20_000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def columns_of(*, samples: bool) -> list[str]:
    """The columns of an export: those of the view `measurement`; of samples, the place of each among the others."""
    return ["sample" if samples and name == "sample_count" else name for name in measured("sqlite")]


def export_rows(
    database: Database,
    *,
    cases: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    since: str = "",
    samples: bool = False,
) -> Iterator[Row]:
    """Case by case the rows of each series, in the order in which its points are judged."""
    case_matches, metric_matches = matcher(cases).fullmatch, matcher(metrics).fullmatch
    select = export_select(database.dialect, samples=samples)
    at = list(measured(database.dialect)).index("metric")
    with database.reading():
        names = read_names(database)
        exact = {one for text in cases or () for one in names.patterns(text)}
        keys = [key for (key,) in database.rows('SELECT DISTINCT current_key FROM "case"')]
        for key in sorted(key for key in keys if key in exact or case_matches(key)):
            # Without the place in the series, by which they are sorted.
            yield from (row[:-1] for row in database.rows(select, (key, since)) if metric_matches(row[at]))


def format_of(path: Path, asked: str | None) -> Format:
    """The format asked for, else that of the file's ending."""
    wanted = asked or path.suffix.lstrip(".").lower()
    found = next((name for name in FORMATS if name == wanted), None)
    if found is None:
        raise HistoryError(
            f"cannot tell the format of {path}: end it with .csv, .json or .parquet, or say --format"
        )
    return found


def write_export(rows: Iterable[Row], columns: Sequence[str], path: Path, format_: Format) -> int:
    """Write a file, whole or not at all; how many rows it has."""
    counted = _Counted(rows)
    try:
        if format_ == "parquet":
            _write_parquet(counted, columns, path)
        else:
            write_atomic(path, text_of(counted, columns, format_))
    except OSError as error:
        raise HistoryError(f"cannot write {path}: {error.strerror or error}") from error
    return counted.count


def text_of(rows: Iterable[Row], columns: Sequence[str], format_: Format) -> Iterator[bytes]:
    """The text of a CSV or JSON file, in parts."""
    if format_ == "parquet":
        raise HistoryError(f"{format_} is no text: give the name of a file")
    return (_csv if format_ == "csv" else _json)(rows, columns)


class _Counted:
    """Rows that are counted on their way."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            yield row


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for chunk in chunks(rows, _ROWS_AT_ONCE):
        writer.writerows(map(plain_cells, chunk))
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def _json(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[bytes]:
    """A list of objects, one to a line."""
    yield b"["
    separator = b"\n"
    for chunk in chunks(rows, _ROWS_AT_ONCE):
        lines = [dump_plain(dict(zip(columns, row, strict=True))) for row in chunk]
        yield separator + b",\n".join(lines)
        separator = b",\n"
    yield b"\n]\n"


def _write_parquet(rows: Iterable[Row], columns: Sequence[str], path: Path) -> None:
    with needs_extra("curate", "exporting Parquet"):
        import pyarrow
        import pyarrow.parquet
    part = f".{path.name}.part"
    below.remove(path.parent, part)
    try:
        with os.fdopen(below.open_below(path.parent, part, _NEW), "wb") as file:
            _fill_parquet(pyarrow, rows, columns, file)
        path.with_name(part).replace(path)
    finally:
        below.remove(path.parent, part)


def _fill_parquet(pyarrow: Any, rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    kinds = {"text": pyarrow.string(), "number": pyarrow.float64(), "count": pyarrow.int32()}
    schema = pyarrow.schema([(name, kinds[_NUMBERS.get(name, "text")]) for name in columns])
    repetitive = [name for name in columns if name not in (*_NUMBERS, "record")]
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=repetitive) as writer:
        for chunk in chunks(rows, _ROWS_AT_ONCE):
            arrays = [
                pyarrow.array(column, type=field.type)
                for column, field in zip(zip(*chunk, strict=True), schema, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

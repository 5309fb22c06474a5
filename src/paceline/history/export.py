"""The history as a table in a file that every tool reads: one row for each metric of each record, or each sample."""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from paceline.errors import HistoryError, needs_extra
from paceline.history.store.database import Database, Row, chunks
from paceline.history.store.names import matcher, read_names
from paceline.history.store.views import SAMPLES
from paceline.record import below
from paceline.record.codec import dump_plain
from paceline.record.files import plain_cells, write_atomic

Format = Literal["csv", "json", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "json", "parquet")

# Name → whether it is a number, text or a count.
COLUMNS: Mapping[str, str] = {
    "case": "text",
    "variant": "text",
    "version": "text",
    "metric": "text",
    "unit": "text",
    "direction": "text",
    "value": "number",
    "text": "text",
    "sample": "count",
    "status": "text",
    "attempt": "count",
    "started_at": "text",
    "revision": "text",
    "session": "text",
    "session_id": "text",
    "environment": "text",
    "environment_class": "text",
    "record": "text",
}
_ROWS_AT_ONCE = 20_000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL

_SELECT = """
SELECT c.key, c.variant, c.version, d.name, d.unit, d.direction, m.value, m.text, m.{number}, r.status, r.attempt,
  r.started_at, coalesce(r.revision, s.revision), s.name, s.ident, e.ident, e.class_id, r.ident
FROM {table} m
JOIN series d ON d.id = m.series_id
JOIN record r ON r.id = m.record_id
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
JOIN "case" c ON c.id = r.case_id
WHERE r.started_at >= ?"""


def export_rows(
    database: Database,
    *,
    cases: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    since: str = "",
    samples: bool = False,
) -> Iterator[Row]:
    """The rows in the order of `COLUMNS`; `sample` is the number of samples, or the place of this one."""
    # Not the view of that name: a file that somebody else made may call anything so.
    table, number = (f"({SAMPLES})", "position") if samples else ("metric", "sample_count")
    case_matches, metric_matches = matcher(cases).fullmatch, matcher(metrics).fullmatch
    with database.reading():
        names = read_names(database)
        exact = {one for text in cases or () for one in names.patterns(text)}
        for row in database.stream(_SELECT.format(table=table, number=number), (since,)):
            case = names.current(row[0])
            if (case in exact or case_matches(case)) and metric_matches(row[3]):
                *middle, session, environment, class_id, record = row[1:]
                yield (
                    case,
                    *middle,
                    memoryview(session).hex(),
                    environment,
                    class_id,
                    memoryview(record).hex(),
                )


def format_of(path: Path, asked: str | None) -> Format:
    """The format asked for, else that of the file's ending."""
    wanted = asked or path.suffix.lstrip(".").lower()
    found = next((name for name in FORMATS if name == wanted), None)
    if found is None:
        raise HistoryError(
            f"cannot tell the format of {path}: end it with .csv, .json or .parquet, or say --format"
        )
    return found


def write_export(rows: Iterable[Row], path: Path, format_: Format) -> int:
    """Write a file, whole or not at all; how many rows it has."""
    counted = _Counted(rows)
    try:
        if format_ == "parquet":
            _write_parquet(counted, path)
        else:
            write_atomic(path, text_of(counted, format_))
    except OSError as error:
        raise HistoryError(f"cannot write {path}: {error.strerror or error}") from error
    return counted.count


def text_of(rows: Iterable[Row], format_: Format) -> Iterator[bytes]:
    """The text of a CSV or JSON file, in parts."""
    writers: Mapping[str, Callable[[Iterable[Row]], Iterator[bytes]]] = {"csv": _csv, "json": _json}
    if format_ not in writers:
        raise HistoryError(f"{format_} is no text: give the name of a file")
    return writers[format_](rows)


class _Counted:
    """Rows that are counted on their way."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            yield row


def _csv(rows: Iterable[Row]) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for chunk in chunks(rows, _ROWS_AT_ONCE):
        writer.writerows(map(plain_cells, chunk))
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def _json(rows: Iterable[Row]) -> Iterator[bytes]:
    """A list of objects, one to a line."""
    yield b"["
    separator = b"\n"
    for chunk in chunks(rows, _ROWS_AT_ONCE):
        lines = [dump_plain(dict(zip(COLUMNS, row, strict=True))) for row in chunk]
        yield separator + b",\n".join(lines)
        separator = b",\n"
    yield b"\n]\n"


def _write_parquet(rows: Iterable[Row], path: Path) -> None:
    with needs_extra("curate", "exporting Parquet"):
        import pyarrow
        import pyarrow.parquet
    part = f".{path.name}.part"
    below.remove(path.parent, part)
    try:
        with os.fdopen(below.open_below(path.parent, part, _NEW), "wb") as file:
            _fill_parquet(pyarrow, rows, file)
        path.with_name(part).replace(path)
    finally:
        below.remove(path.parent, part)


def _fill_parquet(pyarrow: Any, rows: Iterable[Row], file: BinaryIO) -> None:
    kinds = {"text": pyarrow.string(), "number": pyarrow.float64(), "count": pyarrow.int32()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    repetitive = [name for name, kind in COLUMNS.items() if kind == "text" and name != "record"]
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=repetitive) as writer:
        for chunk in chunks(rows, _ROWS_AT_ONCE):
            columns = [
                pyarrow.array(column, type=field.type)
                for column, field in zip(zip(*chunk, strict=True), schema, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))

"""Reading documents: Parquet and JSON Lines, a file or a directory, whole or in ranges."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from paceline.curate.arrow import pa, pq
from paceline.curate.documents import Documents, LineDocuments, Source, TableDocuments
from paceline.curate.files import (
    COMPRESSED,
    MAX_LINE_BYTES,
    FileRange,
    list_files,
    read_block,
    read_stream,
    too_long,
)
from paceline.curate.jsonl import parse_line, why_not_json
from paceline.curate.partition import (
    JSON_LINES,
    LINES_BYTES,
    PARQUET,
    TABLE_BYTES,
    DocumentPartitionStage,
    DocumentRange,
    open_parquet,
)
from paceline.curate.stage import CompositeStage, ReaderStage, Stage
from paceline.curate.task import Origin, Reject, Task


class DocumentReaderStage(ReaderStage):
    """Ranges of files -> batches of documents.

    Documents are rejected one by one: those without `id_field` (a string or an integer), and those whose
    `text_field` is no string. A file that cannot be read is one reject.
    """

    name = "document_reader"
    counts = "documents"

    def __init__(
        self,
        *,
        id_field: str | None = None,
        text_field: str | None = None,
        columns: Sequence[str] | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        lines_bytes: int = LINES_BYTES,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        self.id_field = id_field
        self.text_field = text_field
        self.columns = list(columns) if columns is not None else None
        self.max_line_bytes = max_line_bytes
        self.lines_bytes = lines_bytes
        self.table_bytes = table_bytes

    def process(self, task: Task) -> Iterator[Task | Reject]:
        for part in task.data:
            if part.path.endswith(PARQUET):
                yield from self._read_table(part, task)
            elif part.path.endswith(COMPRESSED):
                yield from self._read_stream(part, task)
            else:
                yield from self._read_ranges(part, task)

    def _read_table(self, part: DocumentRange, task: Task) -> Iterator[Task | Reject]:
        try:
            with open_parquet(part.path) as file:
                yield from self._read_batches(file, part, task)
        except (pa.ArrowException, OSError) as error:
            self.count(documents=1)
            reason = f"cannot be read as Parquet: {str(error).splitlines()[0]}"
            yield self._refuse(Origin(path=part.path), reason)

    def _read_batches(self, file: pq.ParquetFile, part: DocumentRange, task: Task) -> Iterator[Task | Reject]:
        meta = file.metadata
        groups = list(part.row_groups or range(meta.num_row_groups))
        if problem := self._wrong_schema(file.schema_arrow):
            self.count(documents=sum(meta.row_group(at).num_rows for at in groups))
            yield self._refuse(Origin(path=part.path), problem)
            return
        row = sum(meta.row_group(at).num_rows for at in range(groups[0] if groups else 0))
        tables = self._tables(file, groups)
        compression = meta.row_group(0).column(0).compression.lower() if groups else "snappy"
        for table, last in _with_last(tables):
            source = Source(name=part.name, path=part.path, start=row, whole=part.whole and last and row == 0)
            self.count(documents=table.num_rows)
            good, rejects = self._check_table(table, part.path, row)
            row += table.num_rows
            yield from rejects
            yield self._task(
                TableDocuments(table=good, source=source, compression=compression), table.nbytes, task
            )

    def _tables(self, file: pq.ParquetFile, groups: list[int]) -> Iterator[pa.Table]:
        """All groups at once if they fit, else pieces of about `table_bytes`."""
        meta = file.metadata
        size_bytes = sum(meta.row_group(at).total_byte_size for at in groups)
        rows = sum(meta.row_group(at).num_rows for at in groups)
        if size_bytes <= self.table_bytes:
            yield _without_views(file.read_row_groups(groups, columns=self.columns, use_threads=False))
            return
        step = max(1, rows // ceil(size_bytes / self.table_bytes))
        for batch in file.iter_batches(step, row_groups=groups, columns=self.columns, use_threads=False):
            yield _without_views(pa.Table.from_batches([batch]))

    def _wrong_schema(self, schema: pa.Schema) -> str:
        for field, right, wanted in (
            (self.id_field, _is_id, "strings or integers"),
            (self.text_field, _is_text, "strings"),
        ):
            if field is None:
                continue
            place = schema.get_field_index(field)
            if place < 0:
                return f"there is no column {field}"
            if not right(schema.field(place).type):
                return f"column {field} holds {schema.field(place).type}, not {wanted}"
        return ""

    def _check_table(self, table: pa.Table, path: str, row: int) -> tuple[pa.Table, list[Reject]]:
        mask = np.ones(table.num_rows, dtype=np.bool_)
        rejects: list[Reject] = []
        for field in filter(None, (self.id_field, self.text_field)):
            if not table[field].null_count:
                continue
            missing = table[field].is_null().to_numpy() & mask
            mask &= ~missing
            for at in np.flatnonzero(missing).tolist():
                rejects.append(self._refuse(Origin(path=path, line=row + at + 1), f"{field} is missing"))
        return (table.filter(pa.array(mask)) if rejects else table), rejects

    def _read_ranges(self, part: DocumentRange, task: Task) -> Iterator[Task | Reject]:
        """A whole file is read in ranges too, for the sake of memory."""
        end = part.end if part.end is not None else _file_bytes(part.path)
        starts = range(part.start, end, self.lines_bytes) if end > part.start else ()
        for start in starts:
            stop = min(start + self.lines_bytes, end)
            piece = FileRange(path=part.path, start=start, end=stop)
            block = read_block(piece, max_line_bytes=self.max_line_bytes)
            batch = _Lines(self, part.path)
            offset = block.offset
            for line in block.lines:
                batch.add(line, Origin(path=part.path, offset=offset))
                offset += len(line) + 1
            if block.too_long_at is not None:
                batch.refuse_long(Origin(path=part.path, offset=block.too_long_at))
            yield from batch.rejects
            whole = part.whole and len(starts) == 1
            source = Source(name=part.name, path=part.path, start=start, whole=whole)
            yield self._task(batch.documents(source), stop - start, task)

    def _read_stream(self, part: DocumentRange, task: Task) -> Iterator[Task | Reject]:
        source = Source(name=part.name, path=part.path, start=1, whole=False)
        batch = _Lines(self, part.path)
        try:
            for number, line in read_stream(part.path, max_line_bytes=self.max_line_bytes):
                origin = Origin(path=part.path, line=number)
                if line is None:
                    batch.refuse_long(origin)
                else:
                    batch.add(line.rstrip(b"\r\n"), origin)
                if batch.size_bytes >= self.lines_bytes:
                    yield from batch.rejects
                    yield self._task(batch.documents(source), batch.size_bytes, task)
                    source, batch = replace(source, start=number + 1), _Lines(self, part.path)
        except (OSError, EOFError) as error:
            batch.rejects.append(self._refuse(Origin(path=part.path), f"cannot be unpacked: {error}"))
        yield from batch.rejects
        yield self._task(batch.documents(replace(source, whole=source.start == 1)), batch.size_bytes, task)

    def _task(self, documents: Documents, size_bytes: int, task: Task) -> Task:
        source = documents.source
        return Task(documents, task.dataset_name, source.output_name(), Origin(path=source.path), size_bytes)

    def _refuse(self, origin: Origin, reason: str) -> Reject:
        return Reject(stage=self.name, reason=reason, origin=origin, label=str(origin))

    def wrong_record(self, record: Any) -> str:
        """Why a line's content is no document of ours, or nothing."""
        if not isinstance(record, dict):
            return "the line is not a JSON object"
        if self.text_field is not None and not isinstance(record.get(self.text_field), str):
            return f"{self.text_field} is {'no string' if self.text_field in record else 'missing'}"
        if self.id_field is None:
            return ""
        found = record.get(self.id_field)
        if isinstance(found, str) or type(found) is int:
            return ""
        return f"{self.id_field} is {'no string or integer' if self.id_field in record else 'missing'}"


class _Lines:
    """Lines on their way to be a batch."""

    def __init__(self, stage: DocumentReaderStage, path: str) -> None:
        self._stage = stage
        self._path = path
        self._lines: list[bytes | None] = []
        self._records: list[dict[str, Any]] = []
        self.rejects: list[Reject] = []
        self.size_bytes = 0

    def add(self, line: bytes, origin: Origin) -> None:
        if not line or line.isspace():
            return
        self._stage.count(documents=1)
        self.size_bytes += len(line)
        try:
            record = parse_line(line)
            problem = self._stage.wrong_record(record)
        except (ValueError, RecursionError) as error:
            problem = why_not_json(line, error)
        if problem:
            self.rejects.append(
                Reject(stage=self._stage.name, reason=problem, origin=origin, label=str(origin))
            )
        else:
            self._lines.append(line)
            self._records.append(record)

    def refuse_long(self, origin: Origin) -> None:
        self._stage.count(documents=1)
        self.rejects.append(too_long(self._stage.name, origin, self._stage.max_line_bytes))

    def documents(self, source: Source) -> LineDocuments:
        return LineDocuments(lines=self._lines, records=self._records, source=source)


class DocumentReader(CompositeStage):
    """Documents of a path: partition and reader in one."""

    name = "documents"

    def __init__(
        self,
        path: str,
        *,
        id_field: str | None = None,
        text_field: str | None = None,
        columns: Sequence[str] | None = None,
        files_per_partition: int | None = None,
        max_files: int | None = None,
        lines_bytes: int = LINES_BYTES,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        self._stages = (
            DocumentPartitionStage(
                path,
                files_per_partition=files_per_partition,
                max_files=max_files,
                lines_bytes=lines_bytes,
                table_bytes=table_bytes,
            ),
            DocumentReaderStage(
                id_field=id_field,
                text_field=text_field,
                columns=columns,
                lines_bytes=lines_bytes,
                table_bytes=table_bytes,
            ),
        )

    def decompose(self) -> Sequence[Stage]:
        return self._stages


def _without_views(table: pa.Table) -> pa.Table:
    """Views of strings as plain strings: Arrow cannot filter views yet."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string_view(field.type):
            column = table.column(place).cast(pa.large_string())
            table = table.set_column(place, field.with_type(pa.large_string()), column)
    return table


def _file_bytes(path: str) -> int:
    return next(size_bytes for _, size_bytes in list_files((path,), JSON_LINES))


def _is_id(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) or _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _with_last(tables: Iterator[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Each table with whether it is the last one."""
    held = next(tables, None)
    while held is not None:
        following = next(tables, None)
        yield held, following is None
        held = following

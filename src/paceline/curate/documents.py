"""Batches of text documents: rows of a Parquet file, or lines of a JSON Lines file.

Both kinds offer the same few operations, so that a stage works on either, and each is written back in the format
it was read in: lines that no stage changed keep their bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from paceline.curate.arrow import pa

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a batch was read: `name` is the file's path below the input, `start` its first row, line or byte."""

    name: str
    path: str
    start: int
    whole: bool

    def output_name(self) -> str:
        """The file this batch is written to: the input's name if the batch is all of it."""
        if self.whole:
            return self.name
        stem, suffix = split_suffix(self.name)
        return f"{stem}-{self.start:012d}{suffix}"


def split_suffix(name: str) -> tuple[str, str]:
    """`a/b.c.jsonl.gz` as `a/b.c` and `.jsonl.gz`."""
    packed = next((tail for tail in (".gz", ".zst") if name.endswith(tail)), "")
    path = PurePosixPath(name.removesuffix(packed))
    return str(path.with_suffix("")), path.suffix + packed


class Documents(Protocol):
    """What stages use of a batch; every operation gives a new one."""

    @property
    def source(self) -> Source: ...
    def __len__(self) -> int: ...
    def values(self, field: str) -> list[Any]: ...
    def keep(self, mask: Mask) -> Self: ...
    def with_fields(self, fields: Mapping[str, Sequence[Any]]) -> Self: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocuments:
    """Rows of a Parquet file; `compression` is that of the file."""

    table: pa.Table
    source: Source
    compression: str = "snappy"

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def values(self, field: str) -> list[Any]:
        """One column as Python values."""
        found: list[Any] = self.table[field].to_pylist()
        return found

    def keep(self, mask: Mask) -> "TableDocuments":
        """The rows whose mask is true."""
        if mask.all():
            return self
        return replace(self, table=self.table.filter(pa.array(mask)))

    def with_fields(self, fields: Mapping[str, Sequence[Any]]) -> "TableDocuments":
        """The same rows with columns replaced or added."""
        table = self.table
        for name, values in fields.items():
            place = table.schema.get_field_index(name)
            if place < 0:
                table = table.append_column(name, pa.array(values))
            else:
                table = table.set_column(place, name, pa.array(values, type=table.schema.field(place).type))
        return replace(self, table=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDocuments:
    """Lines of a JSON Lines file beside what they say; a line that was changed is None until it is written."""

    lines: list[bytes | None]
    records: list[dict[str, Any]]
    source: Source

    def __len__(self) -> int:
        return len(self.records)

    def values(self, field: str) -> list[Any]:
        """One field of every document."""
        return [record.get(field) for record in self.records]

    def keep(self, mask: Mask) -> "LineDocuments":
        """The lines whose mask is true."""
        if mask.all():
            return self
        chosen = np.flatnonzero(mask).tolist()
        lines, records = self.lines, self.records
        return replace(self, lines=[lines[at] for at in chosen], records=[records[at] for at in chosen])

    def with_fields(self, fields: Mapping[str, Sequence[Any]]) -> "LineDocuments":
        """The same documents with fields replaced or added."""
        rows = zip(*fields.values(), strict=True)
        records = [
            {**record, **dict(zip(fields, row, strict=True))}
            for record, row in zip(self.records, rows, strict=True)
        ]
        lines = [
            line if record == before else None
            for line, record, before in zip(self.lines, records, self.records, strict=True)
        ]
        return replace(self, lines=lines, records=records)

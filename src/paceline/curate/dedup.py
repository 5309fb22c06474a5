"""Finding duplicates and leaving them out: the parts that exact and fuzzy deduplication share, and exact hashing.

Documents are known by their place in the input: which batch, which row. So ids may repeat, and what is read a second
time to be written is dropped by row, without a lookup.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline.curate.arrow import pa
from paceline.curate.documents import Documents, Source, TableDocuments
from paceline.curate.stage import Stage
from paceline.curate.task import Task
from paceline.curate.writers import write_table
from paceline.errors import needs_extra

with needs_extra("curate", "deduplication"):
    from xxhash import xxh3_128_digest

Places = npt.NDArray[np.int64]
BatchKey = tuple[str, int]
# Readers pass over names that begin with an underscore, so the list can lie beside the documents.
DUPLICATES_FILE = "_duplicates.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprints:
    """One row a document of a batch: what it is compared by, and its id."""

    batch: BatchKey
    values: npt.NDArray[Any]
    ids: pa.Array


class TextHashStage(Stage):
    """Batches of documents -> 128-bit hashes of their texts."""

    name = "text_hash"

    def __init__(self, *, text_field: str, id_field: str) -> None:
        self.text_field = text_field
        self.id_field = id_field

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        data, offsets = text_bytes(documents, self.text_field)
        values = _hash_pieces(data, offsets.tolist())
        return task.carrying(
            Fingerprints(
                batch=batch_key(documents.source), values=values, ids=id_array(documents, self.id_field)
            )
        )


def _hash_pieces(data: npt.NDArray[np.uint8], ends: Sequence[int]) -> npt.NDArray[np.uint64]:
    view = data.data
    digests = b"".join([xxh3_128_digest(view[begin:end]) for begin, end in pairwise(ends)])
    return np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)


def hash_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """128 bits that stand for each row of a matrix."""
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
    return _hash_pieces(data, range(0, len(data) + 1, max(1, len(data) // max(1, len(rows)))))


def batch_key(source: Source) -> BatchKey:
    """What tells a batch from all others, the same each time it is read."""
    return source.path, source.start


def text_bytes(documents: Documents, field: str) -> tuple[npt.NDArray[np.uint8], Places]:
    """All texts of a batch as UTF-8 in a row, and where each begins and the last ends."""
    if isinstance(documents, TableDocuments):
        column = documents.table[field].cast(pa.large_string()).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_string())
        return _column_bytes(column)
    texts = [text.encode("utf-8", "surrogatepass") for text in documents.values(field)]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return np.frombuffer(b"".join(texts), dtype=np.uint8), offsets


def _column_bytes(column: pa.LargeStringArray) -> tuple[npt.NDArray[np.uint8], Places]:
    if not len(column):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, ends, content = column.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def id_array(documents: Documents, field: str) -> pa.Array:
    """The ids of a batch; of mixed kinds, or beyond 64 bits, as strings."""
    if isinstance(documents, TableDocuments):
        column = documents.table[field]
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    values = documents.values(field)
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([str(value) for value in values])


def first_of_each(hashes: npt.NDArray[np.uint64]) -> Places:
    """For each row of (n, 2) hashes, the first row with the same hash."""
    order = np.argsort(hashes[:, 0], kind="stable")
    ordered = hashes[order]
    if np.any((ordered[1:, 0] == ordered[:-1, 0]) & (ordered[1:, 1] != ordered[:-1, 1])):
        # Half of the hash is equal and the other is not: rare enough to sort by both only then.
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        ordered = hashes[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    kept = np.empty(len(order), dtype=np.int64)
    kept[order] = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return kept


def rows_to_drop(batches: Sequence[Fingerprints], kept: Places) -> dict[BatchKey, Places]:
    """For each batch the rows that stand for an earlier document; `kept` names the one kept for each document."""
    dropped = np.flatnonzero(kept != np.arange(len(kept)))
    found: dict[BatchKey, Places] = {}
    begin = 0
    for batch in batches:
        end = begin + len(batch.values)
        inside = dropped[np.searchsorted(dropped, begin) : np.searchsorted(dropped, end)]
        if len(inside):
            found[batch.batch] = inside - begin
        begin = end
    return found


def write_duplicates(directory: str, batches: Sequence[Fingerprints], kept: Places, id_field: str) -> None:
    """`_duplicates.parquet`: the id of each duplicate beside the id of the document that is kept for it."""
    arrays = [batch.ids for batch in batches]
    if len({array.type for array in arrays}) > 1:
        arrays = [array.cast(pa.string()) for array in arrays]
    ids = pa.concat_arrays(arrays) if arrays else pa.array([], pa.int64())
    dropped = np.flatnonzero(kept != np.arange(len(kept)))
    table = pa.table({id_field: ids.take(pa.array(dropped)), "kept_id": ids.take(pa.array(kept[dropped]))})
    write_table(table, f"{directory}/{DUPLICATES_FILE}")


class RowDropStage(Stage):
    """Batches of documents -> the same without the rows that are named for them."""

    name = "row_drop"

    def __init__(self, rows: Mapping[BatchKey, Places]) -> None:
        self.rows = rows

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        rows = self.rows.get(batch_key(documents.source))
        if rows is None:
            return task
        mask = np.ones(len(documents), dtype=np.bool_)
        mask[rows] = False
        self.count(dropped=len(rows))
        return task.carrying(documents.keep(mask))

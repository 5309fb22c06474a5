"""Removing documents by a list of ids."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from paceline.curate.arrow import pa, pc
from paceline.curate.documents import Documents, Mask, TableDocuments
from paceline.curate.errors import PipelineError
from paceline.curate.partition import PARQUET, DocumentRange, list_documents, open_parquet
from paceline.curate.readers import DocumentReaderStage
from paceline.curate.stage import Stage
from paceline.curate.task import Reject, Task

Integers = npt.NDArray[np.int64]
# Where the listed ids in a batch's range are this many times the batch, searching the sorted list is cheaper than
# a hash table of them.
IDS_PER_DOCUMENT = 8
_INT64 = np.iinfo(np.int64)


class IdList:
    """Ids to look up: integers as a sorted array, all others (strings, integers beyond 64 bits) as a set."""

    def __init__(self, ids: Iterable[Integers | Sequence[int | str]]) -> None:
        arrays: list[Integers] = []
        others: set[int | str] = set()
        for group in ids:
            if isinstance(group, np.ndarray):
                arrays.append(group)
                continue
            arrays.append(np.array([one for one in group if _is_int64(one)], dtype=np.int64))
            others.update(one for one in group if not _is_int64(one))
        self.integers: Integers = np.unique(np.concatenate(arrays)) if arrays else np.zeros(0, np.int64)
        self.others = frozenset(others)
        integers = {int} if len(self.integers) else set()
        self.kinds: frozenset[type] = frozenset(integers.union(map(type, others)))

    def __len__(self) -> int:
        return len(self.integers) + len(self.others)

    def mark_integers(self, ids: Integers) -> Mask:
        """Which of the ids are listed."""
        if not len(ids):
            return np.zeros(0, dtype=np.bool_)
        near = self.integers[
            np.searchsorted(self.integers, ids.min()) : np.searchsorted(self.integers, ids.max(), "right")
        ]
        if not len(near):
            return np.zeros(len(ids), dtype=np.bool_)
        if len(near) <= IDS_PER_DOCUMENT * len(ids):
            found: Mask = pc.is_in(pa.array(ids), value_set=pa.array(near)).to_numpy(zero_copy_only=False)
            return found
        return np.asarray(near[np.minimum(np.searchsorted(near, ids), len(near) - 1)] == ids)

    def mark(self, ids: Sequence[int | str]) -> Mask:
        """Which of the ids are listed, whatever they are."""
        mask = np.fromiter((one in self.others for one in ids), dtype=np.bool_, count=len(ids))
        places = [at for at, one in enumerate(ids) if _is_int64(one)]
        if places:
            mask[places] = self.mark_integers(np.array([ids[at] for at in places], dtype=np.int64))
        return mask


def _is_int64(one: int | str) -> bool:
    return isinstance(one, int) and _INT64.min <= one <= _INT64.max


def read_ids(path: str, id_field: str) -> IdList:
    """The ids of a file or directory; the field may also be called `id`. One that cannot be read is an error."""
    return IdList(ids for _, file, _ in list_documents(path) for ids in _read_file(file, id_field))


def _read_file(path: str, id_field: str) -> Iterator[Integers | Sequence[int | str]]:
    field = id_field
    if path.endswith(PARQUET):
        with open_parquet(path) as file:
            field = id_field if id_field in file.schema_arrow.names else "id"
    reader = DocumentReaderStage(id_field=field, columns=[field])
    for product in reader.process(Task(data=(DocumentRange(name=path, path=path),))):
        if isinstance(product, Reject):
            raise PipelineError(f"{product.label}: {product.reason}; every id to remove must be readable")
        yield ids_of(product.data, field)


def ids_of(documents: Documents, field: str) -> Integers | Sequence[int | str]:
    """The ids of a batch, as an array where they are a column of integers."""
    if isinstance(documents, TableDocuments):
        column = documents.table[field]
        if pa.types.is_integer(column.type) and column.type != pa.uint64():
            integers: Integers = column.to_numpy().astype(np.int64, copy=False)
            return integers
    return documents.values(field)


class RemovalStage(Stage):
    """Batches of documents -> the same without those whose id is listed."""

    name = "removal"

    def __init__(self, ids_path: str, *, id_field: str) -> None:
        self.ids_path = ids_path
        self.id_field = id_field
        self._ids: IdList | None = None

    def setup(self) -> None:
        # Read in each worker: shorter than sending a large list to all of them.
        self._ids = read_ids(self.ids_path, self.id_field)

    def process(self, task: Task) -> Task:
        if self._ids is None:
            self.setup()
        documents: Documents = task.data
        mask = self._mark(documents)
        self.count(removed=int(mask.sum()))
        return task.carrying(documents.keep(~mask))

    def _mark(self, documents: Documents) -> Mask:
        listed = self._ids
        if listed is None or not len(listed) or not len(documents):
            return np.zeros(len(documents), dtype=np.bool_)
        ids = ids_of(documents, self.id_field)
        kinds = {int} if isinstance(ids, np.ndarray) else set(map(type, ids))
        if not kinds & listed.kinds:
            named = "strings" if str in kinds else "integers"
            raise PipelineError(
                f"{documents.source.path}: ids are {named}, those in {self.ids_path} are not: none could match"
            )
        return listed.mark_integers(ids) if isinstance(ids, np.ndarray) else listed.mark(ids)

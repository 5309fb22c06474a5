"""Cutting documents' files into units of work: row groups of Parquet, byte ranges of JSON Lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.curate.arrow import pa, pq
from paceline.curate.errors import PipelineError
from paceline.curate.files import FileRange, cut, list_files
from paceline.curate.stage import SplitStage
from paceline.curate.storage import AHEAD_BYTES, is_remote, open_raw
from paceline.curate.task import Origin, Task

PARQUET = (".parquet",)
JSON_LINES = (".jsonl", ".json", ".ndjson")
# A range of Parquet is counted unpacked, one of JSON Lines as it lies on disk: both come to about the same memory.
TABLE_BYTES = 128 * 1_048_576
LINES_BYTES = 16 * 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRange:
    """Part of a file: row groups of Parquet (none: all), or bytes of JSON Lines (no end: compressed, read whole)."""

    name: str
    path: str
    start: int = 0
    end: int | None = None
    row_groups: tuple[int, ...] = ()
    whole: bool = True


class DocumentPartitionStage(SplitStage):
    """Lists the documents' files; each range of a large file, or each group of files, is a unit of work."""

    name = "document_partition"

    def __init__(
        self,
        path: str,
        *,
        files_per_partition: int | None = None,
        max_files: int | None = None,
        lines_bytes: int = LINES_BYTES,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        if min(files_per_partition or 1, lines_bytes, table_bytes) < 1 or (max_files or 1) < 1:
            raise PipelineError("document_partition: sizes and numbers of files must be at least 1")
        self.path = path
        self.files_per_partition = files_per_partition
        self.max_files = max_files
        self.lines_bytes = lines_bytes
        self.table_bytes = table_bytes

    def process(self, task: Task) -> Iterator[Task]:
        files = list_documents(self.path)[: self.max_files]
        for unit in self._units(files):
            parts = tuple(part for part, _ in unit)
            first = parts[0]
            yield Task(
                data=parts,
                dataset_name=task.dataset_name,
                task_id=f"{first.name}:{first.start}",
                origin=Origin(path=first.path),
                size_bytes=sum(size for _, size in unit),
            )

    def input_bytes(self) -> int:
        return sum(size_bytes for _, _, size_bytes in list_documents(self.path)[: self.max_files])

    def _units(self, files: Sequence[tuple[str, str, int]]) -> Iterator[Sequence[tuple[DocumentRange, int]]]:
        step = self.files_per_partition
        if step is None:
            yield from ((part,) for file in files for part in self._cut(*file))
            return
        whole = [(DocumentRange(name=name, path=path), size) for name, path, size in files]
        yield from (whole[at : at + step] for at in range(0, len(whole), step))

    def _cut(self, name: str, path: str, size_bytes: int) -> Iterator[tuple[DocumentRange, int]]:
        if path.endswith(PARQUET):
            yield from cut_table(name, path, size_bytes, self.table_bytes)
            return
        pieces = list(cut(path, size_bytes, self.lines_bytes)) or [FileRange(path=path, start=0, end=0)]
        for piece in pieces:
            end = size_bytes if piece.end is None else piece.end
            whole = len(pieces) == 1
            yield (
                DocumentRange(name=name, path=path, start=piece.start, end=piece.end, whole=whole),
                end - piece.start,
            )


def list_documents(path: str) -> list[tuple[str, str, int]]:
    """Name below `path`, path and size of every file; what begins with `_` or `.` is no document."""
    root = path.rstrip("/") + "/"
    found = [
        (file[len(root) :] if file.startswith(root) else file.rpartition("/")[2], file, size_bytes)
        for file, size_bytes in list_files((path,), (*PARQUET, *JSON_LINES))
    ]
    shown = [item for item in found if not any(part.startswith(("_", ".")) for part in item[0].split("/"))]
    if not shown:
        raise PipelineError(f"{path}: no documents in this directory (.parquet, .jsonl, .json, .ndjson)")
    return shown


def cut_table(name: str, path: str, size_bytes: int, table_bytes: int) -> Iterator[tuple[DocumentRange, int]]:
    """Row groups together up to `table_bytes`; files that are small even when unpacked are not opened for it."""
    sizes = _row_group_bytes(path) if size_bytes > table_bytes // 8 else []
    unpacked = sum(sizes)
    if unpacked <= table_bytes:
        yield DocumentRange(name=name, path=path), size_bytes
        return
    begin, held = 0, 0
    for number, group_bytes in enumerate(sizes):
        if held and held + group_bytes > table_bytes:
            yield _table_part(name, path, begin, number), size_bytes * held // unpacked
            begin, held = number, 0
        held += group_bytes
    yield _table_part(name, path, begin, len(sizes)), size_bytes * held // unpacked


def _table_part(name: str, path: str, begin: int, end: int) -> DocumentRange:
    return DocumentRange(name=name, path=path, row_groups=tuple(range(begin, end)), whole=False)


def _row_group_bytes(path: str) -> list[int]:
    """Unpacked sizes; none for a file that is no Parquet, which its reader will say."""
    try:
        with open_parquet(path) as file:
            found = file.metadata
            return [found.row_group(at).total_byte_size for at in range(found.num_row_groups)]
    except (pa.ArrowException, OSError):
        return []


def open_parquet(path: str) -> pq.ParquetFile:
    """A local or remote Parquet file; of a remote one, the columns that are read are fetched together."""
    if is_remote(path):
        return pq.ParquetFile(open_raw(path, ahead_bytes=AHEAD_BYTES), pre_buffer=True)
    return pq.ParquetFile(path, memory_map=True)

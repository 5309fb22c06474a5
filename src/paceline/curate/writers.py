"""Writing documents: a file a batch, in the format it was read in or in a given one."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from paceline.curate.documents import Documents, LineDocuments, TableDocuments, split_suffix
from paceline.curate.errors import PipelineError
from paceline.curate.jsonl import dump_lines
from paceline.curate.partition import JSON_LINES, PARQUET
from paceline.curate.stage import Stage
from paceline.curate.task import Task
from paceline.errors import MissingExtra

FORMATS = ("jsonl", "parquet")
# Lists what a run wrote, so that the next one into the same directory can take it away again.
LISTING = "_written.json"


class DocumentWriterStage(Stage):
    """Batches of documents -> files below `directory`; what is left of a task is its file and its counts.

    A batch that is done again replaces its file, so nothing is lost or doubled. Empty batches leave no file.
    """

    name = "document_writer"

    def __init__(self, directory: str, *, file_format: str | None = None) -> None:
        if file_format is not None and file_format not in FORMATS:
            raise PipelineError(f"document_writer: {file_format!r} is not one of {', '.join(FORMATS)}")
        self.directory = directory
        self.file_format = file_format
        self._documents = 0

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        name = documents.source.output_name()
        if self.file_format is not None:
            name = f"{split_suffix(name)[0]}.{self.file_format}"
        if len(documents):
            write_documents(documents, f"{self.directory}/{name}")
        self._documents += len(documents)
        return task.carrying({"file": name if len(documents) else "", "documents": len(documents)})

    def take_metrics(self) -> Mapping[str, float]:
        documents, self._documents = self._documents, 0
        return {"documents": float(documents)}


def write_documents(documents: Documents, path: str) -> None:
    """One file, which appears whole or not at all; the suffix says the format."""
    if path.endswith(PARQUET):
        _write_table(documents, path)
    else:
        _put(path, _pack(b"".join(_lines(documents)), path))


def _write_table(documents: Documents, path: str) -> None:
    if isinstance(documents, TableDocuments):
        table, compression = documents.table, documents.compression
    else:
        table, compression = pa.Table.from_pylist(_records(documents)), "snappy"
    if "://" in path:
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression=compression)
        _put(path, buffer.getvalue().to_pybytes())
        return
    draft = _draft(Path(path))
    pq.write_table(table, draft, compression=compression)
    draft.rename(path)


def _lines(documents: Documents) -> Iterator[bytes]:
    if not isinstance(documents, LineDocuments):
        yield dump_lines(_records(documents))
        return
    for line, record in zip(documents.lines, documents.records, strict=True):
        yield dump_lines([record]) if line is None else line + b"\n"


def _records(documents: Documents) -> list[dict[str, object]]:
    if isinstance(documents, LineDocuments):
        return documents.records
    if isinstance(documents, TableDocuments):
        records: list[dict[str, object]] = documents.table.to_pylist()
        return records
    raise PipelineError(f"document_writer: {type(documents).__name__} cannot be written")


def _pack(content: bytes, path: str) -> bytes:
    if path.endswith(".gz"):
        return gzip.compress(content, compresslevel=1, mtime=0)
    if path.endswith(".zst"):
        try:
            import zstandard
        except ModuleNotFoundError:
            raise MissingExtra(f"writing {path}", "curate") from None
        return zstandard.ZstdCompressor(level=1).compress(content)
    return content


def _put(path: str, content: bytes) -> None:
    if "://" in path:
        _remote(path).pipe_file(path, content)
        return
    draft = _draft(Path(path))
    draft.write_bytes(content)
    draft.rename(path)


def _draft(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid4().hex}")


def _remote(path: str):  # type: ignore[no-untyped-def]
    try:
        import fsspec
    except ModuleNotFoundError:
        raise MissingExtra(f"writing {path}", "curate") from None
    return fsspec.core.url_to_fs(path)[0]


def prepare_output(directory: str, input_path: str | None = None) -> None:
    """Make room for a run: what an earlier one wrote here goes, files of anyone else are left alone and refused."""
    if "://" in directory:
        return
    here = Path(directory)
    if input_path is not None and "://" not in input_path and _overlap(here, Path(input_path)):
        raise PipelineError(f"{directory}: lies in the input, or the input in it; choose another output")
    here.mkdir(parents=True, exist_ok=True)
    listing = here / LISTING
    if listing.exists():
        for name in json.loads(listing.read_text(encoding="utf-8")):
            (here / name).unlink(missing_ok=True)
        listing.unlink()
    suffixes = (*PARQUET, *JSON_LINES, *(f"{kind}{tail}" for kind in JSON_LINES for tail in (".gz", ".zst")))
    foreign = next((file for file in sorted(here.rglob("*")) if file.name.endswith(suffixes)), None)
    if foreign is not None:
        raise PipelineError(f"{foreign}: is in the way of the output; empty {directory} or choose another")


def _overlap(output: Path, given: Path) -> bool:
    left, right = output.resolve(), given.resolve()
    return left == right or left in right.parents or right in left.parents


def list_output(directory: str, names: Iterable[str]) -> None:
    """Remember what was written, for `prepare_output`."""
    if "://" not in directory:
        _put(f"{directory}/{LISTING}", json.dumps(sorted(filter(None, names))).encode())

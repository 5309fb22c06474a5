"""Writing documents: a file a batch, in the format it was read in or in a given one (their text as WARC too)."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from paceline.curate.arrow import pa, pq
from paceline.curate.documents import Documents, LineDocuments, TableDocuments, split_suffix
from paceline.curate.errors import PipelineError
from paceline.curate.files import COMPRESSED
from paceline.curate.jsonl import dump_lines
from paceline.curate.partition import JSON_LINES, PARQUET
from paceline.curate.stage import Stage
from paceline.curate.storage import draft, drafts, find, is_remote, pack, put, read_if_there, remove
from paceline.curate.task import Task

# What a format's files are called.
SUFFIXES = {"jsonl": ".jsonl", "parquet": ".parquet", "warc": ".warc.gz"}
FORMATS = tuple(SUFFIXES)
# Lists what a run wrote, so that the next one into the same directory can take it away again.
LISTING = "_written.json"
# Is there from the start of a run until its listing is, so that output of a run that was killed can be told.
UNFINISHED = "_unfinished.json"
WARC = (".warc.gz",)
_DOCUMENTS = (*PARQUET, *JSON_LINES, *WARC, *(f"{kind}{tail}" for kind in JSON_LINES for tail in COMPRESSED))

# Crawlers' own level; what is gained beyond is little.
_LEVEL = 6


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

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        name = documents.source.output_name()
        if self.file_format is not None:
            name = f"{split_suffix(name)[0]}{SUFFIXES[self.file_format]}"
        if len(documents):
            write_documents(documents, f"{self.directory}/{name}")
        self.count(documents=len(documents))
        return task.carrying({"file": name if len(documents) else "", "documents": len(documents)})


def write_documents(documents: Documents, path: str) -> None:
    """One file, which appears whole or not at all; the suffix says the format."""
    if path.endswith(PARQUET):
        _write_table(documents, path)
    elif path.endswith(WARC):
        put(path, b"".join(text_records(_records(documents), documents.source.output_name())))
    else:
        put(path, pack(b"".join(_lines(documents)), path))


def _write_table(documents: Documents, path: str) -> None:
    if isinstance(documents, TableDocuments):
        table, compression = documents.table, documents.compression
    else:
        table, compression = pa.Table.from_pylist(_records(documents)), "snappy"
    write_table(table, path, compression=compression)


def write_table(table: pa.Table, path: str, *, compression: str = "snappy") -> None:
    """A Parquet file, which appears whole or not at all."""
    if is_remote(path):
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression=compression)
        put(path, buffer.getvalue().to_pybytes())
        return
    target = draft(Path(path))
    pq.write_table(table, target, compression=compression)
    target.rename(path)


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


def prepare_output(directory: str, input_path: str | None = None) -> None:
    """Make room for a run: what an earlier one wrote here goes, files of anyone else are left alone and refused."""
    if input_path is not None and _overlap(directory, input_path):
        raise PipelineError(f"{directory}: lies in the input, or the input in it; choose another output")
    if not is_remote(directory):
        Path(directory).mkdir(parents=True, exist_ok=True)
    for name in [*_listed(directory), LISTING]:
        remove(f"{directory}/{name}")
    for left in drafts(directory):
        remove(left)
    foreign = next((file for file, _ in find(directory) if _is_document(file)), None)
    if foreign is not None and read_if_there(f"{directory}/{UNFINISHED}") is not None:
        raise PipelineError(
            f"{directory}: an earlier run into it did not end, {foreign} and others are left; "
            "empty it or choose another"
        )
    if foreign is not None:
        raise PipelineError(f"{foreign}: is in the way of the output; empty {directory} or choose another")
    put(f"{directory}/{UNFINISHED}", b"{}")


def _listed(directory: str) -> list[str]:
    """What an earlier run says it wrote here; a name that leads elsewhere was not written by it."""
    names = json.loads(read_if_there(f"{directory}/{LISTING}") or b"[]")
    return [name for name in names if not name.startswith("/") and ".." not in name.split("/")]


def _is_document(path: str) -> bool:
    return path.endswith(_DOCUMENTS) and not path.rpartition("/")[2].startswith("_")


def _overlap(output: str, given: str) -> bool:
    if is_remote(output) or is_remote(given):
        left, right = output.rstrip("/") + "/", given.rstrip("/") + "/"
        return left.startswith(right) or right.startswith(left)
    here, there = Path(output).resolve(), Path(given).resolve()
    return here == there or here in there.parents or there in here.parents


def list_output(directory: str, names: Iterable[str]) -> None:
    """Say that the output is whole, and what was written, for `prepare_output`."""
    put(f"{directory}/{LISTING}", json.dumps(sorted(filter(None, names))).encode())
    remove(f"{directory}/{UNFINISHED}")


def make_record(
    kind: str,
    content: bytes,
    *,
    identity: UUID,
    date: str,
    url: str = "",
    content_type: str = "",
    **more: str,
) -> bytes:
    """One record, unpacked; `more` are other headers, with `_` for `-`."""
    head = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{identity}>",
        "WARC-Date": date,
        "WARC-Target-URI": url,
        "Content-Type": content_type,
        **{name.replace("_", "-"): value for name, value in more.items()},
        "Content-Length": str(len(content)),
    }
    lines = [f"{name}: {_one_line(value)}" for name, value in head.items() if value]
    return "\r\n".join(["WARC/1.0", *lines]).encode() + b"\r\n\r\n" + content + b"\r\n\r\n"


def _one_line(value: str) -> str:
    return " ".join(value.split())


def pack_record(record: bytes) -> bytes:
    """A record as a gzip member of its own; the same each time."""
    return gzip.compress(record, _LEVEL, mtime=0)


def text_records(documents: Sequence[Mapping[str, Any]], name: str) -> Iterator[bytes]:
    """Documents as `conversion` records of plain text, packed; identities follow from the file's name and the place."""
    for place, document in enumerate(documents):
        text = document.get("text")
        if not isinstance(text, str):
            raise PipelineError(f"{name}: document {place + 1} has no text to write as a WARC record")
        origin = str(document.get("warc_id") or "")
        record = make_record(
            "conversion",
            text.encode("utf-8", "replace"),
            identity=uuid5(NAMESPACE_URL, f"{name}#{place}"),
            date=str(document.get("date") or ""),
            url=str(document.get("url") or ""),
            content_type="text/plain; charset=utf-8",
            WARC_Refers_To=f"<urn:uuid:{origin}>" if origin else "",
            WARC_Identified_Content_Language=str(document.get("language") or ""),
        )
        yield pack_record(record)

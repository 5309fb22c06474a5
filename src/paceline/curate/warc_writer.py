"""Writing WARC files: a record at a time, packed one by one, as crawlers do."""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from paceline.curate.errors import PipelineError

WARC = (".warc.gz",)
# Crawlers' own level; what is gained beyond is little.
_LEVEL = 6


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

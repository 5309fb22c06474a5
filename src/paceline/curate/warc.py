"""Reading WARC files, plain or packed with gzip as a whole or record by record.

Damage costs the records it hits and no more: packed data is taken up again at the next member, plain data at the next
record.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from paceline.curate.errors import BadRecord

CHUNK_BYTES = 262_144
MAX_RECORD_BYTES = 64 * 1_048_576
_MEMBER = b"\x1f\x8b\x08"
_HEADER_END = b"\r\n\r\n"
_VERSION = b"WARC/"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarcRecord:
    """One record; header names are in lower case."""

    headers: Mapping[str, str]
    content: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("warc-type", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A part of the file that could not be read; `offset` is its place in the file as it lies on disk."""

    reason: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What a server answered: header names in lower case, the body without transfer coding."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def read_warc(file: IO[bytes], *, max_record_bytes: int = MAX_RECORD_BYTES) -> Iterator[WarcRecord | Damage]:
    """The records of a file in order, and what is damaged between them."""
    start = file.read(len(_MEMBER))
    pieces = _unpack(file, start) if start == _MEMBER else _plain(file, start)
    parser = _Parser(max_record_bytes)
    for piece in pieces:
        if isinstance(piece, Damage):
            parser.reset()
            yield piece
        else:
            yield from parser.feed(piece)
    yield from parser.close()


def _plain(file: IO[bytes], start: bytes) -> Iterator[bytes]:
    yield start
    while piece := file.read(CHUNK_BYTES):
        yield piece


def _unpack(file: IO[bytes], start: bytes) -> Iterator[bytes | Damage]:
    """The unpacked content, member after member."""
    data, place = start + file.read(CHUNK_BYTES), 0
    while data:
        unpacker = zlib.decompressobj(31)
        while True:
            try:
                yield unpacker.decompress(data)
            except zlib.error as error:
                yield Damage(reason=f"packed data is damaged: {error}", offset=place)
                data, place = _next_member(file, data, place)
                break
            if unpacker.eof:
                place += len(data) - len(unpacker.unused_data)
                data = unpacker.unused_data or file.read(CHUNK_BYTES)
                break
            place += len(data)
            data = file.read(CHUNK_BYTES)
            if not data:
                yield Damage(reason="packed data ends in the middle", offset=place)
                return


def _next_member(file: IO[bytes], data: bytes, place: int) -> tuple[bytes, int]:
    """From the next place on that looks like a member; one that is none is damaged again, and passed over too."""
    data, place = data[1:], place + 1
    while True:
        found = data.find(_MEMBER)
        if found >= 0:
            return data[found:], place + found
        # A member may begin at the very end of what has been read.
        tail = data[-2:]
        more = file.read(CHUNK_BYTES)
        if not more:
            return b"", place + len(data)
        data, place = tail + more, place + len(data) - len(tail)


class _Parser:
    """Puts records together from pieces of a file."""

    def __init__(self, max_record_bytes: int) -> None:
        self._max_record_bytes = max_record_bytes
        self._held = bytearray()
        self._offset = 0
        self._skip = 0
        self._lost = False

    def reset(self) -> None:
        """Forget a record of which the rest is lost."""
        self._offset += len(self._held)
        self._held.clear()
        self._skip = 0
        self._lost = False

    def feed(self, piece: bytes) -> Iterator[WarcRecord | Damage]:
        if self._skip:
            passed = min(self._skip, len(piece))
            self._skip -= passed
            self._offset += passed
            piece = piece[passed:]
        self._held += piece
        while (found := self._next()) is not None:
            yield found

    def close(self) -> Iterator[Damage]:
        if not self._lost and (self._held.strip(b"\r\n") or self._skip):
            yield Damage(reason="the last record is cut off", offset=self._offset)

    def _next(self) -> WarcRecord | Damage | None:
        if self._lost and not self._find_again():
            return None
        self._drop_blank_lines()
        held = self._held
        if len(held) >= len(_VERSION) and not held.startswith(_VERSION):
            return self._resume("no record begins here")
        end = held.find(_HEADER_END)
        if end < 0:
            return self._resume("a header without end") if len(held) > CHUNK_BYTES else None
        headers = _parse_headers(bytes(held[:end]))
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return self._resume("a record without Content-Length")
        begin, size = end + len(_HEADER_END), int(length)
        if size > self._max_record_bytes:
            return self._pass_over(begin + size)
        if len(held) < begin + size:
            return None
        record = WarcRecord(headers=headers, content=bytes(held[begin : begin + size]))
        self._drop(begin + size)
        return record

    def _drop(self, size: int) -> None:
        del self._held[:size]
        self._offset += size

    def _drop_blank_lines(self) -> None:
        if self._held.startswith((b"\r", b"\n")):
            self._drop(len(self._held) - len(self._held.lstrip(b"\r\n")))

    def _resume(self, reason: str) -> Damage:
        """Go on at the next record, wherever it is."""
        damage = Damage(reason=reason, offset=self._offset)
        self._drop(1)
        self._lost = True
        return damage

    def _find_again(self) -> bool:
        found = self._held.find(b"\n" + _VERSION)
        # What is left at the end may be the beginning of a record.
        self._drop(found + 1 if found >= 0 else max(0, len(self._held) - len(_VERSION)))
        self._lost = found < 0
        return not self._lost

    def _pass_over(self, size: int) -> Damage:
        damage = Damage(
            reason=f"a record of more than {self._max_record_bytes} bytes was passed over",
            offset=self._offset,
        )
        here = min(size, len(self._held))
        self._drop(here)
        self._skip = size - here
        return damage


def _parse_headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    name = ""
    for line in data.decode("utf-8", "replace").splitlines()[1:]:
        if line[:1] in " \t" and name:
            headers[name] += " " + line.strip()
            continue
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if colon:
            headers[name] = value.strip()
    return headers


def parse_response(content: bytes) -> HttpResponse:
    """The HTTP answer in a response record; raises `BadRecord` for what is none."""
    head, found, body = content.partition(_HEADER_END)
    words = head.split(b"\r\n", 1)[0].split()
    if not found or len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise BadRecord("the record holds no HTTP response")
    headers = _parse_headers(head)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    if headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
        body = _inflate(body)
    return HttpResponse(status=int(words[1]), headers=headers, body=body)


def _join_chunks(body: bytes) -> bytes:
    """The body without the sizes in it; as it is where there are none, for many crawlers store it joined."""
    joined: list[bytes] = []
    place = 0
    while True:
        end = body.find(b"\r\n", place)
        size_text = body[place:end].split(b";")[0].strip()
        try:
            size = int(size_text, 16) if end >= 0 else -1
        except ValueError:
            size = -1
        if size < 0:
            return body
        if size == 0:
            return b"".join(joined)
        joined.append(body[end + 2 : end + 2 + size])
        place = end + 2 + size + 2


def _inflate(body: bytes) -> bytes:
    """The unpacked body, up to the bound of a record; as it is where it is not packed after all."""
    for bits in (47, -15):
        try:
            return zlib.decompressobj(bits).decompress(body, MAX_RECORD_BYTES)
        except zlib.error:
            continue
    return body

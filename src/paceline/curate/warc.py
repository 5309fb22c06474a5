"""Reading WARC files, plain or packed with gzip as a whole or record by record, whole or in ranges.

Damage costs the records it hits and no more: packed data is taken up again at the next member, plain data at the next
record. A range of a packed file owns the records of the members that begin in it; reading starts some way before it, to
be in step with the members when it gets there: what looks like one in the middle of another is none.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from paceline.curate.errors import BadRecord

CHUNK_BYTES = 262_144
MAX_RECORD_BYTES = 64 * 1_048_576
# How far before a range its reading starts: more than a member of a crawl is long.
LEAD_BYTES = 4 * 1_048_576
_MEMBER = b"\x1f\x8b\x08"
# Enough of a member to unpack something of it.
_MEMBER_START_BYTES = 1024
_HEAD_BYTES = 16_384
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Unpacked content; an empty one with `record_at` comes before that of a member that begins with a record."""

    content: bytes = b""
    record_at: int | None = None


def read_warc(
    file: IO[bytes], *, begin: int = 0, end: int | None = None, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[WarcRecord | Damage]:
    """The records of a file in order, and what is damaged between them.

    With `begin` and `end` those of a range: of a packed file any, of a plain one such as `record_places` gives.
    """
    start = file.read(len(_MEMBER))
    if start == _MEMBER:
        yield from _read_packed(file, start, begin, end, max_record_bytes)
        return
    parser = _Parser(max_record_bytes, begin)
    for content in _plain(file, start, begin, end):
        yield from parser.feed(content)
    yield from parser.close()


def _read_packed(
    file: IO[bytes], start: bytes, begin: int, end: int | None, max_record_bytes: int
) -> Iterator[WarcRecord | Damage]:
    lead = max(0, begin - LEAD_BYTES)
    data, place = _find_member(file, lead) if lead else (start, 0)
    parser = _Parser(max_record_bytes)
    for piece in _owned(_unpack(file, data, place), begin, end):
        if isinstance(piece, Damage):
            parser.reset()
            yield piece
            continue
        if piece.record_at is not None:
            yield from parser.close()
            parser.reset()
        yield from parser.feed(piece.content)
    yield from parser.close()


def _owned(pieces: Iterator["_Piece | Damage"], begin: int, end: int | None) -> Iterator["_Piece | Damage"]:
    """From the first record of a member at or after `begin` to before that at or after `end`."""
    mine = begin == 0
    for piece in pieces:
        if isinstance(piece, _Piece) and (place := piece.record_at) is not None:
            if end is not None and place >= end:
                return
            mine = mine or place >= begin
        if mine:
            yield piece


def _plain(file: IO[bytes], start: bytes, begin: int, end: int | None) -> Iterator[bytes]:
    if begin:
        file.seek(begin)
        start = b""
    yield start
    left = None if end is None else end - begin - len(start)
    while piece := file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
        yield piece
        left = None if left is None else left - len(piece)


def record_places(file: IO[bytes], step_bytes: int) -> Iterator[int]:
    """Places of records in a plain file, at least so far apart; from header to header, up to one that is damaged."""
    place = given = 0
    while True:
        file.seek(place)
        head = file.read(_HEAD_BYTES)
        place += len(head) - len(head.lstrip(b"\r\n"))
        head = head.lstrip(b"\r\n")
        end = head.find(_HEADER_END)
        length = _parse_headers(head[:end]).get("content-length", "") if end >= 0 else ""
        if not head.startswith(_VERSION) or not length.isdecimal():
            return
        if place - given >= step_bytes:
            yield place
            given = place
        place += end + len(_HEADER_END) + int(length)


def _unpack(file: IO[bytes], data: bytes, place: int) -> Iterator[_Piece | Damage]:
    """The unpacked content, member after member, of data that begins with one at `place`."""
    while data:
        if len(data) < _MEMBER_START_BYTES:
            data += file.read(CHUNK_BYTES)
        member_at = place
        if _begins_record(data):
            yield _Piece(record_at=place)
        unpacker = zlib.decompressobj(31)
        while True:
            try:
                content = unpacker.decompress(data)
            except zlib.error as error:
                yield Damage(reason=f"packed data is damaged: {error}", offset=member_at)
                data, place = _find_member(file, member_at + 1)
                break
            yield _Piece(content=content)
            if unpacker.eof:
                place += len(data) - len(unpacker.unused_data)
                data = unpacker.unused_data or file.read(CHUNK_BYTES)
                break
            place += len(data)
            data = file.read(CHUNK_BYTES)
            if not data:
                yield Damage(reason="packed data ends in the middle", offset=place)
                return


def _begins_record(member: bytes) -> bool:
    """Whether a member unpacks to a record; the same bytes decide however the file is read."""
    try:
        start = zlib.decompressobj(31).decompress(member[:_MEMBER_START_BYTES])
    except zlib.error:
        return False
    return start.lstrip(b"\r\n").startswith(_VERSION)


def _find_member(file: IO[bytes], place: int) -> tuple[bytes, int]:
    """From the next place on that looks like a member; one that is none is damaged again, and passed over too."""
    file.seek(place)
    data = file.read(CHUNK_BYTES)
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

    def __init__(self, max_record_bytes: int, offset: int = 0) -> None:
        self._max_record_bytes = max_record_bytes
        self._held = bytearray()
        self._offset = offset
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

"""JSON Lines in and out."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import orjson

from paceline.curate.files import MAX_LINE_BYTES, FileRange, read_block, read_stream, too_long
from paceline.curate.stage import ReaderStage
from paceline.curate.task import Origin, Reject, Task


class JsonlReaderStage(ReaderStage):
    """A range of a file -> a task a line; blank lines are skipped, what is no JSON object is rejected."""

    name = "jsonl_reader"
    is_plain = True
    counts = "entries"

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.max_line_bytes = max_line_bytes

    def process(self, task: Task) -> Iterator[Task | Reject]:
        part: FileRange = task.data
        # A repeat is read and parsed anew each time: repeated input costs what as much different input would.
        for _ in range(part.repeats):
            yield from self._stream(part, task) if part.end is None else self._block(part, task)

    def _block(self, part: FileRange, task: Task) -> Iterator[Task | Reject]:
        block = read_block(part, max_line_bytes=self.max_line_bytes)
        offset = block.offset
        for line in block.lines:
            if line and not line.isspace():
                yield self._parse(line, Origin(path=part.path, offset=offset), task)
            offset += len(line) + 1
        if block.too_long_at is not None:
            self.count(entries=1)
            yield too_long(self.name, Origin(path=part.path, offset=block.too_long_at), self.max_line_bytes)

    def _stream(self, part: FileRange, task: Task) -> Iterator[Task | Reject]:
        for number, line in read_stream(part.path, max_line_bytes=self.max_line_bytes):
            origin = Origin(path=part.path, line=number)
            if line is None:
                self.count(entries=1)
                yield too_long(self.name, origin, self.max_line_bytes)
            elif not line.isspace():
                yield self._parse(line, origin, task)

    def _parse(self, line: bytes, origin: Origin, task: Task) -> Task | Reject:
        self.count(entries=1)
        try:
            data = parse_line(line)
        except (ValueError, RecursionError) as error:
            return self._refuse(origin, why_not_json(line, error))
        if not isinstance(data, dict):
            return self._refuse(origin, "the line is not a JSON object")
        return Task(data, task.dataset_name, "", origin, len(line))

    def _refuse(self, origin: Origin, reason: str) -> Reject:
        return Reject(stage=self.name, reason=reason, origin=origin, label=str(origin))


def parse_line(line: bytes) -> Any:
    """A JSON value, integers of any size exactly; NaN and infinity are no JSON."""
    # orjson rounds integers beyond 64 bits to floats; they have 20 digits or more, so 4 of every fifth byte are digits.
    if _SHORT_RUN in line[::5].translate(_ALL_DIGITS_ZERO) and _LONG_RUN in line.translate(_ALL_DIGITS_ZERO):
        return json.loads(line, parse_constant=_refuse_constant, parse_float=_finite)
    return orjson.loads(line)


_ALL_DIGITS_ZERO = bytes.maketrans(b"0123456789", b"0000000000")
_LONG_RUN = b"0" * 20
_SHORT_RUN = b"0" * 4


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is beyond the range of numbers")
    return value


def why_not_json(line: bytes, error: Exception) -> str:
    """The reason in terms of the file: which byte is not UTF-8, or where the JSON breaks."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as decode_error:
        return f"not UTF-8: byte {decode_error.start + 1} of the line"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno})"
    return f"not JSON: {error}"


def dump_lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Records as JSON Lines."""
    return b"".join(map(_dump_line, records))


def _dump_line(record: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        # It writes no integers beyond 64 bits; what neither can write is an error still.
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"

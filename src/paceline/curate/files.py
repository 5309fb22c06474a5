"""Finding input files, cutting them into ranges, and reading the whole lines of a range.

Plain files are cut at any byte; a range owns the lines that *begin* in it. Compressed files cannot be entered
in the middle: each is one range, read as a stream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from paceline.curate.errors import PipelineError
from paceline.curate.stage import SplitStage
from paceline.curate.storage import AHEAD_BYTES, find, is_directory, open_bytes
from paceline.curate.task import Origin, Reject, Task

RANGE_BYTES = 1_048_576
MAX_LINE_BYTES = 64 * 1_048_576
COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """Bytes of one file that are read together, `repeats` times over; `end` is None for a compressed file."""

    path: str
    start: int
    end: int | None
    repeats: int = 1


class FilePartitionStage(SplitStage):
    """Lists files (a path, a directory, several of them, local or remote) and cuts them into ranges."""

    name = "file_partition"

    def __init__(
        self,
        paths: str | Sequence[str],
        *,
        suffixes: Sequence[str],
        range_bytes: int = RANGE_BYTES,
        repeat_factor: int = 1,
    ) -> None:
        if range_bytes < 1 or repeat_factor < 1:
            raise PipelineError("file_partition: range_bytes and repeat_factor must be at least 1")
        self.paths = (paths,) if isinstance(paths, str) else tuple(paths)
        self.suffixes = tuple(suffixes)
        self.range_bytes = range_bytes
        self.repeat_factor = repeat_factor

    def process(self, task: Task) -> Iterator[Task]:
        for path, size_bytes in list_files(self.paths, self.suffixes):
            for piece in cut(path, size_bytes, self.range_bytes):
                for part in repeat(piece, self.repeat_factor, self.range_bytes, size_bytes):
                    yield self._unit(part, size_bytes, task)

    def input_bytes(self) -> int:
        sizes = (size_bytes for _, size_bytes in list_files(self.paths, self.suffixes))
        return sum(sizes) * self.repeat_factor

    def _unit(self, part: FileRange, file_bytes: int, task: Task) -> Task:
        end = file_bytes if part.end is None else part.end
        return Task(
            data=part,
            dataset_name=task.dataset_name,
            task_id=f"{Path(part.path).name}:{part.start}-{end}",
            origin=Origin(path=part.path, offset=part.start),
            size_bytes=(end - part.start) * part.repeats,
        )


def cut(path: str, size_bytes: int, range_bytes: int) -> Iterator[FileRange]:
    """The ranges of one file."""
    if path.endswith(COMPRESSED):
        yield FileRange(path=path, start=0, end=None)
        return
    for start in range(0, size_bytes, range_bytes):
        yield FileRange(path=path, start=start, end=min(start + range_bytes, size_bytes))


def repeat(piece: FileRange, factor: int, range_bytes: int, file_bytes: int) -> Iterator[FileRange]:
    """The same range several times, in units of about `range_bytes`, so that repeats are shared out too."""
    length = max(1, (file_bytes if piece.end is None else piece.end) - piece.start)
    step = max(1, range_bytes // length)
    for begin in range(0, factor, step):
        times = min(step, factor - begin)
        yield FileRange(path=piece.path, start=piece.start, end=piece.end, repeats=times)


def list_files(paths: Sequence[str], suffixes: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Every file with its size, in a fixed order; directories are searched for the suffixes."""
    wanted = tuple(suffix + tail for suffix in suffixes for tail in ("", *COMPRESSED))
    for path in paths:
        found = find(path)
        # A file that is named is taken, whatever it is called.
        if [file for file, _ in found] == [path]:
            yield from found
            continue
        if not found and not is_directory(path):
            raise PipelineError(f"{path}: no such file or directory")
        chosen = [(file, size_bytes) for file, size_bytes in found if file.endswith(wanted)]
        if not chosen:
            raise PipelineError(f"{path}: no file with {' or '.join(suffixes)} in this directory")
        yield from chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole lines that begin in a range; `too_long_at` is the offset of a last line that was left out."""

    offset: int
    lines: list[bytes]
    too_long_at: int | None = None


def read_block(part: FileRange, *, max_line_bytes: int = MAX_LINE_BYTES) -> Block:
    """The lines of a range of a plain file."""
    end = cast(int, part.end)
    with open_bytes(part.path, ahead_bytes=AHEAD_BYTES) as file:
        before = 1 if part.start else 0
        file.seek(part.start - before)
        data = file.read(end - part.start + before)
        begin = data.find(b"\n") + 1 if before else 0
        if before and not begin:
            return Block(offset=end, lines=[])
        if begin == len(data):
            return Block(offset=end, lines=[])
        return _complete(file, data[begin:], part.start - before + begin, max_line_bytes)


def _complete(file: IO[bytes], data: bytes, offset: int, max_line_bytes: int) -> Block:
    """Read on until the last line is whole."""
    last = data.rfind(b"\n") + 1
    pieces, length = [data], len(data) - last
    while length and not pieces[-1].endswith(b"\n"):
        if length > max_line_bytes:
            return Block(offset=offset, lines=data[:last].split(b"\n"), too_long_at=offset + last)
        more = file.readline(RANGE_BYTES)
        if not more:
            break
        pieces.append(more)
        length += len(more)
    return Block(offset=offset, lines=b"".join(pieces).split(b"\n"))


def read_stream(path: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, bytes | None]]:
    """The numbered lines of a compressed file; None stands for one that is too long."""
    with open_bytes(path) as file:
        number = 0
        while line := file.readline(max_line_bytes + 1):
            number += 1
            if len(line) <= max_line_bytes or line.endswith(b"\n"):
                yield number, line
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(RANGE_BYTES)
            yield number, None


class LineNumbers:
    """Turns offsets of a plain file into line numbers; only paid for when there is something to report."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._position = 0
        self._line = 1

    def at(self, offset: int) -> int:
        """The number of the line that begins at `offset`; ask in rising order for one pass over the file."""
        if offset < self._position:
            self._position, self._line = 0, 1
        with open_bytes(self.path) as file:
            file.seek(self._position)
            while self._position < offset and (data := file.read(min(RANGE_BYTES, offset - self._position))):
                self._line += data.count(b"\n")
                self._position += len(data)
        return self._line


def too_long(stage: str, origin: Origin, limit_bytes: int) -> Reject:
    """The reject for a line over the limit."""
    return Reject(
        stage=stage, reason=f"the line is longer than {limit_bytes} bytes", origin=origin, label=str(origin)
    )

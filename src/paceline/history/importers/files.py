"""Files of other tools as bytes: read with bounds, unpacked, and complained of in one line."""

import gzip
import stat
import zlib
from pathlib import Path

from paceline.errors import HistoryError

MAX_BYTES = 512 << 20
"""More would take several times as much memory; the largest known file of these kinds has 100 MiB."""

_GZIP = b"\x1f\x8b"


def complain(file: object, what: str, remedy: str) -> HistoryError:
    """One line: the file, what is wrong with it, what to do."""
    name = str(file)
    return HistoryError(f"{name if name.isprintable() else ascii(name)}: {what}; {remedy}")


def read_head(path: Path, count: int) -> bytes:
    """A file's first bytes. What is no regular file is refused: to read it might never end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise complain(path, "is not a regular file", "name a file or a directory of files")
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise complain(path, what, "check the path and its permissions") from error


def read_bytes(path: Path) -> bytes:
    """What a file holds, unpacked if it is gzip's."""
    data = read_head(path, MAX_BYTES + 1)
    if data.startswith(_GZIP):
        try:
            with gzip.open(path) as packed:
                data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise complain(path, f"is damaged ({error})", "copy or export it again") from error
    if len(data) > MAX_BYTES:
        raise complain(path, f"is larger than {MAX_BYTES >> 20} MiB", "split it and import the parts")
    return data

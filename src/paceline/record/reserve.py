"""A little disk space kept back, so that a full disk can still take the record of what just ran."""

import contextlib
import os
from pathlib import Path

from paceline.record.layout import RESERVE

RESERVE_BYTES = 1 << 20


class Reserve:
    """A file that is there only to be removed when space runs out."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / RESERVE

    def hold(self) -> bool:
        """Take the space; False when the disk does not have it."""
        try:
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

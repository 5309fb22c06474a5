"""What commands print on a terminal of a given width: how many lines, and how wide the widest is."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.report.format import display_width

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


class Printed(NamedTuple):
    """What a command printed, without colours."""

    command: str
    lines: list[str]
    code: int

    @property
    def widest(self) -> int:
        return max(map(display_width, self.lines), default=0)


def run_on_terminal(program: Sequence[str], words: Sequence[str], columns: int, directory: Path) -> Printed:
    """Run a command on a pseudo-terminal that is so wide, without a pager."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PAGER": "cat", "PACELINE_PAGER": "cat"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [*program, *words],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    text = b""
    try:
        while part := os.read(reader, 1 << 16):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(reader)
    shown = _CONTROL.sub("", text.decode("utf-8", "replace"))
    return Printed(" ".join(words), shown.rstrip("\n").split("\n") if shown.strip() else [], process.wait())

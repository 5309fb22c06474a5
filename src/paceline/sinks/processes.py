"""The processes of a sink as /proc shows them: whether they work or only wait, and an end for all of them."""

import os
import signal
from contextlib import suppress
from pathlib import Path

MARK = "PACELINE_SINK_PROCESS"
"""A variable that a sender and all it starts have; it finds what has left its process group, too."""

_WORKS = frozenset({"R", "D"})
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_ROUNDS = 10


def look_at(pid: int) -> tuple[float, bool]:
    """The CPU seconds of a process and all below it, and whether one of them runs, or waits for a CPU or a disk."""
    used_s, works = 0.0, False
    pending = [pid]
    while pending:
        one = pending.pop()
        with suppress(OSError, LookupError, ValueError):
            fields = Path(f"/proc/{one}/stat").read_text("latin-1").rpartition(")")[2].split()
            used_s += sum(map(int, fields[11:15])) * _TICK_S
            works = works or fields[0] in _WORKS
            for task in Path(f"/proc/{one}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())
    return used_s, works


def end_marked(mark: str) -> None:
    """End all that carries a mark; a process that is ended may have started another one."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(_ROUNDS):
        found = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _has(one, wanted)]
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _has(process: Path, wanted: bytes) -> bool:
    try:
        return wanted in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # Gone, or somebody else's.
        return False

"""The processes of a sink as /proc shows them: whether they work or only wait, and an end for all of them."""

import os
import signal
from contextlib import suppress

from paceline.record import below

MARK = "PACELINE_SINK_PROCESS"
"""A variable that a sender and all it starts have; it finds what has left its process group, too."""

_PROC = "/proc"
_WORKS = frozenset({b"R", b"D"})
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_ROUNDS = 10


def look_at(pid: int) -> tuple[float, bool]:
    """The CPU seconds of a process and all below it, and whether one of them runs, or waits for a CPU or a disk."""
    used_s, works = 0.0, False
    pending = [pid]
    while pending:
        one = pending.pop()
        with suppress(OSError, LookupError, ValueError):
            fields = below.read(_PROC, f"{one}/stat").rpartition(b")")[2].split()
            used_s += sum(map(int, fields[11:15])) * _TICK_S
            works = works or fields[0] in _WORKS
            for task in below.names(_PROC, f"{one}/task"):
                pending += map(int, below.read(_PROC, f"{one}/task/{task}/children").split())
    return used_s, works


def end_marked(mark: str) -> None:
    """End all that carries a mark; a process that is ended may have started another one."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(_ROUNDS):
        found = [int(one) for one in below.names(_PROC) if one.isdigit() and _has(one, wanted)]
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _has(pid: str, wanted: bytes) -> bool:
    try:
        return wanted in below.read(_PROC, f"{pid}/environ").split(b"\0")
    except OSError:  # Gone, or somebody else's.
        return False

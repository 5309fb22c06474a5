"""Runs a program and says what its whole process tree took."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from paceline.run.local.process import Command, Warden

# Of the environment: the first keeps Python from compiling ahead, as on no user's machine; the second is a cluster.
LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "RAY_ADDRESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Wall time, CPU time of all processes, and their peak memory (shared pages count in each)."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    stdout: str


def run(words: Sequence[object], *, apart: bool = False) -> Reading:
    """Run to the end; `apart` in a process namespace of its own, where no other Ray cluster can be seen."""
    # The peer looks for Ray clusters of its own accord and must not find a user's; nor is its own to be found.
    with tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as home, Warden() as warden:
        ray = {"RAY_TMPDIR": home, "RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        command = Command(
            argv=(*(namespace() if apart else ()), *map(str, words)),
            env={**kept, **ray, "RAY_USAGE_STATS_ENABLED": "0"},
        )
        said: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        ended = warden.run(command, lambda stream, chunk: said[stream].append(chunk))
    if ended.reason != "exited" or ended.returncode:
        sys.exit(
            f"{' '.join(command.argv)}: {ended.reason} {ended.returncode}\n{_text(said['stderr'])[-3000:]}"
        )
    used = ended.usage
    return Reading(
        wall_s=used.wall_s,
        cpu_s=used.cpu_user_s + used.cpu_system_s,
        peak_mb=used.peak_memory_bytes / 1e6,
        stdout=_text(said["stdout"]),
    )


@cache
def namespace() -> tuple[str, ...]:
    """The words that give a program its own view of processes, or none where that is not allowed."""
    for rights in ((), ("--user", "--map-root-user")):
        words = ("unshare", *rights, "--pid", "--fork", "--kill-child", "--mount-proc")
        try:
            if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
                return words
        except FileNotFoundError:
            break
    return ()


def _text(chunks: list[bytes]) -> str:
    return b"".join(chunks).decode("utf-8", "replace")

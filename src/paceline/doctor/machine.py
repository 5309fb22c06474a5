"""The files in which a system describes itself, and the remarks that are made of what they say."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Level = Literal["ok", "note", "warn", "fail"]

ONLINE = "sys/devices/system/cpu/online"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A root directory with `proc` and `sys` in it, and the variables. A file that cannot be read says nothing."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def read(self, path: str) -> str:
        """A file's text; empty where there is none to be had."""
        try:
            return (self.root / path).read_text(errors="replace").strip("\0\n ")
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        text = self.read(path)
        return int(text) if re.fullmatch(r"-?\d+", text) else None

    def texts(self, pattern: str) -> dict[str, str]:
        """The files of a pattern that say something, by their path from the root."""
        try:
            paths = sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        except OSError:
            return {}
        return {path: text for path in paths if (text := self.read(path))}

    def field(self, path: str, name: str) -> str:
        """What stands behind `name:` in a file of such lines."""
        match = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", self.read(path), re.MULTILINE)
        return match[1].strip() if match else ""

    def kib(self, name: str) -> int | None:
        """A field of `/proc/meminfo`, in bytes."""
        match = re.match(r"(\d+) kB", self.field("proc/meminfo", name))
        return int(match[1]) * 1024 if match else None

    @property
    def cpus(self) -> int | None:
        """How many CPUs are switched on."""
        listed = count_cpus(self.read(ONLINE))
        return listed or len(re.findall(r"^processor\s*:", self.read("proc/cpuinfo"), re.MULTILINE)) or None

    @property
    def usable_cpus(self) -> int | None:
        """How many of them we may run on."""
        return count_cpus(self.field("proc/self/status", "Cpus_allowed_list")) or self.cpus


def count_cpus(listed: str) -> int:
    """How many are in a list such as `0-3,8`; none in what is not such a list."""
    total = 0
    for part in filter(None, listed.replace(" ", "").split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            return 0
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return max(0, total)


def answer_of(command: Sequence[str], *, timeout_s: float) -> str:
    """What a program prints; empty if it fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One thing that was looked at.

    `note` is worth knowing, `warn` makes numbers worse or a feature unusable, `fail` keeps Paceline from working.
    """

    name: str
    level: Level
    value: str
    meaning: str
    fix: str


def remark(name: str, level: Level, value: str, meaning: str, fix: str = "") -> Remark:
    return Remark(name=name, level=level, value=value, meaning=meaning, fix=fix)


def level_of(value: float, noted: float, high: float) -> Level:
    return "warn" if value >= high else "note" if value >= noted else "ok"

"""The files in which a system tells about itself. One that is absent or closed to us tells nothing."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ONLINE = "sys/devices/system/cpu/online"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A root directory with `proc` and `sys` in it, and the variables."""

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
    """How many are in a list such as `0-3,8`; none in what is no such list."""
    total = 0
    for part in filter(None, listed.replace(" ", "").split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            return 0
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return max(0, total)

"""Programs that some features call."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.doctor.machine import Machine
from paceline.doctor.remarks import Level, Remark, remark

ANSWER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program under its names, the first that is there; `level` is what its absence means."""

    names: Sequence[str]
    purpose: str
    fix: str
    level: Level = "note"
    asks_version: bool = True


TOOLS = (
    Tool(
        names=("git",),
        purpose="revisions of results, bisect, regressions in the order of commits",
        fix="sudo apt-get install git",
        level="warn",
    ),
    Tool(names=("uv",), purpose="environments for ab and bisect in seconds", fix="pip install uv"),
    Tool(
        names=("docker", "podman"),
        purpose="running suites in containers",
        fix="sudo apt-get install podman",
    ),
    Tool(
        names=("conda", "mamba", "micromamba"),
        purpose="arms of ab that are conda environments",
        fix="pip install uv, which does for files with pip packages alone",
        asks_version=False,
    ),
    Tool(names=("py-spy",), purpose="profiles of tests (--benchmark-profile)", fix="pip install py-spy"),
    Tool(
        names=("chromium", "chromium-browser", "google-chrome"),
        purpose="pictures of the dashboard, for developers",
        fix="sudo apt-get install chromium",
        asks_version=False,
    ),
    Tool(
        names=("node",),
        purpose="building the dashboard's bundle, for developers",
        fix="sudo apt-get install nodejs",
    ),
)


def look(machine: Machine) -> Iterator[Remark]:
    path = machine.environ.get("PATH", "")
    for tool in TOOLS:
        found = next((place for name in tool.names if (place := shutil.which(name, path=path))), None)
        if found is None:
            yield remark(" or ".join(tool.names[:2]), tool.level, "not found", tool.purpose, tool.fix)
        else:
            version = version_of(found) if tool.asks_version else ""
            value = f"{version} ({found})" if version else found
            yield remark(Path(found).name, "ok", value, tool.purpose)


def version_of(program: str) -> str:
    """What it calls its version; empty if it does not answer."""
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"\d+(?:\.\d+)+", done.stdout.decode(errors="replace"))
    return match[0] if match else ""

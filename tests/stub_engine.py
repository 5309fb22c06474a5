"""Engines that note what they are asked, as real programs on the path, and the scripts in tools/ that call them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
# Every word ends with a null byte, so that any other character can be in it.
_STUB = """#!/bin/sh
printf '%s\\0' "$0" "$@" > "$STUB_ARGV"
printf '%s' "${STUB_SECRET-}" > "$STUB_ARGV.secret"
exit "${STUB_CODE:-0}"
"""
HOSTILE = (
    "two words",
    "'single' \"double\" `touch pwned`",
    "$(touch pwned)",
    "${HOME};touch pwned",
    "line\nbreak\n",
    "--rm",
    "-",
    "",
    "*",
    "a,b=c:d",
    "back\\slash",
    "ü→",
)


@dataclass(frozen=True)
class Desk:
    """A directory with stub engines; the scripts run in it and find no other engine."""

    path: Path

    def add_engine(self, name: str) -> Path:
        engine = self.path / "bin" / name
        engine.parent.mkdir(exist_ok=True)
        engine.write_text(_STUB)
        engine.chmod(0o755)
        return engine

    def call(
        self, script: str, *words: str, cwd: Path | None = None, user: int | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        # /usr/bin has what the scripts need, and might have an engine: the stubs come first.
        search = f"{self.path / 'bin'}:/usr/bin:/bin"
        fixed = {
            "PATH": search,
            "STUB_ARGV": str(self.path / "argv"),
            "PYTHON_BIN": sys.executable,
            "NO_COLOR": "1",
        }
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        return subprocess.run(
            ["bash", REPOSITORY / "tools" / script, *words],
            cwd=cwd or self.path,
            env={**kept, "LC_ALL": "C.UTF-8", **fixed, **env},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )

    @property
    def argv(self) -> list[str]:
        """What the engine was called with, without its own name."""
        return (self.path / "argv").read_bytes().decode().split("\0")[1:-1]

    @property
    def was_called(self) -> bool:
        return (self.path / "argv").exists()


def read_back(line: str) -> list[str]:
    """The words of a printed command, as a shell reads them."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    return done.stdout.decode().split("\0")[:-1]


def following(argv: list[str], option: str) -> list[str]:
    """The words that stand after each occurrence of an option."""
    return [after for word, after in pairwise(argv) if word == option]

"""Real sessions, run by the real command line in processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Workplace:
    """A directory with a suite, and the command to run it."""

    path: Path

    def write(self, name: str, text: str) -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def command(self, *words: str | Path) -> list[str]:
        return [sys.executable, "-m", "paceline", *map(str, words)]

    def run(self, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=self.path,
            env={**os.environ, "NO_COLOR": "1", **env},
            capture_output=True,
            text=True,
            timeout=170,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*words),
            cwd=self.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def record(self, session: str, entry: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.path / "results" / session / entry / "record.json").read_text())
        return loaded

    def records(self, session: str) -> dict[str, dict[str, Any]]:
        found = (self.path / "results" / session).glob("*/record.json")
        return {path.parent.name: json.loads(path.read_text()) for path in found}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def marked_processes() -> Callable[[str], list[int]]:
    """Processes whose environment carries a marker, whoever their parent is now."""

    def find(marker: str) -> list[int]:
        wanted = marker.encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    return find

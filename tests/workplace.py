"""A directory with a suite, and the real command line to run it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_command import warm_command


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
        environ = {**os.environ, "NO_COLOR": "1", **env}
        warm = warm_command()
        return subprocess.run(
            [warm.bin / "paceline", *words] if warm.serves(environ) else self.command(*words),
            cwd=self.path,
            env=environ,
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
        loaded: dict[str, Any] = json.loads(
            (self.path / "results" / session / entry / "record.json").read_text()
        )
        return loaded

    def records(self, session: str) -> dict[str, dict[str, Any]]:
        found = (self.path / "results" / session).glob("*/record.json")
        return {path.parent.name: json.loads(path.read_text()) for path in found}

    def ran(self) -> list[str]:
        """The cases that the suite's counting script ran, each time it did."""
        ledger = self.path / "ledger"
        return ledger.read_text().splitlines() if ledger.exists() else []

"""A directory with tests in it, pytest to run them with the plugin, and the history they leave."""

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import paceline.findings.between  # pytester forgets what a run inside imports, and numpy can't be twice
import paceline.pytest_plugin.session  # noqa: F401
from paceline.history import SessionInfo, open_store
from paceline.model import Record

# Installed as it should be, pytest finds the plugin by itself.
INSTALLED = any(one.name == "paceline" for one in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "paceline.pytest_plugin")


@dataclass(frozen=True)
class Suite:
    """Tests in a directory of their own."""

    pytester: pytest.Pytester

    @property
    def path(self) -> Path:
        return self.pytester.path

    def write(self, text: str, name: str = "test_it.py") -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run in this process, with `--benchmark`."""
        return self.plain("--benchmark", *arguments)

    def plain(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *arguments)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", *arguments]

    def run_apart(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run in a process of its own, with `--benchmark`."""
        return subprocess.run(
            self.command("--benchmark", *arguments),
            cwd=self.path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=400,
            stdin=subprocess.DEVNULL,
        )

    def sessions(self, database: str = "benchmark.db") -> list[SessionInfo]:
        with open_store(self.path / database, create=False) as store:
            return store.sessions()

    def records(self, database: str = "benchmark.db") -> dict[str, Record]:
        """What the newest session recorded, by the name of the test."""
        with open_store(self.path / database, create=False) as store:
            found = store.records(store.sessions(limit=1)[0])
        return {record.case.name.partition("::")[2]: record for record in found}

    def record(self, test: str) -> Record:
        return self.records()[test]

    def journals(self) -> list[Path]:
        return sorted(self.path.glob("*.jsonl"))

"""The command line within the test's own process: the same words, codes and output, without starting Python anew."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.cli import _invoke

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Here:
    """A directory, and the command line in it."""

    path: Path
    invoke: Callable[[tuple[str, ...]], Done]

    def run(self, *words: str | Path) -> Done:
        return self.invoke(tuple(map(str, words)))


def make_here(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    def invoke(words: tuple[str, ...]) -> Done:
        with monkeypatch.context() as patch:
            patch.chdir(path)
            patch.setattr(sys, "argv", ["paceline", *words])
            capsys.readouterr()
            code = _invoke()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, printed.out, printed.err)

    return Here(path, invoke)

"""Real sessions, run by the real command line in processes of their own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workplace import Workplace


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

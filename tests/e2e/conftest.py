"""Real sessions, run by the real command line in processes of their own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workplace import Workplace

COUNT = """
import argparse, json, os, pathlib, time
from paceline import emit
parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=pathlib.Path, required=True)
parser.add_argument("--value", type=float, default=1)
parser.add_argument("--exit", type=int, default=0)
args = parser.parse_args()
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(os.environ["PACELINE_CASE"] + "\\n")
emit.params({"value": args.value})
with emit.task("work"):
    pass
emit.metrics({"is_success": args.exit == 0, "score": args.value})
raise SystemExit(args.exit)
"""


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def suite(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("LEDGER", str(place.path / "ledger"))
    place.write("scripts/count.py", COUNT)
    return place


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

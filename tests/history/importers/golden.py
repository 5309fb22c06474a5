"""The stored files of other tools, and how they are read in the tests."""

import json
import shutil
from pathlib import Path
from typing import Any

from paceline.history.importers import Batch, read
from paceline.model import Record

FILES = Path(__file__).parent / "files"


def read_all(path: Path, format: str = "auto") -> list[Batch]:
    """Every batch of a path; a problem with any part of it fails the test."""

    def fail(problem: Exception) -> None:
        raise AssertionError(str(problem))

    return list(read(path, format, on_problem=fail))


def read_one(path: Path, format: str = "auto") -> tuple[Batch, dict[str, Record]]:
    """The only batch of a path, and its records by the key of their case."""
    (batch,) = read_all(path, format)
    return batch, {record.case.key: record for record in batch.records}


def copy_of(name: str, tmp_path: Path) -> Path:
    """A stored file or directory at another place, to be changed."""
    target = tmp_path / "copy" / Path(name).name
    target.parent.mkdir(exist_ok=True)
    source = FILES / name
    return Path(shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target))


def write_json(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path


def load_json(name: str) -> Any:
    return json.loads((FILES / name).read_bytes())

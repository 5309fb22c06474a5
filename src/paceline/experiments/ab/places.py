"""Where an A/B test keeps its files, which test it goes on with, and what it writes there."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.errors import SessionError
from paceline.experiments.ab.experiment import BEGIN, END
from paceline.experiments.ab.html import page
from paceline.experiments.ab.markdown import markdown
from paceline.experiments.ab.result import ABResult, result_json
from paceline.experiments.journal import FILE
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump, load
from paceline.record.layout import safe_name
from paceline.record.redact import Redactor


def find_directory(results_dir: Path, name: str, mark: str) -> tuple[Path, bool]:
    """The newest test of this name that is the same and not over, and that it is one; else a new directory."""
    prefix = f"ab-{safe_name(name)}-"
    for path in sorted(results_dir.glob(f"{prefix}*"), reverse=True):
        lines = list(_lines(path))
        begun = any(line.get("kind") == BEGIN and line.get("fingerprint") == mark for line in lines)
        if begun and not any(line.get("kind") == END for line in lines):
            return path, True
    fresh = f"{prefix}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    number = 1
    while (path := results_dir / (fresh if number == 1 else f"{fresh}-{number}")).exists():
        number += 1
    return path, False


def check_resumable(directory: Path) -> None:
    """Refuse to go on with what was never begun."""
    if not (directory / FILE).is_file():
        raise SessionError(f"no A/B test to go on with at {directory}: begin one without --resume")


def write_results(result: ABResult, directory: Path, redactor: Redactor) -> None:
    """Write `ab.json`, `ab.md` and `ab.html`, without secrets."""
    files = {
        "ab.json": dump(result_json(result), pretty=True, redactor=redactor) + b"\n",
        "ab.md": redactor.text(markdown(result)).encode(),
        "ab.html": redactor.text(page(result)).encode(),
    }
    try:
        for name, data in files.items():
            write_atomic(directory / name, data)
    except OSError as error:
        raise SessionError(
            f"the result could not be written into {directory}: {error.strerror or error}"
        ) from error


def _lines(directory: Path) -> Iterator[dict[str, Any]]:
    try:
        data = (directory / FILE).read_bytes()
    except OSError:
        return
    for line in data.splitlines():
        try:
            entry = load(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry

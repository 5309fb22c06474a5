"""What a shell may offer behind `--only`: the entries and tags that stand in a suite's files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.config.nodes import parse_file, plain
from paceline.errors import ConfigError


def names_in(paths: Sequence[Path]) -> list[str]:
    """Entry names, then `tag:NAME`s; files that cannot be read offer nothing."""
    entries = [entry for path in paths for entry in _entries(path)]
    names = [str(entry["name"]) for entry in entries if "name" in entry]
    tags = [f"tag:{tag}" for entry in entries for tag in _list(entry.get("tags"))]
    return list(dict.fromkeys([*names, *sorted(tags)]))


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    try:
        documents = [plain(node) for node in parse_file(path)]
    except ConfigError:
        return
    for document in documents:
        found = document.get("entries") if isinstance(document, dict) else None
        yield from (entry for entry in _list(found) if isinstance(entry, dict))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""Names that stand in a suite's files, for what cannot wait for the suite to be loaded, or to be without mistakes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.config.nodes import parse_file, plain
from paceline.errors import ConfigError


def names_in(paths: Sequence[Path]) -> list[str]:
    """What a shell may offer behind `--only`: entries, then `tag:NAME`s; files that cannot be read offer nothing."""
    entries = [entry for path in paths for entry in _entries(path)]
    names = [str(entry["name"]) for entry in entries if "name" in entry]
    tags = [f"tag:{tag}" for entry in entries for tag in _list(entry.get("tags"))]
    return list(dict.fromkeys([*names, *sorted(tags)]))


def secrets_in(paths: Sequence[Path]) -> list[str]:
    """The variables that stand under `secrets`, also in files with mistakes elsewhere."""
    documents = (document for path in paths for document in _documents(path))
    return [str(name) for document in documents for name in _list(document.get("secrets"))]


def history_url_in(paths: Sequence[Path]) -> str | None:
    """The database that the files name, unless variables are part of it."""
    for document in (document for path in paths for document in _documents(path)):
        history = document.get("history")
        url = history.get("url") if isinstance(history, dict) else None
        if isinstance(url, str) and "${" not in url:
            return url
    return None


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    for document in _documents(path):
        yield from (entry for entry in _list(document.get("entries")) if isinstance(entry, dict))


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return  # a pipe would be waited for, and gives what is in it once only
    try:
        documents = [plain(node) for node in parse_file(path)]
    except ConfigError:
        return
    yield from (document for document in documents if isinstance(document, dict))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""Where records were made, as far as they say, in the form it is stored in."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from paceline.history.store.entries import UNKNOWN, clean, json_text
from paceline.record.environment import MOMENTARY, without_others
from paceline.record.packages import normal_name

# What is kept is the same for all sessions of an environment; packages have a table of their own.
_NOT_KEPT = MOMENTARY | {"captured_at", "packages"}
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)$")
_FROM_URL = re.compile(r"([A-Za-z0-9._-]+) @ (\S+)$")


class StoredEnvironment(NamedTuple):
    """An environment as its rows have it; `data` is None for one that is only known by its id."""

    ident: str
    class_id: str
    python_version: str
    platform: str
    hostname: str
    data: str | None
    packages: tuple[tuple[str, str], ...]


def to_stored(environment: Mapping[str, Any]) -> StoredEnvironment:
    """The data of an `environment.json`; anything may be missing in it."""
    if not environment:
        return StoredEnvironment(UNKNOWN, "", "", "", "", None, ())
    known = without_others(environment)
    lasting = {name: fact for name, fact in known.items() if name not in _NOT_KEPT}
    packages = tuple(sorted(dict(_packages(known.get("packages", ()))).items()))
    ident = _text(environment.get("id")) or _digest([lasting, packages])
    comparable = environment.get("comparable")
    python = environment.get("python")
    version = python.get("version") if isinstance(python, Mapping) else python
    return StoredEnvironment(
        ident=ident,
        class_id=_text(environment.get("class_id")) or (_digest(comparable) if comparable else ident),
        python_version=_text(version),
        platform=_text(environment.get("platform")).partition("-")[0].lower(),
        hostname=_text(environment.get("hostname")),
        data=json_text(lasting),
        packages=packages,
    )


def unknown_node(ident: str, name: str) -> StoredEnvironment:
    """A node of a pool that nobody describes: comparable with nothing but itself."""
    return StoredEnvironment(ident, ident, "", "", clean(name), None, ())


def stub(ident: str, known: StoredEnvironment) -> StoredEnvironment:
    """An environment that a record names and nobody describes: taken to be the same machine as the one beside it.

    Sessions that older versions resumed have such records.
    """
    return StoredEnvironment(ident, known.class_id, known.python_version, known.platform, "", None, ())


def _packages(listed: Mapping[str, Any] | Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Name and version of each package, from a mapping or from lines as `pip freeze` writes them."""
    if isinstance(listed, Mapping):
        yield from ((normal_name(clean(str(name))), _text(version)) for name, version in listed.items())
        return
    for line in listed:
        text = _text(line).strip().rpartition("  # ")[2]
        found = _PINNED.match(text) or _FROM_URL.match(text)
        if found:
            yield normal_name(found[1]), found[2]


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))


def _digest(value: Any) -> str:
    return hashlib.sha256(json_text(value).encode()).hexdigest()[:16]

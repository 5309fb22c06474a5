"""Which database is meant."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from paceline.errors import HistoryError, MissingExtra
from paceline.record.redact import mask_urls

DEFAULT = "benchmark.db"
HERE = f"./{DEFAULT}"
RESULTS = Path("results")
"""Where sessions are kept, unless a suite or a user says otherwise."""
VARIABLE = "PACELINE_DB"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_POSTGRES = frozenset({"postgresql", "postgres", "postgresql+psycopg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A database: a file of SQLite, or else a server of PostgreSQL, whose URL libpq takes."""

    url: str
    path: Path | None = None

    def __str__(self) -> str:
        return str(self.path) if self.path else mask_urls(self.url)


def find_url(
    explicit: str | None,
    config_url: str | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    results: Path = RESULTS,
) -> str:
    """The database to use: the one asked for, that of the environment, of the configuration, or beside the results.

    One of before, when it was made in the current directory, goes on there.
    """
    environ = os.environ if environ is None else environ
    asked = explicit or environ.get(VARIABLE) or config_url
    return asked or (HERE if Path(HERE).is_file() else str(results / DEFAULT))


def why_here(url: str, results: Path = RESULTS) -> str:
    """A line about a database that stands in the current directory and that nobody asked for."""
    usual = results / DEFAULT
    if url != HERE or usual.absolute() == Path(HERE).absolute():
        return ""
    also = ", though there is one, too" if usual.is_file() else ""
    return f"the history is {HERE}, not {usual}{also}: --db or {VARIABLE} names another"


def parse_target(url: str | Path) -> Target:
    """A file name or URL as what to connect to."""
    text = str(url)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _file(Path(text.removeprefix("sqlite:") if text.startswith("sqlite:") else text))
    name = scheme[1].lower()
    if name in ("sqlite", "sqlite+pysqlite", "file"):
        # Three slashes begin a relative path and four an absolute one, as SQLAlchemy has it.
        rest = text[scheme.end() :].partition("?")[0]
        return _file(Path(rest if name == "file" else rest.removeprefix("/")))
    if name in _POSTGRES:
        return Target(url=f"postgresql://{text[scheme.end() :]}")
    known = "a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    raise HistoryError(f"{mask_urls(text)!r} is no database that the history knows: give {known}")


def _file(path: Path) -> Target:
    if str(path) in ("", ".", ":memory:"):
        raise HistoryError("the history needs a file or a server: give it a name, such as benchmark.db")
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
    return Target(url=f"sqlite:///{absolute}", path=absolute)


def check_driver(target: Target) -> None:
    """Raise if what it takes to talk to the database is not installed; a quick look that imports nothing."""
    if target.path is None and find_spec("psycopg") is None:
        raise MissingExtra(f"the history at {target}", "postgres")


def readable_address(path: Path) -> str:
    """How to open a file that is only to be read.

    If we may, as one that could be written: only then can SQLite undo what a killed writer began, and remove the files
    that readers share. Where nobody can write, it must not look for them.
    """
    writable = os.access(path.parent, os.W_OK)
    mode = (
        "mode=rw"
        if writable and os.access(path, os.W_OK)
        else "mode=ro"
        if writable
        else "mode=ro&immutable=1"
    )
    return f"{path.as_uri()}?{mode}"

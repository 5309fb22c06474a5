"""Addresses of object stores, and the directory of this machine in which their sessions run."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from paceline.errors import PacelineError

WORK_DIR = "PACELINE_WORK_DIR"
Location: TypeAlias = Path | str
"""Where sessions or one of them are kept: a directory, or the URL of an object store."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9.]+")


def parse_location(text: str) -> Location:
    """What a text names: the URL of an object store, or a path; `file://` is another way to write one."""
    if not _SCHEME.match(text):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme.lower() == "file":
        return Path(unquote(parts.path))
    if ":" in parts.netloc.partition("@")[0] and "@" in parts.netloc:
        raise PacelineError(
            f"{parts.scheme}://…@{parts.netloc.rpartition('@')[2]}: a password does not belong in an address that is "
            "written into files; give it in the environment, as the store's client expects it"
        )
    return text.rstrip("/")


def split(url: str) -> tuple[str, str]:
    """The address above, and the last name of this one."""
    parent, _, name = url.rstrip("/").rpartition("/")
    if "://" not in parent:
        raise PacelineError(f"{url} names no object: expected something like s3://bucket/name")
    return parent, name


def working_dir(location: Location, environ: Mapping[str, str] | None = None) -> Path:
    """Where the sessions of a location run on this machine: in the directory itself, if it is one."""
    if isinstance(location, Path):
        return location
    environ = os.environ if environ is None else environ
    # The same bucket name at another endpoint is another bucket.
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", "")
    digest = hashlib.sha256(f"{endpoint}\n{location}".encode()).hexdigest()[:12]
    slug = _OTHER_CHARACTERS.sub("-", location).strip("-")[-60:].lstrip(".-")
    state = environ.get("XDG_STATE_HOME", "")
    state_dir = Path(state) if state.startswith("/") else Path.home() / ".local/state"
    given = environ.get(WORK_DIR)
    root = Path(given).absolute() if given else state_dir / "paceline/work"
    return root / f"{slug}-{digest}"

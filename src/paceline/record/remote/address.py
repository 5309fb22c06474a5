"""Addresses of object stores, and the directory of this machine in which their sessions run."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from paceline.errors import PacelineError

WORK_DIR = "PACELINE_WORK_DIR"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9.]+")


def is_url(place: object) -> bool:
    """Whether a place is named by a URL and not by a path."""
    return isinstance(place, str) and _SCHEME.match(place) is not None


def place_of(text: str) -> Path | str:
    """The place that a text names: the URL of an object store, or a path; `file://` is another way to write one."""
    if not is_url(text):
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


def join(url: str, name: str) -> str:
    return f"{url}/{name}"


def split(url: str) -> tuple[str, str]:
    """The address above, and the last name of this one."""
    parent, _, name = url.rstrip("/").rpartition("/")
    if "://" not in parent:
        raise PacelineError(f"{url} names no object: expected something like s3://bucket/name")
    return parent, name


def working_dir(url: str, environ: Mapping[str, str] | None = None) -> Path:
    """Where sessions that are kept at this address run on this machine."""
    environ = os.environ if environ is None else environ
    # The same bucket name at another endpoint is another bucket.
    endpoint = next((environ[name] for name in _ENDPOINTS if environ.get(name)), "")
    digest = hashlib.sha256(f"{endpoint}\n{url}".encode()).hexdigest()[:12]
    slug = _OTHER_CHARACTERS.sub("-", url).strip("-")[-60:].lstrip(".-")
    return _work_root(environ) / f"{slug}-{digest}"


def _work_root(environ: Mapping[str, str]) -> Path:
    if given := environ.get(WORK_DIR):
        return Path(given).absolute()
    state = environ.get("XDG_STATE_HOME", "")
    root = Path(state) if state.startswith("/") else Path.home() / ".local/state"
    return root / "paceline/work"

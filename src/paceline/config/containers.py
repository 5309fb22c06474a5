"""Whether we run inside a container, and what a directory of the host is called there."""

from collections.abc import Mapping
from pathlib import Path

MARKERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
MOUNT = "/MOUNT"
"""Where a directory of the host lies in a container, unless its `container_path` says otherwise."""


def in_container(environ: Mapping[str, str]) -> bool:
    """Docker and Podman leave marker files; others set the variable `container`."""
    return bool(environ.get("container")) or any(marker.exists() for marker in MARKERS)


def mounted(host_path: str) -> str:
    """The place in a container of a directory that has no `container_path`."""
    return MOUNT + (host_path if host_path.startswith("/") else f"/{host_path}")

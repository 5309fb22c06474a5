"""Whether we run inside a container, and what a directory of the host is called there."""

from collections.abc import Mapping
from pathlib import Path

MARKERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
MOUNT = Path("/MOUNT")
"""Where directories of the host lie in a container that mounts them there."""


def in_container(environ: Mapping[str, str]) -> bool:
    """Docker and Podman leave marker files; others set the variable `container`."""
    return bool(environ.get("container")) or any(marker.exists() for marker in MARKERS)


def mounted(host_path: str) -> str:
    """The place in a container of a directory that has no `container_path`.

    Most containers mount nothing under `/MOUNT`; what they see of the host then has the same path.
    """
    if not MOUNT.is_dir():
        return host_path
    return f"{MOUNT}{'' if host_path.startswith('/') else '/'}{host_path}"

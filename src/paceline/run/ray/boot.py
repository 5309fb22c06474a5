"""The first thing that runs on a node of a pool: it finds there the same Paceline as here, or unpacks ours.

This module is sent to the nodes by value, since they need not have Paceline; it uses the standard library only.
"""

import fcntl
import hashlib
import importlib
import importlib.util
import io
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

PREFIX = "paceline-pool-"


def digest(package: Path) -> str:
    """A hash of a package's source."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def extract(packed: bytes, target: str | Path) -> None:
    """Unpack an archive of our own; the earliest releases of Python 3.11 know no filters."""
    kind: Any = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, **kind)  # noqa: S202 - made by `pack` on the driver, never by a stranger


def own(home: Path) -> BinaryIO:
    """Leave word that a directory is in use: the lock is freed with this process, however it ends."""
    new = home / "owner.new"
    owner = new.open("xb")
    fcntl.flock(owner, fcntl.LOCK_EX)
    new.rename(home / "owner")
    return owner


class Boot:
    """An actor on a node; once `load` has said yes, `call` does what is asked of `ray_pool_node.NodeSlot`."""

    def __init__(self) -> None:
        self._slot: Any = None
        self._code: tuple[Path, BinaryIO] | None = None

    def load(self, wanted: str, code: bytes | None = None) -> str:
        """Get ready; `code` if this node has no such Paceline, else what is missing besides, or nothing."""
        if code is None:
            spec = importlib.util.find_spec("paceline")
            if spec is None or spec.origin is None or digest(Path(spec.origin).parent) != wanted:
                return "code"
        else:
            self._unpack(code)
        try:
            self._slot = importlib.import_module("paceline.run.ray.node").NodeSlot()
        except ModuleNotFoundError as error:
            return f"the Python package {error.name}"
        return ""

    def call(self, name: str, *args: Any) -> Any:
        return getattr(self._slot, name)(*args)

    def close(self) -> None:
        """Leave nothing behind."""
        self._slot.close()
        if self._code is not None:
            shutil.rmtree(self._code[0], ignore_errors=True)

    def _unpack(self, code: bytes) -> None:
        home = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._code = home, own(home)
        extract(code, home / "code")
        sys.path.insert(0, str(home / "code"))
        importlib.invalidate_caches()

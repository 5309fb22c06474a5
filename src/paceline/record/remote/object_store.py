"""Objects in a store such as S3: read, written, and written only if nobody else did meanwhile.

Credentials come from where the store's own client takes them, such as the variables AWS_*.
"""

import fcntl
import hashlib
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from paceline.errors import MissingExtra, PacelineError
from paceline.record.atomic import write_atomic
from paceline.record.remote.address import place_of, split
from paceline.record.remote.faults import (
    Conflict,
    StoreError,
    fault_types,
    is_missing_bucket,
    is_refusal,
    reason,
)

__all__ = ["Conflict", "ObjectStore", "Stat", "StoreError", "fetch", "put"]

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
_PART_BYTES = 8 << 20
_MOST_PARTS = 9_000  # S3 takes 10,000.
_AT_ONCE = 16
_S3 = frozenset({"s3", "s3a"})
_WRITER = "paceline-writer"
_memory_turn = threading.RLock()  # Files in memory are no good for two threads at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What a listing tells of an object; `version` is S3's ETag, and empty for stores that have none."""

    size: int
    version: str = ""
    modified_s: float = 0.0


def fetch(url: str, path: Path) -> str | None:
    """Copy an object to a file; its version, to be given to `put`. None, and no file, if there is no such object."""
    store, name = _store_and_name(url)
    try:
        return store.receive(name, path)
    except FileNotFoundError:
        return None


def put(path: Path, url: str, *, if_version: str | None) -> str:
    """Write a file over that version of an object, or as a new one if that is None; its new version.

    Raises `Conflict`, and leaves the object alone, if it is not the one that was read.
    """
    store, name = _store_and_name(url)
    if not store.is_atomic:
        raise StoreError(
            f"{url}: whether this store can refuse a late write is not known; use s3:// or a path"
        )
    return store.write_if(name, path, if_version)


def _store_and_name(url: str) -> tuple["ObjectStore", str]:
    place = place_of(url)
    if isinstance(place, Path):
        full = place.absolute()
        return ObjectStore(f"file://{full.parent}"), full.name
    parent, name = split(place)
    return ObjectStore(parent), name


class ObjectStore:
    """All objects below a URL, by their names relative to it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, root = _open(self.url)
        self._root = root.rstrip("/")
        protocols = self._fs.protocol
        self._protocols = {protocols} if isinstance(protocols, str) else set(protocols)

    @property
    def is_atomic(self) -> bool:
        """Whether `write_if` is decided by one party, so that of two writers one is refused."""
        return bool(self._protocols & (_S3 | {"memory", "file", "local"}))

    def read(self, name: str) -> bytes | None:
        """An object; None if there is none."""
        with self._faults(name):
            try:
                return bytes(self._fs.cat_file(self._full(name)))
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return None

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """Several objects at once; those that are gone are left out."""
        asked = list(names)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = zip(asked, pool.map(self.read, asked), strict=True)
            return {name: data for name, data in found if data is not None}

    def write(self, name: str, data: bytes) -> None:
        with self._faults(name):
            self._fs.pipe_file(self._full(name), data)

    def send(self, path: Path, name: str, told: Callable[[], object] = lambda: None) -> None:
        """Write a file as an object; `told` is called as it gets on."""
        from fsspec.callbacks import Callback

        part_bytes = max(_PART_BYTES, math.ceil(path.stat().st_size / _MOST_PARTS))
        chunks = {"chunksize": part_bytes} if self._protocols & _S3 else {}
        callback = Callback(hooks={"told": lambda *_, **__: told()})
        with self._faults(name):
            self._fs.put_file(str(path), self._full(name), callback=callback, **chunks)

    def receive(self, name: str, path: Path) -> str:
        """Copy an object to a file, which is whole or not there; its version. FileNotFoundError if there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".tmp-{uuid.uuid4().hex}"
        try:
            with self._faults(name, missing_ok=True):
                version = self._download(name, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return version

    def _download(self, name: str, target: Path) -> str:
        if not self._protocols & _S3:
            self._fs.get_file(self._full(name), str(target))
            with target.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        from fsspec.asyn import sync

        bucket, key, _ = self._fs.split_path(self._full(name))
        # By one request, so that the version is that of these bytes.
        answer = self._fs.call_s3("get_object", Bucket=bucket, Key=key)
        with target.open("wb") as file:
            while chunk := sync(self._fs.loop, answer["Body"].read, _PART_BYTES):
                file.write(chunk)
        return str(answer["ETag"])

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with self._faults(name), suppress(FileNotFoundError):
                self._fs.rm_file(self._full(name))

    def find(self, below: str = "") -> dict[str, Stat]:
        """All objects, or those below a name, with what a listing tells of them."""
        start = self._full(below) if below else self._root
        with self._faults(below):
            try:
                found: dict[str, Any] = self._fs.find(start, detail=True)
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return {}
        skip = len(self._root) + 1
        return {full[skip:]: _stat(info) for full, info in found.items() if info.get("type") == "file"}

    def children(self) -> list[str]:
        """The names just below this address that have something below themselves."""
        with self._faults(""):
            try:
                listed = self._fs.ls(self._root, detail=True)
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return []
        return [info["name"].rstrip("/").rpartition("/")[2] for info in listed if info["type"] == "directory"]

    def modified_s(self, name: str) -> float | None:
        """When an object was written, in seconds since 1970; None if there is none."""
        with self._faults(name):
            try:
                info = self._fs.info(self._full(name))
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return None
        return _stat(info).modified_s if info.get("type") == "file" else None

    def version(self, name: str) -> str | None:
        """The version of an object as `write_if` takes it; None if there is none."""
        head = self.head(name)
        return head and head[0]

    def write_if(self, name: str, body: bytes | Path, version: str | None) -> str:
        """Write over that version of an object, or a new one if that is None; raises `Conflict`."""
        if self._protocols & _S3:
            return self._s3_write_if(name, body, version)
        data = body if isinstance(body, bytes) else body.read_bytes()
        with self._turn(name), self._faults(name):
            if self.version(name) != version:
                raise self._conflict(name)
            if self._is_local:
                write_atomic(Path(self._full(name)), data)
            else:
                self._fs.pipe_file(self._full(name), data)
        return hashlib.sha256(data).hexdigest()

    def _s3_write_if(self, name: str, body: bytes | Path, version: str | None) -> str:
        bucket, key, _ = self._fs.split_path(self._full(name))
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        writer = uuid.uuid4().hex
        opened: AbstractContextManager[Any] = body.open("rb") if isinstance(body, Path) else nullcontext(body)
        with opened as content, self._faults(name):
            try:
                # One request, as only that is decided as a whole by every S3; up to 5 GB.
                answer = self._fs.call_s3(
                    "put_object",
                    Bucket=bucket,
                    Key=key,
                    Body=content,
                    Metadata={_WRITER: writer},
                    **condition,
                )
                return str(answer["ETag"])
            except OSError as error:
                if not is_refusal(error):
                    raise
        return self._own_write(name, writer)

    def _own_write(self, name: str, writer: str) -> str:
        """The version that we wrote ourselves, when an answer was lost and the client asked again; else a conflict."""
        head = self._s3_head(name)
        if head is None or head.get("Metadata", {}).get(_WRITER) != writer:
            raise self._conflict(name)
        return str(head["ETag"])

    def _conflict(self, name: str) -> Conflict:
        return Conflict(f"{self.url}/{name} was written by somebody else meanwhile")

    def head(self, name: str) -> tuple[str, float] | None:
        """The version of an object, and how many seconds ago it was written by the store's own clock."""
        if self._protocols & _S3:
            head = self._s3_head(name)
            return (str(head["ETag"]), _s3_age_s(head)) if head else None
        data = self.read(name)
        if data is None:
            return None
        with self._faults(name):
            modified = self._fs.modified(self._full(name)).timestamp()
        return hashlib.sha256(data).hexdigest(), max(0.0, time.time() - modified)

    def _s3_head(self, name: str) -> dict[str, Any] | None:
        bucket, key, _ = self._fs.split_path(self._full(name))
        with self._faults(name):
            try:
                head: dict[str, Any] = self._fs.call_s3("head_object", Bucket=bucket, Key=key)
            except FileNotFoundError:
                return None
        return head

    @property
    def _is_local(self) -> bool:
        return bool(self._protocols & {"file", "local"})

    def _turn(self, name: str) -> AbstractContextManager[object]:
        """Keeps other writers of a store that cannot decide itself away while we look and write."""
        if self._is_local:
            full = Path(self._full(name))
            return _locked_file(full.parent / f".{full.name}.lock")
        return _memory_turn if "memory" in self._protocols else nullcontext()

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _faults(self, name: str, *, missing_ok: bool = False) -> Iterator[None]:
        """What the store's client raises as one line that says what, where and why."""
        where = f"{self.url}/{name}" if name else self.url
        try:
            with _memory_turn if "memory" in self._protocols else nullcontext():
                yield
        except fault_types() as error:
            if missing_ok and isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
                raise
            raise StoreError(f"{where}: {reason(error)}") from error


def _open(url: str) -> tuple[Any, str]:
    protocol = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs

        if protocol not in _S3:
            return url_to_fs(url, **({"auto_mkdir": True} if protocol == "file" else {}))  # type: ignore[no-any-return]
        fs = _s3_client(frozenset(item for item in os.environ.items() if item[0].startswith("AWS_")))
        return fs, fs._strip_protocol(url)
    except ImportError as error:
        if protocol in _S3 or error.name == "fsspec":
            raise MissingExtra(url, "s3") from error
        raise PacelineError(f"{url}: {error}") from error
    except ValueError as error:
        raise PacelineError(f"{url}: {error}") from error


@lru_cache(maxsize=4)
def _s3_client(_settings: frozenset[tuple[str, str]]) -> Any:
    """A client for these settings, which takes a third of a second to make; it sees what others write."""
    import fsspec

    limits = {"connect_timeout": CONNECT_TIMEOUT_S, "read_timeout": READ_TIMEOUT_S}
    fs = fsspec.filesystem(
        "s3",
        skip_instance_cache=True,
        use_listings_cache=False,
        config_kwargs={**limits, "retries": {"mode": "standard", "total_max_attempts": 3}},
    )
    # Its own repetition of a request does not rewind a file that is being sent; botocore's does.
    fs.retries = 1
    return fs


@contextmanager
def _locked_file(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _stat(info: Mapping[str, Any]) -> Stat:
    modified = info.get("LastModified") or info.get("created") or info.get("mtime")
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    return Stat(
        size=int(info.get("size") or 0),
        version=str(info.get("ETag", "")).strip('"'),
        modified_s=float(modified) if isinstance(modified, int | float) else 0.0,
    )


def _s3_age_s(head: Mapping[str, Any]) -> float:
    date = head["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    now_s = parsedate_to_datetime(date).timestamp() if date else time.time()
    return float(max(0.0, now_s - head["LastModified"].timestamp()))

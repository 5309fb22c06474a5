"""Objects in a store such as S3: read, written, and written only if nobody else did meanwhile.

Credentials come from where the store's own client takes them, such as the variables AWS_*.
"""

import math
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from paceline.errors import MissingExtra, PacelineError
from paceline.record import below
from paceline.record.files import lock_file, write_atomic

_S3 = ("s3://", "s3a://")
_PART_BYTES, _MOST_PARTS = 8 << 20, 9_000  # S3 takes 10,000.
_WRITER = "paceline-writer"
_REFUSALS = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412"})


class StoreError(PacelineError):
    """An object store does not answer, or refuses what was asked of it."""


class Conflict(PacelineError):
    """Somebody else wrote an object since it was read."""


class ObjectStore:
    """All objects below a URL, by their names relative to it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.is_s3, self.is_local = url.lower().startswith(_S3), url.startswith("file://")
        self._fs, root = _open(self.url, is_s3=self.is_s3)
        self._root = root.rstrip("/")

    def read(self, name: str) -> bytes | None:
        """An object; None if there is none."""
        with suppress(FileNotFoundError), self._faults(name):
            return bytes(self._fs.cat_file(self._full(name)))
        return None

    def receive(self, name: str, root: Path, target: str) -> None:
        """Copy an object to a file below a root, which is whole or not there; FileNotFoundError if there is none."""
        temporary = f".tmp-{uuid.uuid4().hex}"
        try:
            with self._faults(name):
                self._fs.get_file(self._full(name), f"{root}/{temporary}")
            below.rename(root, temporary, target)
        finally:
            below.remove(root, temporary)

    def write(self, name: str, data: bytes) -> None:
        with self._faults(name):
            self._fs.pipe_file(self._full(name), data)

    def send(self, path: Path, name: str, on_progress: Callable[[], object] = lambda: None) -> None:
        """Write a file as an object; `on_progress` is called for each part that the store has taken."""
        from fsspec.callbacks import Callback

        part_bytes = max(_PART_BYTES, math.ceil(path.stat().st_size / _MOST_PARTS))
        options = {"chunksize": part_bytes} if self.is_s3 else {}
        callback = Callback(hooks={"progress": lambda *_, **__: on_progress()})
        with self._faults(name):
            self._fs.put_file(str(path), self._full(name), callback=callback, **options)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError), self._faults(name):
            self._fs.rm_file(self._full(name))

    def remove_if(self, name: str, version: str) -> None:
        """Remove that version of an object; one that somebody else has written since stays."""
        with suppress(FileNotFoundError), self._faults(name):
            with _locked(Path(self._full(name))) if self.is_local else nullcontext():
                if self.version(name) != version:
                    return
                if not self.is_s3:
                    self._fs.rm_file(self._full(name))
                    return
            try:  # A store that does not know the condition has been asked just now.
                self._call("delete_object", name, IfMatch=version)
            except OSError as error:
                if _code(error) == "NotImplemented":
                    self._fs.rm_file(self._full(name))
                elif _code(error) not in _REFUSALS:
                    raise

    def find(self, below: str = "") -> dict[str, dict[str, Any]]:
        """All objects, or those below a name, with what a listing says of them."""
        with suppress(FileNotFoundError), self._faults(below):
            found = self._fs.find(self._full(below).rstrip("/"), detail=True).items()
            # A name that ends with a slash stands for an empty directory.
            return {full[len(self._root) + 1 :]: info for full, info in found if not full.endswith("/")}
        return {}

    def children(self) -> list[str]:
        """The names just below this address that have something below themselves."""
        with suppress(FileNotFoundError), self._faults(""):
            listed = self._fs.ls(self._root, detail=True)
            return [str(info["name"]).rpartition("/")[2] for info in listed if info["type"] == "directory"]
        return []

    def head(self, name: str) -> tuple[str, float] | None:
        """The version of an object, and how many seconds old it is by the store's own clock; None if there is none."""
        full = self._full(name)
        with suppress(FileNotFoundError), self._faults(name):
            if not self.is_s3:
                return str(self._fs.ukey(full)), time.time() - modified_s(self._fs.info(full))
            head = self._call("head_object", name)
            date = head["ResponseMetadata"]["HTTPHeaders"].get("date", "")
            now_s = parsedate_to_datetime(date).timestamp() if date else time.time()
            return str(head["ETag"]), now_s - head["LastModified"].timestamp()
        return None

    def version(self, name: str) -> str | None:
        """The version of an object as `write_if` takes it; None if there is none."""
        head = self.head(name)
        return head and head[0]

    def write_if(self, name: str, body: bytes | IO[bytes], version: str | None) -> str:
        """Write over that version of an object, or a new one if that is None; its new version, or `Conflict`."""
        conflict = Conflict(f"{self.url}/{name} was written by somebody else meanwhile")
        full = self._full(name)
        if not self.is_s3:
            with self._faults(name), _locked(Path(full)) if self.is_local else nullcontext():
                if self.version(name) != version:
                    raise conflict
                data = body if isinstance(body, bytes) else body.read()
                write_atomic(Path(full), data) if self.is_local else self._fs.pipe_file(full, data)
                return str(self.version(name))
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        writer = uuid.uuid4().hex
        with self._faults(name):
            try:
                # One request, as only that is decided as a whole by every S3; up to 5 GB.
                answer = self._call("put_object", name, Body=body, Metadata={_WRITER: writer}, **condition)
                return str(answer["ETag"])
            except OSError as error:
                if not isinstance(error, FileExistsError) and _code(error) not in _REFUSALS:
                    raise
            # An answer may have been lost and the client have asked again: then what is there is ours.
            with suppress(FileNotFoundError):
                head = self._call("head_object", name)
                if head["Metadata"].get(_WRITER) == writer:
                    return str(head["ETag"])
        raise conflict

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _call(self, method: str, name: str, **options: Any) -> dict[str, Any]:
        bucket, key, _ = self._fs.split_path(self._full(name))
        answer: dict[str, Any] = self._fs.call_s3(method, Bucket=bucket, Key=key, **options)
        return answer

    @contextmanager
    def _faults(self, name: str) -> Iterator[None]:
        """What the store's client raises, as one line that says what, where and why; a missing object stays one."""
        try:
            yield
        except Exception as error:
            is_theirs = type(error).__module__.startswith(("botocore.", "aiohttp."))
            is_missing = isinstance(error, FileNotFoundError) and _code(error) != "NoSuchBucket"
            if is_missing or not (is_theirs or isinstance(error, OSError)):
                raise
            why = " ".join(str(error).split()) or type(error).__name__
            if _code(error) == "NoSuchBucket":
                why = "the bucket does not exist"
            elif isinstance(error, PermissionError):
                why = f"access denied ({why}): check the credentials in the environment"
            elif isinstance(error, TimeoutError):
                why = f"no answer in time ({why})"
            raise StoreError(f"{self.url}/{name}".rstrip("/") + f": {why}") from error


def modified_s(info: Mapping[str, Any]) -> float:
    """When an object was written, as a listing says; now if it does not."""
    modified = info.get("LastModified") or info.get("mtime") or info.get("created") or time.time()
    return float(modified.timestamp() if isinstance(modified, datetime) else modified)


def _code(error: BaseException) -> str:
    """The name that the store itself has for an error."""
    answer = getattr(error.__cause__, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other writers of a file away, as a file system does not decide between them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = lock_file(path.with_name(f".{path.name}.lock"), wait=True)
    try:
        yield
    finally:
        os.close(fd)


def _open(url: str, *, is_s3: bool) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        if not is_s3:
            return url_to_fs(url, **({"auto_mkdir": True} if url.startswith("file://") else {}))  # type: ignore[no-any-return]
        fs = _s3_client(frozenset(item for item in os.environ.items() if item[0].startswith("AWS_")))
        return fs, fs._strip_protocol(url)
    except ImportError as error:
        if is_s3 or error.name == "fsspec":
            raise MissingExtra(url, "s3") from error
        raise PacelineError(f"{url}: {error}") from error
    except ValueError as error:
        raise PacelineError(f"{url}: {error}") from error


@lru_cache(maxsize=4)
def _s3_client(_settings: frozenset[tuple[str, str]]) -> Any:
    """A client for these settings, which takes a third of a second to make; it sees what others write."""
    import fsspec

    retries = {"mode": "standard", "total_max_attempts": 3}
    fs = fsspec.filesystem(
        "s3",
        skip_instance_cache=True,
        use_listings_cache=False,
        max_concurrency=1,  # One request for one object, which is then of one version.
        config_kwargs={"connect_timeout": 10, "read_timeout": 60, "retries": retries},
    )
    # Its own repetition of a request does not rewind a file that is being sent; botocore's does.
    fs.retries = 1
    return fs

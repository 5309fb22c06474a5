"""A real object store for tests: a moto server in a process of its own, on loopback.

`from object_store import s3` gives a test module the fixture `s3`; a test that takes the server down asks for
`s3_server`, too. `moto_server` and `start_store` are for those that want a server to themselves.
"""

import atexit
import functools
import io
import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from free_port import free_port

BUCKET = "bench"

# Ends with its standard input, so that no server outlives the tests, however they end. What is stored lives in the
# process and not in the listening server: it is still there after "down" and "up". S3 decides conditional writes to
# an object one after another; moto looks at the condition and writes in two steps, hence the lock.
_PROGRAM = """
import json, sys, threading
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
from werkzeug.serving import WSGIRequestHandler

put_object, turn = S3Response.put_object, threading.Lock()
answer, asked = WSGIRequestHandler.run_wsgi, []

def note_and_answer(self):
    asked.append(f"{self.command} {self.path}")
    answer(self)

WSGIRequestHandler.run_wsgi = note_and_answer

def put_in_turn(self):
    with turn:
        return put_object(self)

S3Response.put_object = put_in_turn
port = int(sys.argv[1])
server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
server.start()
print(port, flush=True)
is_up = True
for line in sys.stdin:
    if is_up and line.strip() == "down":
        server.stop()
        server._server.server_close()
        is_up = False
    elif not is_up and line.strip() == "up":
        is_up = True
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
    elif line.strip() == "requests":
        print(json.dumps(asked))
        asked.clear()
    print(line.strip(), flush=True)
"""


@dataclass(frozen=True)
class ObjectStore:
    """A running server that can be taken down and brought up again with all that it held."""

    url: str
    process: subprocess.Popen[str]

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which S3 clients find this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "testing-id",
            "AWS_SECRET_ACCESS_KEY": "testing-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def take_down(self) -> None:
        self._order("down")

    def bring_up(self) -> None:
        self._order("up")

    def requests(self) -> list[str]:
        """What was asked of the server since this was called last, each as its method and path."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("requests\n")
        self.process.stdin.flush()
        asked: list[str] = json.loads(self.process.stdout.readline())
        assert self.process.stdout.readline().strip() == "requests"
        return asked

    def reset(self) -> None:
        """Forget everything, then make the bucket."""
        _send("POST", f"{self.url}/moto-api/reset")
        self.make_bucket(BUCKET)

    def make_bucket(self, name: str) -> None:
        _send("PUT", f"{self.url}/{name}")

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def _order(self, word: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == word


def start_store() -> ObjectStore:
    """A new server with an empty bucket; `close` it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(free_port())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    store = ObjectStore(f"http://127.0.0.1:{int(process.stdout.readline())}", process)
    store.make_bucket(BUCKET)
    return store


@contextmanager
def moto_server() -> Iterator[str]:
    """The endpoint of a server of one's own, with an empty bucket."""
    store = start_store()
    try:
        yield store.url
    finally:
        store.close()


@functools.cache
def shared_store() -> ObjectStore:
    """The server that all tests of this process share, as it takes over a second to start."""
    store = start_store()
    atexit.register(store.close)
    return store


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> str:
    """`s3://bench`, an empty bucket; the variables AWS_* lead to it."""
    store = shared_store()
    store.reset()
    use_store(store, monkeypatch)
    return f"s3://{BUCKET}"


@pytest.fixture
def s3_server(s3: str) -> Iterator[ObjectStore]:
    """The server behind `s3`, which a test may take down; import both."""
    yield shared_store()
    shared_store().bring_up()


def use_store(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let S3 clients in this process and in those it starts find this server, and forget what they knew."""
    for name, value in store.environ.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()


def archive_files(data: bytes | None) -> dict[str, bytes]:
    """The files in the archive of a case."""
    with tarfile.open(fileobj=io.BytesIO(data or b"")) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in files.items() if file}


def _send(method: str, url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method, data=b"")) as answer:
        assert answer.status == 200

"""A loopback HTTP server that keeps what is posted to it, and answers as it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Posted(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


class HookServer(ThreadingHTTPServer):
    """`answers` are given out one by one, (status, headers); 200 when there are none."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.posted: list[Posted] = []
        self.answers: list[tuple[int, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: HookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, headers = self.server.answers.pop(0) if self.server.answers else (200, {})
        if status < 300:
            self.server.posted.append(Posted(self.path, dict(self.headers.items()), body))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silence."""


@contextmanager
def serving(port: int = 0) -> Iterator[HookServer]:
    server = HookServer(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()

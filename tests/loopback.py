"""HTTP servers on loopback that stand in for services: a function answers, and every request is kept."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request that came in; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass(frozen=True)
class Reply:
    """What the service says."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class BreakOff(Exception):
    """Close the connection with no answer at all."""


class Loopback:
    """A server for the time of a test; a fault in the answering function fails the test at its end."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.asked: list[Asked] = []
        self.faults: list[BaseException] = []
        self._lock = threading.Lock()
        self._answer = answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if kind is None:
            assert not self.faults, self.faults

    def _handler(outer: Any) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                parts = urlsplit(self.path)
                asked = Asked(
                    method=self.command,
                    path=parts.path,
                    query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                )
                try:
                    with outer._lock:
                        outer.asked.append(asked)
                    reply = outer._answer(asked)
                except BreakOff:
                    self.close_connection = True
                    return
                except BaseException as error:
                    outer.faults.append(error)
                    raise
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Tests say what they saw themselves."""

        return Handler

"""A small server for one person on this machine: answers to no other name than this machine's.

It reads, and writes one thing: what that person says about findings, on a page of its own.
"""

import logging
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, get_args
from urllib.parse import parse_qs, quote, unquote, urlsplit

from paceline.dashboard.artifacts import BEGINNING, TYPES, safe_ending
from paceline.dashboard.live_site import FoundArtifact, LiveSite
from paceline.dashboard.site import POLICY
from paceline.errors import PacelineError
from paceline.finding import State
from paceline.record.codec import load

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "xml": "application/atom+xml; charset=utf-8",
}
_HEADERS = {
    "Content-Security-Policy": POLICY + "; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_OF_A_RUN = {**_HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
"""A file of a run is looked at or kept; whatever it holds, it runs nothing and loads nothing."""


_MOST_BYTES = 16 << 10


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Answers GET, and POST for what the reader says; every page is made by the one thread that has the database."""

    server: "Server"
    server_version = "paceline"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def handle(self) -> None:
        with suppress(ConnectionError):  # a browser that goes away is no news
            super().handle()

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_POST(self) -> None:
        """What somebody says about a finding: from a page of this server, on this machine, and from nowhere else."""
        try:
            told = self._read_verdict()
            count = self.server.say(told["id"], told["state"], told["why"])
            self._send(HTTPStatus.OK, b'{"findings": %d}\n' % count, "json", with_body=True)
        except Refused as refused:
            self.close_connection = True  # what was sent besides is not read
            self._send(refused.status, f"{refused}\n".encode(), "txt", with_body=True)
        except PacelineError as error:
            self._send(HTTPStatus.CONFLICT, f"{error}\n".encode(), "txt", with_body=True)

    def _read_verdict(self) -> dict[str, Any]:
        host, length = self.headers.get("Host", ""), self.headers.get("Content-Length", "")
        if self.path != "/verdict":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "This server takes verdicts only.")
        is_here = self._is_ours(host) and ip_address(self.client_address[0]).is_loopback
        if not is_here or self.headers.get("Origin") != f"http://{host}":
            raise Refused(
                HTTPStatus.FORBIDDEN, "Only a page of this server, on this machine, may say something."
            )
        if not compare_digest(self.headers.get("X-Paceline-Token", "").encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "The server was started again since: load the page anew.")
        if self.headers.get("Content-Type") != "application/json" or not length.isdecimal():
            raise Refused(HTTPStatus.BAD_REQUEST, "A verdict is a JSON object.")
        if int(length) > _MOST_BYTES:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "That is too long.")
        try:
            told = load(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or set(told) != {"id", "state", "why"}:
            raise Refused(HTTPStatus.BAD_REQUEST, "A verdict has an id, a state and a reason.")
        if not all(isinstance(text, str) for text in told.values()) or told["state"] not in get_args(State):
            raise Refused(HTTPStatus.BAD_REQUEST, f"The states are {', '.join(get_args(State))}.")
        return told

    def _answer(self, *, with_body: bool) -> None:
        # A page elsewhere could have its own name lead to this machine, and read what is here.
        if not self._is_ours(self.headers.get("Host", "")):
            self._send(HTTPStatus.FORBIDDEN, b"This server answers to localhost only.\n", "txt", with_body)
            return
        address = urlsplit(self.path)
        path = unquote(address.path).removeprefix("/") or "index.html"
        try:
            asked = path == "compare.json"
            data = self.server.compared(parse_qs(address.query)) if asked else self.server.made(path)
            artifact = self.server.artifact(path) if data is None else None
            content = artifact.read() if artifact else None
        except PacelineError as error:  # the database was moved, or its server has gone
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode(), "txt", with_body)
            return
        if data is not None:
            self._send(HTTPStatus.OK, data, path.rpartition(".")[2], with_body)
        elif artifact and content is not None:
            self._send_artifact(artifact.name, content, with_body)
        else:
            self._send(HTTPStatus.NOT_FOUND, b"There is no such page.\n", "txt", with_body)

    def _is_ours(self, host: str) -> bool:
        name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        return (name if colon else host).lower() in _NAMES and (not colon or port.isdecimal())

    def _send(self, status: HTTPStatus, data: bytes, ending: str, with_body: bool) -> None:
        kind = _TYPES.get(ending, "text/plain; charset=utf-8")
        self._begin(status, {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(data))})
        if with_body:
            self.wfile.write(data)

    def _begin(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_artifact(self, full_name: str, data: bytes, with_body: bool) -> None:
        """Send a file of a run, as a kind of content that runs nothing."""
        ending = safe_ending(data[:BEGINNING])
        shown = "attachment" if ending == "bin" else "inline"
        name = quote(full_name.rpartition("/")[2], safe="")
        self._begin(
            HTTPStatus.OK,
            {
                **_OF_A_RUN,
                "Content-Type": TYPES[ending],
                "Content-Length": str(len(data)),
                "Content-Disposition": f"{shown}; filename*=UTF-8''{name}",
            },
        )
        if with_body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


class Server(ThreadingHTTPServer):
    """Connections in threads of their own, since browsers keep some open; pages one after the other."""

    daemon_threads = True

    def __init__(self, site: LiveSite, port: int, address: str) -> None:
        self._site = site
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pages")
        super().__init__((address, port), Handler)

    @property
    def token(self) -> str:
        return self._site.token

    def say(self, ident: str, state: State, why: str) -> int:
        return self._maker.submit(self._site.say, ident, state, why).result()

    def compared(self, query: dict[str, list[str]]) -> bytes | None:
        return self._maker.submit(self._site.compared, query).result()

    def made(self, path: str) -> bytes | None:
        return self._maker.submit(self._site.file, path).result()

    def artifact(self, path: str) -> FoundArtifact | None:
        return self._maker.submit(self._site.artifact, path).result()

    def server_close(self) -> None:
        super().server_close()
        # The database may be closed only by the thread that opened it.
        self._maker.submit(self._site.close).result()
        self._maker.shutdown()


def serve(site: LiveSite, port: int, ready: Callable[[str], None], address: str = HOST) -> None:
    """Serve until interrupted or told to end."""
    try:
        server = Server(site, port, address)
    except OSError as error:
        where = f"port {port}" if address == HOST else f"{address}, port {port}"
        raise PacelineError(
            f"cannot serve on {where}: {error.strerror or error}; choose another with --port"
        ) from error
    with server:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        ready(f"http://localhost:{server.server_address[1]}/")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return

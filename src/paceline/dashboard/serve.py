"""A small server for one person on this machine: reads only, answers to no other name than this machine's."""

import logging
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from paceline.dashboard.artifacts import BEGINNING, TYPES, safe_ending
from paceline.dashboard.live_site import FoundArtifact, LiveSite
from paceline.dashboard.site import POLICY
from paceline.errors import PacelineError

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


class Handler(BaseHTTPRequestHandler):
    """Answers GET; every page is made by the one thread that has the database."""

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

    def _answer(self, *, with_body: bool) -> None:
        # A page elsewhere could have its own name lead to this machine, and read what is here.
        if not self._is_ours(self.headers.get("Host", "")):
            self._send(HTTPStatus.FORBIDDEN, b"This server answers to localhost only.\n", "txt", with_body)
            return
        path = unquote(urlsplit(self.path).path).removeprefix("/") or "index.html"
        try:
            data = self.server.made(path)
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

"""A dashboard's server that runs, and questions to it."""

import http.client
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from workplace import Workplace


@contextmanager
def serving(place: Workplace, *words: str) -> Iterator[int]:
    """The port of a server that is up."""
    command = place.command("dashboard", "serve", "--port", "0", *words)
    process = subprocess.Popen(
        command, cwd=place.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stderr
    try:
        address = process.stdout.readline()
        assert address.startswith("http://localhost:"), process.stderr.read()
        yield int(address.strip().rstrip("/").rpartition(":")[2])
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, process.stderr.read()
        process.stdout.close()
        process.stderr.close()


def ask(
    port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found

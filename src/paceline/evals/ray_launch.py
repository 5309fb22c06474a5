"""Workers on the nodes of a Ray cluster: Ray finds the place, everything else is as on this machine.

An actor on the node holds what the worker takes in Ray's accounts, starts it with its keeper, and waits for its end.
The worker talks to the parent over a TCP connection of its own, which begins with a secret. The nodes must see the
results directory and have the same Paceline.
"""

import hmac
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.evals.launch import Berth, Wire, WorkerLog, start_process
from paceline.run.ray.slots import Cluster, Lost

log = logging.getLogger(__name__)

_GREETING_TIMEOUT_S = 30.0
_TOKEN_BYTES = 64


class WorkerHost:
    """Runs in an actor on a node: one worker, from its start to its end."""

    def run(
        self,
        address: tuple[str, int],
        greeting: bytes,
        log: str,
        environment: Mapping[str, str],
        paths: Sequence[str],
        secret_names: Sequence[str],
    ) -> int:
        """Start a worker that talks to the parent at an address and imports from where it does; how it ended."""
        # Ray has chosen the GPU, and said so in this process's environment.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        with socket.create_connection(address, _GREETING_TIMEOUT_S) as connected:
            connected.settimeout(None)
            connected.sendall(greeting)
            life_theirs, life = os.pipe()
            seen = {**environment, "CUDA_VISIBLE_DEVICES": visible}
            try:
                fds = connected.fileno(), life_theirs
                process = start_process(
                    Path(log), seen, *fds, paths=paths, secret_names=secret_names, sheltered=True
                )
            finally:
                os.close(life_theirs)
        try:
            return process.wait()
        finally:
            os.close(life)


class RayLauncher:
    """Starts workers wherever a Ray cluster has room for them."""

    def __init__(self, log_dir: Path, address: str, secret_names: Sequence[str] = ()) -> None:
        self._log_dir = log_dir
        self._secret_names = list(secret_names)
        log_dir.mkdir(parents=True, exist_ok=True)
        self._cluster = Cluster(address)
        self._cluster.__enter__()
        import ray

        self._host: Any = ray.remote(WorkerHost)
        self._token = secrets.token_hex(_TOKEN_BYTES // 2).encode()
        # On the address by which the nodes know this machine: loopback, if all of them are here.
        here: Any = ray.util.get_node_ip_address  # untyped
        self._server = socket.create_server((here(), 0))
        self._workers: dict[int, RayWorker] = {}
        threading.Thread(target=self._accept, name="evals-accept", daemon=True).start()

    def start(self, number: int, berth: Berth) -> "RayWorker":
        actor = self._host.options(
            num_cpus=0 if berth.gpu_share else 1, num_gpus=berth.gpu_share, max_restarts=0
        ).remote()
        greeting = self._token + f"{number:016d}".encode()
        path = self._log_dir / f"worker-{number}.log"
        address = self._server.getsockname()[:2]
        given = dict(berth.environment), list(sys.path), self._secret_names
        call = actor.run.remote(address, greeting, str(path), *given)
        worker = self._workers[number] = RayWorker(self._cluster, actor, call, path)
        return worker

    def close(self) -> None:
        self._server.close()
        self._cluster.__exit__()

    def _accept(self) -> None:
        """Bring every connection to its worker; one that does not know the secret is closed."""
        while True:
            try:
                connected, _ = self._server.accept()
            except OSError:
                return  # closed: the execution is over
            threading.Thread(target=self._greet, args=(connected,), daemon=True).start()

    def _greet(self, connected: socket.socket) -> None:
        connected.settimeout(_GREETING_TIMEOUT_S)
        try:
            greeting = connected.recv(_TOKEN_BYTES + 16, socket.MSG_WAITALL)
            connected.settimeout(None)
        except OSError:
            greeting = b""
        is_known = hmac.compare_digest(greeting[:_TOKEN_BYTES], self._token)
        worker = self._workers.get(int(greeting[_TOKEN_BYTES:])) if is_known else None
        if worker is None:
            connected.close()
        else:
            worker.connect(connected)


class RayWorker:
    """A worker on some node; its messages are relayed, since they may come long after it was asked for."""

    def __init__(self, cluster: Cluster, actor: Any, call: Any, path: Path) -> None:
        self._cluster = cluster
        self._actor = actor
        self._log = WorkerLog(path)
        ours, self._inner = socket.socketpair()
        self.wire = Wire(ours)
        self._returncode: int | None = None
        self._ended = threading.Event()
        self._connected = False
        threading.Thread(target=self._watch, args=(call,), name="evals-watch", daemon=True).start()

    @property
    def is_waiting(self) -> bool:
        return not self._connected

    def connect(self, connected: socket.socket) -> None:
        """Relay between the worker and the parent's end of the wire until either closes."""
        self._connected = True
        threading.Thread(target=_relay, args=(self._inner, connected), daemon=True).start()
        _relay(connected, self._inner)

    def _watch(self, call: Any) -> None:
        """Wait for the end of the worker, or of its node."""
        try:
            self._returncode = self._cluster.get(call)
        except Lost as error:
            log.info("a worker is lost: %s", error)
        self._connected = True
        self._ended.set()
        with suppress(OSError):
            self._inner.shutdown(socket.SHUT_RDWR)

    def returncode(self, timeout_s: float) -> int | None:
        self._ended.wait(timeout_s)
        return self._returncode

    def end(self) -> None:
        self._cluster.kill(self._actor)

    def end_hard(self) -> None:
        self._cluster.kill(self._actor)

    def mark_log(self) -> None:
        self._log.mark()

    def log_tail(self) -> str:
        return self._log.tail()

    def close(self) -> None:
        self.end()
        self.wire.close()
        self._inner.close()


def _relay(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

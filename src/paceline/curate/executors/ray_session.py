"""A connection to Ray for one run: to the cluster of `RAY_ADDRESS`, or a private one on loopback.

A private cluster has a directory of its own, gone after the run, also after a driver that was killed. Ray keeps the
first token it reads for the life of a process, in its C++ part, and so the mode of authentication: a process that meets
several clusters must make it forget, or it knocks at the second with the token of the first.
"""

import fcntl
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.errors import needs_extra

# Units are small and results smaller; the default of Ray would be a third of the machine's memory.
OBJECT_STORE_BYTES = 256 * 1_048_576
KNOCK_TIMEOUT_S = 10.0

# Sockets in it must have short names, so not under a long TMPDIR.
PARENT = Path("/tmp")  # noqa: S108 - each is made for its owner alone
PREFIX = "paceline-ray-"
_LOCK = "lock"


def import_ray() -> Any:
    """The package, or what to install."""
    with needs_extra("ray", "an executor on Ray"):
        import ray
    return ray


@contextmanager
def ray_session() -> Iterator[Any]:
    """Ray, connected; what was connected before stays so, what is started here ends here."""
    if "ray" in sys.modules and import_ray().is_initialized():
        yield import_ray()
    elif (address := os.environ.get("RAY_ADDRESS", "local")) != "local":
        _knock(address)
        with _connected(import_ray(), address):
            yield import_ray()
    else:
        with _private_cluster():
            yield import_ray()


def _knock(address: str) -> None:
    """Say at once if nobody listens there: Ray itself tries for most of a minute."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise PipelineError(f"no Ray cluster at RAY_ADDRESS={address}: {error}") from error


def _is_loopback_only(address: str) -> bool:
    """Whether a cluster keeps to 127.0.0.1, where Ray would look for it at the machine's outward address."""
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme or host not in ("127.0.0.1", "localhost"):
        return False
    outward = import_module("ray.util").get_node_ip_address()
    try:
        socket.create_connection((outward, int(port)), timeout=KNOCK_TIMEOUT_S).close()
    except OSError:
        return True
    return False


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    # Ray turns authentication on in the environment where it finds a token; that is for this cluster only.
    with _environment({"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE")}):
        forget_token()
        try:
            with _single_node() if _is_loopback_only(address) else nullcontext():
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise PipelineError(f"no Ray cluster at RAY_ADDRESS={address}: {error}") from error
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _private_cluster() -> Iterator[None]:
    with cluster_home() as home:
        try:
            with _environment(_loopback_environment(home)):
                ray = import_ray()
                forget_token()
                with _single_node():
                    context = _start(ray, home)
                try:
                    # Parts of Ray look for clusters by themselves; others may be running beside this one.
                    with _environment({"RAY_ADDRESS": context.address_info["gcs_address"]}):
                        yield
                finally:
                    ray.shutdown()
        finally:
            forget_token()


def _loopback_environment(home: Path) -> dict[str, str]:
    """Keeps all ports on 127.0.0.1, whatever the name says, and the token out of the user's home."""
    return {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(home),
        **token_environment(home, os.environ.get("RAY_AUTH_MODE", "token")),
    }


@contextmanager
def _single_node() -> Iterator[None]:
    """The variable for loopback, also where Ray was imported before it was set and has read it already."""
    constants: Any = import_module("ray._private.ray_constants")
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _start(ray: Any, home: Path) -> Any:
    return ray.init(
        address="local",
        num_cpus=len(os.sched_getaffinity(0)),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=OBJECT_STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=str(home),
    )


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Variables set (None: unset) inside, and as before afterwards, whatever happened to them."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def token_environment(home: Path, mode: str) -> dict[str, str]:
    """A new token in `home`, and the variables that lead to it; nothing where authentication is off."""
    if mode != "token":
        return {}
    token = home / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}


def forget_token() -> None:
    """Have Ray read mode and token again from the environment when they are next needed."""
    if "ray" not in sys.modules:
        return
    core = import_module("ray._raylet")
    if hasattr(core, "AuthenticationTokenLoader"):
        # The mode first: else a thread that is still at work asks for a token that is gone, which ends the process.
        core.Config.initialize("")
        core.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def cluster_home() -> Iterator[Path]:
    """A new directory that is locked while this process lives; what dead ones left is taken away first."""
    for stale in PARENT.glob(f"{PREFIX}*"):
        _sweep(stale)
    home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
    with (home / f".{_LOCK}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under this name it is never seen unlocked while its owner lives.
        (home / f".{_LOCK}").rename(home / _LOCK)
        try:
            yield home
        finally:
            end_processes(home)
            shutil.rmtree(home, ignore_errors=True)


def _sweep(home: Path) -> None:
    """End and remove a cluster whose driver is gone; a lock that can be had says so, also across containers."""
    try:
        with (home / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_processes(home)
            shutil.rmtree(home, ignore_errors=True)
    except OSError:  # in use, somebody else's, or just being made
        return


def end_processes(home: Path) -> None:
    """Kill what is left of the cluster that lived in `home`: some of Xenna's actors never notice that it is gone."""
    mark = os.fsencode(f"RAY_TMPDIR={home}")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # gone meanwhile, or somebody else's
            continue

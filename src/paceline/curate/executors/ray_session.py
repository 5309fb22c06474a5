"""A connection to Ray for one run: to the cluster of `RAY_ADDRESS`, or a private one on loopback."""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.curate.executors.ray_auth import forget_token, token_environment
from paceline.curate.executors.ray_home import cluster_home
from paceline.errors import needs_extra

# Units are small and results smaller; the default of Ray would be a third of the machine's memory.
OBJECT_STORE_BYTES = 256 * 1_048_576
KNOCK_TIMEOUT_S = 10.0


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

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
from paceline.curate.executors.ray_private import forget_token, single_node
from paceline.errors import needs_extra
from paceline.record.capacity import whole_cpus
from paceline.run.ray.home import ClusterError, Home, knock, sweep_stale

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
        try:
            knock(address, hint="check RAY_ADDRESS")
        except ClusterError as error:
            raise PipelineError(str(error)) from error
        with _connected(import_ray(), address):
            yield import_ray()
    else:
        with _private_cluster():
            yield import_ray()


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
            with single_node() if _is_loopback_only(address) else nullcontext():
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise PipelineError(f"no Ray cluster at RAY_ADDRESS={address}: {error}") from error
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _private_cluster() -> Iterator[None]:
    sweep_stale()
    try:
        home = Home.create(os.environ)
    except ClusterError as error:
        raise PipelineError(str(error)) from error
    try:
        # All ports on 127.0.0.1, and the token out of the user's home.
        with _environment({**home.env(os.environ), "RAY_TMPDIR": str(home.path)}):
            ray = import_ray()
            forget_token()
            with single_node():
                context = _start(ray, home.ray_dir)
            try:
                # Parts of Ray look for clusters by themselves; others may be running beside this one.
                with _environment({"RAY_ADDRESS": context.address_info["gcs_address"]}):
                    yield
            finally:
                ray.shutdown()
    finally:
        forget_token()
        home.end_processes()
        home.remove()


def _start(ray: Any, ray_dir: Path) -> Any:
    return ray.init(
        address="local",
        num_cpus=whole_cpus(),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=OBJECT_STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=str(ray_dir),
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

"""A connection to Ray for one run: to the cluster of `RAY_ADDRESS`, or a private one on loopback."""

import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.errors import MissingExtra

# Units are small and results smaller; the default of Ray would be a third of the machine's memory.
OBJECT_STORE_BYTES = 256 * 1_048_576


def import_ray() -> Any:
    """The package, or what to install."""
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtra("this executor", "ray") from None
    return ray


@contextmanager
def ray_session(*, dashboard: bool = False) -> Iterator[Any]:
    """Ray, connected; what was connected before stays so, what is started here ends here."""
    if "ray" in sys.modules and import_ray().is_initialized():
        yield import_ray()
    elif address := os.environ.get("RAY_ADDRESS"):
        with _connected(import_ray(), address):
            yield import_ray()
    else:
        with _private_cluster(dashboard):
            yield import_ray()


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PipelineError(f"no Ray cluster at RAY_ADDRESS={address}: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _private_cluster(dashboard: bool) -> Iterator[None]:
    # Sockets in it must have short names, so not under a long TMPDIR.
    home = Path(tempfile.mkdtemp(prefix="paceline-ray-", dir="/tmp"))
    token = home / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    try:
        with _environment(_loopback_environment(home, token)):
            ray = import_ray()
            with _single_node():
                context = _start(ray, home, dashboard)
            try:
                # Parts of Ray look for clusters by themselves; others may be running beside this one.
                with _environment({"RAY_ADDRESS": context.address_info["gcs_address"]}):
                    yield
            finally:
                ray.shutdown()
                _end_leftovers(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _end_leftovers(home: Path) -> None:
    """Kill what is left of the cluster that lived in `home`: some of Xenna's actors never notice that it is gone."""
    mark = os.fsencode(f"RAY_TMPDIR={home}")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # gone meanwhile, or somebody else's
            continue


def _loopback_environment(home: Path, token: Path) -> dict[str, str]:
    """Keeps all ports on 127.0.0.1, whatever the name says, and the token out of the user's home."""
    given = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(home),
        "RAY_MAX_LIMIT_FROM_API_SERVER": "40000",
        "RAY_MAX_LIMIT_FROM_DATA_SOURCE": "40000",
    }
    # Ray reads this when it is imported; later it would only be half on.
    if "ray" not in sys.modules and os.environ.get("RAY_AUTH_MODE", "token") == "token":
        given |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    return given


@contextmanager
def _single_node() -> Iterator[None]:
    """The variable for loopback, also where Ray was imported before it was set and has read it already."""
    constants: Any = import_module("ray._private.ray_constants")
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _start(ray: Any, home: Path, dashboard: bool) -> Any:
    return ray.init(
        address="local",
        num_cpus=len(os.sched_getaffinity(0)),
        include_dashboard=dashboard,
        dashboard_host="127.0.0.1",
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=OBJECT_STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=str(home),
    )


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""What we use of Ray that it does not promise to keep: tried with 2.60.0, and `pyproject.toml` allows no later minor.

Ray keeps the first token it reads for the life of a process, in its C++ part, and so the mode of authentication. A
process that meets several clusters must make it forget, or it knocks at the second with the first one's token.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def forget_token() -> None:
    """Have Ray read mode and token again from the environment when they are next needed (Ray 2.60.0)."""
    if "ray" not in sys.modules:
        return
    core = import_module("ray._raylet")
    if hasattr(core, "AuthenticationTokenLoader"):
        # The mode first: else a thread that is still at work asks for a token that is gone, which ends the process.
        core.Config.initialize("")
        core.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def single_node() -> Iterator[None]:
    """The variable for loopback, also where Ray was imported before it was set and has read it (Ray 2.60.0)."""
    constants: Any = import_module("ray._private.ray_constants")
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def task_attempt() -> int:
    """How often the task that calls this was begun before: its workers died (Ray 2.60.0)."""
    worker: Any = import_module("ray._private.worker").global_worker
    attempt: int = worker.core_worker.get_current_task_attempt_number()
    return attempt


def write_note(key: str, text: str) -> None:
    """Have the cluster keep a text; it outlives the actor that wrote it (Ray 2.60.0)."""
    import_module("ray.experimental.internal_kv")._internal_kv_put(key, text)


def read_note(key: str) -> str:
    """A text that the cluster keeps; empty if there is none (Ray 2.60.0)."""
    found: bytes | None = import_module("ray.experimental.internal_kv")._internal_kv_get(key)
    return (found or b"").decode()

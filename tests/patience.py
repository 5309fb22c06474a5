"""Waiting for what another process or thread is about to do, as long as a busy machine may take and no longer."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

Found = TypeVar("Found")

PATIENCE_S = 160.0


def wait_until(
    happened: Callable[[], Found], what: str = "it", *, by: "subprocess.Popen[Any] | None" = None
) -> Found:
    """What `happened` finds as soon as it finds something; `by` is the process that is to bring it about."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        # Before the look: what a process did last is seen even if it has ended since.
        is_over = by is not None and by.poll() is not None
        if found := happened():
            return found
        assert not is_over, f"the process ended before {what} happened"
        assert time.monotonic() < deadline_s, f"{what} did not happen within {PATIENCE_S:g} s"
        time.sleep(0.01)

"""Keeping Python's garbage collector away from work that makes many objects and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# What stages leave behind in cycles is collected every so many units of work.
UNITS_PER_COLLECTION = 32


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collections inside; what was made there is old to the collector afterwards, without a pass over it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # To freeze and unfreeze moves everything to the oldest generation; not where a user has frozen things.
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Sweeper:
    """Collects once in a while, where pauses keep the collector from doing so by itself."""

    def __init__(self) -> None:
        self._units = 0

    def unit_done(self) -> None:
        self._units += 1
        if self._units % UNITS_PER_COLLECTION == 0:
            gc.collect()

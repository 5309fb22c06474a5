"""What measures or profiles a test must not fail it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def guarded(warn: Callable[[str], None], what: str) -> Iterator[None]:
    """Turn a failure into a warning."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - one measurement's fault; nothing of the test itself runs inside
        warn(f"{what}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"[:500])

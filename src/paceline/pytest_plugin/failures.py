"""What measures or profiles a test must not fail it."""

import concurrent.futures
import pickle
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What other packages, and functions sent to other machines, raise when they do not work here. What a test raises is not
# caught: nothing of a test runs inside.
FAILURES = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    EOFError,
    ImportError,
    pickle.PickleError,
    concurrent.futures.CancelledError,
    subprocess.SubprocessError,
)


@contextmanager
def guarded(warn: Callable[[str], None], what: str) -> Iterator[None]:
    """Turn a failure into a warning."""
    try:
        yield
    except FAILURES as error:
        warn(f"{what}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"[:500])

"""Python processes of our own: the same code, whatever the environment of the parent makes of `sys.path`."""

import sys
from pathlib import Path

HOME = str(Path(__file__).parents[1])
"""The directory that `paceline` is imported from."""


def boot_code(target: str) -> str:
    """A program that calls `module:function` with the words after the first, which is `HOME`.

    By import, not as a script, so that its compiled form is kept.
    """
    module, _, function = target.partition(":")
    return f"import sys; sys.path.append(sys.argv[1]); from {module} import {function}; {function}(*sys.argv[2:])"


def python_command(code: str, *words: str, flags: tuple[str, ...] = ("-I", "-S")) -> list[str]:
    """The command line that runs such a program; by default with nothing of the user's in it."""
    return [sys.executable, *flags, "-c", code, HOME, *words]

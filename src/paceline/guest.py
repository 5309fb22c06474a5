"""Runs a function of ours with the Python of a suite: `python guest.py module:function words…`.

It is started by its path, so that any Python can start it. That Python then finds `paceline` here, and nothing else of
the environment that Paceline lives in. Python 3.10 or newer, and no package but those of the suite.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import


class _Ours:
    """Finds the package `paceline`, and no other module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "paceline":
            return None
        return PathFinder.find_spec(name, [os.path.dirname(_HERE)], target)  # noqa: PTH120


def main() -> int:
    """Call the function that the first word names with the others; what it returns is the exit code."""
    if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # noqa: PTH100
        del sys.path[0]  # modules beside this file have names that others have too
    sys.meta_path.insert(0, _Ours)
    module, _, function = sys.argv[1].partition(":")
    words = sys.argv[2:]
    sys.argv[1:] = []
    return int(getattr(import_module(module), function)(*words) or 0)


if __name__ == "__main__":
    sys.exit(main())

"""The only imports by name: (group, name) → entry point → object, and functions of ours that a Python child runs."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import PacelineError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


def _entry_points(*, group: str, name: str | None = None) -> "EntryPoints":
    from importlib.metadata import entry_points  # slow to load, and import paths do without

    return entry_points(group=group) if name is None else entry_points(group=group, name=name)


def names(group: str) -> tuple[str, ...]:
    """All names registered in a group, sorted."""
    return tuple(sorted({point.name for point in _entry_points(group=f"paceline.{group}")}))


def modules_of(group: str, name: str) -> tuple[str, ...]:
    """The modules that a name of a group is registered with, none of them imported."""
    return (
        tuple(point.module for point in _entry_points(group=f"paceline.{group}", name=name)) if name else ()
    )


def is_own(group: str, name: str) -> bool:
    """Whether a name is registered by paceline itself, whose modules are cheap and safe to import."""
    points = _entry_points(group=f"paceline.{group}", name=name)
    return any(point.value.startswith("paceline.") for point in points)


def find(group: str, name: str) -> Any:
    """The object registered as `name`, or the one at an import path such as `my_pkg.sinks:MySink`."""
    if ":" in name:
        return _import_path(group, name)
    for point in _entry_points(group=f"paceline.{group}", name=name):
        return point.load()
    known = ", ".join(names(group)) or "none installed"
    raise PacelineError(
        f"unknown {group[:-1]} {name!r}; known: {known}; or give an import path 'module:Class'"
    )


def _import_path(group: str, name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PacelineError(f"cannot import the {group[:-1]} {name!r}: {error}") from error


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

"""(group, name) → entry point → object; the only import by name."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from paceline.errors import PacelineError


def names(group: str) -> tuple[str, ...]:
    """All names registered in a group, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=f"paceline.{group}")}))


def is_own(group: str, name: str) -> bool:
    """Whether a name is registered by paceline itself, whose modules are cheap and safe to import."""
    points = entry_points(group=f"paceline.{group}", name=name)
    return any(point.value.startswith("paceline.") for point in points)


def find(group: str, name: str) -> Any:
    """The object registered as `name`, or the one at an import path such as `my_pkg.sinks:MySink`."""
    if ":" in name:
        return _import_path(group, name)
    for point in entry_points(group=f"paceline.{group}", name=name):
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

"""Which file and line set each value."""

from collections.abc import Iterator
from typing import Any

from paceline.config.load import Loaded
from paceline.config.nodes import Location, Node
from paceline.config.sink_choice import COMMAND_LINE


def explain(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    """Path, value and origin of every value that was set, in the order of the merged files.

    A value with variables is shown as it was written: what they hold may be secret.
    """
    for path, node in _leaves(loaded.tree, ()):
        origin = "command line" if node.mark == COMMAND_LINE else str(node.mark)
        yield loaded.label(path), value_text(node), origin


def value_text(node: Node) -> str:
    """A value in the notation of YAML, on one line."""
    if node.raw is not None:
        return _quoted(node.raw)
    if isinstance(node.value, dict | list):
        return "{}" if isinstance(node.value, dict) else "[]"
    if isinstance(node.value, str):
        return _quoted(node.value)
    return node.text or "null"


def _leaves(node: Node, path: Location) -> Iterator[tuple[Location, Node]]:
    value: Any = node.value
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    empty = True
    for step, child in steps:
        empty = False
        yield from _leaves(child, (*path, step))
    if empty:
        yield path, node


def _quoted(text: str) -> str:
    """The text itself where it cannot be misread, else quoted."""
    from paceline.config.nodes import resolve

    simple = text and text == text.strip() and text.isprintable() and isinstance(resolve(text), str)
    return text if simple else repr(text)

"""The tree of a configuration held against the schema and the rules."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from paceline.config.dialects import Normalised
from paceline.config.merge import IDENTITY_KEYS
from paceline.config.nodes import Node, at, plain
from paceline.config.problems import Locator
from paceline.config.rules import check_rules
from paceline.config.schema import Config
from paceline.config.variables import Path, Substituted
from paceline.errors import Problem

# The rules say it better.
_MISSING_BY_RULE = {("entries",), ("sinks", "name"), ("sinks", "type")}


def validate(
    substituted: Substituted, normalised: Normalised, *, with_missing: bool
) -> tuple[Config | None, list[Problem]]:
    """The configuration, or all that is wrong with it; what is missing is not told if a file could not be read."""
    tree = without_values(substituted.node, substituted.tainted)
    locator = Locator(tree, normalised.positions)
    data = plain(tree)
    found = check_rules(data, normalised.disabled_entries)
    unknown = frozenset(substituted.tainted)
    breaches = [item for item in found if item.path not in unknown]
    problems = [
        locator.problem(item.path, item.message) for item in breaches if with_missing or not item.missing
    ]
    config, errors = _validate_data(data, tree)
    problems += [locator.explain(error) for error in errors if _is_told(error, with_missing)]
    return (None if breaches else config), problems


def without_values(node: Node, paths: Sequence[Path], depth: int = 0) -> Node:
    """The tree without the values at some paths, so that the rest can be checked.

    A mapping in a nested list, such as a requirement, goes as a whole; names, and items of lists of scalars, stay.
    """
    if not paths:
        return node
    inner: dict[str | int, list[Path]] = defaultdict(list)
    for path in paths:
        inner[path[0]].append(path[1:])
    if isinstance(node.value, dict):
        kept = {
            key: without_values(child, [path for path in inner[key] if path], depth + 1)
            for key, child in node.value.items()
            if () not in inner[key] or key in IDENTITY_KEYS
        }
        return node._replace(value=kept)
    assert isinstance(node.value, list)
    items = [
        without_values(child, [path for path in inner[index] if path], depth + 1)
        for index, child in enumerate(node.value)
        if depth < 2 or not any(inner[index]) or not isinstance(child.value, dict)
    ]
    return node._replace(value=items)


def _validate_data(data: Any, tree: Node) -> tuple[Config | None, list[Any]]:
    try:
        return Config.model_validate(data), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    if not _use_texts(data, tree, errors):
        return None, errors
    try:
        return Config.model_validate(data), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _use_texts(data: Any, tree: Node, errors: Sequence[Any]) -> bool:
    """Where a string is due and a variable gave a number, put the variable's text: `run_reason: ${BUILD}`."""
    changed = False
    for error in errors:
        *parents, last = error["loc"]
        node = at(tree, error["loc"])
        if error["type"] == "string_type" and node.raw is not None:
            target = data
            for step in parents:
                target = target[step]
            target[last] = node.text
            changed = True
    return changed


def _is_told(error: Any, with_missing: bool) -> bool:
    if error["type"] != "missing":
        return True
    keys = tuple(step for step in error["loc"] if isinstance(step, str))
    return with_missing and keys not in _MISSING_BY_RULE

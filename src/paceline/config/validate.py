"""The tree of a configuration held against the schema and the rules."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from pydantic import ValidationError

from paceline.config.dialects import Normalised
from paceline.config.merge import IDENTITY_KEYS
from paceline.config.nodes import Location, Node, at, plain, resolve
from paceline.config.problems import UNKNOWN_KEY, Locator, closest_key
from paceline.config.rules import check_rules
from paceline.config.schema import Config
from paceline.config.templates import Substituted, is_reference
from paceline.errors import Problem

# The rules say it better.
_MISSING_BY_RULE = {("entries",), ("sinks", "name"), ("sinks", "type")}


class Validated(NamedTuple):
    """The configuration if the schema takes it, and all that is wrong, as problems and as paths.

    `tree` is the one that was given, with the quoted variables that stand for numbers as numbers.
    """

    config: Config | None
    tree: Node
    problems: list[Problem]
    faults: list[Location]


def validate(substituted: Substituted, normalised: Normalised, *, with_missing: bool) -> Validated:
    """The tree held against schema and rules; what is missing is not told if a file could not be read."""
    tree = without_values(substituted.node, substituted.tainted)
    locator = Locator(tree, normalised.positions)
    data = plain(tree)
    config, errors, typed = _validate_data(data, tree)
    found = check_rules(data, normalised.disabled_entries)
    unknown = frozenset(substituted.tainted)
    breaches = [item for item in found if item.path not in unknown]
    # What is there under a misspelt name is not missing as well.
    meant = {
        (*error["loc"][:-1], closest_key(error["loc"])) for error in errors if error["type"] == UNKNOWN_KEY
    }
    problems = [
        locator.problem(item.path, item.message)
        for item in breaches
        if not item.missing or (with_missing and meant.isdisjoint((*item.path, key) for key in item.missing))
    ]
    problems += [locator.explain(error) for error in errors if _is_told(error, with_missing, meant)]
    faults = [*(item.path for item in breaches), *(tuple(error["loc"]) for error in errors)]
    return Validated(config, _with_typed(substituted.node, typed), problems, faults)


def without_values(node: Node, paths: Sequence[Location], depth: int = 0) -> Node:
    """The tree without the values at some paths, so that the rest can be checked.

    A mapping in a nested list, such as a requirement, goes as a whole; names, and items of lists of scalars, stay.
    """
    if not paths:
        return node
    inner: dict[str | int, list[Location]] = defaultdict(list)
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


def _validate_data(data: Any, tree: Node) -> tuple[Config | None, list[Any], dict[int, Node]]:
    """Validates, and once more with what variables hold read as the schema wants it."""
    try:
        return Config.model_validate(data), [], {}
    except ValidationError as error:
        errors = error.errors(include_url=False)
    typed = _use_numbers(data, tree, errors)
    if not _use_texts(data, tree, errors) and not typed:
        return None, errors, {}
    try:
        return Config.model_validate(data), [], typed
    except ValidationError as error:
        return None, error.errors(include_url=False), typed


def _use_texts(data: Any, tree: Node, errors: Sequence[Any]) -> bool:
    """Where a string is due and a variable gave a number, put the variable's text: `run_reason: ${BUILD}`."""
    changed = False
    for error in errors:
        node = at(tree, error["loc"])
        if error["type"] == "string_type" and node.raw is not None:
            _put(data, error["loc"], node.text)
            changed = True
    return changed


def _use_numbers(data: Any, tree: Node, errors: Sequence[Any]) -> dict[int, Node]:
    """Where no string fits and a variable stands alone in quotes, put what it means: `"timeout_s": "${T}"`.

    JSON has no other way to write it. The result has the changed nodes by the identity of the old ones.
    """
    typed: dict[int, Node] = {}
    for error in errors:
        node = at(tree, error["loc"])
        if node.raw is None or not isinstance(node.value, str) or not is_reference(node.raw):
            continue
        value = resolve(node.text)
        if value is not None and not isinstance(value, str):
            _put(data, error["loc"], value)
            typed[id(node)] = node._replace(value=value)
    return typed


def _put(data: Any, loc: Sequence[str | int], value: Any) -> None:
    *parents, last = loc
    for step in parents:
        data = data[step]
    data[last] = value


def _with_typed(node: Node, typed: Mapping[int, Node]) -> Node:
    """The tree with its changed nodes; they are known by identity, because some paths were left out before."""
    if not typed:
        return node
    if isinstance(node.value, dict):
        return node._replace(value={key: _with_typed(child, typed) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return node._replace(value=[_with_typed(child, typed) for child in node.value])
    return typed.get(id(node), node)


def _is_told(error: Any, with_missing: bool, meant: Set[Location]) -> bool:
    if error["type"] != "missing":
        return True
    keys = tuple(step for step in error["loc"] if isinstance(step, str))
    return with_missing and keys not in _MISSING_BY_RULE and tuple(error["loc"]) not in meant

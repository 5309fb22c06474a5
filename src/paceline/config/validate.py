"""The tree of a configuration held against the schema and the rules; problems name file, line, path and remedy."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from paceline.config.dialects import Normalised
from paceline.config.merge import IDENTITY_KEYS
from paceline.config.nodes import Location, Node, at, path_text, plain, problem_at, resolve
from paceline.config.rules import check_rules
from paceline.config.schema import Config
from paceline.config.templates import Substituted, is_reference
from paceline.config.values import shown
from paceline.errors import Problem

UNKNOWN_KEY = "extra_forbidden"
_NO_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
_EXPECTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
# The rules say it better.
_MISSING_BY_RULE = {("entries",), ("sinks", "name"), ("sinks", "type")}


class Locator(NamedTuple):
    """Turns locations in a tree into problems; `positions` has where items were before disabled ones were left out."""

    tree: Node
    positions: Mapping[str, Sequence[int]]

    def problem(self, path: Location, message: str) -> Problem:
        """A problem at a path."""
        return problem_at(at(self.tree, path).mark, self.path_text(path), message)

    def path_text(self, path: Location) -> str:
        """The path as files have it, the index of an item counted with the disabled ones."""
        if len(path) > 1 and isinstance(path[1], int):
            original = self.positions.get(str(path[0]), ())
            if path[1] < len(original):
                path = (path[0], original[path[1]], *path[2:])
        return path_text(path)

    def explain(self, error: Mapping[str, Any]) -> Problem:
        """One of pydantic's errors as a problem."""
        loc: Location = tuple(error["loc"])
        if error["type"] == "missing":
            return self.problem(loc[:-1], f"the key {loc[-1]!r} is missing")
        if error["type"] == UNKNOWN_KEY:
            close = closest_key(loc)
            hint = f"; did you mean {close!r}?" if close else ""
            found = self.problem(loc, f"unknown key {str(loc[-1])!r}{hint}")
            return replace(found, path=self.path_text(loc[:-1]))
        node = at(self.tree, loc)
        context = error.get("ctx", {})
        # A value that came from a variable may be a secret: the variable is named instead.
        got = repr(node.raw) if node.raw is not None else context.get("got") or shown(error["input"])
        expected = context.get("expected") or _EXPECTED.get(error["type"])
        what = f"expected {expected}" if expected else str(error["msg"]).removeprefix("Input ")
        return self.problem(loc, f"{what}, got {got}")


class Validated(NamedTuple):
    """The configuration if the schema takes it, and all that is wrong, as problems and as paths.

    `tree` is the one that was given, with the quoted variables that stand for numbers as numbers.
    """

    config: Config | None
    tree: Node
    problems: list[Problem]
    faults: list[Location]


def validate(substituted: Substituted, normalised: Normalised, *, with_missing: bool) -> Validated:
    """The tree held against schema and rules; what is missing is not reported if a file could not be read."""
    unknown = frozenset(substituted.tainted)
    tree = _without_values(substituted.node, [*unknown])
    locator = Locator(tree, normalised.positions)
    data = plain(tree)
    config, errors, typed = _validate_data(data, tree)
    found = check_rules(data, normalised.disabled_entries)
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
    problems += [locator.explain(error) for error in errors if _is_reported(error, with_missing, meant)]
    faults = [*(item.path for item in breaches), *(tuple(error["loc"]) for error in errors)]
    return Validated(config, _with_typed(substituted.node, typed), problems, faults)


def closest_key(loc: Location) -> str:
    """The key that an unknown one was probably meant to be; empty if there is none like it."""
    from paceline.config.evals import WholeConfig  # only who made a mistake needs it

    model: type[BaseModel] | None = WholeConfig
    for step in loc[:-1]:
        if isinstance(step, str) and model is not None:
            field = model.model_fields.get(step)
            model = _model_in(field.annotation) if field else None
    return next(iter(get_close_matches(str(loc[-1]), model.model_fields if model else (), 1)), "")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _is_reported(error: Any, with_missing: bool, meant: Set[Location]) -> bool:
    if error["type"] != "missing":
        return True
    keys = tuple(step for step in error["loc"] if isinstance(step, str))
    return with_missing and keys not in _MISSING_BY_RULE and tuple(error["loc"]) not in meant


def _without_values(node: Node, paths: Sequence[Location], depth: int = 0) -> Node:
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
            key: _without_values(child, [path for path in inner[key] if path], depth + 1)
            for key, child in node.value.items()
            if () not in inner[key] or key in IDENTITY_KEYS
        }
        return node._replace(value=kept)
    assert isinstance(node.value, list)
    items = [
        _without_values(child, [path for path in inner[index] if path], depth + 1)
        for index, child in enumerate(node.value)
        if depth < 2 or not any(inner[index]) or not isinstance(child.value, dict)
    ]
    return node._replace(value=items)


def _validate_data(data: Any, tree: Node) -> tuple[Config | None, list[Any], dict[int, Node]]:
    """Validates, and once more with what variables hold read as the schema wants it.

    The last part of the result has nodes that stand for other values now, by the identity of the old ones.
    """
    model = Config
    if "evals" in data:
        from paceline.config.evals import WholeConfig

        model = WholeConfig
    _build(model)
    try:
        return model.model_validate(data), [], {}
    except ValidationError as error:
        errors = error.errors(include_url=False)
    typed: dict[int, Node] = {}
    changed = False
    for one in errors:
        node = at(tree, one["loc"])
        if node.raw is None:
            continue
        value = resolve(node.text)
        if isinstance(node.value, str) and is_reference(node.raw) and not isinstance(value, str | None):
            # No string fits and a variable stands alone in quotes, as JSON demands: `"timeout_s": "${T}"`.
            typed[id(node)] = node._replace(value=value)
        elif one["type"] == "string_type":
            value = node.text  # A string is due and a variable gave a number: `run_reason: ${BUILD}`.
        else:
            continue
        _put(data, one["loc"], value)
        changed = True
    if not changed:
        return None, errors, {}
    try:
        return model.model_validate(data), [], typed
    except ValidationError as error:
        return None, error.errors(include_url=False), typed


def _build(model: type[Config]) -> None:
    """Build the validators of a model, without pydantic's search for plugins in all installed packages."""
    before = os.environ.get(_NO_PLUGINS)
    os.environ[_NO_PLUGINS] = "__all__"
    try:
        model.model_rebuild()  # does nothing to one that is built
    finally:
        del os.environ[_NO_PLUGINS]
        if before is not None:
            os.environ[_NO_PLUGINS] = before


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

"""What pydantic found wrong, as problems that name the file, the line, the path and the remedy."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

from paceline.config.nodes import Location, Mark, Node, at, path_text
from paceline.config.schema import Config
from paceline.config.sink_choice import COMMAND_LINE
from paceline.config.values import shown
from paceline.errors import Problem

UNKNOWN_KEY = "extra_forbidden"
_EXPECTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


class Locator:
    """Turns locations in the validated data into problems that name files and lines."""

    def __init__(self, tree: Node, positions: Mapping[str, Sequence[int]]) -> None:
        self.tree = tree
        self.positions = positions

    def problem(self, path: Location, message: str) -> Problem:
        """A problem at a path; its index in a list is the one before disabled items were left out."""
        mark = at(self.tree, path).mark
        return problem_at(mark, self.path_text(path), message)

    def path_text(self, path: Location) -> str:
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
            found = self.problem(loc, _unknown_key(loc))
            return Problem(
                file=found.file, line=found.line, path=self.path_text(loc[:-1]), message=found.message
            )
        return self.problem(loc, self._message(loc, error))

    def _message(self, loc: Location, error: Mapping[str, Any]) -> str:
        node = at(self.tree, loc)
        context = error.get("ctx", {})
        # A value that came from a variable may be a secret: the variable is named instead.
        got = repr(node.raw) if node.raw is not None else context.get("got") or shown(error["input"])
        expected = context.get("expected") or _EXPECTED.get(error["type"])
        if expected:
            return f"expected {expected}, got {got}"
        message = str(error["msg"]).removeprefix("Input ")
        return f"{message}, got {got}"


def problem_at(mark: Mark, path: str, message: str) -> Problem:
    if mark == COMMAND_LINE:
        return Problem(file="", line=0, path=f"command line: {path}", message=message)
    return Problem(file=mark.file, line=mark.line, path=path, message=message)


def _unknown_key(loc: Location) -> str:
    close = closest_key(loc)
    return f"unknown key {str(loc[-1])!r}" + (f"; did you mean {close!r}?" if close else "")


def closest_key(loc: Location) -> str:
    """The key that an unknown one was probably meant to be; empty if there is none like it."""
    return next(iter(get_close_matches(str(loc[-1]), _keys_at(loc[:-1]), 1)), "")


def _keys_at(loc: Location) -> list[str]:
    model: type[BaseModel] | None = Config
    for step in loc:
        if isinstance(step, str) and model is not None:
            field = model.model_fields.get(step)
            model = _model_in(field.annotation) if field else None
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        if found := _model_in(part):
            return found
    return None

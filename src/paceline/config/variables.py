"""Environment variables in the configuration: `${VAR}`, `${VAR:-default}`, `${VAR:?message}`, and `$$` for a dollar.

As in a shell, `:-` and `:?` take an empty variable as unset while `${VAR}` does not; an unset one is never an empty
string. A default may hold variables again. A dollar before anything but `{` or `$` is itself.

Two kinds of keys:

- *Eager* keys, nearly all, get the values here. An unquoted scalar is then read by the rules of YAML, so that
  `timeout_s: ${T}` is a number; a quoted one that is a variable alone is so only where no string fits.
- *Lazy* keys keep their text as it is written, because the plan splits it into words and puts placeholders in: `args`,
  `command`, `script`, `interpreter`, `cwd`, `script_base_dir` and `env` of an entry or a data set-up; `env` and
  `script_base_dir` at the top; all of `datasets` and `paths`. The plan puts the values in by `find`, in one pass with
  the placeholders, so that a value is neither split nor expanded again. Here they are only looked up.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import is_not
from typing import NamedTuple

from paceline.config.nodes import Mark, Node, resolve
from paceline.model import Scalar

Path = tuple[str | int, ...]

BLOCK_LISTS = ("entries", "data_setups", "sinks")
"""The lists whose items an unset variable blocks one by one."""
LAZY_BLOCK_KEYS = frozenset({"args", "command", "script", "interpreter", "cwd", "script_base_dir", "env"})
LAZY_TOP_KEYS = frozenset({"env", "script_base_dir", "datasets", "paths"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_START = re.compile(r"\$[${]")
_BRACE = re.compile(r"[{}]")
_USED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_NESTING_LIMIT = 10
_FORMS = "write ${VAR}, ${VAR:-default}, ${VAR:?message}, or $$ for a dollar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unset:
    """A variable that is used and not set; `path` and `mark` say where, `message` what `:?` had to say."""

    name: str
    message: str = ""
    path: Path = ()
    mark: Mark | None = None

    def __str__(self) -> str:
        return f"environment variable {self.name} is not set" + (f": {self.message}" if self.message else "")


class UnsetVariable(LookupError):
    """Raised by `expand`."""

    def __init__(self, unset: Unset) -> None:
        self.unset = unset
        super().__init__(str(unset))


class MalformedVariable(ValueError):
    """A `${` that does not begin one of the known forms."""


class Found(NamedTuple):
    """One variable in a text, or an escaped dollar (whose name is `$`)."""

    start: int
    end: int
    name: str
    value: str | Unset


class Substituted(NamedTuple):
    """A tree with its variables put in, and what went wrong; `tainted` are the eager values that are still text."""

    node: Node
    unset: list[Unset]
    malformed: list[tuple[Path, str]]
    tainted: list[Path]


def find(text: str, environ: Mapping[str, str]) -> list[Found]:
    """All variables and escaped dollars of a text, in order; MalformedVariable if a `${` makes no sense."""
    return list(_find(text, environ, 0)) if "$" in text else []


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its variables put in; UnsetVariable or MalformedVariable if that cannot be."""
    result = _expand(text, environ, 0)
    if isinstance(result, Unset):
        raise UnsetVariable(result)
    return result


def names_in(text: str) -> list[str]:
    """Names of all variables in a text, those in defaults included."""
    return _USED.findall(text) if "$" in text else []


def is_reference(text: str) -> bool:
    """Whether a text is one variable and nothing else."""
    if not text.startswith("${"):
        return False
    try:
        found = find(text, {})
    except MalformedVariable:
        return False
    return len(found) == 1 and found[0].end == len(text)


def substitute_tree(node: Node, environ: Mapping[str, str]) -> Substituted:
    """A configuration with the values of its eager keys put in, and the unset and malformed variables of all keys."""
    walk = _Walk(environ)
    return Substituted(walk.node(node, (), False), walk.unset, walk.malformed, walk.tainted)


def is_lazy(path: Path) -> bool:
    """Whether the text at a path is left for the plan to expand."""
    if path and path[0] in ("entries", "data_setups"):
        return len(path) > 2 and path[2] in LAZY_BLOCK_KEYS
    return bool(path) and path[0] in LAZY_TOP_KEYS


def _find(text: str, environ: Mapping[str, str], depth: int) -> Iterator[Found]:
    position = 0
    while start := _START.search(text, position):
        if start[0] == "$$":
            yield Found(start.start(), start.end(), "$", "$")
            position = start.end()
        else:
            found = _variable(text, start.start(), environ, depth)
            yield found
            position = found.end


def _variable(text: str, start: int, environ: Mapping[str, str], depth: int) -> Found:
    name = _NAME.match(text, start + 2)
    if name is None or depth > _NESTING_LIMIT:
        raise MalformedVariable(f"malformed variable {_excerpt(text, start)!r}; {_FORMS}")
    after = name.end()
    value = environ.get(name[0])
    if text.startswith("}", after):
        return Found(start, after + 1, name[0], Unset(name=name[0]) if value is None else value)
    operator = text[after : after + 2]
    end = closing_brace(text, after) if operator in (":-", ":?") else None
    if end is None:
        raise MalformedVariable(f"malformed variable {_excerpt(text, start)!r}; {_FORMS}")
    rest = text[after + 2 : end]
    # The default is read even where it is not needed, so that a mistake in it shows at once.
    default = _expand(rest, environ, depth + 1) if operator == ":-" else Unset(name=name[0], message=rest)
    return Found(start, end + 1, name[0], value or default)


def closing_brace(text: str, position: int) -> int | None:
    """Where the brace is that closes the one before a position, pairs between them counted."""
    level = 1
    for brace in _BRACE.finditer(text, position):
        level += 1 if brace[0] == "{" else -1
        if level == 0:
            return brace.start()
    return None


def _expand(text: str, environ: Mapping[str, str], depth: int) -> str | Unset:
    if "$" not in text:
        return text
    parts: list[str] = []
    position = 0
    unset: Unset | None = None
    for found in _find(text, environ, depth):
        if isinstance(found.value, Unset):
            unset = unset or found.value
        else:
            parts += (text[position : found.start], found.value)
        position = found.end
    return unset or "".join((*parts, text[position:]))


def _excerpt(text: str, start: int) -> str:
    piece = text[start : start + 30]
    return piece if len(text) <= start + 30 else piece + "…"


class _Walk:
    """One pass over a tree; it shares every part that holds no variable."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.unset: list[Unset] = []
        self.malformed: list[tuple[Path, str]] = []
        self.tainted: list[Path] = []

    def node(self, node: Node, path: Path, lazy: bool) -> Node:
        value = node.value
        if type(value) is str:
            return self.text(node, value, path, lazy) if "$" in value else node
        if type(value) is dict:
            return self.mapping(node, value, path, lazy)
        if type(value) is list:
            items = [self.node(item, (*path, index), lazy) for index, item in enumerate(value)]
            return _with_items(node, items, value)
        return node

    def mapping(self, node: Node, value: dict[str, Node], path: Path, lazy: bool) -> Node:
        lazy_from_here = len(path) in (0, 2) and not lazy
        changed: dict[str, Node] = {}
        for key, child in value.items():
            here = (*path, key)
            new = self.node(child, here, is_lazy(here) if lazy_from_here else lazy)
            if new is not child:
                changed[key] = new
        return node._replace(value={**value, **changed}) if changed else node

    def text(self, node: Node, text: str, path: Path, lazy: bool) -> Node:
        result = self.expanded(node, text, path)
        if result is None and not lazy:
            self.tainted.append(path)
        if result is None or lazy:
            return node
        typed: Scalar = resolve(result) if node.plain and "${" in text else result
        # A variable is a value: one that is empty or reads `null` does not unset the key.
        return node._replace(value=result if typed is None else typed, text=result, raw=text)

    def expanded(self, node: Node, text: str, path: Path) -> str | None:
        try:
            result = _expand(text, self.environ, 0)
        except MalformedVariable as error:
            self.malformed.append((path, str(error)))
            return None
        if isinstance(result, Unset):
            self.unset.append(replace(result, path=path, mark=node.mark))
            return None
        return result


def path_text(path: Path) -> str:
    """A path as people write it: `entries[3].timeout_s`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).removeprefix(".")


def _with_items(node: Node, items: list[Node], old: list[Node]) -> Node:
    changed = any(map(is_not, items, old))
    return node._replace(value=items) if changed else node

"""Text with variables (`${VAR}`, `${VAR:-default}`, `${VAR:?message}`) and `{placeholders}`: read once, filled once.

As in a shell, `:-` and `:?` take an empty variable as unset while `${VAR}` does not; an unset one is never an empty
string. A default may hold variables again. `$$` is a dollar, and one before anything but `{` or `$` is itself.
`{{name}}` is the text `{name}`; braces that make no placeholder, and those right after `$$` with all that is in them,
stay as they are. What is put in is neither read nor split again.

Two kinds of keys:

- *Eager* keys, nearly all, hold variables only and get their values here. An unquoted scalar is then read by the rules
  of YAML, so that `timeout_s: ${T}` is a number; a quoted one that is a variable alone is so only where no string fits.
- *Lazy* keys keep their text as it is written, because the plan splits it into words and fills placeholders in the same
  pass: `args`, `command`, `script`, `interpreter`, `cwd`, `script_base_dir` and `env` of an entry or a data set-up;
  `env` and `script_base_dir` at the top; all of `datasets` and `paths`. Here their variables are only looked up.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from paceline.config.nodes import Location, Mark, Node, resolve

BLOCK_LISTS = ("entries", "data_setups", "sinks")
"""The lists whose items an unset variable blocks one by one."""
LAZY_BLOCK_KEYS = frozenset({"args", "command", "script", "interpreter", "cwd", "script_base_dir", "env"})
LAZY_TOP_KEYS = frozenset({"env", "script_base_dir", "datasets", "paths"})

AtomKind = Literal["variable", "name", "dataset", "matrix", "needs"]


class Atom(NamedTuple):
    """One placeholder or variable; a named tuple, because a large suite has many.

    `text` is how it was written; `detail` is a data set's format, or what follows a variable's name (`:-default`);
    `inner` is the template of a variable's default, or of the name that is needed.
    """

    kind: AtomKind
    name: str
    text: str
    detail: str = ""
    inner: "Template | None" = None


Part = str | Atom
Template = tuple[Part, ...]
Step = TypeVar("Step", str, int)

_NESTING_LIMIT = 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACE = re.compile(r"[{}]")
_USED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_VARIABLE = r"(?P<dollar>\$\$) | (?P<variable>\$\{)"
_PLACEHOLDER = r"""\{(?:
      [A-Za-z_][A-Za-z0-9_]*
    | \s*dataset\s*:[^{},"']*(?:,[^{},"']*)?
    | matrix\.[^\s{}]+
    | needs:(?:[^{}]|\{matrix\.[^\s{}]+\})+
)\}"""
_ESCAPED = rf"\{{(?P<escaped>{_PLACEHOLDER})\}} | {_PLACEHOLDER}"
_VARIABLES = re.compile(_VARIABLE, re.VERBOSE)
_PLACEHOLDERS = re.compile(_ESCAPED, re.VERBOSE)
_WORD = re.compile(r"[^ \t\r\n]+")
_QUOTING = re.compile(r"['\"\\]")
_ALL = re.compile(f"{_VARIABLE} | {_ESCAPED}", re.VERBOSE)


class MalformedVariable(ValueError):
    """A `${` that does not begin one of the known forms."""

    def __init__(self, text: str, start: int) -> None:
        excerpt = text[start : start + 30] + ("…" if len(text) > start + 30 else "")
        forms = "write ${VAR}, ${VAR:-default}, ${VAR:?message}, or $$ for a dollar"
        super().__init__(f"malformed variable {excerpt!r}; {forms}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unset:
    """A variable that is used and not set; `path` and `mark` say where, `message` is what `:?` says."""

    name: str
    message: str = ""
    path: Location = ()
    mark: Mark | None = None

    def __str__(self) -> str:
        return f"environment variable {self.name} is not set" + (f": {self.message}" if self.message else "")


def parse(text: str, *, variables: bool = True, placeholders: bool = True, depth: int = 0) -> Template:
    """The text as plain pieces and atoms; MalformedVariable if a `${` makes no sense."""
    if not (variables and "$" in text) and not (placeholders and "{" in text):
        return (text,)
    pattern = _ALL if variables and placeholders else _VARIABLES if variables else _PLACEHOLDERS
    parts: list[Part] = []
    position = 0
    while match := pattern.search(text, position):
        _append(parts, text[position : match.start()])
        position = match.end()
        if match.lastgroup == "variable":
            atom = _read_variable(text, match.start(), placeholders, depth)
            position = match.start() + len(atom.text)
            parts.append(atom)
        elif match.lastgroup == "dollar":
            # `$${X}` is the literal `${X}`, so what is in its braces is not a placeholder.
            end = (
                _closing_brace(text, position + 1)
                if placeholders and text.startswith("{", position)
                else None
            )
            position = position if end is None else end + 1
            _append(parts, text[match.start() + 1 : position])
        else:
            _append(parts, match["escaped"] or _read_placeholder(match[0], depth))
    _append(parts, text[position:])
    return tuple(parts) or ("",)


def fill(template: Template, resolve: Callable[[Atom], str]) -> str:
    """The template's text with every atom replaced by what `resolve` gives for it."""
    return "".join([part if isinstance(part, str) else resolve(part) for part in template])


def look_up(atom: Atom, environ: Mapping[str, str]) -> str | Template | Unset:
    """A variable's value, else its default, else the fact that it has none."""
    value = environ.get(atom.name)
    if value is not None and (value or not atom.detail):
        return value
    return atom.inner or Unset(name=atom.name, message=atom.detail[2:])


def expand(text: str, environ: Mapping[str, str], *, placeholders: bool = False) -> str | Unset:
    """The text with its variables put in, or the first that is unset; MalformedVariable if it makes no sense."""
    return _fill_variables(parse(text, placeholders=placeholders), environ)


def names_in(text: str) -> list[str]:
    """Names of all variables in a text, those in defaults included; also of a text that is malformed."""
    return _USED.findall(text) if "$" in text else []


def is_reference(text: str) -> bool:
    """Whether a text is one variable and nothing else."""
    if not text.startswith("${"):
        return False
    try:
        template = parse(text, placeholders=False)
    except MalformedVariable:
        return False
    return len(template) == 1


def split(text: str) -> list[Template]:
    """The words of a command line by the shell's rules for quotes; an atom never falls apart, nor quotes.

    Raises ValueError when a quote is not closed.
    """
    parts = parse(text)
    if len(parts) == 1 and isinstance(parts[0], str):
        return [(word,) for word in _split_plain(parts[0])]
    numbered = "".join([part if isinstance(part, str) else f"\x00{i}\x00" for i, part in enumerate(parts)])
    words: list[Template] = []
    for word in _split_plain(numbered):
        pieces: list[Part] = [
            parts[int(piece)] if i % 2 else piece for i, piece in enumerate(word.split("\x00"))
        ]
        words.append(tuple(piece for piece in pieces if piece) or ("",))
    return words


def _append(parts: list[Part], part: Part) -> None:
    """Add a part; neighbouring texts become one."""
    if isinstance(part, str) and parts and isinstance(parts[-1], str):
        parts[-1] += part
    elif part:
        parts.append(part)


def _read_variable(text: str, start: int, placeholders: bool, depth: int) -> Atom:
    name = _NAME.match(text, start + 2)
    end = _closing_brace(text, start + 2)
    if name is None or end is None or depth > _NESTING_LIMIT:
        raise MalformedVariable(text, start)
    detail = text[name.end() : end]
    if detail and detail[:2] not in (":-", ":?"):
        raise MalformedVariable(text, start)
    # The default is read even where it is not needed, so that a mistake in it shows at once.
    default = parse(detail[2:], placeholders=placeholders, depth=depth + 1) if detail[:2] == ":-" else None
    return Atom("variable", name[0], text[start : end + 1], detail, default)


def _read_placeholder(text: str, depth: int) -> Atom:
    inner = text[1:-1].strip()
    if inner.startswith("matrix."):
        return Atom("matrix", inner[7:], text)
    if inner.startswith("needs:"):
        name = inner[6:].strip()
        return Atom("needs", name, text, inner=parse(name, depth=depth + 1))
    if ":" in inner:
        name, _, format_ = inner.partition(":")[2].partition(",")
        return Atom("dataset", name.strip(), text, format_.strip())
    return Atom("name", inner, text)


def _closing_brace(text: str, position: int) -> int | None:
    """Where the brace is that closes the one before a position, pairs between them counted."""
    level = 1
    for brace in _BRACE.finditer(text, position):
        level += 1 if brace[0] == "{" else -1
        if level == 0:
            return brace.start()
    return None


def _fill_variables(template: Template, environ: Mapping[str, str]) -> str | Unset:
    pieces: list[str] = []
    for part in template:
        value: str | Template | Unset = part if isinstance(part, str) else part.text
        if isinstance(part, Atom) and part.kind == "variable":
            value = look_up(part, environ)
        if isinstance(value, tuple):
            value = _fill_variables(value, environ)
        if isinstance(value, Unset):
            return value
        pieces.append(value)
    return "".join(pieces)


def _split_plain(text: str) -> list[str]:
    """What `shlex.split` gives; it takes ten times as long, so that only texts with quotes have to wait for it."""
    if _QUOTING.search(text) is None:
        return _WORD.findall(text)
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        is_quote = "quotation" in str(error)
        raise ValueError(
            "a quote is not closed" if is_quote else "nothing follows the last backslash"
        ) from None


class Substituted(NamedTuple):
    """A tree with its variables put in, and what went wrong."""

    node: Node
    unset: list[Unset]
    malformed: list[tuple[Location, str]]

    @property
    def tainted(self) -> list[Location]:
        """The eager values that are still text."""
        paths = [*(item.path for item in self.unset), *(path for path, _ in self.malformed)]
        return [path for path in paths if not is_lazy(path)]


def substitute_tree(node: Node, environ: Mapping[str, str]) -> Substituted:
    """A configuration with the values of its eager keys put in, and the unset and malformed variables of all keys.

    Every part that holds no variable is shared with the tree that was given.
    """
    result = Substituted(node, [], [])
    return result._replace(node=_substitute(node, (), environ, result))


def is_lazy(path: Location) -> bool:
    """Whether the text at a path is left for the plan to expand."""
    if path and path[0] in ("entries", "data_setups"):
        return len(path) > 2 and path[2] in LAZY_BLOCK_KEYS
    return bool(path) and path[0] in LAZY_TOP_KEYS


def _substitute(node: Node, path: Location, environ: Mapping[str, str], result: Substituted) -> Node:
    value = node.value
    if isinstance(value, dict):
        keys = dict(_changes(value.items(), path, environ, result))
        return node._replace(value={**value, **keys}) if keys else node
    if isinstance(value, list):
        items = dict(_changes(enumerate(value), path, environ, result))
        return node._replace(value=[items.get(i, item) for i, item in enumerate(value)]) if items else node
    return _substitute_text(node, value, path, environ, result) if isinstance(value, str) else node


def _changes(
    children: Iterable[tuple[Step, Node]], path: Location, environ: Mapping[str, str], result: Substituted
) -> Iterator[tuple[Step, Node]]:
    for step, child in children:
        # Most values are scalars without a variable: a call for each of them would cost more than the rest.
        value = child.value
        if type(value) in (dict, list) or (type(value) is str and "$" in value):
            new = _substitute(child, (*path, step), environ, result)
            if new is not child:
                yield step, new


def _substitute_text(
    node: Node, text: str, path: Location, environ: Mapping[str, str], result: Substituted
) -> Node:
    try:
        expanded = expand(text, environ, placeholders=is_lazy(path))
    except MalformedVariable as error:
        result.malformed.append((path, str(error)))
        return node
    if isinstance(expanded, Unset):
        result.unset.append(replace(expanded, path=path, mark=node.mark))
        return node
    if is_lazy(path):
        return node
    typed = resolve(expanded) if node.plain and "${" in text else expanded
    # A variable is a value: one that is empty or reads `null` does not unset the key.
    return node._replace(value=expanded if typed is None else typed, text=expanded, raw=text)

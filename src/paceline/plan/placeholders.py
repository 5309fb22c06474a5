"""Text with `{placeholders}` and `${VARIABLES}`: read, split and filled once; what is put in is left alone."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from paceline.config.variables import closing_brace

AtomKind = Literal["variable", "name", "dataset", "matrix", "needs"]


class Atom(NamedTuple):
    """One placeholder or variable; a named tuple, because a large suite has many.

    `text` is how it was written; `detail` is a data set's format, or what follows a variable's name (`:-default`).
    """

    kind: AtomKind
    name: str
    text: str
    detail: str = ""


Part = str | Atom
Template = tuple[Part, ...]
Resolve = Callable[[Atom], str]

_PLACEHOLDER = r"""\{(?:
      [A-Za-z_][A-Za-z0-9_]*
    | \s*dataset\s*:[^{},"']*(?:,[^{},"']*)?
    | matrix\.[^\s{}]+
    | needs:(?:[^{}]|\{matrix\.[^\s{}]+\})+
)\}"""
_ATOM = re.compile(
    rf"""
    (?P<dollar>\$\$)
  | (?P<variable>\$\{{)
  | \{{(?P<escaped>{_PLACEHOLDER})\}}
  | (?P<placeholder>{_PLACEHOLDER})
    """,
    re.VERBOSE,
)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[^ \t\r\n]+")
_QUOTING = re.compile(r"['\"\\]")
_PIECE = re.compile(
    r"""
    (?P<bare>[^ \t\r\n'"\\]+)
  | (?P<space>[ \t\r\n]+)
  | (?P<single>'[^']*')
  | (?P<double>"(?:[^"\\]|\\.)*")
  | (?P<escape>\\.)
  | (?P<open>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE_IN_QUOTES = re.compile(r"\\([\"\\])")
_MARK = "\x00"


def parse(text: str) -> Template:
    """The text as plain pieces and atoms; braces that are no placeholder stay as they are."""
    if "{" not in text and "$" not in text:
        return (text,)
    parts: list[Part] = []
    plain: list[str] = []
    position = 0
    while match := _ATOM.search(text, position):
        plain.append(text[position : match.start()])
        part, position = _read(text, match)
        if isinstance(part, str):
            plain.append(part)
            continue
        if before := "".join(plain):
            parts.append(before)
        plain.clear()
        parts.append(part)
    rest = "".join(plain) + text[position:]
    return (*parts, rest) if rest or not parts else tuple(parts)


def split(text: str) -> list[Template]:
    """The words of a command line by the shell's rules for quotes; an atom never falls apart, nor quotes.

    Raises ValueError when a quote is not closed.
    """
    parts = parse(text)
    if len(parts) == 1 and isinstance(parts[0], str):
        return [(word,) for word in _split_plain(parts[0])]
    marked = "".join(
        [part if isinstance(part, str) else f"{_MARK}{i}{_MARK}" for i, part in enumerate(parts)]
    )
    return [_unmark(word, parts) for word in _split_plain(marked)]


def fill(template: Template, resolve: Resolve) -> str:
    """The template's text with every atom replaced by what `resolve` gives for it."""
    if len(template) == 1:
        part = template[0]
        return part if isinstance(part, str) else resolve(part)
    return "".join([part if isinstance(part, str) else resolve(part) for part in template])


def _read(text: str, match: re.Match[str]) -> tuple[Part, int]:
    """What stands at a match, and where the text goes on; `$$` and doubled braces stand for themselves."""
    if match["placeholder"]:
        return _placeholder(match[0]), match.end()
    if match["escaped"]:
        return match["escaped"], match.end()
    if match["dollar"]:
        # `$${X}` is the literal `${X}`, so what is in its braces is no placeholder.
        end = _after_braces(text, match.end()) or match.end()
        return text[match.start() + 1 : end], end
    return _variable(text, match.start(), match.end())


def _variable(text: str, start: int, inside: int) -> tuple[Part, int]:
    end = _after_braces(text, start + 1)
    name = _VARIABLE_NAME.match(text, inside)
    if end is None or name is None:
        return text[start:inside], inside
    return Atom("variable", name[0], text[start:end], text[name.end() : end - 1]), end


def _after_braces(text: str, position: int) -> int | None:
    """The end of the pair of braces that opens here, pairs inside it counted."""
    closing = closing_brace(text, position + 1) if text.startswith("{", position) else None
    return None if closing is None else closing + 1


def _placeholder(text: str) -> Atom:
    inner = text[1:-1].strip()
    if inner.startswith("matrix."):
        return Atom("matrix", inner[7:], text)
    if inner.startswith("needs:"):
        return Atom("needs", inner[6:].strip(), text)
    if ":" in inner:
        name, _, format_ = inner.partition(":")[2].partition(",")
        return Atom("dataset", name.strip(), text, format_.strip())
    return Atom("name", inner, text)


def _split_plain(text: str) -> list[str]:
    """What `shlex.split` gives, in a tenth of its time."""
    if _QUOTING.search(text) is None:
        return _WORD.findall(text)
    words: list[str] = []
    word: str | None = None
    for piece in _PIECE.finditer(text):
        kind = piece.lastgroup
        if kind == "space":
            if word is not None:
                words.append(word)
            word = None
        elif kind == "open":
            raise ValueError(
                "nothing follows the last backslash" if piece[0] == "\\" else "a quote is not closed"
            )
        else:
            word = (word or "") + _unquote(kind, piece[0])
    return words if word is None else [*words, word]


def _unquote(kind: str | None, piece: str) -> str:
    match kind:
        case "single":
            return piece[1:-1]
        case "double":
            return _ESCAPE_IN_QUOTES.sub(r"\1", piece[1:-1])
        case "escape":
            return piece[1:]
    return piece


def _unmark(word: str, parts: Template) -> Template:
    if _MARK not in word:
        return (word,)
    pieces = word.split(_MARK)
    found: list[Part] = [parts[int(piece)] if i % 2 else piece for i, piece in enumerate(pieces)]
    return tuple(part for part in found if part != "")

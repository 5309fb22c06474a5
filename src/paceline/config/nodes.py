"""YAML and JSON files as trees of nodes, each knowing the file and line that it was written on.

The tree is built from parser events, not by PyYAML's composer: the composer recurses in C without a limit, knows
YAML 1.1 only, and drops the duplicate keys that we refuse.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from paceline.errors import ConfigError, Problem, did_you_mean
from paceline.model import Scalar

DEPTH_LIMIT = 100
NODE_LIMIT = 1_000_000
SIZE_LIMIT_BYTES = 64 * 1024 * 1024
SUFFIXES = frozenset({".yaml", ".yml", ".json"})

REPLACE = "!replace"
APPEND = "!append"

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_STARTS = frozenset("0123456789+-.")
# Python refuses to read longer integers (a guard against quadratic time); nothing here needs a tenth of it.
_LONGEST_NUMBER = 400
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_YAML_TAG = "tag:yaml.org,2002:"
_TAG_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}
_COLLECTIONS = frozenset({dict, list})
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


Location = tuple[str | int, ...]
"""The way from the top of a tree to a part of it: `("entries", 3, "timeout_s")`."""


class Mark(NamedTuple):
    """A line of a file; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


COMMAND_LINE = Mark("command line", 0)


class Node(NamedTuple):
    """A mapping, list or scalar with its origin. Nodes are shared between trees and never changed.

    The mark of a mapping's value is the line of its key. `text` is a scalar as it was written, `raw` the same before
    variables were put in (None: it has none). A named tuple, because a large suite makes some 100,000 of them.
    """

    value: "dict[str, Node] | list[Node] | Scalar"
    mark: Mark
    tag: str | None = None
    plain: bool = False
    anchored: bool = False
    text: str = ""
    raw: str | None = None


def parse_file(path: Path, change: Callable[[str], str] = str) -> list[Node]:
    """The documents of a file; a ConfigError names every line that cannot be read. `change` is for its text first."""
    file = str(path)
    text = change(_read_text(path, file))
    builder = _Builder(text, file)
    try:
        documents = list(builder.documents())
    except yaml.YAMLError as error:
        if path.suffix.lower() != ".json":
            raise ConfigError([*builder.problems, _syntax_problem(error, text, file)]) from error
        documents = _parse_json(text, file)
    if not documents:
        refuse(Mark(file, 1), "the file is empty")
    return documents


def plain(node: Node) -> Any:
    """The node as Python data."""
    value = node.value
    # Most values are scalars: a call for each of them would cost more than the rest.
    if type(value) is dict:
        return {
            key: plain(child) if type(child.value) in _COLLECTIONS else child.value
            for key, child in value.items()
        }
    return [plain(child) for child in value] if type(value) is list else value


def at(node: Node, loc: Sequence[str | int]) -> Node:
    """The deepest node that exists along a location."""
    for step in loc:
        value = node.value
        if isinstance(step, str):
            child = value.get(step) if isinstance(value, dict) else None
        else:
            child = value[step] if isinstance(value, list) and 0 <= step < len(value) else None
        if child is None:
            break
        node = child
    return node


def path_text(path: Location) -> str:
    """A path as people write it: `entries[3].timeout_s`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).removeprefix(".")


def mapping_of(node: Node | None) -> dict[str, Node]:
    """The keys of a mapping; none of anything else."""
    return node.value if node is not None and isinstance(node.value, dict) else {}


def items_of(node: Node | None) -> list[Node]:
    """The items of a list; none of anything else."""
    return node.value if node is not None and isinstance(node.value, list) else []


def from_data(data: Any, mark: Mark) -> Node:
    """Python data as a node, every part of it with the same mark."""
    if isinstance(data, Mapping):
        return Node({str(key): from_data(value, mark) for key, value in data.items()}, mark)
    if isinstance(data, list | tuple):
        return Node([from_data(value, mark) for value in data], mark)
    value: Scalar = data if data is None or isinstance(data, str | int | float | bool) else str(data)
    text = value if isinstance(value, str) else repr(value).lower() if isinstance(value, bool) else str(value)
    return Node(value, mark, text=text)


def resolve(text: str) -> Scalar:
    """What an unquoted scalar means by the YAML 1.2 core rules: `no` is a string, `010` is 10, `1e3` a number."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def refuse(mark: Mark, message: str, path: str = "") -> NoReturn:
    """Raise a ConfigError for one line."""
    raise ConfigError([problem_at(mark, path, message)])


def problem_at(mark: Mark, path: str, message: str) -> Problem:
    """What is wrong with a value that was written on a line."""
    if mark == COMMAND_LINE:
        return Problem(file="", line=0, path=f"command line: {path}", message=message)
    return Problem(file=mark.file, line=mark.line, path=path, message=message)


def _read_text(path: Path, file: str) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(SIZE_LIMIT_BYTES + 1)
    except FileNotFoundError:
        beside = (one.name for one in path.parent.glob("*") if one.suffix in SUFFIXES)
        refuse(Mark(file, 0), f"no such file; {did_you_mean(path.name, beside, 'check the path')}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        refuse(Mark(file, 0), f"the file cannot be read: {reason}; name a YAML or JSON file")
    if len(data) > SIZE_LIMIT_BYTES:
        refuse(Mark(file, 0), f"the file is larger than {SIZE_LIMIT_BYTES // 1024**2} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        refuse(Mark(file, line), f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8")
    if found := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        refuse(Mark(file, line), f"the control character U+{ord(found[0]):04X} is not allowed")
    return text


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line: int = mark.line if mark else 0
    message = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
    rest = text.splitlines()[line][mark.column :] if mark and line < len(text.splitlines()) else ""
    if rest.startswith("\t"):
        message = "a tab is used for indentation; use spaces"
    elif context := getattr(error, "context", None):
        began = getattr(error, "context_mark", None)
        message += f" {context}" + (f" that began on line {began.line + 1}" if began else "")
    return Problem(file=file, line=line + 1, path="", message=f"invalid YAML: {message}")


def _parse_json(text: str, file: str) -> list[Node]:
    """JSON that is not YAML too, such as surrogate escapes; its nodes know the file only, not their lines."""
    import json

    try:
        return [from_data(json.loads(text, object_pairs_hook=_unique_pairs), Mark(file, 1))]
    except json.JSONDecodeError as error:
        refuse(Mark(file, error.lineno), f"invalid JSON: {error.msg} (column {error.colno})")
    except RecursionError:
        refuse(Mark(file, 1), f"nested deeper than {DEPTH_LIMIT} levels")
    except ValueError as error:
        refuse(Mark(file, 1), f"invalid JSON: {error}")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {twice!r}")
    return result


class _Anchor(NamedTuple):
    node: Node
    size: int
    height: int


class _Builder:
    """Builds nodes from the events of one file and keeps count of what its aliases would expand to."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.loader = _Loader(text)
        self.next: Callable[[], Any] = self.loader.get_event
        self.anchors: dict[str, _Anchor] = {}
        self.problems: list[Problem] = []
        self.size = 0
        self.deepest = 0

    def documents(self) -> Iterator[Node]:
        try:
            while type(event := self.next()) is not yaml.StreamEndEvent:
                if type(event) is yaml.DocumentStartEvent:
                    self.anchors = {}
                    root = self.next()
                    node = self.node(root, self.mark(root), 1)
                    if node.value is not None:
                        yield node
        except (ValueError, OverflowError) as error:
            # The pure Python scanner lets chr() fail on an escape such as "\UFFFFFFFF".
            raise yaml.YAMLError(str(error)) from error
        finally:
            self.loader.dispose()
        if self.problems:
            raise ConfigError(self.problems)

    def mark(self, event: Any) -> Mark:
        return Mark(self.file, event.start_mark.line + 1)

    def complain(self, mark: Mark, message: str) -> None:
        self.problems.append(problem_at(mark, "", message))

    def node(self, event: Any, mark: Mark, depth: int) -> Node:
        kind = type(event)
        if kind is yaml.AliasEvent:
            anchor = self.anchors.get(event.anchor)
            if anchor is None:
                refuse(mark, f"alias *{event.anchor} has no anchor &{event.anchor} before it")
            self.grow(anchor.size + 1, depth + anchor.height, mark)
            return anchor.node._replace(mark=mark, anchored=False)
        self.grow(1, depth, mark)
        if event.anchor is None:
            return self.scalar(event, mark) if kind is yaml.ScalarEvent else self.content(event, mark, depth)
        before, deepest = self.size, self.deepest
        self.deepest = depth
        node = self.content(event, mark, depth)._replace(anchored=True)
        self.anchors[event.anchor] = _Anchor(node, self.size - before, self.deepest - depth)
        self.deepest = max(deepest, self.deepest)
        return node

    def content(self, event: Any, mark: Mark, depth: int) -> Node:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            return self.scalar(event, mark)
        if kind is yaml.MappingStartEvent:
            return Node(self.mapping(depth), mark, self.collection_tag(event, "map"))
        return Node(self.sequence(depth), mark, self.collection_tag(event, "seq"))

    def grow(self, size: int, depth: int, mark: Mark) -> None:
        self.size += size
        if depth > self.deepest:
            self.deepest = depth
            if depth > DEPTH_LIMIT:
                refuse(mark, f"nested deeper than {DEPTH_LIMIT} levels")
        if self.size > NODE_LIMIT:
            refuse(mark, f"more than {NODE_LIMIT} values, aliases expanded")

    def sequence(self, depth: int) -> list[Node]:
        items: list[Node] = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            items.append(self.node(event, self.mark(event), depth + 1))
        return items

    def mapping(self, depth: int) -> dict[str, Node]:
        result: dict[str, Node] = {}
        merged: list[Node] = []
        while type(event := self.next()) is not yaml.MappingEndEvent:
            mark = self.mark(event)
            key = self.key(event, mark)
            value = self.node(self.next(), mark, depth + 1)
            if key == "<<" and not event.style:
                merged.extend(self.merge_sources(value))
            elif key in result:
                first = result[key].mark.line
                self.complain(mark, f"duplicate key {key!r}; it is already on line {first}")
            else:
                result[key] = value
        return _with_merged(result, merged) if merged else result

    def key(self, event: Any, mark: Mark) -> str:
        if type(event) is not yaml.ScalarEvent:
            refuse(mark, "a key must be a string, not a list, a mapping or an alias")
        if event.tag is not None or event.anchor is not None:
            self.complain(mark, f"the key {event.value!r} must not carry a tag or an anchor")
        if not event.value or "\0" in event.value:
            self.complain(mark, "a key must not be empty or hold NUL")
        return str(event.value)

    def merge_sources(self, value: Node) -> list[Node]:
        sources = value.value if isinstance(value.value, list) else [value]
        if not all(isinstance(source.value, dict) for source in sources):
            self.complain(value.mark, "the merge key << takes a mapping or a list of mappings")
            return []
        return sources

    def scalar(self, event: Any, mark: Mark) -> Node:
        text: str = event.value
        if event.tag is not None:
            return self.tagged_scalar(event.tag, text, mark)
        if not event.style:
            return Node(resolve(text), mark, None, True, False, text)
        if "\0" in text:
            self.complain(mark, "NUL is not allowed in a value")
        return Node(text, mark, text=text)

    def tagged_scalar(self, tag: str, text: str, mark: Mark) -> Node:
        name = tag.removeprefix(_YAML_TAG)
        if "\0" in text:
            self.complain(mark, "NUL is not allowed in a value")
        if tag == "!" or name == "str":
            return Node(text, mark, text=text)
        value = resolve(text)
        if name not in _TAG_TYPES or tag == name:
            self.complain(mark, _unknown_tag(tag))
        elif type(value) not in _TAG_TYPES[name]:
            self.complain(mark, f"{text!r} is no {name}")
        elif name == "float" and isinstance(value, int):
            value = float(value)
        return Node(value, mark, None, True, False, text)

    def collection_tag(self, event: Any, kind: str) -> str | None:
        tag: str | None = event.tag
        if tag is None or tag in ("!", _YAML_TAG + kind):
            return None
        if tag == REPLACE or (tag == APPEND and kind == "seq"):
            return tag
        # Only the opening event is at hand: the content was read before its tag is judged.
        self.complain(self.mark(event), _unknown_tag(tag))
        return None


def _with_merged(explicit: dict[str, Node], sources: list[Node]) -> dict[str, Node]:
    """Keys of the mapping itself win, then those of the earlier sources."""
    result: dict[str, Node] = {}
    for source in reversed(sources):
        assert isinstance(source.value, dict)
        result.update(source.value)
    return {**result, **explicit}


def _unknown_tag(tag: str) -> str:
    return f"unknown tag {tag}; known are !replace on lists and mappings and !append on lists"

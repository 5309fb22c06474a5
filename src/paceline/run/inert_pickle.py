"""Reads a pickle without executing it: no class is looked up, nothing it names is ever called.

A pickle is a program for a small stack machine. This is that machine with its teeth drawn: a class is only its name, a
call only notes what would have been called, state is only kept. What is left are plain lists and dicts, and `Inert`
objects in which the statistics of a task can be found by name. It never recurses, hashes only scalars, copies no
container and believes no length, so time and memory stay in proportion to the bytes read, however they are made.

The standard library's machine with a tame `find_class` would not do: it hashes deeply nested keys recursively (which
ends the process), allocates what a length claims, and calls `__setstate__`, `extend` and `append` of whatever it finds.
"""

import codecs
import struct
from collections.abc import Callable, Iterable, Sequence
from mmap import mmap
from typing import Any

MAX_OPS = 100_000_000
_SHORT_BYTES = 256
_HASHABLE = frozenset({str, int, float, bool, bytes, type(None)})

_MAX_NAME = 1000
# Protocols up to 2 are written with the names of Python 2.
_MODERN = {"__builtin__": "builtins", "copy_reg": "copyreg", "commands": "subprocess", "_io": "io"}

# Naming one does nothing here; but such a file is no record of tasks, and the user should hear of it.
_HOSTILE = frozenset(
    f"{module}.{name}"
    for modules, names in (
        (("builtins",), ("eval", "exec", "compile", "__import__", "breakpoint")),
        (("builtins", "io"), ("open",)),
        (
            ("os", "posix", "nt"),
            ("system", "popen", "fork", "execv", "execve", "posix_spawn", "remove", "unlink"),
        ),
        (("subprocess",), ("Popen", "run", "call", "check_call", "check_output", "getoutput")),
        (("pickle", "_pickle"), ("load", "loads")),
        (("runpy",), ("run_path", "run_module")),
        (("importlib",), ("import_module",)),
        (("pty",), ("spawn",)),
    )
    for module in modules
    for name in names
)


class BadPickle(Exception):
    """The file is damaged, or asks for something that no record of tasks needs; one line says what."""


class InertClass:
    """The name of a class or function that a pickle refers to."""

    __slots__ = ("module", "name", "path")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.path = f"{module}.{name}"


class Inert:
    """An object as the pickle describes it: its class, the arguments it would be made with, its state and contents."""

    __slots__ = ("args", "items", "kind", "pairs", "states")

    def __init__(self, kind: InertClass, args: tuple[Any, ...] = ()) -> None:
        self.kind = kind
        self.args = args
        # Most objects have only one of the three; an empty tuple costs nothing.
        self.states: Sequence[Any] = ()
        self.items: Sequence[Any] = ()
        self.pairs: Sequence[tuple[Any, Any]] = ()

    def field(self, name: str) -> Any:
        """The value of an attribute, or None."""
        for state in reversed(self.states):
            for part in state if _is_state_pair(state) else (state,):
                if isinstance(part, dict) and name in part:
                    return part[name]
        return None

    @property
    def field_values(self) -> Sequence[Any]:
        """State without names, as classes with slots may have it: the values in the order of the fields."""
        for state in reversed(self.states):
            if isinstance(state, tuple | list) and not _is_state_pair(state):
                return state
        return ()


_UNKNOWN = InertClass("", "?")
_SET = InertClass("builtins", "set")
_FROZENSET = InertClass("builtins", "frozenset")


def load(data: "bytes | mmap", *, max_ops: int = MAX_OPS) -> Any:
    """The object in a pickle, made of scalars, lists, tuples, dicts and `Inert`s; raises nothing but `BadPickle`."""
    machine = _Machine(data, max_ops)
    try:
        return machine.run()
    except IndexError:
        end = "ends in the middle" if machine.pos >= len(data) else "takes what is not there"
        raise BadPickle(f"the file is damaged: it {end} (byte {machine.pos} of {len(data)})") from None
    except (ValueError, KeyError, OverflowError, struct.error) as error:
        what = f"{type(error).__name__} at byte {machine.pos} of {len(data)}"
        raise BadPickle(f"the file is damaged: {what}") from None


def _is_state_pair(state: Any) -> bool:
    """Whether it is the (attributes, slots) form of an object's state."""
    is_pair = isinstance(state, tuple) and len(state) == 2
    return is_pair and all(part is None or isinstance(part, dict) for part in state)


def _grown(values: Sequence[Any], more: Iterable[Any]) -> list[Any]:
    grown = values if isinstance(values, list) else []
    grown.extend(more)
    return grown


class _Machine:
    """The stack machine; `stack` is what lies above the last mark."""

    def __init__(self, data: "bytes | mmap", max_ops: int) -> None:
        self.data = data
        self.view = memoryview(data)
        self.pos = 0
        self.max_ops = max_ops
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.classes: dict[tuple[str, str], InertClass] = {}

    def run(self) -> Any:
        data, table = self.data, _TABLE
        for _ in range(self.max_ops):
            op = data[self.pos]
            self.pos += 1
            if op == _STOP:
                return self.stack.pop()
            step = table.get(op)
            if step is None:
                raise BadPickle(f"byte {self.pos - 1} is no operation of a pickle (0x{op:02x})")
            step(self)
        raise BadPickle(f"it has more than {self.max_ops:,} operations")

    def take(self, length: int) -> memoryview:
        left = len(self.data) - self.pos
        if length < 0 or length > left:
            raise BadPickle(f"it claims {length:,} bytes at byte {self.pos} where only {left:,} are left")
        self.pos += length
        return self.view[self.pos - length : self.pos]

    def byte(self) -> int:
        self.pos += 1
        return self.data[self.pos - 1]

    def number(self, width: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(width), "little", signed=signed)

    def line(self) -> bytes:
        """The rest of the line; protocol 0 writes numbers and names as text."""
        end = self.data.find(b"\n", self.pos)
        if end < 0:
            raise BadPickle(f"the file is damaged: a line at byte {self.pos} does not end")
        text = bytes(self.take(end - self.pos))
        self.pos = end + 1
        return text

    def above_mark(self) -> list[Any]:
        taken = self.stack
        self.stack = self.below.pop()
        return taken

    def find(self, module: Any, name: Any) -> InertClass:
        if not isinstance(module, str) or not isinstance(name, str):
            raise BadPickle("it names a class by something that is not text")
        if len(module) + len(name) > _MAX_NAME:
            raise BadPickle(f"it names a class by more than {_MAX_NAME:,} characters")
        known = self.classes.get((module, name))
        if known is None:
            known = InertClass(_MODERN.get(module, module), name)
            if known.path in _HOSTILE:
                raise BadPickle(f"it would call {known.path}; nothing was executed")
            self.classes[module, name] = known
        return known

    def call(self, target: Any, args: Any) -> Inert:
        """What stands for the result of a call that is not made."""
        if not isinstance(target, InertClass):
            return Inert(_UNKNOWN)
        given = args if isinstance(args, tuple) else ()
        if target.path in _MAKERS and given and isinstance(given[0], InertClass):
            return Inert(given[0], given[2 if target.name == "_reconstructor" else 1 : _FEW])
        return Inert(target, given)

    def extend(self, target: Any, values: list[Any]) -> None:
        if isinstance(target, list):
            target.extend(values)
        elif isinstance(target, Inert):
            target.items = _grown(target.items, values)
        else:
            raise BadPickle(f"it appends to a value of type {type(target).__name__}")

    def set_items(self, target: Any, flat: list[Any]) -> None:
        pairs = zip(flat[::2], flat[1::2], strict=True)
        if isinstance(target, dict):
            # Other keys cannot be names; leaving them out spares us hashing what may be nested a million levels.
            target.update((key, value) for key, value in pairs if type(key) in _HASHABLE)
        elif isinstance(target, Inert):
            target.pairs = _grown(target.pairs, pairs)
        else:
            raise BadPickle(f"it sets items of a value of type {type(target).__name__}")


# Functions of the pickle protocols that make an object of the class they are given; few classes take more arguments.
_MAKERS = frozenset({"copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__"})
_FEW = 17


_Step = Callable[[_Machine], None]
_TABLE: dict[int, _Step] = {}
_STOP = ord(".")


def _op(code: str) -> Callable[[_Step], _Step]:
    def register(step: _Step) -> _Step:
        _TABLE[ord(code)] = step
        return step

    return register


def _push(code: str, make: Callable[[_Machine], Any]) -> None:
    """Define an operation that only pushes a value."""

    def step(m: _Machine) -> None:
        value = make(m)  # first: it may take up a mark, which changes the stack
        m.stack.append(value)

    _TABLE[ord(code)] = step


def _text(m: _Machine, length: int) -> str:
    return str(m.take(length), "utf-8", "surrogatepass")


def _content(m: _Machine, length: int) -> "bytes | memoryview":
    """Long contents are payload: they stay where they are in the file."""
    view = m.take(length)
    return bytes(view) if length <= _SHORT_BYTES else view


def _quoted(line: bytes) -> str:
    stripped = line.strip()
    if len(stripped) < 2 or stripped[0] != stripped[-1] or stripped[:1] not in (b"'", b'"'):
        raise ValueError("a string without quotes")
    decoded: tuple[bytes, int] = codecs.escape_decode(stripped[1:-1])
    return decoded[0].decode("latin-1")


def _integer(line: bytes) -> "int | bool":
    return line == b"01" if line in (b"00", b"01") else int(line.rstrip(b"L"))


_push("N", lambda m: None)
_push("\x88", lambda m: True)
_push("\x89", lambda m: False)
_push("]", lambda m: [])
_push("}", lambda m: {})
_push(")", lambda m: ())
_push("\x8f", lambda m: Inert(_SET))
_push("I", lambda m: _integer(m.line()))
_push("L", lambda m: _integer(m.line()))
_push("F", lambda m: float(m.line()))
_push("J", lambda m: m.number(4, signed=True))
_push("K", lambda m: m.byte())
_push("M", lambda m: m.number(2))
_push("\x8a", lambda m: m.number(m.byte(), signed=True))
_push("\x8b", lambda m: m.number(m.number(4, signed=True), signed=True))
_push("G", lambda m: struct.unpack(">d", m.take(8))[0])
_push("S", lambda m: _quoted(m.line()))
_push("T", lambda m: str(m.take(m.number(4, signed=True)), "latin-1"))
_push("U", lambda m: str(m.take(m.byte()), "latin-1"))
_push("V", lambda m: m.line().decode("raw-unicode-escape"))
_push("X", lambda m: _text(m, m.number(4)))
_push("\x8c", lambda m: _text(m, m.byte()))
_push("\x8d", lambda m: _text(m, m.number(8)))
_push("B", lambda m: _content(m, m.number(4)))
_push("C", lambda m: _content(m, m.byte()))
_push("\x8e", lambda m: _content(m, m.number(8)))
_push("\x96", lambda m: _content(m, m.number(8)))
_push("2", lambda m: m.stack[-1])
_push("g", lambda m: m.memo[int(m.line())])
_push("h", lambda m: m.memo[m.byte()])
_push("j", lambda m: m.memo[m.number(4)])
_push("t", lambda m: tuple(m.above_mark()))
_push("l", lambda m: m.above_mark())
_push("\x91", lambda m: Inert(_FROZENSET, (m.above_mark(),)))
_push("\x85", lambda m: (m.stack.pop(),))
_push("\x86", lambda m: (m.stack.pop(), m.stack.pop())[::-1])
_push("\x87", lambda m: (m.stack.pop(), m.stack.pop(), m.stack.pop())[::-1])
_push("c", lambda m: m.find(m.line().decode(), m.line().decode()))
_push("\x93", lambda m: m.find(*(m.stack.pop(), m.stack.pop())[::-1]))


@_op("(")
def _mark(m: _Machine) -> None:
    m.below.append(m.stack)
    m.stack = []


@_op("0")
def _pop(m: _Machine) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.above_mark()


@_op("1")
def _pop_mark(m: _Machine) -> None:
    m.above_mark()


@_op("d")
def _dict(m: _Machine) -> None:
    flat = m.above_mark()
    m.stack.append({})
    m.set_items(m.stack[-1], flat)


@_op("s")
def _set_item(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    m.set_items(m.stack[-1], [key, value])


@_op("u")
def _set_items(m: _Machine) -> None:
    flat = m.above_mark()
    m.set_items(m.stack[-1], flat)


@_op("a")
def _append(m: _Machine) -> None:
    value = m.stack.pop()
    m.extend(m.stack[-1], [value])


@_op("e")
@_op("\x90")
def _extend(m: _Machine) -> None:
    values = m.above_mark()
    m.extend(m.stack[-1], values)


@_op("p")
def _put_line(m: _Machine) -> None:
    m.memo[int(m.line())] = m.stack[-1]


@_op("q")
def _put_short(m: _Machine) -> None:
    m.memo[m.byte()] = m.stack[-1]


@_op("r")
def _put_long(m: _Machine) -> None:
    m.memo[m.number(4)] = m.stack[-1]


@_op("\x94")
def _memoize(m: _Machine) -> None:
    m.memo[len(m.memo)] = m.stack[-1]


@_op("R")
@_op("\x81")
def _reduce(m: _Machine) -> None:
    args, target = m.stack.pop(), m.stack.pop()
    m.stack.append(m.call(target, args))


@_op("\x92")
def _new_object(m: _Machine) -> None:
    _, args, target = m.stack.pop(), m.stack.pop(), m.stack.pop()
    m.stack.append(m.call(target, args))


@_op("i")
def _instance(m: _Machine) -> None:
    kind = m.find(m.line().decode(), m.line().decode())
    args = tuple(m.above_mark())
    m.stack.append(m.call(kind, args))


@_op("o")
def _object(m: _Machine) -> None:
    target, *args = m.above_mark()
    m.stack.append(m.call(target, tuple(args)))


@_op("b")
def _build(m: _Machine) -> None:
    state = m.stack.pop()
    if isinstance(m.stack[-1], Inert):
        m.stack[-1].states = _grown(m.stack[-1].states, (state,))


@_op("\x80")
def _protocol(m: _Machine) -> None:
    version = m.byte()
    if version > 5:
        raise BadPickle(f"it is of protocol {version}; protocols up to 5 are known")


@_op("\x95")
def _frame(m: _Machine) -> None:
    length = m.number(8)
    m.take(length)
    m.pos -= length


@_op("\x98")
def _read_only(m: _Machine) -> None:
    """Marks the buffer on the stack as read-only, which it is."""


@_op("P")
@_op("Q")
def _persistent(m: _Machine) -> None:
    raise BadPickle("it refers to objects outside of the file (persistent ids)")


@_op("\x82")
@_op("\x83")
@_op("\x84")
def _extension(m: _Machine) -> None:
    raise BadPickle("it uses extension codes, whose meaning is not in the file")


@_op("\x97")
def _next_buffer(m: _Machine) -> None:
    raise BadPickle("it keeps data outside of the file (out-of-band buffers)")

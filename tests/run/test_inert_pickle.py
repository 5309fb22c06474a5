"""Pickles of all protocols are read, and nothing in them is ever executed."""

import collections
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.run.inert_pickle import BadPickle, Inert, InertClass, load

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=200)
)
plain_data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner, max_size=4)
    ),
    max_leaves=20,
)


class Point:
    """An ordinary class with attributes."""

    def __init__(self, x: int) -> None:
        self.x = x


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a = 1
        self.b = [2]


class Both(Point):
    __slots__ = ("extra",)

    def __init__(self) -> None:
        super().__init__(5)
        self.extra = 6


class Rows(list[int]):
    """A list of a class of its own."""


class Table(dict[str, int]):
    """A dict of a class of its own."""


class Runs:
    """Would run a command when it is unpickled."""

    def __init__(self, function: Any, *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> Any:
        return self._call


@given(plain_data, st.sampled_from(list(PROTOCOLS)))
def test_plain_data_is_read_as_pickle_reads_it(data: Any, protocol: int) -> None:
    written = pickle.dumps(data, protocol)
    # Old protocols have no bytes of their own: they write a call that makes them.
    if b"_codecs" not in written and b"bytes" not in written:
        assert load(written) == data


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_object_keeps_its_class_and_attributes(protocol: int) -> None:
    found = load(pickle.dumps(Point(3), protocol))
    assert isinstance(found, Inert)
    assert found.kind.path == f"{Point.__module__}.Point"
    assert found.field("x") == 3
    assert found.field("y") is None


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_slots_and_both_kinds_of_state(protocol: int) -> None:
    assert load(pickle.dumps(Slotted(), protocol)).field("b") == [2]
    both = load(pickle.dumps(Both(), protocol))
    assert both.field("x") == 5
    assert both.field("extra") == 6


@pytest.mark.parametrize("state", [(1, "two", 3.0), [1, "two", 3.0]])
def test_state_without_names(state: Any) -> None:
    class_and_args = b"\x80\x04cmodule\nName\n)\x81"
    found = load(class_and_args + pickle.dumps(state)[2:-1] + b"b.")
    assert list(found.field_values) == [1, "two", 3.0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_subclasses_of_containers_keep_their_contents(protocol: int) -> None:
    rows = load(pickle.dumps(Rows([1, 2, 3]), protocol))
    assert list(rows.items) == [1, 2, 3] or rows.args == ([1, 2, 3],)
    table = load(pickle.dumps(Table(a=1), protocol))
    assert list(table.pairs) == [("a", 1)] or table.args == ({"a": 1},)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_shared_objects_stay_shared(protocol: int) -> None:
    shared = Point(1)
    first, second, other = load(pickle.dumps([shared, shared, Point(1)], protocol))
    assert first is second
    assert first is not other
    assert first.kind is other.kind


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_list_that_holds_itself(protocol: int) -> None:
    loop: list[Any] = []
    loop.append(loop)
    found = load(pickle.dumps(loop, protocol))
    assert found[0] is found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_of_the_standard_library(protocol: int) -> None:
    data = [
        collections.OrderedDict(a=1),
        collections.defaultdict(list, b=[2]),
        collections.deque([3]),
        {4},
        frozenset({5}),
        complex(1, 2),
        bytearray(b"abc"),
        Path("/x"),
        range(3),
    ]
    found = load(pickle.dumps(data, protocol))
    assert len(found) == len(data)


def test_numpy_arrays_and_scalars_are_read_without_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    found = load(pickle.dumps({"array": numpy.arange(10), "scalar": numpy.float64(0.5)}))
    assert found["scalar"].kind.name == "scalar"
    assert found["array"].kind.name == "_reconstruct"


def test_the_oldest_text_forms() -> None:
    program = b"(lp0\nI01\naI00\naI-5\naL123456789012345678901L\naF2.5\naS'it\\'s'\naVa\\u00e9\na(dp1\nS'k'\nI7\nsa."
    assert load(program) == [True, False, -5, 123456789012345678901, 2.5, "it's", "aé", {"k": 7}]
    [old] = load(b"(l(i__main__\nOldClass\n(dS'x'\nI1\nsba.")
    assert old.kind.path == "__main__.OldClass"
    assert old.field("x") == 1
    assert load(b"(c__main__\nOldClass\nI1\no.").args == (1,)


def test_keys_that_are_no_scalars_are_left_out() -> None:
    assert load(pickle.dumps({("a", 1): 1, "b": 2, frozenset(): 3})) == {"b": 2}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("function", "args", "named"),
    [
        (os.system, ("touch {marker}",), "posix.system"),
        (eval, ("__import__('os').system('touch {marker}')",), "builtins.eval"),
        (exec, ("open('{marker}', 'w')",), "builtins.exec"),
        (open, ("{marker}", "w"), "io.open"),
        (subprocess.check_output, (["touch", "{marker}"],), "subprocess.check_output"),
        (pickle.loads, (b"",), "pickle.loads"),
    ],
)
def test_a_reducer_is_not_executed(
    tmp_path: Path, function: Any, args: tuple[Any, ...], named: str, protocol: int
) -> None:
    marker = tmp_path / "executed"
    filled = tuple(arg.replace("{marker}", str(marker)) if isinstance(arg, str) else arg for arg in args)
    hostile = pickle.dumps([Runs(function, *filled)], protocol)
    with pytest.raises(BadPickle, match=named) as caught:
        load(hostile)
    assert "\n" not in str(caught.value)
    assert not marker.exists()


def test_calls_of_anything_else_are_only_noted(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    [found] = load(pickle.dumps([Runs(Path.touch, marker)]))
    assert isinstance(found, Inert)
    assert not marker.exists()


def test_a_chain_of_calls_is_only_noted() -> None:
    chain = b"\x80\x04cbuiltins\ngetattr\n(cmodule\nthing\nX\x06\x00\x00\x00attachtR(X\x01\x00\x00\x00xtR."
    assert isinstance(load(chain), Inert)


def test_state_is_kept_and_no_method_of_it_is_called() -> None:
    hook = b"}X\x0c\x00\x00\x00__setstate__cother\nfunction\nsb"
    found = load(b"\x80\x04cmodule\nName\n)\x81" + hook + b"}X\x01\x00\x00\x00aK\x01sb.")
    assert found.field("a") == 1
    assert isinstance(found.field("__setstate__"), InertClass)


def _claims() -> list[bytes]:
    one_gb = 1 << 30
    return [
        b"\x80\x05\x96" + struct.pack("<Q", one_gb) + b"abc.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"abc.",
        b"\x80\x04\x8d" + struct.pack("<Q", one_gb) + b"abc.",
        b"\x80\x04B" + struct.pack("<I", one_gb) + b"abc.",
        b"\x80\x04X" + struct.pack("<I", one_gb) + b"abc.",
        b"\x80\x04\x8b" + struct.pack("<i", one_gb) + b"abc.",
        b"\x80\x04\x8b" + struct.pack("<i", -1) + b"abc.",
        b"\x80\x04\x95" + struct.pack("<Q", one_gb) + b"N.",
        b"T" + struct.pack("<i", -5) + b"abc.",
    ]


@pytest.mark.parametrize("hostile", _claims())
def test_a_length_that_is_not_there_is_refused_before_anything_is_allocated(hostile: bytes) -> None:
    with pytest.raises(BadPickle, match="claims"):
        load(hostile)


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (b"", "ends in the middle"),
        (b"\x80\x04]", "ends in the middle"),
        (b"\x80\x04.", "takes what is not there|ends in the middle"),
        (b"\x80\x04t.", "takes what is not there"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x04h\x05.", "KeyError"),
        (b"P123\n.", "persistent"),
        (b"NQ.", "persistent"),
        (b"\x82\x01.", "extension"),
        (b"\x84\x01\x00\x00\x00.", "extension"),
        (b"\x97.", "out-of-band"),
        (b"\xff.", "no operation"),
        (b"Iabc\n.", "ValueError"),
        (b"I1", "does not end"),
        (b"Sunquoted\n.", "ValueError"),
        (b"NNa.", "appends to"),
        (b"NNNs.", "sets items of"),
        (b"(Nd.", "ValueError"),
        (b"NN\x93.", "not text"),
        (b"c" + b"m" * 2000 + b"\nx\n.", "characters"),
        (b"\x80\x04X\x01\x00\x00\x00\xff.", "UnicodeDecodeError"),
    ],
)
def test_damaged_and_odd_files_are_one_clear_line(hostile: bytes, reason: str) -> None:
    with pytest.raises(BadPickle, match=reason) as caught:
        load(hostile)
    assert "\n" not in str(caught.value)


def test_memo_numbers_are_no_sizes() -> None:
    assert load(b"\x80\x04]r\xff\xff\xff\x7f0j\xff\xff\xff\x7f.") == []
    assert load(b"]p99999999999999999999\n0g99999999999999999999\n.") == []


@pytest.mark.parametrize(
    "hostile",
    [
        b"]" + b"\x85" * 1_000_000 + b".",
        b"(" * 1_000_000 + b"l" * 999_999 + b".",
        # As a key: hashing such a tuple would exhaust the C stack.
        b"}" + b")" + b"\x85" * 1_000_000 + b"K\x01s.",
        b"(" + b")" + b"\x85" * 1_000_000 + b"\x91.",
        b"cm\nC\n" + b")\x81cm\nC\n" * 300_000 + b"0" + b"\x85R" * 100_000 + b".",
    ],
    ids=["tuples", "lists", "key", "frozenset", "calls"],
)
def test_a_million_levels_are_read_on_a_small_stack(hostile: bytes) -> None:
    outcome: list[Any] = []

    def read() -> None:
        try:
            outcome.append(load(hostile))
        except BadPickle as error:
            outcome.append(error)

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=read)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert len(outcome) == 1


def test_operations_are_counted() -> None:
    with pytest.raises(BadPickle, match="more than 1,000 operations"):
        load(b"N0" * 1000 + b"N.", max_ops=1000)


def test_memory_stays_in_proportion_to_the_file() -> None:
    """Calling for copies of one long list must not copy it."""
    text = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
from paceline.run.inert_pickle import load
items = b"K\\x01" * 10_000
hostile = b"\\x80\\x04](" + items + b"eq\\x000(" + b"cbuiltins\\nset\\nq\\x010" + b"h\\x01h\\x00\\x85R" * 9_000 + b"t."
assert len(load(hostile)) == 9_000
maker = b"\\x80\\x04ccopyreg\\n__newobj__\\nq\\x000"
hostile = maker + b"(cm\\nC\\n" + items + b"tq\\x010(" + b"h\\x00h\\x01R" * 10_000 + b"t."
assert len(load(hostile)) == 10_000
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


@given(st.binary(max_size=300))
def test_random_bytes_never_raise_anything_else(content: bytes) -> None:
    _read_or_refuse(content)


_OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes]


@given(st.lists(st.sampled_from(_OPCODES) | st.binary(max_size=4) | st.just(b"os\nsystem\n"), max_size=60))
def test_random_programs_never_raise_anything_else(steps: list[bytes]) -> None:
    _read_or_refuse(b"".join(steps) + b".")


@given(plain_data, st.sampled_from(list(PROTOCOLS)), st.data())
def test_mutations_of_real_pickles_never_raise_anything_else(
    data: Any, protocol: int, draw: st.DataObject
) -> None:
    content = bytearray(pickle.dumps([data, Point(1)], protocol))
    for _ in range(draw.draw(st.integers(1, 4))):
        content[draw.draw(st.integers(0, len(content) - 1))] = draw.draw(st.integers(0, 255))
    _read_or_refuse(bytes(content[: draw.draw(st.integers(0, len(content)))]))


def _read_or_refuse(content: bytes) -> None:
    refusal = ""
    with suppress(BadPickle):
        try:
            load(content)
        except BadPickle as error:
            refusal = str(error) or "\n"
            raise
    assert "\n" not in refusal

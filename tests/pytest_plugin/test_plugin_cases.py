"""A test's identity: parameters in any order, spelled as cells of a matrix are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.model import name_case
from paceline.pytest_plugin.cases import source_of
from paceline.pytest_plugin.parameters import LONGEST_VALUE, params_of

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.dictionaries(st.text(min_size=1), SCALARS, max_size=4))
def test_the_order_of_parameters_is_no_part_of_a_key(params: dict[str, Any]) -> None:
    assert name_case("a.py::test", dict(reversed(params.items()))) == name_case("a.py::test", params)


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


WILD = st.recursive(
    SCALARS
    | st.complex_numbers()
    | st.binary()
    | st.dates()
    | st.builds(Broken)
    | st.builds(object)
    | st.just(int),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.text(min_size=1), WILD, max_size=3))
def test_any_parameter_becomes_a_short_scalar_that_lasts(params: dict[str, Any]) -> None:
    item: Any = SimpleNamespace(callspec=SimpleNamespace(params=params, id="the-id"))
    found = params_of(item)
    assert set(found) == {name for name in params if not name.startswith("__pytest")}
    for name, value in found.items():
        assert value is None or isinstance(value, bool | int | float | str)
        assert not isinstance(value, str) or len(value) <= LONGEST_VALUE
        assert not isinstance(value, int) or -(2**63) <= value < 2**63
        if isinstance(params[name], object) and type(params[name]) in (object, Broken):
            assert value == "the-id"


LAST_STATEMENTS = {
    "plain": "    return 1\n",
    "call": "    return dict(\n        a=1,\n\n        b=2,\n    )\n",
    "string": '    text = """\nat the margin\n"""\n    return """\nagain\n"""\n',
    "backslash": "    return 1 + \\\n    2\n",
    "nested": "    def inner():\n        return (1,\n            2)\n    return inner\n",
    "nested last": "    if benchmark_time:\n        class Inner:\n            x = [\n                1,\n    ]\n",
    "bracket": "    return dict(\na=1,\n)\n",
    "text with bracket": "    # (\n    return '('\n",
    "loop": "    for number in range(3):\n        pass\n    # the end\n",
    "only text": '    """What it does,\n    in two lines."""\n',
}


@pytest.mark.parametrize("ending", list(LAST_STATEMENTS))
@pytest.mark.parametrize(
    "follower", ["", "\n\nAFTER = 1\n", "\n    # a comment\n\n\n@some\ndef other():\n    pass\n", "x = 1\n"]
)
@pytest.mark.parametrize(
    "decorators", ["", '@pytest.mark.parametrize(\n    "size",\n    [1, 2],\n)\n@other\n']
)
def test_the_source_is_found_whole(tmp_path: Path, ending: str, follower: str, decorators: str) -> None:
    function = f"def test_it(benchmark_time):\n    x = 1\n{LAST_STATEMENTS[ending]}"
    path = tmp_path / "source.py"
    path.write_text(f"import pytest\n\n{decorators}{function}{follower}")
    names: dict[str, Any] = {"other": lambda function: function, "some": lambda function: function}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found = source_of(SimpleNamespace(function=names["test_it"]))  # type: ignore[arg-type]
    assert found is not None
    expected = (decorators + function).rstrip().removesuffix("\n    # the end")
    assert found.text == expected
    alone = tmp_path / "alone.py"
    alone.write_text("\n" + function)
    exec(compile(alone.read_text(), str(alone), "exec"), names)
    again = source_of(SimpleNamespace(function=names["test_it"]))  # type: ignore[arg-type]
    assert again is not None and again.hash == found.hash


def test_methods_are_moved_to_the_margin(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(
        "class TestIt:\n    def test_it(self):\n        if self:\n            return [\n                1]\n"
    )
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found = source_of(SimpleNamespace(function=names["TestIt"].test_it))  # type: ignore[arg-type]
    assert found is not None
    assert found.text == "def test_it(self):\n    if self:\n        return [\n            1]"
    assert source_of(SimpleNamespace(function=len)) is None  # type: ignore[arg-type]
    assert source_of(SimpleNamespace()) is None  # type: ignore[arg-type]

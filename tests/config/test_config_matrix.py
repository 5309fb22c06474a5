"""Matrix expansion against the documented semantics and as properties."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config.rules import check_matrix
from paceline.config.rules import expand_matrix as expand
from paceline.model import Scalar, name_case, write_scalar

SCALARS = st.one_of(st.integers(-5, 5), st.booleans(), st.sampled_from(["a", "b c", "1", "x,y"]), st.none())
AXES = st.dictionaries(
    st.sampled_from(["executor", "size", "mode"]),
    st.lists(SCALARS, min_size=1, max_size=4, unique_by=write_scalar),
    min_size=1,
)


def test_axes_in_file_order() -> None:
    cells = expand({"size": [10, 20], "executor": ["local", "ray"]})
    assert [name_case("e", cell) for cell in cells] == [
        "e[executor=local,size=10]",
        "e[executor=ray,size=10]",
        "e[executor=local,size=20]",
        "e[executor=ray,size=20]",
    ]


def test_no_parameters_no_brackets() -> None:
    assert name_case("e", {}) == "e"


def test_values_keep_their_types_and_are_spelled_like_yaml() -> None:
    (cell,) = expand({"a": [True], "b": [1.5], "c": [None], "d": ["x"]})
    assert cell == {"a": True, "b": 1.5, "c": None, "d": "x"}
    assert name_case("e", cell) == "e[a=true,b=1.5,c=null,d=x]"


def test_exclude_matches_partly() -> None:
    cells = expand({"os": ["a", "b"], "v": [1, 2]}, exclude=[{"os": "a"}, {"os": "b", "v": 2}])
    assert cells == [{"os": "b", "v": 1}]


def test_include_extends_adds_and_overwrites_only_what_was_added() -> None:
    # The worked example of the GitHub Actions documentation.
    cells = expand(
        {"fruit": ["apple", "pear"], "animal": ["cat", "dog"]},
        include=[
            {"color": "green"},
            {"color": "pink", "animal": "cat"},
            {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"},
            {"fruit": "banana", "animal": "cat"},
        ],
    )
    assert cells == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_include_alone_is_a_list_of_cells() -> None:
    assert expand({}, include=[{"a": 1}, {"a": 2, "b": 3}]) == [{"a": 1}, {"a": 2, "b": 3}]


def test_an_included_cell_has_its_axes_first() -> None:
    (_, added) = expand({"a": [1], "b": [2]}, include=[{"extra": 0, "b": 9, "a": 8}])
    assert name_case("e", added) == "e[a=8,b=9,extra=0]"


@pytest.mark.parametrize(
    ("axes", "exclude", "words"),
    [
        ({"a": [1, 2]}, [{"a": 1}, {"a": 2}], "no cells left"),
        ({"a": []}, [], "at least one value"),
        ({}, [], "needs an axis"),
        ({"a": [1, "1"]}, [], "there twice"),
        ({"size": [1]}, [{"sise": 1}], "did you mean 'size'"),
        ({"a": [True, "true"]}, [], "there twice"),
        ({"size": [1]}, [{}], "'exclude' needs at least one axis"),
        ({"a": list(range(101)), "b": list(range(101))}, [], "10,201 cells"),
    ],
)
def test_what_cannot_be_expanded(
    axes: dict[str, list[Scalar]], exclude: list[dict[str, Scalar]], words: str
) -> None:
    assert any(words in breach.message for breach in check_matrix({**axes, "exclude": exclude}))


def test_values_whose_names_differ_are_different() -> None:
    assert not list(check_matrix({"a": [True, "True", 1, 1.0]}))


def test_a_huge_matrix_is_refused_without_being_built() -> None:
    (breach,) = check_matrix({f"a{i}": list(range(100)) for i in range(40)})
    assert "at most" in breach.message


@given(AXES)
def test_every_combination_once(axes: dict[str, list[Scalar]]) -> None:
    cells = expand(axes)
    assert len(cells) == prod(len(values) for values in axes.values())
    assert all(list(cell) == list(axes) for cell in cells)
    as_text = {tuple(write_scalar(value) for value in cell.values()) for cell in cells}
    assert len(as_text) == len(cells)


@given(AXES, st.data())
def test_exclude_removes_exactly_the_matching(axes: dict[str, list[Scalar]], data: st.DataObject) -> None:
    everything = expand(axes)
    items = list(data.draw(st.sampled_from(everything)).items())
    rule = dict(data.draw(st.lists(st.sampled_from(items), min_size=1)))
    kept = [cell for cell in everything if any(repr(cell[k]) != repr(v) for k, v in rule.items())]
    if kept:
        assert not list(check_matrix({**axes, "exclude": [rule]}))
        assert repr(expand(axes, exclude=[rule])) == repr(kept)
    else:
        (breach,) = check_matrix({**axes, "exclude": [rule]})
        assert "no cells left" in breach.message


@given(AXES)
def test_key_does_not_depend_on_the_order_of_axes(axes: dict[str, list[Scalar]]) -> None:
    turned = dict(reversed(axes.items()))
    assert sorted(name_case("e", c) for c in expand(axes)) == sorted(
        name_case("e", c) for c in expand(turned)
    )

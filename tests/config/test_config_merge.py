"""Merging: mappings deeply, lists of mappings by identity, null unsets, tags replace and append."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config.merge import identity, merge, without_nulls
from paceline.config.nodes import Mark, Node, at, from_data, parse_file, plain

MARK = Mark("f", 1)


def merged(tmp_path: Path, *texts: str) -> Any:
    tree: Node | None = None
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        (root,) = parse_file(path)
        tree = root if tree is None else merge(tree, root)
    assert tree is not None
    return plain(without_nulls(tree))


@pytest.mark.parametrize(
    ("texts", "result"),
    [
        (("a: {b: 1, c: 2}", "a: {c: 3, d: 4}"), {"a": {"b": 1, "c": 3, "d": 4}}),
        (("a: [1, 2]", "a: [2, 3]"), {"a": [2, 3]}),
        (("a: [1, 2]", "a: !append [2, 3]"), {"a": [1, 2, 2, 3]}),
        (("a: [{name: x, v: 1}]", "a: !replace [{name: y}]"), {"a": [{"name": "y"}]}),
        (("a: {b: 1}", "a: !replace {c: 2}"), {"a": {"c": 2}}),
        (("a: {b: 1}", "a: 5"), {"a": 5}),
        (("a: 5", "a: {b: 1}"), {"a": {"b": 1}}),
        (("a: 1\nb: 2", "a: null"), {"b": 2}),
        (("a: {b: 1}", "a: null", "a: {c: 2}"), {"a": {"c": 2}}),
        (("a: [{name: x, v: 1}]", "a: []"), {"a": []}),
        (("a: [{name: x, v: 1}]", "a: [{v: 2, name: x, w: 3}]"), {"a": [{"name": "x", "v": 2, "w": 3}]}),
        (("a: [{name: x}, {name: y}]", "a: [{name: z}, {name: x, v: 1}]"),
         {"a": [{"name": "x", "v": 1}, {"name": "y"}, {"name": "z"}]}),
        (("a: [{metric: m, min_value: 1}]", "a: [{min_value: 2, metric: m}]"),
         {"a": [{"metric": "m", "min_value": 2}]}),
        (("a: [{metric: m, exact_value: 1}]", "a: [{metric: m, exact_value: null, min_value: 1}]"),
         {"a": [{"metric": "m", "min_value": 1}]}),
        (("a: [{type: json, path: x}]", "a: [{type: json, path: y}, {type: csv, path: z}]"),
         {"a": [{"type": "json", "path": "y"}, {"type": "csv", "path": "z"}]}),
        (("a: [{type: slack, v: 1}]", "a: [{name: slack, enabled: false}]"),
         {"a": [{"type": "slack", "v": 1, "name": "slack", "enabled": False}]}),
        (("a: [{name: slack, v: 1}]", "a: [{type: slack, v: 2}]"), {"a": [{"name": "slack", "v": 2, "type": "slack"}]}),
        (("a: [{x: 1}, {x: 2}]", "a: [{x: 1, y: 2}]"), {"a": [{"x": 1, "y": 2}]}),
        (("a: [1, null]",), {"a": [1, None]}),
        (("a: [{name: 1, v: 1}]", "a: [{name: '1', w: 2}]"), {"a": [{"name": "1", "v": 1, "w": 2}]}),
    ],
)  # fmt: skip
def test_merging(tmp_path: Path, texts: tuple[str, ...], result: object) -> None:
    assert merged(tmp_path, *texts) == result


def test_each_value_keeps_its_origin(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x:\n  - name: e\n    v: 1\n")
    (tmp_path / "b").write_text("\n\nx:\n  - name: e\n    w: 2\n")
    tree = merge(*(parse_file(tmp_path / name)[0] for name in "ab"))
    assert at(tree, ("x", 0)).mark == Mark(str(tmp_path / "a"), 2)
    assert at(tree, ("x", 0, "v")).mark == Mark(str(tmp_path / "a"), 3)
    assert at(tree, ("x", 0, "w")).mark == Mark(str(tmp_path / "b"), 5)


def test_identity_is_a_name_not_a_position() -> None:
    assert identity(from_data({"v": 1, "type": "t", "metric": "m"}, MARK)) == ("metric", "m")
    assert identity(from_data({"name": {"a": 1}, "type": "t"}, MARK)) == ("type", "t")
    assert identity(from_data({"v": 1}, MARK)) is None
    assert identity(from_data("name", MARK)) is None


_SCALARS = st.one_of(st.booleans(), st.integers(-5, 5), st.sampled_from("xyz"))
_LEAVES = st.one_of(_SCALARS, st.none(), st.lists(_SCALARS, min_size=1, max_size=3))
_KEYS = st.sampled_from(["a", "b", "c", "d"])


def _named_lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    bodies = st.dictionaries(
        st.sampled_from("pqr"), st.dictionaries(_KEYS, inner, max_size=3), min_size=1, max_size=3
    )
    return bodies.map(lambda items: [{"name": name, **body} for name, body in items.items()])


# Two shapes never meet at one key, as in real files: `a`, `b` hold values, `c` mappings, `d` lists of named mappings.
_TREES = st.recursive(
    st.dictionaries(st.sampled_from(["a", "b"]), _LEAVES, max_size=2),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"a": _LEAVES, "b": _LEAVES, "c": inner, "d": _named_lists(inner)}
    ),
    max_leaves=8,
)


def node(data: object) -> Node:
    return from_data(data, MARK)


def lay(*trees: object) -> Any:
    """The data of merged trees, nulls included."""
    result = node(trees[0])
    for tree in trees[1:]:
        result = merge(result, node(tree))
    return plain(result)


def finish(data: object) -> Any:
    return plain(without_nulls(node(data)))


@given(_TREES)
def test_nothing_over_a_tree_is_the_tree(tree: object) -> None:
    assert lay({}, tree) == tree == lay(tree, {})


@given(_TREES)
def test_a_tree_over_itself_is_itself(tree: object) -> None:
    assert lay(tree, tree) == tree


@given(_TREES, _TREES, _TREES)
def test_grouping_does_not_matter(a: object, b: object, c: object) -> None:
    left = merge(merge(node(a), node(b)), node(c))
    right = merge(node(a), merge(node(b), node(c)))
    assert plain(without_nulls(left)) == plain(without_nulls(right))


@given(_TREES, _TREES)
def test_the_right_one_wins(a: dict[str, Any], b: dict[str, Any]) -> None:
    result = finish(lay(a, b))
    for key, value in b.items():
        if value is None:
            assert key not in result
        elif not isinstance(value, dict | list):
            assert result[key] == value


@given(_TREES, _KEYS)
def test_null_unsets(tree: object, key: str) -> None:
    assert key not in finish(lay(tree, {key: None}))


@given(_TREES, _TREES)
def test_files_that_share_nothing_merge_in_any_order(a: dict[str, Any], b: dict[str, Any]) -> None:
    other = {f"other_{key}": value for key, value in b.items()}
    assert lay(a, other) == lay(other, a)


@given(_TREES, _TREES)
def test_inputs_stay_as_they_are(a: object, b: object) -> None:
    left, right = node(a), node(b)
    merge(left, right)
    assert (plain(left), plain(right)) == (a, b)

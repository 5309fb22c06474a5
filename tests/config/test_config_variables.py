"""Variables: forms, unset ones, types after substitution, and the keys that are left to the plan."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config.nodes import Mark, Node, at, from_data, path_text, plain, resolve
from paceline.config.templates import (
    Atom,
    MalformedVariable,
    Template,
    Unset,
    expand,
    is_lazy,
    names_in,
    parse,
    substitute_tree,
)

ENVIRON = {"A": "alpha", "N": "12", "EMPTY": "", "TRUE": "true", "TEXT": "a b ${A} $$", "NULL": "null"}
MARK = Mark("f.yaml", 7)


def unquoted(data: object) -> Node:
    """Data as a tree whose strings were written without quotes."""
    return _unquote(from_data(data, MARK))


def substitute(node: Node, environ: dict[str, str]) -> tuple[Node, list[Unset]]:
    found = substitute_tree(node, environ)
    assert not found.malformed
    return found.node, found.unset


def _unquote(node: Node) -> Node:
    if isinstance(node.value, dict):
        return node._replace(value={key: _unquote(child) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return node._replace(value=[_unquote(child) for child in node.value])
    return node._replace(plain=True)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${A}", "alpha"),
        ("x-${A}-${N}", "x-alpha-12"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${NO:-d}", "d"),
        ("${NO:-}", ""),
        ("${NO:-${A}/x}", "alpha/x"),
        ('${NO:-{"a": {"b": 1}}}', '{"a": {"b": 1}}'),
        ("${A:-${NO}}", "alpha"),
        ("${A:?needed}", "alpha"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$$$", "$$"),
        ("$$${A}", "$alpha"),
        ("$A costs 5$", "$A costs 5$"),
        ("${TEXT}", "a b ${A} $$"),
        ("plain", "plain"),
        ("{a} } {", "{a} } {"),
    ],
)
def test_forms(text: str, result: str) -> None:
    assert expand(text, ENVIRON) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NO}", "environment variable NO is not set"),
        ("a${A}${NO}", "environment variable NO is not set"),
        ("${NO:?set it to a URL}", "environment variable NO is not set: set it to a URL"),
        ("${EMPTY:?must not be empty}", "environment variable EMPTY is not set: must not be empty"),
        ("${NO:-${NEITHER}}", "environment variable NEITHER is not set"),
    ],
)
def test_unset(text: str, message: str) -> None:
    found = expand(text, ENVIRON)
    assert isinstance(found, Unset)
    assert str(found) == message


@pytest.mark.parametrize(
    "text", ["${", "${}", "${A", "${1A}", "${A-x}", "${A:+x}", "${A:-x", "${A B}", "${NO:-${}}", "x${é}"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(MalformedVariable, match="malformed variable"):
        expand(text, ENVIRON)


def test_nesting_is_bounded() -> None:
    with pytest.raises(MalformedVariable):
        expand("${NO:-" * 5000 + "}" * 5000, {})


def test_variables_alone_are_read() -> None:
    found = parse("a ${A} $$ {x} ${NO:?why}", placeholders=False)
    why = Atom("variable", "NO", "${NO:?why}", ":?why")
    assert found == ("a ", Atom("variable", "A", "${A}"), " $ {x} ", why)


def test_names_include_those_in_defaults() -> None:
    assert names_in("${A:-${B}} ${C:?x}") == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${N}", 12),
        ("${N}.5", 12.5),
        ("${TRUE}", True),
        ("${A}", "alpha"),
        ("${EMPTY}", ""),
        ("${NULL}", "null"),
        ("$$5", "$5"),
    ],
)
def test_unquoted_values_are_typed_afterwards(text: str, value: object) -> None:
    tree, unset = substitute(unquoted({"key": text}), ENVIRON)
    result = plain(tree)["key"]
    assert (result, type(result), unset) == (value, type(value), [])
    assert at(tree, ("key",)).raw == text


def test_quoted_values_stay_strings() -> None:
    tree, _ = substitute(from_data({"key": "${N}"}, MARK), ENVIRON)
    assert plain(tree) == {"key": "12"}


def test_unset_ones_are_listed_and_left_as_they_are() -> None:
    tree, unset = substitute(unquoted({"a": ["${NO}", "${A}"], "b": {"c": "${NO:?why}"}}), ENVIRON)
    assert plain(tree) == {"a": ["${NO}", "alpha"], "b": {"c": "${NO:?why}"}}
    assert unset == [
        Unset(name="NO", path=("a", 0), mark=MARK),
        Unset(name="NO", message="why", path=("b", "c"), mark=MARK),
    ]


def test_malformed_ones_are_listed_with_their_path() -> None:
    found = substitute_tree(unquoted({"entries": [{"name": "${x y"}]}), ENVIRON)
    ((path, message),) = found.malformed
    assert path == ("entries", 0, "name")
    assert message.startswith("malformed variable '${x y'")


def test_lazy_keys_keep_their_text_and_tell_what_is_unset() -> None:
    entry = {
        "name": "${A}",
        "args": "${A} ${NO}",
        "env": {"X": "${A}"},
        "command": ["$$", "${A}"],
        "timeout_s": "${N}",
    }
    data: dict[str, Any] = {
        "entries": [entry],
        "datasets": [{"name": "d", "formats": [{"type": "t", "path": "${A}/x"}]}],
        "env": {"Y": "${A}"},
        "run_reason": "${A}",
    }
    tree, unset = substitute(unquoted(data), ENVIRON)
    assert plain(tree) == {
        **data,
        "entries": [{**entry, "name": "alpha", "timeout_s": 12}],
        "run_reason": "alpha",
    }
    assert [(item.name, item.path) for item in unset] == [("NO", ("entries", 0, "args"))]


def test_which_keys_are_lazy() -> None:
    lazy = [
        ("entries", 0, "args"),
        ("data_setups", 1, "env", "X"),
        ("paths", 0, "host_path"),
        ("script_base_dir",),
    ]
    eager = [
        ("entries", 0, "name"),
        ("sinks", 0, "env"),
        ("results_dir",),
        ("entries",),
        (),
        ("ray", "address"),
    ]
    assert all(is_lazy(path) for path in lazy)
    assert not any(is_lazy(path) for path in eager)


def test_paths_read_as_people_write_them() -> None:
    assert path_text(("entries", 3, "requirements", 0, "metric")) == "entries[3].requirements[0].metric"


@given(st.text().filter(lambda text: "$" not in text))
def test_text_without_a_dollar_is_itself(text: str) -> None:
    assert expand(text, {}) == text
    assert parse(text, placeholders=False) == (text,)


@given(st.text("ab${}:-?"))
def test_escaping_dollars_round_trips(text: str) -> None:
    assert expand(text.replace("$", "$$"), {}) == text


@given(st.text("AB${}:-?x "), st.dictionaries(st.sampled_from("AB"), st.text("x$ {}", max_size=5)))
def test_any_text_expands_is_unset_or_is_malformed(text: str, environ: dict[str, str]) -> None:
    try:
        result = expand(text, environ)
    except MalformedVariable:
        return
    if isinstance(result, Unset):
        assert f"${{{result.name}" in text
        return

    def value(atom: Atom) -> str:
        return environ.get(atom.name) or filled(atom.inner or ("",))

    def filled(template: Template) -> str:
        return "".join(part if isinstance(part, str) else value(part) for part in template)

    assert filled(parse(text, placeholders=False)) == result


@given(st.text("AB${}:-?x ns.m"))
def test_what_makes_sense_without_placeholders_does_so_with_them(text: str) -> None:
    try:
        parse(text, placeholders=False)
    except MalformedVariable:
        return
    parse(text)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_value_is_never_expanded_again(value: str) -> None:
    tree, _ = substitute(from_data({"key": "${V}"}, MARK), {"V": value})
    assert plain(tree) == {"key": value}


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_typing_follows_yaml(value: str) -> None:
    tree, _ = substitute(unquoted({"key": "${V}"}), {"V": value})
    typed = resolve(value)
    result = plain(tree)["key"]
    assert result == (value if typed is None else typed) or result != result

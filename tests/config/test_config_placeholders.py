"""Templates: what is a placeholder, what is not, and that nothing put in is read or split again."""

import json
import re
import shlex

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from paceline.config.templates import Atom, MalformedVariable, Template, fill, parse, split

BRACED = st.text(st.sampled_from("{}${}ab_1:,. \"'-\\é"), max_size=40)
WILD = st.one_of(BRACED, st.text(max_size=40).filter(lambda text: "\x00" not in text))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_characters="${}"))),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(st.sampled_from("abc \"'")), inner)),
    max_leaves=10,
)


def whole(text: str, **values: str) -> str:
    return fill(parse(text), lambda atom: values.get(atom.name, f"<{atom.kind}|{atom.name}|{atom.detail}>"))


def parsed(text: str) -> Template:
    """What is read of a text that a configuration may hold."""
    try:
        return parse(text)
    except MalformedVariable:
        reject()


def words(text: str, **values: str) -> list[str]:
    found = split(text)
    return [fill(word, lambda atom: values.get(atom.name, f"<{atom.name}>")) for word in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{session}/x", "<name|session|>/x"),
        ("{dataset:cc,jsonl}", "<dataset|cc|jsonl>"),
        ("{ dataset : my cc , jsonl }", "<dataset|my cc|jsonl>"),
        ("{dataset:cc}", "<dataset|cc|>"),
        ("{matrix.size}-{matrix.a-b}", "<matrix|size|>-<matrix|a-b|>"),
        ("{needs:prepare}", "<needs|prepare|>"),
        ("{needs:prepare[size={matrix.size}]}", "<needs|prepare[size={matrix.size}]|>"),
        ("${HOME}/x", "<variable|HOME|>/x"),
        ("${A:-b {c {d}} e}", "<variable|A|:-b {c {d}} e>"),
        ("${A:-{session}}}", "<variable|A|:-{session}>}"),
        ("$${A:-{session}}", "${A:-{session}}"),
        ("$${session", "${session"),
        ("$${A:-$${B}} {{$${C}}}", "${A:-$${B}} {{${C}}}"),
        ("$${A:-${B} {session}}", "${A:-${B} {session}}"),
        ("{{session}}", "{session}"),
        ("{{dataset:a,b}} {{matrix.x}} {{needs:y}}", "{dataset:a,b} {matrix.x} {needs:y}"),
        ("{{session}", "{<name|session|>"),
        ("{session}}", "<name|session|>}"),
        ("$$HOME $${HOME} $$$$ $HOME $", "$HOME ${HOME} $$ $HOME $"),
        ('{"a": {"b": [1, {}]}}', '{"a": {"b": [1, {}]}}'),
        ('{"a": {session}}', '{"a": <name|session|>}'),
        (
            "{} { session } {1} {a-b} {a b} {a.b} {a:b} {:,} {é}",
            "{} { session } {1} {a-b} {a b} {a.b} {a:b} {:,} {é}",
        ),
        ("", ""),
    ],
)
def test_what_is_a_placeholder(text: str, expected: str) -> None:
    assert whole(text) == expected


def test_atoms_know_how_they_were_written() -> None:
    template = parse("a{x}b${Y:-z}")
    assert template == ("a", Atom("name", "x", "{x}"), "b", Atom("variable", "Y", "${Y:-z}", ":-z", ("z",)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--a 1  --b\t2\n--c", ["--a", "1", "--b", "2", "--c"]),
        ("--out {session}/x --in={in}", ["--out", "/a b/x", "--in='q\" \\"]),
        ("'{session}' \"{session}\" pre'{session}'post", ["/a b", "/a b", "pre/a bpost"]),
        ("'--x {session} y'", ["--x /a b y"]),
        ("{empty} ''", ["", ""]),
        ('--json \'{"a": {"b": "{session}"}}\'', ["--json", '{"a": {"b": "/a b"}}']),
        ('--json {\\"a\\":1}', ["--json", '{"a":1}']),
        ("{dataset: x , y }", ["<x>"]),
        ("a\u00a0b", ["a\u00a0b"]),
        ("# not-a-comment", ["#", "not-a-comment"]),
        ("", []),
    ],
)
def test_splitting(text: str, expected: list[str]) -> None:
    values = {"session": "/a b", "in": "'q\" \\", "empty": ""}
    assert words(text, **values) == expected


@pytest.mark.parametrize("text", ["--a 'b", '--a "{session}', "a\\"])
def test_an_open_quote_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        split(text)


@given(WILD)
def test_text_without_placeholders_comes_back_unchanged(text: str) -> None:
    assume("$" not in text)
    assert parse(text, variables=False) == parse(text)
    assume(not re.search(r"\{(?:[A-Za-z_][A-Za-z0-9_]*|\s*dataset\s*:|matrix\.|needs:)", text))
    assert parse(text) == (text,)


@given(WILD)
def test_any_text_can_be_read_and_put_together_again(text: str) -> None:
    template = parsed(text)
    again = fill(template, lambda atom: atom.text)
    assert re.sub(r"[${}]", "", again) == re.sub(r"[${}]", "", text)


@given(st.dictionaries(st.text(st.sampled_from("abc ")), JSON))
def test_json_arguments_survive(data: dict[str, object]) -> None:
    text = json.dumps(data)
    assert parse(text) == (text,)
    assert words(f"--config {shlex.quote(text)} --next") == ["--config", text, "--next"]


@given(st.text(), st.text())
def test_what_is_put_in_is_never_split_or_read_again(value: str, other: str) -> None:
    found = words("--a {x} --b={y}z '{x}' \"{y} {x}\" $${x}", x=value, y=other)
    assert found == ["--a", value, f"--b={other}z", value, f"{other} {value}", "${x}"]
    assert whole("{x}{y}", x="{y}", y="{x}") == "{y}{x}"


@given(st.lists(st.text(st.characters(exclude_characters="{}$\x00"))))
def test_quoted_words_come_back(given_words: list[str]) -> None:
    assert words(shlex.join(given_words)) == given_words


@given(st.text(st.sampled_from("ab '\"\\\n\t{}#$é"), max_size=30))
def test_splitting_is_that_of_the_shell(text: str) -> None:
    assume(parsed(text) == (text,))  # the quotes of an atom such as `${a'}` are its own
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ValueError):
            split(text)
        return
    assert words(text) == expected


def test_variables_that_are_put_in_already_are_not_read() -> None:
    template = parse("a$$b ${X} {session} {{y}} ${", variables=False)
    assert fill(template, lambda atom: f"<{atom.name}>") == "a$$b $<X> <session> {y} ${"

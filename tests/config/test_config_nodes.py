"""Files become trees that know their lines; what cannot be read is one clear line."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import nodes
from paceline.config.nodes import Mark, at, parse_file, plain, resolve
from paceline.errors import ConfigError


def parse(tmp_path: Path, text: str | bytes, name: str = "f.yaml") -> list[nodes.Node]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return parse_file(path)


def refusal(tmp_path: Path, text: str | bytes, name: str = "f.yaml") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(tmp_path, text, name)
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("-3", -3),
        ("1e3", 1000.0),
        ("1.50", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("nothing", "nothing"),
        ("+", "+"),
        ("-", "-"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_not_a_number_is_one() -> None:
    value = resolve(".nan")
    assert isinstance(value, float) and value != value


def test_nodes_know_lines_text_and_quoting(tmp_path: Path) -> None:
    (root,) = parse(tmp_path, "a: 1.10\nb:\n  - x\n  - 'y'\nc:\n  d: &e >-\n    folded\n    text\n")
    file = str(tmp_path / "f.yaml")
    assert at(root, ("a",)).text == "1.10"
    assert at(root, ("b", 1)).mark == Mark(file, 4)
    assert at(root, ("b", 0)).plain and not at(root, ("b", 1)).plain
    folded = at(root, ("c", "d"))
    assert (folded.value, folded.mark.line, folded.anchored) == ("folded text", 6, True)
    assert at(root, ("b",)).mark.line == 2, "the line of the key"
    assert at(root, ("c", "missing", 3)) is at(root, ("c",))


def test_documents_of_one_file(tmp_path: Path) -> None:
    assert [plain(node) for node in parse(tmp_path, "a: 1\n---\n# nothing\n---\nb: 2\n")] == [
        {"a": 1},
        {"b": 2},
    ]


def test_aliases_and_merge_keys(tmp_path: Path) -> None:
    text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n  a: 9\nw: *x\nv: {'<<': 1}\n"
    (root,) = parse(tmp_path, text)
    assert plain(root)["z"] == {"a": 9, "b": 2, "c": 4}
    assert plain(root)["v"] == {"<<": 1}
    assert at(root, ("w",)).mark.line == 6 and at(root, ("w", "a")).mark.line == 1
    assert at(root, ("x",)).anchored and not at(root, ("w",)).anchored


def test_tags(tmp_path: Path) -> None:
    (root,) = parse(
        tmp_path, "a: !replace [1]\nb: !append [2]\nc: !replace {d: 1}\ne: !!str 5\nf: !!float 5\n"
    )
    assert [at(root, (key,)).tag for key in "abc"] == ["!replace", "!append", "!replace"]
    assert plain(root)["e"] == "5"
    assert type(plain(root)["f"]) is float


def test_keys_are_strings(tmp_path: Path) -> None:
    (root,) = parse(tmp_path, "1: a\ntrue: b\n1.50: c\nnull: d\n")
    assert list(plain(root)) == ["1", "true", "1.50", "null"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: duplicate key 'a'; it is already on line 1"),
        ("a: [1\nb: 2\n", "f.yaml:2: invalid YAML: "),
        ("a:\n\tb: 1\n", "f.yaml:2: invalid YAML: a tab is used for indentation; use spaces"),
        ("a: *nope\n", "f.yaml:1: alias *nope has no anchor &nope before it"),
        ("a: &a [*a]\n", "f.yaml:1: alias *a has no anchor &a before it"),
        ("a: !secret x\n", "f.yaml:1: unknown tag !secret"),
        (
            "a: !!python/object:os.system x\n",
            "f.yaml:1: unknown tag tag:yaml.org,2002:python/object:os.system",
        ),
        ("a: !append {b: 1}\n", "f.yaml:1: unknown tag !append"),
        ("a: !!int x\n", "f.yaml:1: 'x' is no int"),
        ("\n? [1, 2]\n: 3\n", "f.yaml:2: a key must be a string"),
        ("? {a: 1}\n: 3\n", "f.yaml:1: a key must be a string"),
        ('"": 3\n', "f.yaml:1: a key must not be empty"),
        ("a: 1\n<<: 5\n", "f.yaml:2: the merge key << takes"),
        ('a: "\\0"\n', "f.yaml:1: NUL is not allowed"),
        ("a: \x01\n", "f.yaml:1: the control character U+0001"),
        ("", "f.yaml:1: the file is empty"),
        ("# only a comment\n", "f.yaml:1: the file is empty"),
        (b"a: 1\nb: \xff\n", "f.yaml:2: byte 0xff is not UTF-8"),
        (b"a: 1\nb: \x00\n", "f.yaml:2: the control character U+0000"),
        ("a: 1\n".encode("utf-16"), "f.yaml:1: byte 0xff is not UTF-8"),
        ("[" * 200, "f.yaml:1: nested deeper than 100 levels"),
        ("[" * 100_000, "f.yaml:1: nested deeper than 100 levels"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    (line,) = refusal(tmp_path, text)
    assert line.startswith(expected)
    assert "\n" not in line


def test_all_duplicates_are_told_and_the_syntax_error_too(tmp_path: Path) -> None:
    assert [line[:9] for line in refusal(tmp_path, "a: 1\na: 2\na: 3\nb: [\n")] == [
        "f.yaml:2:",
        "f.yaml:3:",
        "f.yaml:5:",
    ]


def test_missing_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "now.yaml").write_text("")
    for path, told in (
        (tmp_path / "no.yaml", r"no such file; did you mean 'now\.yaml'\?"),
        (tmp_path / "nowhere" / "a.yaml", "no such file; check the path"),
        (tmp_path, "the file cannot be read: Is a directory; name a YAML or JSON file"),
    ):
        with pytest.raises(ConfigError, match=f"^{path}: {told}$"):
            parse_file(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_file(Path("a\0b"))


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert plain(parse(tmp_path, b"\xef\xbb\xbfa: 1\n")[0]) == {"a": 1}


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (line,) = refusal(tmp_path, "\n".join(lines))
    assert "more than 1000000 values, aliases expanded" in line


def test_aliases_cannot_nest_without_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 150))]
    (line,) = refusal(tmp_path, "\n".join(lines))
    assert line == "f.yaml:99: nested deeper than 100 levels"


def test_json_files(tmp_path: Path) -> None:
    (root,) = parse(tmp_path, '{\n\t"a": {"b": [1, true, null]},\n\t"c": "x"\n}', "f.json")
    assert plain(root) == {"a": {"b": [1, True, None]}, "c": "x"}
    assert at(root, ("c",)).mark.line == 3
    # Surrogate escapes are JSON, not YAML.
    assert plain(parse(tmp_path, '{"a": "\\ud83d\\ude00"}', "f.json")[0]) == {"a": "\U0001f600"}
    assert refusal(tmp_path, '{\n"a": 1,\n"b" 2}', "f.json") == [
        "f.json:3: invalid JSON: Expecting ':' delimiter (column 5)"
    ]
    assert refusal(tmp_path, '{"a": "\\ud83d\\ude00", "a": 1}', "f.json") == [
        "f.json:1: invalid JSON: duplicate key 'a'"
    ]


def test_the_pure_python_parser_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x {b: [1, 'two', 3.0]}\nc: *x\nd: >-\n  folded\n  text\n"
    fast = parse(tmp_path, text)
    monkeypatch.setattr(nodes, "_Loader", yaml.SafeLoader)
    assert parse(tmp_path, text) == fast
    assert refusal(tmp_path, "a: [1\nb: 2\n")[0].startswith("f.yaml:2: invalid YAML")
    assert refusal(tmp_path, 'a: "\\UFFFFFFFF"\n')[0].startswith("f.yaml:")


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
_KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_KEYS, _DATA, min_size=1, max_size=5))
def test_json_reads_as_itself(tmp_path: Path, data: object) -> None:
    assert plain(parse(tmp_path, json.dumps(data), "f.json")[0]) == data


_PLAIN_WORDS = st.text("abcxyz_ -/{}$,", min_size=1, max_size=12).filter(lambda text: text == text.strip())
_BLOCK = st.recursive(
    st.one_of(st.booleans(), st.integers(0, 10**9), st.floats(0, 1e6, allow_subnormal=False), _PLAIN_WORDS),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4)
        | st.dictionaries(st.from_regex(r"[a-m]{1,8}", fullmatch=True), inner, min_size=1, max_size=4)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.from_regex(r"[a-m]{1,8}", fullmatch=True), _BLOCK, min_size=1, max_size=5))
def test_block_yaml_reads_as_pyyaml_reads_it(tmp_path: Path, data: object) -> None:
    text = yaml.safe_dump(data)
    assert plain(parse(tmp_path, text)[0]) == yaml.safe_load(text)

"""Broken files, made from real ones: `load` returns or tells a file and a line, and nothing else ever happens."""

import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools.reference.config_text import EXAMPLES

from config.test_config_seeds import ALM, ANCHORS, DATASET_PATHS, MATRIX, NIGHTLY, NO_SLACK, STRUCTURE
from paceline.config.explain import explain
from paceline.config.load import load
from paceline.errors import ConfigError

SUITES = (MATRIX, ANCHORS, STRUCTURE, ALM, NO_SLACK, NIGHTLY, *EXAMPLES.values())
ENVIRON = {"HOME": "/home/me", "T": "5", "MLFLOW_TRACKING_URI": "http://m", "EMPTY": ""}
PLACE = re.compile(r"^(?P<file>[^:\n]+/[a-z]+\.(yaml|json)):(?P<line>[1-9][0-9]*): \S")

_VALUES = (
    "5", "-1", "0", "1.5", "true", "null", "~", ".nan", ".inf", "'x'", '""', "[]", "{}", "[1, [2]]", "{a: {b: c}}",
    "${T}", "${NO}", "${NO:?why}", "${NO:-7}", "${", "${}", "$$", "*a", "&a x", "!replace []", "!append [x]", "!!int y",
    "!x y", "|", ">-", "- x", "? y", "@", "`", "%", "\t", "<<", "<<: *default_ray", "name: a", "9" * 50, "1e999",
    "\\u0000",
)  # fmt: skip
_CHARACTERS = string.printable + "é\u2028\ufeff😀\x00\x07\x85"

Mutation = Callable[[bytes], bytes]


def _lines(change: Callable[[list[str]], list[str]]) -> Mutation:
    return lambda data: "\n".join(change(data.decode(errors="replace").split("\n"))).encode()


def _insert_bytes(at: float, piece: bytes) -> Mutation:
    return lambda data: data[: int(at * len(data))] + piece + data[int(at * len(data)) :]


def _delete(at: float, count: int) -> Mutation:
    return lambda data: data[: int(at * len(data))] + data[int(at * len(data)) + count :]


def _overwrite(at: float, piece: bytes) -> Mutation:
    return lambda data: data[: int(at * len(data))] + piece + data[int(at * len(data)) + len(piece) :]


def _truncate(at: float) -> Mutation:
    return lambda data: data[: int(at * len(data))]


def _move_line(source: float, target: float, keep: bool) -> Mutation:
    def change(lines: list[str]) -> list[str]:
        index = int(source * len(lines))
        rest = lines if keep else lines[:index] + lines[index + 1 :]
        place = int(target * len(rest))
        return [*rest[:place], lines[index], *rest[place:]]

    return _lines(change)


def _change_value(at: float, value: str) -> Mutation:
    """Another value behind the colon of one line: types are swapped, blocks lose their heads."""

    def change(lines: list[str]) -> list[str]:
        index = int(at * len(lines))
        key, colon, _ = lines[index].partition(":")
        changed = f"{key}: {value}" if colon else f"{lines[index]}{value}"
        return [*lines[:index], changed, *lines[index + 1 :]]

    return _lines(change)


def _change_key(at: float, key: str) -> Mutation:
    def change(lines: list[str]) -> list[str]:
        index = int(at * len(lines))
        return [*lines[:index], re.sub(r"[a-z_]+:", f"{key}:", lines[index], count=1), *lines[index + 1 :]]

    return _lines(change)


def _indent(at: float, spaces: int) -> Mutation:
    def change(lines: list[str]) -> list[str]:
        index = int(at * len(lines))
        moved = " " * spaces + lines[index] if spaces > 0 else lines[index][-spaces:]
        return [*lines[:index], moved, *lines[index + 1 :]]

    return _lines(change)


def _nest(at: float, depth: int, opening: str) -> Mutation:
    return _insert_bytes(at, (opening * depth).encode())


_AT = st.floats(0, 1, exclude_max=True)
_KEYS = st.sampled_from(
    [
        "name",
        "entries",
        "script",
        "command",
        "args",
        "ray",
        "matrix",
        "sinks",
        "defaults",
        "enabled",
        "x-y",
        "zzz",
    ]
)
_MUTATIONS = st.one_of(
    st.builds(_insert_bytes, _AT, st.text(_CHARACTERS, min_size=1, max_size=4).map(str.encode)),
    st.builds(_insert_bytes, _AT, st.binary(min_size=1, max_size=4)),
    st.builds(_overwrite, _AT, st.text(_CHARACTERS, min_size=1, max_size=4).map(str.encode)),
    st.builds(_delete, _AT, st.integers(1, 40)),
    st.builds(_truncate, _AT),
    st.builds(_move_line, _AT, _AT, st.booleans()),
    st.builds(_change_value, _AT, st.sampled_from(_VALUES)),
    st.builds(_change_value, _AT, st.sampled_from(_VALUES)),
    st.builds(_change_key, _AT, _KEYS),
    st.builds(_indent, _AT, st.integers(-4, 4)),
    st.builds(
        _nest,
        _AT,
        st.sampled_from([3, 99, 101, 2000]),
        st.sampled_from(["[", "{", "{a: ", "- ", "? ", "[{a: "]),
    ),
)


def _mutate(text: str, mutations: list[Mutation]) -> bytes:
    data = text.encode()
    for mutation in mutations:
        data = mutation(data)
    return data


_BROKEN = st.builds(_mutate, st.sampled_from(SUITES), st.lists(_MUTATIONS, min_size=1, max_size=4))
_BROKEN_JSON = st.builds(_mutate, st.just(DATASET_PATHS), st.lists(_MUTATIONS, min_size=1, max_size=3))


def check(paths: list[Path], datasets: Path | None = None, sinks: tuple[str, ...] = ()) -> bool:
    """Whether the files load; if not, every line of the error has to name one of them, and a line in it."""
    try:
        loaded = load(paths, datasets=datasets, sinks=sinks, environ=ENVIRON)
    except ConfigError as error:
        known = {str(path) for path in (*paths, datasets) if path is not None}
        for line in str(error).split("\n"):
            place = PLACE.match(line)
            assert place, line
            assert place["file"] in known
            lines = len(Path(place["file"]).read_bytes().decode(errors="replace").splitlines())
            assert int(place["line"]) <= lines + 1, line
        return False
    assert list(explain(loaded))
    return True


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(data=_BROKEN, sinks=st.sampled_from([(), (), ("mlflow",), ("none",)]))
def test_one_broken_file(tmp_path: Path, data: bytes, sinks: tuple[str, ...]) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(data)
    check([path], sinks=sinks)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(first=_BROKEN, second=_BROKEN, datasets=_BROKEN_JSON)
def test_several_broken_files(tmp_path: Path, first: bytes, second: bytes, datasets: bytes) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path, data in zip((*paths, tmp_path / "d.json"), (first, second, datasets), strict=True):
        path.write_bytes(data)
    check(paths, datasets=tmp_path / "d.json")


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    data=st.one_of(
        st.binary(max_size=200), st.text(_CHARACTERS + "{}[]:-&*!|>", max_size=200).map(str.encode)
    )
)
def test_noise(tmp_path: Path, data: bytes) -> None:
    for name in ("noise.yaml", "noise.json"):
        (tmp_path / name).write_bytes(data)
        check([tmp_path / name])


@pytest.mark.parametrize("text", SUITES, ids=range(len(SUITES)))
def test_the_files_are_whole_before(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text("defaults: {script: s.py}\nentries: [{name: another}]\n")
    assert check([tmp_path / "a.yaml", tmp_path / "b.yaml"])

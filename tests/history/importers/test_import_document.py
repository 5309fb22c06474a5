"""Files that are damaged, odd or hostile are said in one line; what is in good ones can be pointed at."""

import gzip
import json
import os
from pathlib import Path

import pytest

from paceline.errors import HistoryError
from paceline.history.importers import document
from paceline.history.importers.document import Value, parse, read_bytes, read_json
from paceline.record.codec import digest


def fault(path: Path) -> str:
    with pytest.raises(HistoryError) as caught:
        read_json(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ": is empty; export it again"),
        (b" \n", ": is empty; export it again"),
        (b'{"a": [1, 2', ": is no complete JSON (line 1: "),
        (b"a: 1", ": is no JSON (line 1: Expecting value); name a file of results"),
        (b'{"a": "caf\xe9"}', ": is not UTF-8 text (byte 10); convert it to UTF-8"),
        (b"[" * 100_000, ": is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", ": cannot be read as JSON (Exceeds the limit"),
        (gzip.compress(b"{}" * 1000)[:-9], ": is damaged ("),
        (b"\x1f\x8b\x08 no gzip", ": is damaged ("),
    ],
    ids=["nothing", "blanks", "torn", "YAML", "latin-1", "deep", "long number", "torn gzip", "no gzip"],
)
def test_damage_is_said_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert fault(path).startswith(said)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert fault(tmp_path / "pipe.json").startswith(": is not a regular file")
    assert fault(tmp_path / "none.json").startswith(": cannot be read (No such file")


def test_a_huge_file_is_refused_packed_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_BYTES", 1 << 20)
    large, packed = tmp_path / "large.json", tmp_path / "packed.json"
    large.write_bytes(b" " * (1 << 20) + b"1")
    packed.write_bytes(gzip.compress(b" " * (1 << 20) + b"1"))
    assert fault(large) == fault(packed) == ": is larger than 1 MiB; split it and import the parts"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_encodings_that_windows_writes(encoding: str) -> None:
    assert parse('{"größe": 1}'.encode(encoding), "f").data == {"größe": 1}


def test_numbers_that_json_does_not_know() -> None:
    found = parse(b'{"a": NaN, "b": [1, Infinity], "c": -Infinity}', "f")
    assert found["a"].number() != found["a"].number()
    assert found["b"].numbers() == (1, float("inf"))
    assert found["c"].number() == float("-inf")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_text_that_no_database_takes_is_replaced(encoding: str) -> None:
    found = parse(r'{"a\u0000": "x\ud800y"}'.encode(encoding), "f")
    assert found.data == {"a\N{REPLACEMENT CHARACTER}": "x?y"}


def test_places_are_named() -> None:
    found = parse(b'{"runs": [{"time": 1}, {"time": "long", "none": null, "flag": true}]}', "f.json")
    good, bad = found["runs"].each()
    assert good["time"].number() == 1
    for take, said in (
        (lambda: bad["time"].number(), "f.json: runs[1].time: expected a number, found text; "),
        (lambda: bad["flag"].number(), "f.json: runs[1].flag: expected a number, found true or false; "),
        (lambda: bad["none"], "f.json: runs[1].none: is missing; "),
        (lambda: bad["absent"].number(), "f.json: runs[1].absent: is missing; "),
        (lambda: list(found["runs"].items()), "f.json: runs: expected an object, found a list; "),
        (lambda: list(found.each()), "f.json: expected a list, found an object; "),
        (lambda: good["time"].get("unit"), "f.json: runs[0].time: expected an object, found a number; "),
        (lambda: found["runs"].text(), "f.json: runs: expected text, found a list; "),
    ):
        with pytest.raises(HistoryError) as caught:
            take()
        assert str(caught.value).startswith(said)


def test_what_is_absent_can_be_asked_on() -> None:
    absent = parse(b"{}", "f").get("a").get("b")
    assert absent.text("none") == "none"
    assert absent.numbers() == ()
    assert list(absent.items()) == list(absent.each()) == []
    assert absent.count() == 0


@pytest.mark.parametrize(
    ("data", "count"),
    [(8, 8), ("8", 8), (" 12 ", 12), ("8GB", 0), (-1, 0), (1.5, 0), ("9" * 5000, 0), (None, 0)],
)
def test_counts(data: object, count: int) -> None:
    assert Value(data, "f").count() == count


def test_large_integers_become_what_a_database_holds() -> None:
    assert Value(1 << 60, "f").number() == float(1 << 60)
    assert isinstance(Value(1 << 60, "f").number(), float)
    with pytest.raises(HistoryError, match="too large a number"):
        Value(10**400, "f").number()


def test_parameters_are_scalars() -> None:
    found = Value(
        {"n": 1, "s": "x", "none": None, "flag": True, "list": [1, {"a": 2}], "long": "x" * 300}, "f"
    ).scalars()
    assert found.pop("long") == f"{'x' * 200}…{digest('x' * 300)}"
    assert found == {"n": 1, "s": "x", "none": None, "flag": True, "list": '[1,{"a":2}]'}


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines.json"
    path.write_text("{")
    with pytest.raises(HistoryError) as caught:
        read_json(path)
    assert "\n" not in str(caught.value)


def test_a_hash_does_not_depend_on_the_layout() -> None:
    data = {"a": [1, 2.5, None], "b": "ä"}
    assert digest(parse(json.dumps(data).encode(), "f").data) == digest(
        parse(json.dumps(data, indent=4).encode("utf-16"), "f").data
    )


def test_a_packed_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(gzip.compress(b"[1]"))
    assert read_bytes(path) == b"[1]"

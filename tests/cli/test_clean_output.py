"""What others made is shown as text: a terminal obeys nothing in it."""

import io
import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.output import CleanStream
from paceline.report.format import cleaned
from workplace import Workplace

COPY = "\x1b]52;c;ZXZpbA==\x07"
"""Puts "evil" on the clipboard of many terminals."""


@given(st.text())
def test_nothing_but_colours_and_lines_is_left(text: str) -> None:
    left = cleaned(text)
    for colour in ("\x1b[0m", "\x1b[31m"):
        left = left.replace(colour, "")
    assert not {*left} & {chr(code) for code in (*range(9), *range(11, 27), *range(28, 32), *range(127, 160))}


@given(st.text(st.characters(exclude_categories=["Cc"])))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert cleaned(f"{text}\n\t{text}") == f"{text}\n\t{text}"


def test_standard_error_is_cleaned() -> None:
    written = io.StringIO()
    stream = CleanStream(written)
    stream.write(f"a {COPY} \x1b[2J b\n")
    stream.writelines(["\x1b[31mred\x1b[0m\n"])
    assert written.getvalue() == "a \ufffd]52;c;ZXZpbA==\ufffd \ufffd[2J b\n\x1b[31mred\x1b[0m\n"
    assert not stream.isatty()


@pytest.fixture
def session(place: Workplace) -> Path:
    place.write("suite.yaml", "entries: [{name: a, command: ['true']}]\n")
    assert place.run("run", "suite.yaml", "--session-name", "s", "--quiet").returncode == 0
    return place.path / "results" / "s"


def test_a_session_of_somebody_else(place: Workplace, session: Path) -> None:
    record = json.loads((session / "a/record.json").read_text())
    record["started_at"] = COPY
    record["revision"] = COPY
    record["metrics"] = {"m": {"value": 1.5, "unit": COPY}}
    record["warnings"] = [COPY]
    (session / "a/record.json").write_text(json.dumps(record))
    (session.parent / f"x{COPY}").mkdir()
    (session.parent / f"x{COPY}/.lock").touch()
    (session / f"b{COPY}").mkdir()
    (session / f"b{COPY}/record.json").write_text("{")
    (session / "c").mkdir()
    (session / "c/record.json").write_text("{")
    for words in (("list",), ("show", "s"), ("show", "s", "a"), ("history", "import", "results")):
        done = place.run(*words)
        assert "\x1b]" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    assert "cannot be read" in place.run("show", "s").stderr


def test_a_database_of_somebody_else(place: Workplace, session: Path) -> None:
    assert place.run("history", "import", "results").returncode == 0
    with sqlite3.connect(place.path / "results/benchmark.db") as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = {row[1] for row in database.execute(f"PRAGMA table_info('{table}')")}
            for column in columns & {"revision", "branch", "unit", "reason"}:
                database.execute(f'UPDATE "{table}" SET {column} = ?', (COPY,))
    for words in (("history", "log", "a"), ("history", "show"), ("regressions",), ("compare", "s", "s")):
        done = place.run(*words)
        assert "\x1b]" not in done.stdout + done.stderr


def test_what_json_leaves_as_it_is_and_terminals_obey_is_escaped(place: Workplace) -> None:
    place.write("suite.yaml", 'entries:\n  - {name: a, command: [echo, "\\x9B31m\\x7f\\e"]}\n')
    done = place.run("plan", "suite.yaml", "--json")
    assert not {*done.stdout} & {"\x9b", "\x7f", "\x1b"}
    assert json.loads(done.stdout)["cases"][0]["argv"] == ["echo", "\x9b31m\x7f\x1b"]

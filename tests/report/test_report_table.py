"""Tables of any content fit any screen."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.report.format import display_width, visible
from paceline.report.table import Cell, Column, Layout, Screen, screen_of, shorten, table

COLUMNS = (
    Column(title="case", least=12),
    Column(title="change", right=True),
    Column(title="why", least=6, cut="end", leaves=1),
    Column(title="curve", leaves=2),
)
texts = st.text(max_size=60).map(visible)


@given(st.lists(st.tuples(texts, st.just("+1.2 %"), texts, st.just("▁" * 12)), max_size=8))
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int, rows: list[tuple[str, ...]]) -> None:
    lines = list(table(COLUMNS, rows, Screen(width=width)))
    assert len(lines) == len(rows) + 1
    assert all(display_width(line) <= width for line in lines)
    assert all("+1.2 %" in line for line in lines[1:]), "what may not leave is there"


@given(texts, st.integers(min_value=1, max_value=70))
def test_what_is_too_long_loses_its_middle(text: str, width: int) -> None:
    short = shorten(text, width)
    assert display_width(short) <= width
    assert short == text if display_width(text) <= width else "…" in short
    if "…" in short and "…" not in text:
        head, tail = short.split("…")
        assert text.startswith(head) and text.endswith(tail)


def test_a_pipe_gets_whole_names_and_no_colour() -> None:
    screen = screen_of(io.StringIO(), {"TERM": "xterm", "COLUMNS": "20"})
    name = "benchmarks/test_array.py::test_sum[" + "x" * 100 + "]"
    assert list(table(["case", "change"], [(name, Cell("+5 %", "bad"))], screen))[1] == f"{name}  +5 %"


def test_columns_that_are_empty_or_have_no_room_are_left_out() -> None:
    rows = [("a" * 30, "+1 %", "because", "▁▂▃"), ("b", "+2 %", "", "▁▂▃")]
    whole, narrow = (list(table(COLUMNS, rows, Screen(width=width))) for width in (60, 28))
    assert whole[1] == f"{'a' * 30}    +1 %  because  ▁▂▃"
    assert "curve" not in narrow[0] and "▁" not in narrow[1]
    empty = list(table(["", "case", "note"], [("", "a", "")], Screen()))
    assert empty == ["case  note", "a"]


def test_colours_do_not_move_columns() -> None:
    rows = [(Cell("ab", "good"), Cell("1", "bad")), ("c", "2")]
    plain, coloured = (
        list(table(["x", Column(title="y", right=True)], rows, Screen(colour=colour)))
        for colour in (False, True)
    )
    assert plain == [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] != coloured
    layout = Layout(["", "case"], [("✗", "abc")], Screen(width=30, colour=True))
    line = layout.line_with([Cell("✗", "bad"), "a"], Cell("failed: x"))
    assert line == "\x1b[31m✗\x1b[0m  a     failed: x"
    assert layout.line_with(["✗", "a"], Cell("x" * 30)) is None

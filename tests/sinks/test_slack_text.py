"""Text of any kind and size fits Slack's limits, and nothing of it is lost or changed in meaning."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from fake_slack import blocks_fault, units
from paceline.sinks.slack_text import (
    MOST_BLOCKS,
    code,
    code_lines,
    cut_text,
    escape,
    fallback,
    header,
    link,
    mention,
    pack,
    sections,
    split_text,
)

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)
LONG_TEXT = st.builds(lambda text, times: text * times, ANY_TEXT, st.integers(1, 150))


@given(st.lists(ANY_TEXT, max_size=20).map("\n".join), st.integers(10, 100))
def test_pieces_fit_and_hold_all_of_the_text(text: str, limit: int) -> None:
    pieces = split_text(text, limit)
    assert all(0 < units(piece) <= limit for piece in pieces)
    assert "".join(pieces).replace("\n", "") == text.replace("\n", "")


@given(LONG_TEXT, st.integers(10, 60))
def test_no_entity_is_cut(text: str, limit: int) -> None:
    for piece in split_text(escape(text), limit):
        assert re.fullmatch(r"(?:[^&<>]|&(?:amp|lt|gt);)*", piece, re.DOTALL)


def test_lines_are_kept_whole_where_they_fit() -> None:
    assert split_text("one\ntwo\nthree", 8) == ["one\ntwo", "three"]
    assert split_text("", 8) == []


@given(ANY_TEXT)
def test_foreign_text_is_no_markup(text: str) -> None:
    assert not set("<>\n\x00\x1b") & set(escape(text))
    assert code(text).count("`") in (0, 2)


@settings(max_examples=20)
@given(st.lists(LONG_TEXT, max_size=30), ANY_TEXT)
def test_whatever_is_packed_is_taken(texts: list[str], title: str) -> None:
    blocks = [
        header(title),
        *(block for text in texts for block in sections([escape(text)])),
        *code_lines(texts),
    ]
    messages = pack(blocks)
    assert [block for message in messages for block in message] == blocks
    for message in messages:
        assert blocks_fault(message) is None
        assert 0 < units(fallback(message)) <= 3000
        assert len(message) <= MOST_BLOCKS


def test_many_small_blocks_make_several_messages() -> None:
    assert [len(message) for message in pack(sections(["x"]) * 120)] == [50, 50, 20]


def test_a_cut_text_says_so() -> None:
    assert cut_text("abcdef", 4) == "abc…"
    assert cut_text("abc", 4) == "abc"
    assert cut_text("&amp;&amp;", 7) == "&amp;…"


def test_mentions_and_links_are_only_what_they_should_be() -> None:
    assert mention("U024BE7LH") == "<@U024BE7LH>"
    assert mention("S012ABC") == "<!subteam^S012ABC>"
    assert mention("!channel> <!here") == "@!channel&gt; &lt;!here"
    assert link("https://a.example/x", "a|b") == "<https://a.example/x|a|b>"
    assert link("https://a.example/|x>", "label") == "https://a.example/|x&gt;"
    assert link("javascript:alert(1)", "label") == "javascript:alert(1)"

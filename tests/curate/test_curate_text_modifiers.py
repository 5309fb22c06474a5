"""Text modifiers: values worked out by hand, and unguarded regular expressions as the reference."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.curate import PipelineError
from paceline.curate.text_modifiers import MODIFIERS, ModifierStage

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scripts" / "modifier_benchmark.py"

GOLDEN = [
    ("boilerplate", "Privacy Policy\n\nUse cookies here\n\nText", "Text"),
    ("boilerplate", "Text\n\nMore\n\nTerms of use", "Text\n\nMore"),
    ("boilerplate", "Text\n\nTerms of use\n\nMore", "Text\n\nTerms of use\n\nMore"),
    ("boilerplate", "Terms of use\n\nText\n\nTerms of use", "Terms of use\n\nText\n\nTerms of use"),
    ("boilerplate", "Terms of use", "Terms of use"),
    ("boilerplate", "Text\n\nLOREM ipsum", ""),
    ("markdown", "a **b c** *d* _e_ [f](http://g)", "a b c d e http://g"),
    ("markdown", "snake_case and *open", "snake_case and *open"),
    ("markdown", "*a\nb* _c\nd_", "*a\nb* _c\nd_"),
    ("newlines", "a\n\n\n\nb\n\nc\r\n\r\n\r\nd", "a\n\nb\n\nc\r\n\r\nd"),
    ("quotes", '"all of it"', "all of it"),
    ("quotes", '"a"\nand "b"', '"a"\nand "b"'),
    ("quotes", '"a\nb"', "a\nb"),
    ("quotes", '""', '""'),
    ("quotes", '"a" ', '"a" '),
    ("unicode", "cafÃ© â€œquoteâ€\x9d", "café “quote”"),
    ("unicode", "a &amp; b\x00\x07", "a & b"),
    ("unicode", "<b>&amp;</b>\n&amp;", "<b>&amp;</b>\n&amp;"),
    ("unicode", "&amp;\n<b>&amp;", "&\n<b>&amp;"),
    ("unicode", "naïve “quotes” & ﬁ", "naïve “quotes” & ﬁ"),
    ("urls", "see https://a.b/c?d and WWW.e.f, end", "see  and  end"),
    ("urls", "http:/no www no", "http:/no www no"),
]


@pytest.mark.parametrize(("name", "text", "expected"), GOLDEN)
def test_texts_worked_out_by_hand(name: str, text: str, expected: str) -> None:
    if name == "unicode":
        pytest.importorskip("ftfy")
    assert MODIFIERS[name](text) == expected


def test_every_modifier_has_values_by_hand() -> None:
    assert set(MODIFIERS) == {name for name, _, _ in GOLDEN} and len(MODIFIERS) == 6


def test_an_unchanged_text_is_the_same_object() -> None:
    text = "Nothing to do here, café and all.\n\nReally."
    assert all(modify(text) is text for modify in MODIFIERS.values())


PIECES = st.sampled_from(
    [
        "a",
        "*",
        "**",
        "_",
        "[",
        "](",
        ")",
        "\n",
        "\r\n",
        '"',
        "http://",
        "WWW.",
        " ",
        "&lt;",
        "<",
        "Ã©",
        "é",
        "\x7f",
        "’",
    ]
)
TEXTS = st.lists(PIECES, max_size=25).map("".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_guards_change_nothing(text: str) -> None:
    marked = "\n".join(_plain_markdown(line) for line in text.split("\n"))
    assert MODIFIERS["markdown"](text) == marked
    once = re.sub(r"(\n){3,}", "\n\n", text)
    assert MODIFIERS["newlines"](text) == re.sub(r"(\r\n){3,}", "\r\n\r\n", once)
    assert MODIFIERS["urls"](text) == re.sub(r"(?i)https?://\S+|www\.\S+", "", text)


def _plain_markdown(line: str) -> str:
    for pattern in (r"\*\*(.*?)\*\*", r"\*(.*?)\*", r"_(.*?)_", r"\[.*?\]\((.*?)\)"):
        line = re.sub(pattern, r"\1", line)
    return line


@settings(max_examples=300, deadline=None)
@given(st.one_of(TEXTS, st.text(max_size=20)))
def test_unicode_is_repaired_as_ftfy_does(text: str) -> None:
    ftfy = pytest.importorskip("ftfy")
    config = ftfy.TextFixerConfig(
        fix_latin_ligatures=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_line_breaks=False,
        normalization=None,
    )
    assert MODIFIERS["unicode"](text) == ftfy.fix_text(text, config)


def test_an_unknown_modifier_is_refused() -> None:
    with pytest.raises(PipelineError, match="no modifier 'beauty'"):
        ModifierStage(text_field="text", modifiers=["beauty"])


def test_the_benchmark_modifies_and_counts(tmp_path: Path) -> None:
    lines = [
        '{"text": "a **b**", "n": 1}',
        '{"text":  "plain"}',
        '{"n": 3}',
        '{"text": "x www.y.z\\n\\n\\n\\nend"}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    words = ("--benchmark-results-path", tmp_path / "r", "--input-path", tmp_path / "in.jsonl")
    ran = subprocess.run(
        [sys.executable, *map(str, (SCRIPT, *words, "--output-path", tmp_path / "out"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "out" / "in.jsonl").read_text().splitlines()
    assert written == ['{"text":"a b","n":1}', lines[1], '{"text":"x \\n\\nend"}']
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert (metrics["num_input_documents"], metrics["num_output_documents"]) == (4, 3)
    assert (metrics["num_modified"], metrics["num_modified_newlines"], metrics["num_rejected"]) == (2, 1, 1)

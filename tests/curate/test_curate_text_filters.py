"""Heuristic filters: values worked out by hand, and plain code that looks at one text at a time."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.curate import PipelineError
from paceline.curate.text_filters import HEURISTIC_FILTERS, Filter, ScoreFilterStage, judge
from paceline.curate.text_scores import TextScorer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

GOLDEN = [
    # 10 characters, of which a b c 1 . \n are plain: 4 others
    ("non_alpha_numeric", "ab c#1.\n-ü", 0.4),
    # ## is one run in two characters (0.5, not more), # one in one, ... is an ellipsis: 2 of 5 words
    ("symbol_to_word", "a ## # ... b#", 0.4),
    ("numbers", "a1b2c3d٤", 0.5),
    # 8 and 17 of 30 characters; the space ends the address
    ("urls", 'go https://ab.cd/e?f=1%20(x) "', 25 / 30),
    ("white_space", "a b\tc\nd\x0be", 3 / 9),
    ("parentheses", "(a)[b]{c}⟨d⟩", 8 / 12),
    ("boilerplate", "Text.\n\nOur PRIVACY POLICY\n\nMore", 1 / 3),
    ("boilerplate", "Text.\n\nLorem Ipsum dolor", 1.0),
    ("boilerplate", "Privacy matters; a cookie too", 0.0),
    # a, b, a, c without the blank line: 3 of 4
    ("repeated_lines", "a\nb\n\n \na\nc", 3 / 4),
    ("repeated_paragraphs", "a\n\nb\n\na\n\na", 2 / 4),
    # aaaa once and b: 5 of 9 characters
    ("repeated_lines_char", "aaaa\nb\naaaa", 5 / 9),
    ("repeated_paragraphs_char", "aaaa\n\nb\n\naaaa", 5 / 9),
    ("word_count", " one two\nthree\u00a0four ", 4),
    # ends with . and " count; "no" and "; " do not
    ("punctuation", 'Yes. \nno\n"quote"\nmaybe;', 2 / 4),
    ("common_words", "the The of, of and", 3),
    ("mean_word_length", "a bbb cc", 2.0),
    ("longest_word", "a bbb cc", 3),
    # a1 and é have letters, 12 and -- have none
    ("words_with_letters", "a1 12 é --", 0.5),
    ("ellipsis", "one...\ntwo… \nRead More\nfour.", 3 / 4),
    ("bullets", "• a\n  ● b\nc\n- d", 2 / 4),
    # "a b" twice: 6 of 11 characters
    ("top_2_grams", "a b c a b d", 6 / 11),
    ("top_3_grams", "a b c x a b c", 10 / 13),
    ("top_4_grams", "a b c d x a b c d", 14 / 17),
    # no pair twice: the first one counts
    ("top_2_grams", "aa b c", 4 / 6),
    # five words again: 5 letters and 4 spaces of 21 characters
    ("duplicate_5_grams", "a b c d e x a b c d e", 9 / 21),
    # six words again: the first 5-gram adds 9, the second one word and its space
    ("duplicate_5_grams", "a b c d e f a b c d e f", 11 / 23),
    ("duplicate_6_grams", "a b c d e f a b c d e f", 11 / 23),
    ("duplicate_7_grams", "a b c d e f a b c d e f", 0.0),
    ("duplicate_8_grams", "a b c d e f g", 1.0),
    ("duplicate_9_grams", "a " * 10, 18 / 20 - 1 / 20),
    ("duplicate_10_grams", "a b c d e f g h i j " * 2, 19 / 40),
]


@pytest.mark.parametrize(("name", "text", "expected"), GOLDEN)
def test_scores_worked_out_by_hand(name: str, text: str, expected: float) -> None:
    assert TextScorer().score([text])[name][0] == pytest.approx(expected, abs=1e-12)


def test_every_filter_has_a_value_by_hand() -> None:
    assert {one.score for one in HEURISTIC_FILTERS} == {name for name, _, _ in GOLDEN}
    assert len(HEURISTIC_FILTERS) == 28


def plain_top(text: str, size: int) -> float:
    words = text.split()
    if len(words) < size:
        return 1.0
    grams = [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
    counts = Counter(grams)
    spelled = " ".join(max(grams, key=lambda gram: counts[gram]))
    return (len(text) - len(text.replace(spelled, ""))) / len(text)


def plain_duplicates(text: str, size: int) -> float:
    words = text.split()
    if len(words) < size:
        return 1.0
    covered: set[int] = set()
    seen: set[tuple[str, ...]] = set()
    total = 0
    for at in range(len(words) - size + 1):
        gram = tuple(words[at : at + size])
        if gram in seen:
            new = [place for place in range(at, at + size) if place not in covered]
            total += sum(len(words[place]) for place in new) + min(len(new), size - 1)
            covered.update(new)
        seen.add(gram)
    return total / len(text)


TEXTS = st.lists(
    st.lists(
        st.sampled_from(["a", "bb", "the", "of", "...", "##", "é", "\n", "\n\n", "7", "•", "(x)", "日"]),
        max_size=40,
    )
    .map(" ".join)
    .map(lambda text: text.replace(" \n", "\n")),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_texts_together_score_as_plain_code_scores_each(texts: list[str]) -> None:
    scores = TextScorer().score(texts)
    for place, text in enumerate(texts):
        words, size = text.split(), len(text)
        found = {name: values[place] for name, values in scores.items()}
        assert found["word_count"] == len(words)
        assert found["numbers"] == pytest.approx(sum(map(str.isdecimal, text)) / size if size else 1.0)
        plain = re.sub("[a-zA-Z0-9\n?!,.]", "", text)
        assert found["non_alpha_numeric"] == pytest.approx(len(plain) / size if size else 1.0)
        lines = [line for line in text.split("\n") if line.strip()]
        assert found["repeated_lines"] == pytest.approx(len(set(lines)) / len(lines) if lines else 0.0)
        for length in (2, 3, 4):
            assert found[f"top_{length}_grams"] == pytest.approx(plain_top(text, length))
        for length in range(5, 11):
            assert found[f"duplicate_{length}_grams"] == pytest.approx(plain_duplicates(text, length))


@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_text_has_finite_scores_and_nothing_is_no_document(texts: list[str]) -> None:
    scores = TextScorer().score([*texts, "", " \n\t"])
    assert all(0 <= value < 1e6 for values in scores.values() for value in values)
    kept, _ = judge(scores, HEURISTIC_FILTERS)
    assert not kept[-2:].any()
    for name in (
        "non_alpha_numeric",
        "urls",
        "parentheses",
        "repeated_lines",
        "punctuation",
        "words_with_letters",
    ):
        one = next(item for item in HEURISTIC_FILTERS if item.score == name)
        assert not judge({name: scores[name][-2:-1]}, [one])[0].any()


def test_limits_are_included_and_the_first_filter_that_fails_is_counted() -> None:
    scores = TextScorer().score(["a b c", "a b", "a"])
    filters = [Filter(score="word_count", low=2), Filter(score="word_count", low=2, high=2)]
    kept, dropped = judge(scores, filters)
    assert kept.tolist() == [False, True, False] and dropped == {"word_count": 1}


def test_an_unknown_score_is_refused() -> None:
    with pytest.raises(PipelineError, match="no score 'beauty'"):
        ScoreFilterStage(text_field="text", filters=[Filter(score="beauty")])


def test_the_benchmark_keeps_what_passes(tmp_path: Path) -> None:
    names = [f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(120)]
    good = "\n".join(f"The {' of '.join(names[at : at + 6])} and all." for at in range(0, 120, 6))
    documents = [{"text": good}, {"text": "too short."}, {"text": "buy now " * 100}, {"text": 5}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    script = BENCHMARKS / "scripts" / "score_filter_benchmark.py"
    words_given = ("--benchmark-results-path", tmp_path / "r", "--input-path", tmp_path / "in.jsonl")
    ran = subprocess.run(
        [
            sys.executable,
            *map(str, (script, *words_given, "--output-path", tmp_path / "out", "--add-scores")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    left = [json.loads(line) for line in (tmp_path / "out" / "in.jsonl").read_text().splitlines()]
    assert [one["text"] for one in left] == [documents[0]["text"]] and left[0]["word_count"] > 100
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert (metrics["num_input_documents"], metrics["num_output_documents"], metrics["num_rejected"]) == (
        4,
        1,
        1,
    )
    assert metrics["num_removed"] == 2 and metrics["num_removed_word_count"] == 1

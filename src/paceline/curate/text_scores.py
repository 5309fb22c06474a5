"""The figures that heuristic filters judge a text by, all from one pass over it.

Characters are counted from one histogram of the text's bytes, words are split once and known by number from then on,
lines and paragraphs are split once. The definitions are those of the Gopher and C4 papers as common curation libraries
have them; a text without words, lines or characters scores so that the filters drop it.
"""

import re
from array import array
from collections.abc import Sequence
from itertools import chain
from unicodedata import category

import numpy as np
import numpy.typing as npt

from paceline.curate.text_ngrams import Repeats, WordRows, find_repeats, repeated_characters

Scores = dict[str, npt.NDArray[np.float64]]
# Texts that are scored together: enough to make numpy worthwhile, few enough for the cache.
GROUP_CHARACTERS = 400_000
MAX_WORDS = 500_000

URL = re.compile(r"https?://(?:[A-Za-z0-9$_@.&+/:=?#~!*(),-]|%[0-9A-Fa-f]{2})+")
HASHES = re.compile("#+")
NOT_ASCII = re.compile("[^\x00-\x7f]+")
END_MARKS = (".", "?", "!", '"', "'")
ELLIPSIS_WORDS = frozenset(("...", "[...]", "…", "(...)", "[…]", "-»"))
ELLIPSIS_ENDS = (*ELLIPSIS_WORDS, "read more..", "read more")
BULLETS = tuple("•‣⁃⁌⁍∙○●◘◦⦾⦿")
COMMON_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
FILLER = "lorem ipsum"
# What site policies and cookie notices say; the long ones are told by their openings.
POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "privacy overview",
    "use of cookies",
    "use cookies",
    "privacy & cookies policy",
    "privacy and cookies policy",
    "necessary cookies are absolutely essential for the website",
    "any cookies that may not be particularly necessary for the website",
    "if you continue to browse this site without changing your cookie settings",
)
# None of the policies can be in a text that has none of these.
POLICY_ROOTS = ("terms of use", "privacy", "cookie")
TOP_SIZES = (2, 3, 4)
DUPLICATE_SIZES = (5, 6, 7, 8, 9, 10)

_BYTE_CLASSES = np.zeros((4, 256), dtype=np.int64)
_BYTE_CLASSES[0, list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\n?!,.")] = 1
_BYTE_CLASSES[1, list(b"0123456789")] = 1
_BYTE_CLASSES[2, list(b"\t\n\r\b ")] = 1
_BYTE_CLASSES[3, list(b"{}[]()")] = 1

_ALPHABETIC, _SYMBOL, _COMMON = 1, 2, 4


class _Vocabulary(dict[str, int]):
    """Words by number, with what is to be known of each; looked at only when a word is new."""

    def __init__(self) -> None:
        self.lengths = array("q")
        self.traits = array("b")

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.lengths)
        self.lengths.append(len(word))
        self.traits.append(_traits(word))
        return number


def _traits(word: str) -> int:
    symbols = len(HASHES.findall(word)) / len(word) > 0.5
    found = _ALPHABETIC if word.isalpha() or any(map(_is_alphabetic, word)) else 0
    found |= _SYMBOL if symbols or word in ELLIPSIS_WORDS else 0
    return found | (_COMMON if word in COMMON_WORDS else 0)


def _is_alphabetic(character: str) -> bool:
    return character.isalpha() or category(character) == "Nl"


class TextScorer:
    """Scores texts; keeps the numbers of words between calls, up to a bound."""

    def __init__(self) -> None:
        self._vocabulary = _Vocabulary()

    def score(self, texts: Sequence[str]) -> Scores:
        """All scores by name, an array of one value a text."""
        parts = [self._score_group(texts[begin:end]) for begin, end in _groups(texts)]
        if not parts:
            return self._score_group([])
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _score_group(self, texts: Sequence[str]) -> Scores:
        if len(self._vocabulary) > MAX_WORDS:
            self._vocabulary = _Vocabulary()
        sizes = np.array([len(text) for text in texts], dtype=np.int64)
        return {
            **_score_characters(texts, sizes),
            **_score_lines(texts, sizes),
            **self._score_words(texts, sizes),
        }

    def _score_words(self, texts: Sequence[str], sizes: npt.NDArray[np.int64]) -> Scores:
        split = [text.split() for text in texts]
        words = list(chain.from_iterable(split))
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(some) for some in split], out=starts[1:])
        numbers = np.fromiter(map(self._vocabulary.__getitem__, words), dtype=np.int64, count=len(words))
        traits = np.array(self._vocabulary.traits, dtype=np.int8)[numbers]
        lengths = np.array(self._vocabulary.lengths, dtype=np.int64)[numbers]
        rows = WordRows(words=numbers, lengths=lengths, starts=starts)
        counts = np.diff(starts)
        return {
            "word_count": counts.astype(np.float64),
            "symbol_to_word": _share(_total((traits & _SYMBOL) > 0, starts), counts),
            "words_with_letters": _share(_total((traits & _ALPHABETIC) > 0, starts), counts, empty=0.0),
            "common_words": _total((traits & _COMMON) > 0, starts),
            "mean_word_length": _share(_total(lengths, starts), counts, empty=0.0),
            "longest_word": _longest(lengths, starts),
            **_score_repeats(texts, words, rows, sizes),
        }


def _groups(texts: Sequence[str]) -> list[tuple[int, int]]:
    found, begin, held = [], 0, 0
    for place, text in enumerate(texts):
        held += len(text)
        if held >= GROUP_CHARACTERS:
            found.append((begin, place + 1))
            begin, held = place + 1, 0
    if begin < len(texts):
        found.append((begin, len(texts)))
    return found


def _share(
    part: npt.NDArray[np.float64], whole: npt.NDArray[np.int64], *, empty: float = 1.0
) -> npt.NDArray[np.float64]:
    """`part / whole`, and `empty` where there is nothing to take a share of."""
    return np.where(whole > 0, part / np.maximum(whole, 1), empty)


def _total(values: npt.NDArray[np.generic], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return (sums[starts[1:]] - sums[starts[:-1]]).astype(np.float64)


def _longest(lengths: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    found = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        found[filled] = np.maximum.reduceat(lengths, starts[filled])
    return found


def _score_characters(texts: Sequence[str], sizes: npt.NDArray[np.int64]) -> Scores:
    counts = np.zeros((len(texts), 4), dtype=np.int64)
    urls = np.zeros(len(texts))
    for place, text in enumerate(texts):
        encoded = text.encode("utf-8", "surrogatepass")
        histogram = np.bincount(np.frombuffer(encoded, dtype=np.uint8), minlength=256)
        counts[place] = _BYTE_CLASSES @ histogram
        if len(encoded) != len(text):
            for run in NOT_ASCII.findall(text):
                counts[place, 1] += sum(map(str.isdecimal, run))
                counts[place, 3] += run.count("⟨") + run.count("⟩")
        if "http" in text:
            urls[place] = sum(map(len, URL.findall(text)))
    plain, digits, spaces, brackets = counts.T.astype(np.float64)
    return {
        "non_alpha_numeric": _share(sizes - plain, sizes),
        "numbers": _share(digits, sizes),
        "urls": _share(urls, sizes),
        "white_space": _share(spaces, sizes),
        "parentheses": _share(brackets, sizes),
    }


LINE_SCORES = (
    "boilerplate",
    "repeated_lines",
    "repeated_paragraphs",
    "repeated_lines_char",
    "repeated_paragraphs_char",
    "punctuation",
    "ellipsis",
    "bullets",
)


def _score_lines(texts: Sequence[str], sizes: npt.NDArray[np.int64]) -> Scores:
    table = np.zeros((len(texts), len(LINE_SCORES)))
    for place, text in enumerate(texts):
        table[place] = _line_scores(text)
    return dict(zip(LINE_SCORES, table.T, strict=True))


def _line_scores(text: str) -> tuple[float, ...]:
    paragraphs = text.split("\n\n")
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if not lines:
        return 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0
    stripped = [line.strip() for line in lines]
    count = len(lines)
    return (
        _boilerplate(text, paragraphs),
        *_distinct_shares(lines, paragraphs),
        sum(not line.endswith(END_MARKS) for line in stripped) / count,
        sum(line.lower().endswith(ELLIPSIS_ENDS) for line in stripped) / count,
        sum(line.startswith(BULLETS) for line in stripped) / count,
    )


def _distinct_shares(lines: list[str], paragraphs: list[str]) -> tuple[float, float, float, float]:
    """Lines and paragraphs without repeats: by number, then by characters."""
    once, whole = set(lines), set(paragraphs)
    return (
        len(once) / len(lines),
        len(whole) / len(paragraphs),
        1.0 if len(once) == len(lines) else sum(map(len, once)) / sum(map(len, lines)),
        1.0 if len(whole) == len(paragraphs) else sum(map(len, whole)) / sum(map(len, paragraphs)),
    )


def _boilerplate(text: str, paragraphs: list[str]) -> float:
    """The share of paragraphs with a site policy; 1 for filler text."""
    lower = text.lower()
    if FILLER in lower:
        return 1.0
    if not any(root in lower for root in POLICY_ROOTS):
        return 0.0
    return sum(is_boilerplate(paragraph) for paragraph in paragraphs) / len(paragraphs)


def is_boilerplate(paragraph: str) -> bool:
    """Whether a paragraph speaks of a site's policies."""
    lower = paragraph.strip().lower()
    return any(policy in lower for policy in POLICIES)


def _score_repeats(
    texts: Sequence[str], words: list[str], rows: WordRows, sizes: npt.NDArray[np.int64]
) -> Scores:
    scores: Scores = {}
    counts = np.diff(rows.starts)
    for repeats in find_repeats(rows, DUPLICATE_SIZES[-1]):
        size = repeats.size
        if size in TOP_SIZES:
            scores[f"top_{size}_grams"] = _top_shares(texts, words, repeats, sizes)
        else:
            shares = _share(repeated_characters(rows, repeats), sizes)
            scores[f"duplicate_{size}_grams"] = np.where(counts >= size, shares, 1.0)
    return scores


def _top_shares(
    texts: Sequence[str], words: list[str], repeats: Repeats, sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The share of the text that is its commonest n-gram, spelled with single spaces."""
    found = np.ones(len(texts))
    for place, top in enumerate(repeats.tops.tolist()):
        if top >= 0:
            spelled = " ".join(words[top : top + repeats.size])
            found[place] = texts[place].count(spelled) * len(spelled) / sizes[place]
    return found

"""The heuristic filters and text modifiers written plainly: a function a score, each with its own look at the text.

This is how they are mostly applied: a pandas `apply` a filter, then a mask. It is the reference that the one-pass
scores are compared with, in results and in time.
"""

import re
from collections import Counter
from collections.abc import Callable

import ftfy

from paceline.curate.text_scores import (
    BULLETS,
    COMMON_WORDS,
    ELLIPSIS_ENDS,
    ELLIPSIS_WORDS,
    END_MARKS,
    POLICIES,
    URL,
)

Score = Callable[[str], float]
PLAIN = re.compile("[a-zA-Z0-9\n?!,.]")
DIGIT = re.compile(r"\d")
BRACKET = re.compile(r"[{}⟨⟩\[\]()]")
LETTER = re.compile(r"[^\W\d_]")
REPAIR = ftfy.TextFixerConfig(
    fix_latin_ligatures=False,
    fix_character_width=False,
    uncurl_quotes=False,
    fix_line_breaks=False,
    normalization=None,
)


def lines_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def symbol_share(text: str) -> float:
    words = text.split()
    marked = [w for w in words if w in ELLIPSIS_WORDS or len(re.findall("#+", w)) / len(w) > 0.5]
    return len(marked) / len(words)


def boilerplate_share(text: str) -> float:
    paragraphs = [paragraph.strip().lower() for paragraph in text.split("\n\n")]
    if any("lorem ipsum" in paragraph for paragraph in paragraphs):
        return 1.0
    return sum(any(policy in paragraph for policy in POLICIES) for paragraph in paragraphs) / len(paragraphs)


def top_share(size: int) -> Score:
    def score(text: str) -> float:
        words = text.split()
        grams = list(zip(*(words[at:] for at in range(size)), strict=False))
        if not grams:
            return 1.0
        counts = Counter(grams)
        spelled = " ".join(max(grams, key=lambda gram: counts[gram]))
        return (len(text) - len(text.replace(spelled, ""))) / len(text)

    return score


def duplicate_share(size: int) -> Score:
    def score(text: str) -> float:
        words = text.split()
        grams = list(zip(*(words[at:] for at in range(size)), strict=False))
        if not grams:
            return 1.0
        seen: set[tuple[str, ...]] = set()
        characters = overlap = 0
        for gram in grams:
            if gram in seen:
                characters += sum(len(word) for word in gram[overlap:]) + min(size - overlap, size - 1)
                overlap = size
            seen.add(gram)
            overlap = max(overlap - 1, 0)
        return characters / len(text)

    return score


def distinct_characters(parts: list[str]) -> float:
    return len("".join(set(parts))) / len("".join(parts))


SCORES: dict[str, Score] = {
    "non_alpha_numeric": lambda text: (len(text) - len(PLAIN.findall(text))) / len(text),
    "symbol_to_word": symbol_share,
    "numbers": lambda text: len(DIGIT.findall(text)) / len(text),
    "urls": lambda text: sum(len(url) for url in URL.findall(text)) / len(text),
    "white_space": lambda text: len([one for one in text if one in "\t\n\r\b "]) / len(text),
    "parentheses": lambda text: len(BRACKET.findall(text)) / len(text),
    "boilerplate": boilerplate_share,
    "repeated_lines": lambda text: len(set(lines_of(text))) / len(lines_of(text)),
    "repeated_paragraphs": lambda text: len(set(text.split("\n\n"))) / len(text.split("\n\n")),
    "repeated_lines_char": lambda text: distinct_characters(lines_of(text)),
    "repeated_paragraphs_char": lambda text: distinct_characters(text.split("\n\n")),
    "word_count": lambda text: len(text.split()),
    "punctuation": lambda text: (
        len([line for line in lines_of(text) if not line.strip().endswith(END_MARKS)]) / len(lines_of(text))
    ),
    "common_words": lambda text: sum(word in COMMON_WORDS for word in text.split()),
    "mean_word_length": lambda text: sum(len(word) for word in text.split()) / len(text.split()),
    "longest_word": lambda text: max(len(word) for word in text.split()),
    "words_with_letters": lambda text: (
        sum(bool(LETTER.search(word)) for word in text.split()) / len(text.split())
    ),
    "ellipsis": lambda text: (
        sum(line.strip().lower().endswith(ELLIPSIS_ENDS) for line in lines_of(text)) / len(lines_of(text))
    ),
    "bullets": lambda text: (
        sum(line.strip().startswith(BULLETS) for line in lines_of(text)) / len(lines_of(text))
    ),
    **{f"top_{size}_grams": top_share(size) for size in (2, 3, 4)},
    **{f"duplicate_{size}_grams": duplicate_share(size) for size in range(5, 11)},
}


def drop_boilerplate(text: str) -> str:
    paragraphs = text.split("\n\n")
    marked = []
    for place, paragraph in enumerate(paragraphs):
        lower = paragraph.strip().lower()
        if "lorem ipsum" in lower:
            return ""
        if any(policy in lower for policy in POLICIES):
            marked.append(place)
    runs = marked == list(range(marked[0], marked[-1] + 1)) if marked else False
    at_an_end = runs and (marked[0] == 0 or marked[-1] == len(paragraphs) - 1)
    if not at_an_end or len(marked) == len(paragraphs):
        return text
    return "\n\n".join(paragraph for place, paragraph in enumerate(paragraphs) if place not in marked)


def drop_markdown(text: str) -> str:
    lines = text.split("\n")
    for pattern in (r"\*\*(.*?)\*\*", r"\*(.*?)\*", r"_(.*?)_", r"\[.*?\]\((.*?)\)"):
        lines = [re.sub(pattern, r"\1", line) for line in lines]
    return "\n".join(lines)


def drop_quotes(text: str) -> str:
    quoted = len(text.strip()) > 2 and text[0] == text[-1] == '"'
    return text[1:-1] if quoted and ("\n" not in text or text.split("\n")[0][-1] != '"') else text


CHANGES: dict[str, Callable[[str], str]] = {
    "boilerplate": drop_boilerplate,
    "markdown": drop_markdown,
    "newlines": lambda text: re.sub(r"(\r\n){3,}", "\r\n\r\n", re.sub(r"(\n){3,}", "\n\n", text)),
    "quotes": drop_quotes,
    "unicode": lambda text: ftfy.fix_text(text, REPAIR),
    "urls": lambda text: re.sub(r"https?://\S+|www\.\S+", "", text, flags=re.IGNORECASE),
}

"""AIME: whether the answer's integer is the right one."""

import re
from collections.abc import Sequence

from paceline.evals.scorers import ScoreError

_BOXED = re.compile(r"\\boxed\s*\{")
_STATED = re.compile(r"answer\s*(?:is|=|:)\s*:?\s*\$?\s*(\d[\d,]*)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:,\d{3})*")
_IN_BOX = re.compile(r"\\[,;! ]|\\text\s*|[\s,${}]")


def right(prediction: str, references: Sequence[str]) -> float:
    """1 if the integer that the answer ends in equals a reference, whatever zeros either begins with."""
    found = extract(prediction)
    return float(found is not None and found in {_reference(reference) for reference in references})


def extract(prediction: str) -> int | None:
    """The last box, else the last "answer is …", else the last number; None if there is no number."""
    box = last_box(prediction)
    if box is not None:
        plain = _IN_BOX.sub("", box)
        return int(plain) if plain.isascii() and plain.isdigit() else _last_number(box)
    stated = _STATED.findall(prediction)
    return _integer(stated[-1]) if stated else _last_number(prediction)


def last_box(text: str) -> str | None:
    r"""What the last whole \boxed{…} holds, braces within it included."""
    for found in reversed(list(_BOXED.finditer(text))):
        depth = 1
        for place in range(found.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if not depth:
                return text[found.end() : place]
    return None


def _last_number(text: str) -> int | None:
    found = _NUMBER.findall(text)
    return _integer(found[-1]) if found else None


def _integer(digits: str) -> int:
    return int(digits.replace(",", ""))


def _reference(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ScoreError(f"AIME's answers are integers, which {text!r} is not") from error

"""The problems of the AIME, two contests a year of fifteen problems each; answers are integers from 0 to 999."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import Row, read_hub
from paceline.evals.benchmarks.scores import ScoreError
from paceline.evals.interfaces import Sample

_BOXED = re.compile(r"\\f?boxed\s*\{|\\fbox\s*\{")
_STATED = re.compile(
    r"(?:answer|solution|result)\s*(?:is|equals|=|:)\s*:?\s*(?:\\\(|\$|\*)*\s*(\d[\d,]*)", re.IGNORECASE
)
_NUMBER = re.compile(r"\d+(?:,\d{3})*")
_AROUND = re.compile(r"\^?\s*\{?\\circ\}?|\\[,;!() ]|\\text\s*\{[^}]*\}|\\boxed|[\s,${}°]")
"""What stands around a number: degrees, spaces, commas, words in LaTeX."""


_TASK = "Solve the problem. Its answer is an integer from 0 to 999; put it into \\boxed{}."
_BUDGET = 32_000


def right(prediction: str, references: Sequence[str]) -> float:
    """1 if the integer that the answer ends in equals a reference, whatever zeros either begins with."""
    found = extract(prediction)
    return float(found is not None and found in {_reference(reference) for reference in references})


def extract(prediction: str) -> int | None:
    """The last box, else the last "answer is …", else the last number; None if there is no number."""
    box = last_box(prediction)
    if box is not None:
        value = _value(box)
        return _last_number(box) if value is None else int(value) if value.is_integer() else None
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


def _value(text: str) -> float | None:
    """The number that a text is, whatever is written around it: `023`, `23.0`, `$1{,}023$`, `336^\\circ`."""
    plain = _AROUND.sub("", text)
    try:
        return float(plain) if plain[:1].isdigit() else None
    except ValueError:
        return None


def _reference(text: str) -> int:
    """A published answer; some files have a list of one, written as Python does."""
    found = _value(text.strip().removeprefix("[").removesuffix("]").strip("'\""))
    if found is None or not found.is_integer():
        raise ScoreError(f"AIME's answers are integers, which {text!r} is not")
    return int(found)


class Aime2024(DatasetBenchmark):
    """Accuracy; beside it, how many answers hold an integer at all, and how many hold a box.

    The American Invitational Mathematics Examination of the Mathematical Association of America, I and II. There is no
    published prompt: rows with a `problem` and an `answer` are asked with ours.
    """

    name: ClassVar[str] = "aime2024"
    hub: ClassVar[str] = "xAlg-AI/att-hub-aime2024"
    parts: ClassVar[tuple[str, ...]] = ("aime2024",)
    primary: ClassVar[str] = "accuracy"

    published_by: ClassVar[str] = "problem"

    def published(self, row: Row, part: str) -> list[Sample]:
        return [
            Sample(
                id="",
                context=f"{_TASK}\n\nProblem: {row.text('problem').strip()}\n\n",
                question="What is the answer?",
                references=self.references(row, part),
                max_new_tokens=_BUDGET,
            )
        ]

    def read_hub(self, part: str, revision: str) -> list[Row]:
        return read_hub(self.hub, None, "test", revision)

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {
            "accuracy": right(text, sample.references),
            "extraction_rate": float(extract(text) is not None),
            "boxed_rate": float(last_box(text) is not None),
        }


class Aime2025(Aime2024):
    """As for 2024."""

    name: ClassVar[str] = "aime2025"
    hub: ClassVar[str] = "xAlg-AI/att-hub-aime2025"
    parts: ClassVar[tuple[str, ...]] = ("aime2025",)

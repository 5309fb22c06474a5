"""InfiniteBench: twelve tasks on contexts of 100,000 tokens and more."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import DataError, Row
from paceline.evals.benchmarks.scores import ScoreError, qa_f1, qa_f1_characters, rouge_lsum
from paceline.evals.interfaces import Sample

_CALL = re.compile(r"(func_[0-9]+)\(-?[0-9]+\)")
_TARGET = re.compile(r"(The .+) of")
_INTEGER = re.compile("[0-9]+")
_NUMBER = re.compile(r"\d+\.\d+|\d+")
_LAST_OF_TEN = re.compile(r"\b[A-J]\b(?!.*\b[A-J]\b)")
_LAST_OF_FOUR = re.compile(r"\b[A-D]\b(?!.*\b[A-D]\b)")


def score(task: str, prediction: str, references: Sequence[str]) -> float:
    """The score of one answer."""
    if task not in METRICS:
        raise ScoreError(f"InfiniteBench has no task {task!r}")
    if not references:
        raise ScoreError(f"InfiniteBench {task}: a sample without an answer")
    return float(METRICS[task](prediction, references))


def first_integer(prediction: str, references: Sequence[str]) -> bool:
    """Whether the first digits of the answer are the right ones."""
    found = _INTEGER.search(prediction)
    return found is not None and found.group() == references[0]


def holds_value(prediction: str, references: Sequence[str]) -> bool:
    """Whether the value is a word of the answer."""
    return references[0] in _spaced(prediction, "\n:\"'.,?!{}").split()


def last_integer(prediction: str, references: Sequence[str]) -> bool:
    """Whether the last word of the answer is the right integer."""
    words = _spaced(prediction.strip(), "\n.`'\":").split()
    wanted = _integer(references[0])
    if wanted is None:
        raise ScoreError(f"code_run: {references[0]!r} is no integer")
    return bool(words) and _integer(words[-1]) == wanted


def first_number(prediction: str, references: Sequence[str]) -> bool:
    """Whether the first number of the answer has the right value; math_find has integers and fractions."""
    found = _NUMBER.search(prediction)
    try:
        return found is not None and float(found.group()) == float(references[0])
    except ValueError as error:
        raise ScoreError(f"math_find: {references[0]!r} is no number") from error


def debugged_option(prediction: str, references: Sequence[str]) -> bool:
    """Whether the last lone letter, or what follows on a phrase such as "answer is:", is the right option.

    References are the function's name and its letter, or the letter alone.
    """
    prediction, letter = prediction.strip(), references[-1]
    found = _LAST_OF_TEN.search(prediction)
    if found and found.group() == letter:
        return True
    plain = _squeezed(_without(_spaced(prediction, "\n`'\"-*"), ("Option", "option")))
    starts = tuple(dict.fromkeys((letter, references[0])))
    if plain.startswith(starts):
        return True
    after = _after_phrase(plain, ("answer is:", "is:", "answer:", "correct option is:"))
    return after is not None and after.startswith(starts)


def chosen_option(prediction: str, references: Sequence[str]) -> bool:
    """Whether the answer chooses the right letter: its last lone one, its first, or one after such as "answer is"."""
    prediction = prediction.strip()
    found = _LAST_OF_FOUR.search(prediction)
    if found and found.group() in references:
        return True
    if not prediction:
        return False
    if prediction[0] in "ABCD":
        return prediction[0] in references
    return prediction in references or _chosen_later(prediction, references)


def _chosen_later(prediction: str, references: Sequence[str]) -> bool:
    plain = _squeezed(_spaced(prediction, "\n\"'.,?!{}"))
    after = _after_phrase(plain, ("answer is:", "answer:", "answer is", "option is"))
    if after is not None:
        return after.startswith(tuple(references))
    word = next((word for word in plain.split() if word in "ABCD"), None)
    return word is not None and word in references


def names_speaker(prediction: str, references: Sequence[str]) -> bool:
    """Whether the answer holds any of the names, in any case."""
    said = prediction.strip().upper()
    return any(name.upper() in said for name in references)


def calculated_steps(prediction: str, references: Sequence[str]) -> float:
    """The share of intermediate values that are right before the first wrong one."""
    right = 0
    for said, wanted in zip(_INTEGER.findall(prediction), references, strict=False):
        if int(said) != int(wanted):
            break
        right += 1
    return right / len(references)


def _best(metric: Callable[[str, str], float]) -> Callable[[str, Sequence[str]], float]:
    return lambda prediction, references: max(metric(prediction, reference) for reference in references)


def _after_phrase(text: str, phrases: Sequence[str]) -> str | None:
    """What follows one character after the first of the phrases that occurs; None if none does."""
    for phrase in phrases:
        place = text.find(phrase)
        if place >= 0:
            return text[place + len(phrase) + 1 :]
    return None


def _spaced(text: str, marks: str) -> str:
    return text.translate(str.maketrans(marks, " " * len(marks)))


def _without(text: str, words: Sequence[str]) -> str:
    for word in words:
        text = text.replace(word, " ")
    return text


def _squeezed(text: str) -> str:
    return re.sub(" {2,}", " ", text)


def _integer(word: str) -> int | None:
    try:
        return int(word)
    except ValueError:
        return None


METRICS: Mapping[str, Callable[[str, Sequence[str]], float]] = {
    "passkey": first_integer,
    "number_string": first_integer,
    "kv_retrieval": holds_value,
    "code_run": last_integer,
    "code_debug": debugged_option,
    "math_find": first_number,
    "math_calc": calculated_steps,
    "longbook_choice_eng": chosen_option,
    "longbook_qa_eng": _best(qa_f1),
    "longbook_qa_chn": _best(qa_f1_characters),
    "longbook_sum_eng": _best(rouge_lsum),
    "longdialogue_qa_eng": names_speaker,
}


class InfiniteBench(DatasetBenchmark):
    """Each task has its own metric; all give a share between 0 and 1.

    Zhang et al., InfiniteBench: Extending Long Context Evaluation Beyond 100K Tokens, arXiv:2402.13718. The authors
    have templates for each model: name those of `src/prompt.py` that you want.
    """

    name: ClassVar[str] = "infinite_bench"
    hub: ClassVar[str] = "MaxJeblick/InfiniteBench"
    parts: ClassVar[tuple[str, ...]] = tuple(METRICS)
    published_by: ClassVar[str] = "input"
    authors_prompts: ClassVar[str] = "src/prompt.py:yarn_mistral_templates"
    budgets: ClassVar[Mapping[str, int]] = {
        "passkey": 6,
        "number_string": 12,
        "kv_retrieval": 50,
        "code_run": 5,
        "code_debug": 5,
        "math_find": 3,
        "math_calc": 30_000,
        "longbook_sum_eng": 1200,
        **dict.fromkeys(
            ("longbook_choice_eng", "longbook_qa_eng", "longbook_qa_chn", "longdialogue_qa_eng"), 40
        ),
    }

    def published(self, row: Row, part: str) -> list[Sample]:
        asked = row.text("input", "")
        values = {"context": row.text("context"), "input": asked, "question": asked}
        if part == "code_run":
            call = _CALL.search(asked)
            if call is None:
                raise DataError(f"{row.where}: 'input' calls no function such as func_1(2)")
            values |= {"func_call": call.group(), "func": call.group(1)}
        elif part == "math_find":
            target = _TARGET.search(asked)
            if target is None:
                raise DataError(f"{row.where}: 'input' does not say which number is wanted")
            values["prefix"] = f"What is {target.group(1).lower()} in the following list?"
        options = row.texts("options")
        values |= {f"OPTION_{letter}": option for letter, option in zip("ABCD", options, strict=False)}
        return [self.asked(row, part, values, self._right(row, part, options))]

    def _right(self, row: Row, part: str, options: Sequence[str]) -> tuple[str, ...]:
        """The answers; of a choice the option's text and its letter."""
        found = self.references(row, part)
        if part not in ("code_debug", "longbook_choice_eng") or len(found) == 2:
            return found
        if found[0] not in options:
            raise DataError(f"{row.where}: the answer {found[0]!r} is none of its options")
        return found[0], "ABCD"[options.index(found[0])]

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {"score": score(sample.task, text, sample.references)}

"""A context and a question as tokens: the part that all questions share, and the part that is a question's own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.errors import PacelineError
from paceline.evals.interfaces import Sample

Encode = Callable[[str, bool], list[int]]
"""Text → token ids, with or without the tokens that begin a text."""


def split_prompt(
    tokenizer: Any, sample: Sample, *, chat: bool, options: Mapping[str, Any]
) -> tuple[str, str]:
    """What comes before the question, context included, and the question with all after it."""
    if not chat:
        return sample.context, sample.question + sample.answer_prefix
    mark = _mark(sample)
    messages = [{"role": "user", "content": f"{sample.context}{mark}{sample.question}"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
    before, found, after = text.partition(mark)
    if not found or mark in after:
        raise PacelineError(
            "the model's chat template does not hand on a message as it is; use chat_template: false"
        )
    return before, after + sample.answer_prefix


def _mark(sample: Sample) -> str:
    """Letters that occur in neither text."""
    number = 0
    while (mark := f"<<question {number}>>") in sample.context or mark in sample.question:
        number += 1
    return mark


def cut_middle(ids: Sequence[int], most: int) -> list[int]:
    """At most so many tokens: the first half of them and the last, as LongBench shortens what is too long."""
    if len(ids) <= most:
        return list(ids)
    if most < 1:
        raise PacelineError(
            "no token of the context is left: raise max_context_length or lower max_new_tokens"
        )
    head = (most + 1) // 2
    tail = most - head
    return [*ids[:head], *(ids[-tail:] if tail else ())]

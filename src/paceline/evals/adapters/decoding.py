"""A prompt as tokens, which token comes next, when an answer ends, and how likely given answers are."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.errors import PacelineError
from paceline.evals.adapters.reading import Reading
from paceline.evals.interfaces import Sample

KNOWN = frozenset(
    {
        "max_new_tokens",
        "do_sample",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "stop",
        "chat_template",
        "chat_template_kwargs",
    }
)
_DEFAULT_NEW_TOKENS = 256

Forward = Callable[[Any, Reading, int], Any]
"""(new ids, what was read before them, how many last places) → their scores of all tokens."""

Tail = tuple[Sequence[int], Sequence[int]]
"""The tokens that lead to a continuation, and its own."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How to choose tokens; greedy unless `do_sample`."""

    max_new_tokens: int | None = None
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    chat_template: bool | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def budget(self, own: int | None) -> int:
        """How many tokens an answer may have: the smaller of the user's number and the benchmark's."""
        return min((count for count in (self.max_new_tokens, own) if count), default=_DEFAULT_NEW_TOKENS)


def read_decoding(kwargs: Mapping[str, Any]) -> Decoding:
    """`generation_kwargs`, checked."""
    unknown = sorted(set(kwargs) - KNOWN)
    if "prefill" in unknown:
        raise PacelineError(
            "generation_kwargs has no 'prefill' any more: it is an option of each attention, "
            "such as {name: streaming, maskers: [{kind: streaming}], prefill: sparse}"
        )
    if unknown:
        raise PacelineError(f"generation_kwargs has no {unknown[0]!r}; it takes: {', '.join(sorted(KNOWN))}")
    given = {name: value for name, value in kwargs.items() if value is not None}
    if "stop" in given:
        given["stop"] = (given["stop"],) if isinstance(given["stop"], str) else tuple(given["stop"])
    decoding = Decoding(**given)
    _check(decoding)
    return decoding


def _check(decoding: Decoding) -> None:
    budget = decoding.max_new_tokens
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
        raise PacelineError(f"generation_kwargs.max_new_tokens is to be an integer from 1, not {budget!r}")
    if decoding.do_sample and decoding.temperature <= 0:
        raise PacelineError(
            "generation_kwargs.temperature must be over 0 to sample; leave out do_sample to be greedy"
        )
    if not 0 < decoding.top_p <= 1:
        raise PacelineError(f"generation_kwargs.top_p is to be over 0 and at most 1, not {decoding.top_p!r}")


def next_token(logits: Any, decoding: Decoding, generator: Any, said: Sequence[int]) -> int:
    """The next token of one answer, from the scores of all tokens."""
    logits = logits.float().cpu()
    if decoding.repetition_penalty != 1.0 and said:
        logits = _penalized(logits, decoding.repetition_penalty, said)
    if not decoding.do_sample:
        return int(logits.argmax())
    import torch

    weights = _narrowed((logits / decoding.temperature), decoding).softmax(-1)
    return int(torch.multinomial(weights, 1, generator=generator))


def _penalized(logits: Any, penalty: float, said: Sequence[int]) -> Any:
    import torch

    ids = torch.tensor(sorted(set(said)))
    chosen = logits[ids]
    return logits.scatter(0, ids, torch.where(chosen < 0, chosen * penalty, chosen / penalty))


def _narrowed(logits: Any, decoding: Decoding) -> Any:
    """Tokens that may be drawn: the `top_k` best, within `top_p` of the weight, over `min_p` of the best."""
    import torch

    ordered, order = logits.sort(descending=True, stable=True)
    weights = ordered.softmax(-1)
    keep = (weights.cumsum(-1) - weights) < decoding.top_p
    keep &= weights >= decoding.min_p * weights[0]
    if decoding.top_k:
        keep[decoding.top_k :] = False
    keep[0] = True
    return torch.full_like(logits, -torch.inf).scatter(0, order, ordered.masked_fill(~keep, -torch.inf))


def cut_at(text: str, stops: Collection[str]) -> str | None:
    """The text before the first stop in it; None if there is none."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None


def weigh(forward: Forward, reading: Reading, question: Sequence[int], tail: Tail) -> list[float | bool]:
    """The logarithm of a continuation's probability, and whether it is what greedy decoding would say."""
    import torch

    lead, said = tail
    ids = reading.mask.new_tensor([[*question, *lead, *said[:-1]]])
    scores = forward(ids, reading, len(said))
    found = scores[0].float().log_softmax(-1)
    wanted = torch.tensor(said, device=found.device)
    picked = found.gather(-1, wanted[:, None]).double().sum()
    return [float(picked), bool((found.argmax(-1) == wanted).all())]

"""How likely given continuations are, instead of an answer of the model's own."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

Forward = Callable[[Any, Any, Any, int], Any]
"""(ids, mask, cache, how many last places) → their scores of all tokens."""

Tail = tuple[Sequence[int], Sequence[int]]
"""The tokens that lead to a continuation, and its own."""


def weigh(
    forward: Forward, read: Any, mask: Any, question: Sequence[int], tails: Sequence[Tail]
) -> list[list[float | bool]]:
    """For each continuation the logarithm of its probability, and whether it is what greedy decoding would say."""
    return [_weigh_one(forward, copy.deepcopy(read), mask, [*question, *lead], tail) for lead, tail in tails]


def _weigh_one(
    forward: Forward, cache: Any, mask: Any, question: Sequence[int], tail: Sequence[int]
) -> list[float | bool]:
    import torch

    ids = torch.tensor([[*question, *tail[:-1]]], device=mask.device)
    scores = forward(ids, torch.cat([mask, torch.ones_like(ids)], dim=1), cache, len(tail))
    found = scores[0].float().log_softmax(-1)
    wanted = torch.tensor(tail, device=mask.device)
    picked = found.gather(-1, wanted[:, None]).double().sum()
    return [float(picked), bool((found.argmax(-1) == wanted).all())]

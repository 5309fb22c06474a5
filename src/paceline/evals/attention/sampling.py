"""Rules that draw keys by chance, and say with what chance.

What is drawn depends on the seed, the layer, the head and the places of query and key alone: it is the same with a
cache and without, in any batch, and on every machine.
"""

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from paceline.evals.attention.view import Choice, View, top
from paceline.evals.attention_config import AdaptiveSamplingConfig, RandomSamplingConfig

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

# As signed numbers, which is how torch has them.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_ROUNDS = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)))
_BITS = 24
"""As many as a float32 can tell apart."""
_FEWEST_AT_FIRST = 2
"""Terms that it takes to see a spread at all."""


class RandomSamplingMasker:
    """A share of the keys that are not kept yet, drawn without putting back; one at least."""

    def __init__(self, config: RandomSamplingConfig) -> None:
        self._rate, self._seed = config.sampling_rate, config.seed

    def choose(self, view: View, kept: Tensor) -> Choice:
        candidates = view.visible & ~kept
        rest = candidates.sum(-1, keepdim=True)
        return _drawn(view, candidates, rest, share_of(rest, self._rate, at_least=1), self._seed)


class AdaptiveSamplingMasker:
    """As many keys as bring the softmax's denominator within `epsilon` of its value, with probability 1 - `delta`.

    The spread of the terms is estimated from a first draw of `base_sampling_rate`, two terms at least; how many a sum
    of so many terms needs follows from the normal distribution. The first draw is a part of the final one.
    """

    def __init__(self, config: AdaptiveSamplingConfig) -> None:
        self._rate, self._seed, self._epsilon = config.base_sampling_rate, config.seed, config.epsilon
        self._quantile = NormalDist().inv_cdf(1 - config.delta / 2)

    def choose(self, view: View, kept: Tensor) -> Choice:
        import torch

        candidates = (view.visible & ~kept).expand(*view.shape)
        rest = candidates.sum(-1, keepdim=True)
        first = share_of(rest, self._rate, at_least=_FEWEST_AT_FIRST)
        drawn = _drawn(view, candidates, rest, first, self._seed).keys
        logits = view.logits.float().masked_fill(~view.visible, -torch.inf)
        terms = (logits - logits.amax(-1, keepdim=True)).exp().nan_to_num(0.0)
        mean = (terms * drawn).sum(-1, keepdim=True) / first.clamp(min=1)
        squares = ((terms - mean) ** 2 * drawn).sum(-1, keepdim=True)
        spread = (squares / (first - 1).clamp(min=1)).sqrt()
        total = (terms * (kept & view.visible)).sum(-1, keepdim=True) + rest * mean
        needed = (self._quantile * spread * rest / (self._epsilon * total)).nan_to_num(0.0).double() ** 2
        wanted = torch.maximum(torch.ceil(needed).clamp(max=1e15).long(), first)
        return _drawn(view, candidates, rest, torch.minimum(wanted, rest), self._seed)


def share_of(rest: Tensor, rate: float, *, at_least: int) -> Tensor:
    """A share of so many, rounded down, but not less than this where there are so many."""
    import torch

    return torch.minimum((rest.double() * rate).long().clamp(min=at_least), rest)


def _drawn(view: View, candidates: Tensor, rest: Tensor, wanted: Tensor, seed: int) -> Choice:
    keys = top(-uniform(view, seed), candidates.expand(*view.shape), wanted)
    return Choice(keys=keys, chance=wanted / rest.clamp(min=1))


def uniform(view: View, seed: int) -> Tensor:
    """A number between 0 and 1 for each head, query and key, by hashing what they are."""
    import torch

    device = view.query.device
    heads = torch.arange(view.first_head, view.first_head + view.heads, device=device)[None, :, None, None]
    state = _mixed(torch.tensor(seed * 1_000_003 + view.layer, device=device))
    state = _mixed(_mixed(state + heads) + view.counts)
    return (_mixed(state + view.ranks.long() * _GOLDEN) >> 17 & (1 << _BITS) - 1).float() / (1 << _BITS)


def _mixed(value: Tensor) -> Tensor:
    """The finalizer of SplitMix64 (Steele et al., 2014); int64 wraps around, which is meant."""
    for shift, factor in _ROUNDS:
        value = (value ^ (value >> shift & (1 << 64 - shift) - 1)) * factor
    return value ^ (value >> 31 & (1 << 33) - 1)

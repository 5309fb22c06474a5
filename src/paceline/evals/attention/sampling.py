"""Rules that draw keys by chance, and say with what chance.

What is drawn depends on the seed, the layer, the head and the places of query and key alone: it is the same with a
cache and without, in any batch, and on every machine.
"""

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from paceline.evals.attention.maskers import Choice, View, top
from paceline.evals.attention_config import AdaptiveSamplingConfig, RandomSamplingConfig

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

_MULTIPLIERS = (0x2545F4914F6CDD1D, 0x1B873593CC9E2D51, 0x27220A95FE3B1D4F)
_BITS = 24
"""As many as a float32 can tell apart."""


class RandomSamplingMasker:
    """A share of the keys that are not kept yet, drawn without putting back; one at least."""

    def __init__(self, config: RandomSamplingConfig) -> None:
        self._rate, self._seed = config.sampling_rate, config.seed

    def choose(self, view: View, kept: Tensor) -> Choice:
        candidates = view.visible & ~kept
        rest = candidates.sum(-1, keepdim=True)
        return _drawn(view, candidates, rest, share_of(rest, self._rate), self._seed)


class AdaptiveSamplingMasker:
    """As many keys as bring the softmax's denominator within `epsilon` of its value, with probability 1 - `delta`.

    The spread of the terms is estimated from a first draw of `base_sampling_rate`; how many a sum of so many terms
    needs follows from the normal distribution. The first draw is a part of the final one.
    """

    def __init__(self, config: AdaptiveSamplingConfig) -> None:
        self._rate, self._seed, self._epsilon = config.base_sampling_rate, config.seed, config.epsilon
        self._quantile = NormalDist().inv_cdf(1 - config.delta / 2)

    def choose(self, view: View, kept: Tensor) -> Choice:
        import torch

        candidates = (view.visible & ~kept).expand(view.logits.shape)
        rest = candidates.sum(-1, keepdim=True)
        first = share_of(rest, self._rate)
        drawn = _drawn(view, candidates, rest, first, self._seed).keys
        logits = view.logits.float().masked_fill(~view.visible, -torch.inf)
        terms = (logits - logits.amax(-1, keepdim=True)).exp().nan_to_num(0.0)
        mean = (terms * drawn).sum(-1, keepdim=True) / first.clamp(min=1)
        spread = (((terms - mean) ** 2 * drawn).sum(-1, keepdim=True) / first.clamp(min=1)).sqrt()
        total = (terms * (kept & view.visible)).sum(-1, keepdim=True) + rest * mean
        needed = (self._quantile * spread * rest / (self._epsilon * total)).nan_to_num(0.0).double() ** 2
        wanted = torch.maximum(torch.ceil(needed).clamp(max=1e15).long(), first)
        return _drawn(view, candidates, rest, torch.minimum(wanted, rest), self._seed)


def share_of(rest: Tensor, rate: float) -> Tensor:
    """A share of so many, rounded up: none only of none."""
    import torch

    return torch.ceil(rest.double() * rate).long()


def _drawn(view: View, candidates: Tensor, rest: Tensor, wanted: Tensor, seed: int) -> Choice:
    keys = top(-uniform(view, seed), candidates.expand(view.logits.shape), wanted)
    return Choice(keys=keys, chance=wanted / rest.clamp(min=1))


def uniform(view: View, seed: int) -> Tensor:
    """A number between 0 and 1 for each head, query and key, by hashing what they are."""
    import torch

    device = view.logits.device
    heads = torch.arange(view.logits.shape[1], device=device)[None, :, None, None]
    places = (view.counts() - 1, view.ranks())
    mixed = _mix(torch.tensor(seed * 1_000_003 + view.layer, device=device) + heads * 7919, _MULTIPLIERS[0])
    mixed = _mix(mixed + places[0], _MULTIPLIERS[1])
    mixed = _mix(mixed + places[1], _MULTIPLIERS[2])
    return ((mixed >> 17) & ((1 << _BITS) - 1)).float() / (1 << _BITS)


def _mix(value: Tensor, multiplier: int) -> Tensor:
    """One round of a multiplicative hash; int64 wraps around, which is meant."""
    value = (value + 0x632BE59BD9B4E019) * multiplier
    return value ^ (value >> 29)

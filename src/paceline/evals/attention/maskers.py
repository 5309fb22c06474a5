"""What a masker sees of one layer's attention and what it answers; rules by place and by exact score."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from paceline.evals.attention_config import (
    LocalMaskerConfig,
    OracleTopKConfig,
    OracleTopPConfig,
    SinkMaskerConfig,
    Size,
    StreamingConfig,
)

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One call of one layer. Keys lie in the order of their tokens, those that are padding behind all others.

    Shapes: batch × heads × queries × keys, and the size of a head last in `query` and `key`.
    """

    query: Tensor
    key: Tensor
    logits: Tensor
    """Scaled products of queries and keys, which only oracles and samplers may look at."""
    visible: Tensor
    """Which keys a query may look at at all; one head stands for all."""
    layer: int

    def counts(self) -> Tensor:
        """How many keys each query may look at."""
        return self.visible.sum(-1, keepdim=True)

    def ranks(self) -> Tensor:
        """Each key's place among those that the query may look at, from 0."""
        return self.visible.cumsum(-1) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Keys to keep, and with what chance each was drawn if it was by chance."""

    keys: Tensor
    chance: Tensor | None = None


class Masker(Protocol):
    """Carries out one `MaskerConfig`, of which it is made."""

    def choose(self, view: View, kept: Tensor) -> Choice:
        """The keys to add to those that the maskers before it keep. It may name invisible ones; they stay so."""


def tokens(size: Size, counts: Tensor) -> Tensor:
    """`size_in_tokens` for many counts at once: at least one, at most all."""
    import torch

    wanted = (
        torch.ceil(counts.double() * size).long()
        if isinstance(size, float)
        else torch.full_like(counts, size)
    )
    return torch.minimum(wanted.clamp(min=1), counts)


def top(scores: Tensor, candidates: Tensor, how_many: Tensor) -> Tensor:
    """The best candidates of each query, the earlier key of equals; all candidates where there are not so many."""
    import torch

    ordered = (
        scores.float().masked_fill(~candidates, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    )
    places = torch.empty_like(ordered).scatter_(
        -1, ordered, torch.arange(scores.shape[-1], device=scores.device).expand_as(ordered)
    )
    return (places < how_many) & candidates


class SinkMasker:
    """The first keys."""

    def __init__(self, config: SinkMaskerConfig) -> None:
        self._size = config.sink_size

    def choose(self, view: View, kept: Tensor) -> Choice:
        return Choice(keys=view.ranks() < tokens(self._size, view.counts()))


class LocalMasker:
    """The last keys before each query, itself included."""

    def __init__(self, config: LocalMaskerConfig) -> None:
        self._size = config.window_size

    def choose(self, view: View, kept: Tensor) -> Choice:
        counts = view.counts()
        return Choice(keys=view.ranks() >= counts - tokens(self._size, counts))


class StreamingMasker:
    """The first keys and the last ones."""

    def __init__(self, config: StreamingConfig) -> None:
        self._sink = SinkMasker(SinkMaskerConfig(sink_size=config.sink_size))
        self._local = LocalMasker(LocalMaskerConfig(window_size=config.window_size))

    def choose(self, view: View, kept: Tensor) -> Choice:
        return Choice(keys=self._sink.choose(view, kept).keys | self._local.choose(view, kept).keys)


class OracleTopKMasker:
    """The keys of the highest exact scores among those that are not kept yet."""

    def __init__(self, config: OracleTopKConfig) -> None:
        self._size = config.heavy_size

    def choose(self, view: View, kept: Tensor) -> Choice:
        return Choice(keys=top(view.logits, view.visible & ~kept, tokens(self._size, view.counts())))


class OracleTopPMasker:
    """The fewest keys that hold the share `top_p` of the exact weight that is not kept yet."""

    def __init__(self, config: OracleTopPConfig) -> None:
        self._share = config.top_p

    def choose(self, view: View, kept: Tensor) -> Choice:
        import torch

        candidates = view.visible & ~kept
        logits = view.logits.float().masked_fill(~candidates, torch.finfo(torch.float32).min)
        weights, order = logits.softmax(-1).sort(dim=-1, descending=True, stable=True)
        before = weights.cumsum(-1) - weights
        chosen = torch.zeros_like(candidates).scatter_(-1, order, before < self._share)
        return Choice(keys=chosen & candidates)

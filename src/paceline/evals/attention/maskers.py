"""Rules by place and by exact score."""

from typing import TYPE_CHECKING, Any

from paceline.evals.attention.view import Choice, View, tokens, top
from paceline.evals.attention_config import (
    LocalMaskerConfig,
    OracleTopKConfig,
    OracleTopPConfig,
    SinkMaskerConfig,
    StreamingConfig,
)

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


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

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
        return Choice(keys=view.ranks < tokens(self._size, view.counts))


class LocalMasker:
    """The last keys before each query, itself included."""

    def __init__(self, config: LocalMaskerConfig) -> None:
        self._size = config.window_size

    def choose(self, view: View, kept: Tensor) -> Choice:
        return Choice(keys=view.ranks >= view.counts - tokens(self._size, view.counts))


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
        return Choice(keys=top(view.logits, view.visible & ~kept, tokens(self._size, view.counts)))


class OracleTopPMasker:
    """The fewest keys that hold the share `top_p` of the exact weight that is not kept yet."""

    def __init__(self, config: OracleTopPConfig) -> None:
        self._share = config.top_p

    def choose(self, view: View, kept: Tensor) -> Choice:
        import torch

        candidates = view.visible & ~kept
        if self._share >= 1:
            return Choice(keys=candidates)
        logits = view.logits.float().masked_fill(~candidates, torch.finfo(torch.float32).min)
        weights, order = logits.softmax(-1).flip(-1).sort(dim=-1, stable=True)
        # From the least up, so that small weights are not lost beside large ones: what may be left out is left out.
        left_out = weights.cumsum(-1) <= 1 - self._share
        left_out[..., -1] = False
        chosen = torch.zeros_like(left_out).scatter_(-1, order, ~left_out).flip(-1)
        return Choice(keys=chosen & candidates)

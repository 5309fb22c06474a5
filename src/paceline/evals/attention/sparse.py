"""A list of maskers as an attention function of transformers, with its measured density."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from paceline import plugins
from paceline.evals.attention.maskers import Masker, View
from paceline.evals.attention_config import AttentionError, MaskerConfig, SparseAttentionConfig, kind_of

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

NAME = "paceline_sparse"
"""What it is called in transformers' registries of attentions and of masks."""


class SparseAttention:
    """Keeps the keys that its maskers choose; counts those it looked at, and those there were."""

    def __init__(self, config: SparseAttentionConfig) -> None:
        self._maskers = [make_masker(masker) for masker in config.maskers]
        self._seen: Any = 0
        self._there: Any = 0

    def take_counts(self) -> Tensor:
        """Keys looked at and keys there were since the last time, for each sequence of the batch: 2 × batch."""
        import torch

        counts = torch.zeros(2, 1) if isinstance(self._seen, int) else torch.stack([self._seen, self._there])
        self._seen = self._there = 0
        return counts

    def attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float
    ) -> Any:
        """The attention of one layer: output (batch × queries × heads × size) and weights."""
        import torch

        groups = query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
        visible = mask[..., : key.shape[2]] == 0
        # A query sees at least its own token, unless it is padding: that does not count.
        asking = visible.diagonal(key.shape[2] - query.shape[2], dim1=-2, dim2=-1)[..., None]
        key, value, visible = _without_gaps(key, value, visible)
        logits = query @ key.mT * scaling
        view = View(query=query, key=key, logits=logits, visible=visible, layer=int(module.layer_idx))
        kept, bonus = self._choose(view)
        self._count(kept & asking, visible & asking)
        scores = logits if bonus is None else logits + bonus.to(logits.dtype)
        scores = scores.masked_fill(~kept, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    def _choose(self, view: View) -> tuple[Tensor, Tensor | None]:
        """The keys to keep, and what is added to the scores of those drawn: minus the logarithm of the chance."""
        import torch

        kept = torch.zeros_like(view.logits, dtype=torch.bool)
        bonus = None
        for masker in self._maskers:
            choice = masker.choose(view, kept)
            new = choice.keys & view.visible & ~kept
            kept = kept | new
            if choice.chance is not None:
                bonus = torch.where(new, -choice.chance.clamp(min=1e-30).log(), 0.0)
        return kept, bonus

    def _count(self, kept: Tensor, visible: Tensor) -> None:
        heads = kept.shape[1]
        there = visible.sum((1, 2, 3)).double() * (heads // visible.shape[1])
        self._seen = self._seen + kept.sum((1, 2, 3)).double()
        self._there = self._there + there


def _without_gaps(key: Tensor, value: Tensor, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys of padding moved behind all others, so that a key's index is its place; nothing else depends on order."""
    real = visible.any(-2)[:, 0]
    if bool(real.all()):
        return key, value, visible
    order = real.logical_not().to(int).argsort(dim=-1, stable=True)
    moved = order[:, None, :, None].expand(-1, key.shape[1], -1, key.shape[-1])
    key, value = (part.gather(2, moved) for part in (key, value))
    return key, value, visible.gather(-1, order[:, None, None].expand_as(visible))


def make_masker(config: MaskerConfig) -> Masker:
    """What carries a masker out: found by its kind, or made by the configuration itself."""
    make = getattr(config, "make_masker", None)
    if make is not None:
        return cast(Masker, make())
    found = plugins.find("eval_maskers", kind_of(type(config)))
    if isinstance(found, type) and issubclass(found, MaskerConfig):
        raise AttentionError(
            f"{kind_of(found)} says nothing of how it is carried out: give it a make_masker()"
        )
    return cast(Masker, found(config))


_active: ContextVar[SparseAttention] = ContextVar("sparse attention")


@contextmanager
def active(attention: SparseAttention) -> Iterator[None]:
    """Within it, models whose attention is `NAME` use this one."""
    token = _active.set(attention)
    try:
        yield
    finally:
        _active.reset(token)


def register() -> None:
    """Make it known to transformers, with its mask: without one of the same name a model hands over no mask at all."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> Any:
    """What transformers calls in every layer."""
    attention = _active.get(None)
    if attention is None:
        raise AttentionError("the model is set to a sparse attention, and none is active")
    if attention_mask is None:
        raise AttentionError(
            f"{type(module).__name__} hands over no mask, so that a query would see what comes after it"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return attention.attend(module, query, key, value, attention_mask, scale)

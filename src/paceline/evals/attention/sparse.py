"""A list of maskers as an attention function of transformers, with its measured density."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from paceline import plugins
from paceline.evals.attention.view import KeyMemory, Masker, View
from paceline.evals.attention.workspace import DEFAULT_BYTES, Shape, block, cell_bytes
from paceline.evals.attention_config import AttentionError, MaskerConfig, SparseAttentionConfig, kind_of

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

NAME = "paceline_sparse"
"""What it is called in transformers' registries of attentions and of masks."""
_GATHERED_UP_TO = 0.5
"""The share of keys up to which one query's keys are picked out; beyond it all of them are read as they lie."""
_HARMLESS = frozenset({"position_ids", "cache_position", "use_cache", "is_causal", "sliding_window"})
"""Arguments that say what the mask says already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a model hands over for one layer, besides queries and keys."""

    layer: int
    layers: int | None
    scaling: float
    softcap: float | None = None
    sinks: Tensor | None = None
    """A learned score for each head that takes weight and gives nothing."""
    bias: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A model's mask, read: the same for all layers of a kind, so that it is read once."""

    mask: Tensor
    visible: Tensor
    asking: Tensor
    """Which queries are tokens, and not padding: only they count."""
    order: Tensor | None
    """Where keys of padding lie between others, the order that has them last; a key's index is then its place."""
    bias: Tensor | None
    """What the mask adds to scores, if it does more than to hide."""


class SparseAttention:
    """Keeps the keys that its maskers choose; counts those it looked at, and those there were, layer by layer."""

    def __init__(self, config: SparseAttentionConfig, budget: int = DEFAULT_BYTES) -> None:
        self.config = config
        self._budget = budget
        self._maskers = [make_masker(masker) for masker in config.maskers]
        self._counts: dict[int, Tensor] = {}
        self._masks: list[Seen] = []

    def take_counts(self) -> Tensor:
        """Since the last time: layers × 4 × batch: keys looked at, keys there were, sum of errors, calls."""
        import torch

        counts, self._counts = self._counts, {}
        self._masks.clear()
        return torch.stack([counts[layer] for layer in sorted(counts)]) if counts else torch.zeros(1, 4, 1)

    def attend(
        self,
        call: Call,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        memory: KeyMemory | None = None,
    ) -> Tensor:
        """The attention of one layer: batch × queries × heads × size."""
        seen = self._read(mask, query.shape[2], key.shape[2])
        batch, heads, queries, size = query.shape
        keys, kv_heads = key.shape[2], key.shape[1]
        shape = Shape(batch, heads, kv_heads, queries, keys, size, query.element_size())
        many, rows = block(shape, cell_bytes(self.config, shape.item), self._budget)
        out = query.new_empty(batch, queries, heads, value.shape[-1])
        counts = query.new_zeros(4, batch, dtype=_exact(query))
        for head in range(0, heads, many):
            of_keys = slice(head * kv_heads // heads, (head + many) * kv_heads // heads)
            for row in range(0, queries, rows):
                part = (slice(None), slice(head, head + many), slice(row, row + rows))
                view = View(
                    query=query[part],
                    keys=key[:, of_keys],
                    visible=seen.visible[:, :, part[2]],
                    layer=call.layer,
                    scaling=call.scaling,
                    softcap=call.softcap,
                    bias=_added(call.bias, seen.bias, part),
                    first_head=head,
                    memory=memory,
                )
                sinks = None if call.sinks is None else call.sinks[head : head + many]
                found, counted = self._part(
                    call, view, value[:, of_keys], sinks, seen, seen.asking[:, :, part[2]]
                )
                out[:, part[2], part[1]] = found.transpose(1, 2)
                counts += counted
        self._count(call.layer, counts)
        return out

    def _part(
        self, call: Call, view: View, value: Tensor, sinks: Tensor | None, seen: Seen, asking: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Output (batch × heads × queries × size) and counts of some heads and queries."""
        import torch

        first, last = self.config.dense_first_layers, self.config.dense_last_layers
        if last and call.layers is None:
            raise AttentionError("the model does not say how many layers it has: leave out dense_last_layers")
        if call.layer < first or (call.layers is not None and call.layer >= call.layers - last):
            kept, bonus = view.visible, None
        elif seen.order is None:
            kept, bonus = self._choose(view)
        else:
            kept, bonus = self._choose_among_gaps(view, seen.order)
        found = None
        if view.query.shape[2] == 1:
            found = _gathered(view, value, kept, bonus, sinks)
        found = _masked(view, value, kept, bonus, sinks) if found is None else found
        counted = [
            (one & asking).sum((1, 2, 3)) * (view.heads // one.shape[1]) for one in (kept, view.visible)
        ]
        errors = [counted[0] * 0] * 2
        if self.config.measure_error:
            dense = _masked(view, value, view.visible, None, sinks)
            errors = [((one * asking).float() ** 2).sum((1, 2, 3)) for one in (found - dense, dense)]
        return found, torch.stack([one.to(_exact(found)) for one in (*counted, *errors)])

    def _choose(self, view: View) -> tuple[Tensor, Tensor | None]:
        """The keys to keep, and what is added to the scores of those drawn: minus the logarithm of the chance."""
        import torch

        kept = torch.zeros_like(view.visible)
        bonus = None
        for masker in self._maskers:
            choice = masker.choose(view, kept)
            new = choice.keys & view.visible & ~kept
            kept = kept | new
            if choice.chance is not None:
                bonus = torch.where(new, -choice.chance.clamp(min=1e-30).log(), 0.0)
        return kept, bonus

    def _choose_among_gaps(self, view: View, order: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same where keys of padding lie among others: maskers see the keys in order, as if there were none."""
        moved = order[:, None, :, None].expand(*view.keys.shape)
        across = order[:, None, None, :]
        packed = replace(
            view,
            keys=view.keys.gather(2, moved),
            visible=_moved(view.visible, across),
            bias=None if view.bias is None else _moved(view.bias.expand(*view.shape), across),
            memory=None,
        )
        kept, bonus = self._choose(packed)
        back = order.argsort(-1)[:, None, None, :]
        return _moved(kept, back), None if bonus is None else _moved(bonus, back)

    def _count(self, layer: int, counts: Tensor) -> None:
        import torch

        seen, there, apart, size = counts
        error = (apart / size.clamp(min=1e-30)).sqrt()
        added = torch.stack([seen, there, error, (there > 0).to(error.dtype)])
        before = self._counts.get(layer)
        self._counts[layer] = added if before is None else before + added

    def _read(self, mask: Tensor, queries: int, keys: int) -> Seen:
        known = next((seen for seen in self._masks if seen.mask is mask), None)
        if known is None:
            known = read_mask(mask, queries, keys)
            self._masks = [*self._masks[-2:], known]  # full and sliding layers have one each
        return known


def read_mask(mask: Tensor, queries: int, keys: int) -> Seen:
    """What a mask says: true or 0 for a key that is seen, false or very little for one that is not; else a bias."""
    import torch

    plain = mask[..., :keys]
    bias = None
    if plain.dtype == torch.bool:
        visible = plain
    else:
        visible = plain > torch.finfo(plain.dtype).min / 2
        bias = plain if bool((visible & (plain != 0)).any()) else None
    if visible.shape[1] > 1:
        visible = visible.any(1, keepdim=True) if bias is not None else visible
        if visible.shape[1] > 1:
            raise AttentionError("the model has a mask for each head, which a sparse attention cannot have")
    visible = visible.expand(-1, -1, queries, keys)
    # The last query is a token always, and sees its own key last; those before it stand one place further each.
    own = (visible[:, 0, -1] * torch.arange(keys, device=mask.device)).amax() - queries + 1
    asking = visible.diagonal(int(own), dim1=-2, dim2=-1)[..., :queries, None]
    real = visible[:, 0].any(-2)
    order = None
    if not bool((real[:, :-1] >= real[:, 1:]).all()):
        order = real.logical_not().to(torch.int8).argsort(dim=-1, stable=True)
    return Seen(mask=mask, visible=visible, asking=asking, order=order, bias=bias)


def _added(bias: Tensor | None, of_mask: Tensor | None, part: tuple[slice, ...]) -> Tensor | None:
    """All that is added to the scores of some heads and queries."""
    found = None
    for one in (bias, of_mask):
        if one is not None:
            heads = part[1] if one.shape[1] > 1 else slice(None)
            rows = part[2] if one.shape[2] > 1 else slice(None)
            piece = one[:, heads, rows]
            found = piece if found is None else found + piece
    return found


def _moved(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(-1, places.expand(*values.shape))


def _masked(view: View, value: Tensor, kept: Tensor, bonus: Tensor | None, sinks: Tensor | None) -> Tensor:
    """All keys are scored, and those that are not kept hidden, by the operations of transformers' eager attention."""
    import torch

    if view.query.shape[2] == 1 and view.group > 1:
        scores = view.scored(view.query @ view.key.mT, view.bias)
    else:
        scores = view.logits
    scores = scores if bonus is None else scores + bonus.to(scores.dtype)
    scores = scores.masked_fill(~kept, torch.finfo(scores.dtype).min)
    value = value.repeat_interleave(view.group, dim=1) if view.group > 1 else value
    return _weights(scores, sinks, value.dtype) @ value


def _weights(scores: Tensor, sinks: Tensor | None, dtype: Any) -> Tensor:
    import torch

    if sinks is None:
        return scores.softmax(-1, dtype=torch.float32).to(dtype)
    extra = sinks.reshape(1, -1, 1, 1).expand(scores.shape[0], -1, scores.shape[2], -1)
    both = torch.cat([scores, extra.to(scores.dtype)], dim=-1)
    both = both - both.amax(-1, keepdim=True)
    return both.softmax(-1, dtype=both.dtype)[..., :-1].to(dtype)


def _gathered(
    view: View, value: Tensor, kept: Tensor, bonus: Tensor | None, sinks: Tensor | None
) -> Tensor | None:
    """The attention of one query to the keys that are kept, which alone are read; None if these are too many."""
    import torch

    batch, heads, _, keys = view.shape
    counts = kept.sum(-1)[..., 0]
    most = int(counts.max())
    if not 0 < most <= _GATHERED_UP_TO * keys:
        return None
    rows, columns = kept[:, :, 0].flatten(0, 1).nonzero(as_tuple=True)
    starts = counts.flatten().cumsum(0) - counts.flatten()
    index = torch.zeros(counts.numel(), most, dtype=torch.long, device=kept.device)
    index[rows, torch.arange(rows.numel(), device=rows.device) - starts[rows]] = columns
    index = index.view(*counts.shape, most)
    there = torch.arange(most, device=kept.device) < counts[..., None]
    kv_heads = int(view.keys.shape[1])
    # Batch × heads of keys × places: one row of places for all heads of queries that look at the same keys.
    places = index.expand(-1, kv_heads, -1) if index.shape[1] == 1 else index.reshape(batch, kv_heads, -1)
    if view.has_logits:
        scores = _picked(view.logits, index)
    else:
        picked = _rows(view.keys, places)
        picked = picked.reshape(batch, heads, most, -1) if index.shape[1] > 1 else picked
        scores = view.scored(view.by_group(picked), _picked(view.bias, index))
    values = _rows(value, places)
    values = values.reshape(batch, heads, most, -1) if index.shape[1] > 1 else values
    if bonus is not None:
        scores = scores + _picked(bonus, index).to(scores.dtype)
    scores = scores.masked_fill(~there[:, :, None], torch.finfo(scores.dtype).min)
    weights = _weights(scores, sinks, value.dtype)
    grouped = weights.reshape(batch, values.shape[1], -1, most)
    return (grouped @ values).reshape(batch, heads, 1, -1)


def _rows(tensor: Tensor, places: Tensor) -> Tensor:
    """The vectors (batch × heads × keys × size) at some places (batch × heads × places)."""
    import torch

    batch, heads, count, size = tensor.shape
    of_batch = torch.arange(batch, device=tensor.device)[:, None, None]
    of_heads = torch.arange(heads, device=tensor.device)[None, :, None]
    steps = tensor.stride()
    if steps[2:] != (size, 1) or steps[0] % size or steps[1] % size:
        return tensor[of_batch, of_heads, places]
    # Whole vectors lie one after the other: as one long list of them, picking is copying.
    last = ((batch - 1) * steps[0] + (heads - 1) * steps[1]) // size + count
    flat = tensor.as_strided((last, size), (size, 1))
    index = (of_batch * steps[0] + of_heads * steps[1]) // size + places
    return flat.index_select(0, index.flatten()).view(*index.shape, size)


def _picked(values: Any, index: Tensor) -> Any:
    """What is added to the scores at the chosen places of one query."""
    if values is None:
        return None
    many = values.expand(-1, max(index.shape[1], values.shape[1]), -1, -1)
    return many.gather(-1, index[:, :, None].expand(many.shape[0], many.shape[1], 1, -1))


def _exact(like: Tensor) -> Any:
    import torch

    return torch.float32 if like.device.type == "mps" else torch.float64


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


_active: ContextVar[tuple[SparseAttention, KeyMemory | None]] = ContextVar("sparse attention")


@contextmanager
def active(attention: SparseAttention, memory: KeyMemory | None = None) -> Iterator[None]:
    """Within it, models whose attention is `NAME` use this one."""
    token = _active.set((attention, memory))
    try:
        yield
    finally:
        _active.reset(token)


def register() -> None:
    """Make it known to transformers, with its mask: without one of the same name a model hands over no mask at all."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, _make_mask)


def _make_mask(**arguments: Any) -> Tensor:
    """Which keys each query sees: never left out, even where other attentions do without."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(**{**arguments, "allow_is_causal_skip": False, "allow_torch_fix": False})


def _is_harmless(name: str, given: object) -> bool:
    """Whether an argument changes nothing: it says what the mask says, or asks for no further output."""
    return name in _HARMLESS or (name.startswith("output_") and given is False)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> Any:
    """What transformers calls in every layer; an argument that it does not know is refused."""
    attention, memory = _active.get((None, None))
    where = type(module).__name__
    if attention is None:
        raise AttentionError("the model is set to a sparse attention, and none is active")
    unknown = sorted(
        name for name, given in others.items() if given is not None and not _is_harmless(name, given)
    )
    if dropout:
        unknown.append("dropout")
    if unknown:
        raise AttentionError(
            f"{where} hands over {', '.join(unknown)}, which a sparse attention would drop: its answers would be wrong"
        )
    if attention_mask is None:
        raise AttentionError(f"{where} hands over no mask, so that a query would see what comes after it")
    config = getattr(module, "config", None)
    call = Call(
        layer=int(module.layer_idx),
        layers=getattr(config, "num_hidden_layers", None),
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        sinks=s_aux,
        bias=position_bias,
    )
    # Of a sliding window the oldest keys are dropped step by step, so that what is remembered of them is of no use.
    remembered = memory if others.get("sliding_window") is None else None
    return attention.attend(call, query, key, value, attention_mask, remembered), None

"""Rules that guess which keys matter without computing all scores: bit signatures, bounds of pages."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import MissingExtra
from paceline.evals.attention.view import Choice, KeyMemory, View, tokens, top
from paceline.evals.attention_config import AttentionError, HashAttentionConfig, QuestConfig

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


class HashAttentionMasker:
    """The keys whose bit signatures agree with the query's in most bits.

    A signature is the signs of random projections, the same for all heads of a layer, or of small networks, one for
    each head of queries, from a file.
    """

    def __init__(self, config: HashAttentionConfig) -> None:
        self._config = config
        self._networks = load_networks(config.weights) if config.weights is not None else None

    def choose(self, view: View, kept: Tensor) -> Choice:
        memory = view.memory or KeyMemory()
        share = 1 if self._networks is None else view.group
        heads = view.keys.shape[1] * share

        def signed(new: Tensor) -> Tensor:
            return self._signs(view, new.repeat_interleave(share, 1) if share > 1 else new, "key").char()

        asked = self._signs(view, view.query, "query")
        known = memory.extend(("hash", view.layer, view.first_head, heads), view.keys, signed)
        batch, count, queries, bits = asked.shape
        grouped = asked.reshape(batch, heads, -1, bits)
        agreement = (grouped @ known.float().mT).reshape(batch, count, queries, -1)
        wanted = tokens(self._config.heavy_size, view.counts)
        return Choice(keys=top(agreement, view.visible & ~kept, wanted))

    def _signs(self, view: View, vectors: Tensor, side: str) -> Tensor:
        """+1 and -1 for each bit."""
        if self._networks is None:
            random = _random_matrix(self._config.seed, view.layer, vectors.shape[-1], self._config.bits)
            projected = vectors.float() @ random.to(vectors.device)
        else:
            heads = slice(view.first_head, view.first_head + view.heads)
            projected = self._run(f"layers.{view.layer}.{side}", vectors.float(), heads)
        return (projected > 0).float() * 2 - 1

    def _run(self, name: str, vectors: Tensor, heads: slice) -> Tensor:
        import torch

        assert self._networks is not None
        activation = getattr(torch.nn.functional, self._config.activation)
        step = 0
        while (weight := self._networks.get(f"{name}.{step}.weight")) is not None:
            if weight.ndim != 3 or weight.shape[0] < heads.stop or weight.shape[1] != vectors.shape[-1]:
                shape, size = tuple(weight.shape), vectors.shape[-1]
                raise AttentionError(
                    f"{name}.{step}.weight is {shape}, and the model wants ({heads.stop}, {size}, …)"
                )
            vectors = activation(vectors) if step else vectors
            vectors = vectors @ weight[heads].to(vectors.device)
            bias = self._networks.get(f"{name}.{step}.bias")
            vectors = vectors if bias is None else vectors + bias[heads].to(vectors.device)[:, None]
            step += 1
        if not step:
            raise AttentionError(f"the weights have no {name}.0.weight")
        return vectors


@lru_cache(maxsize=256)
def _random_matrix(seed: int, layer: int, rows: int, columns: int) -> Tensor:
    import torch

    generator = torch.Generator().manual_seed(seed * 1_000_003 + layer)
    return torch.randn(rows, columns, generator=generator)


def load_networks(path: str) -> dict[str, Tensor]:
    """The networks: `layers.{i}.query.{j}.weight` (heads × in × out), `.bias` (heads × out), the same with `key`."""
    try:
        if Path(path).suffix in (".pt", ".pth"):
            return _published(path)
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingExtra("hash attention with learned weights", "evals") from error
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise AttentionError(f"cannot read the weights {path}: {error}") from error


def _published(path: str) -> dict[str, Tensor]:
    """The authors' form: a linear layer (out × in) for each layer, side, head and even step."""
    import pickle

    import torch

    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        parts: dict[tuple[int, str, int, str], dict[int, Tensor]] = {}
        for name, tensor in stored.items():
            layer, side, head, step, what = name.split(".")
            side = {"learning_to_hash_transformation_q": "query", "learning_to_hash_transformation_k": "key"}[
                side
            ]
            tensor = tensor.float().T if what == "weight" else tensor.float()
            parts.setdefault((int(layer), side, int(step) // 2, what), {})[int(head)] = tensor
    except (
        OSError,
        RuntimeError,
        ValueError,
        KeyError,
        AttributeError,
        EOFError,
        pickle.UnpicklingError,
    ) as error:
        raise AttentionError(
            f"{path} does not hold weights as HashAttention's authors publish them: {error}"
        ) from error
    return {
        f"layers.{layer}.{side}.{step}.{what}": torch.stack([heads[head] for head in sorted(heads)])
        for (layer, side, step, what), heads in parts.items()
    }


_FEWEST_PAGES = 3


class QuestMasker:
    """The pages whose bounds promise the highest scores.

    The bound of a page is the highest score that a key within the ranges of its keys' channels could have. A page that
    is not full yet is bounded by the keys that it has. As many pages as fill `heavy_size` are kept, three at least.
    """

    def __init__(self, config: QuestConfig) -> None:
        self._size, self._page = config.heavy_size, config.page_size

    def choose(self, view: View, kept: Tensor) -> Choice:
        import torch

        candidates = (view.visible & ~kept).expand(*view.shape[:1], -1, *view.shape[2:])
        keys = view.shape[3]
        bounds = self._bounds(view)
        page_of = torch.arange(keys, device=view.keys.device) // self._page
        padded = torch.nn.functional.pad(candidates, (0, bounds.shape[-1] * self._page - keys))
        is_open = padded.unflatten(-1, (-1, self._page)).any(-1)
        wanted = (tokens(self._size, view.counts) // self._page).clamp(min=_FEWEST_PAGES)
        chosen = top(bounds, is_open.expand_as(bounds), wanted)
        return Choice(keys=chosen[..., page_of] & candidates)

    def _bounds(self, view: View) -> Tensor:
        """For each query and page, the most that a key of it that the query sees can score."""
        import torch

        batch, heads, queries, keys = view.shape
        kv_heads, size = view.keys.shape[1], view.keys.shape[-1]
        memory = view.memory or KeyMemory()
        name = ("quest", view.layer, view.first_head, kv_heads, self._page)
        ranges = memory.extend(name, view.keys, self._ranges, page=self._page)
        missing = -keys % self._page
        if missing:
            rest = view.keys[:, :, keys - keys % self._page :]
            rest = torch.cat([rest, rest[:, :, -1:].expand(-1, -1, missing, -1)], dim=2)
            ranges = torch.cat([ranges, self._ranges(rest)], dim=2)
        low, high = ranges.unflatten(-1, (2, size)).unbind(-2)
        query = view.query.float()
        # Where a channel of the query is positive its highest key counts, else its lowest: two products do.
        positive, negative = query.clamp(min=0), query.clamp(max=0)
        grouped = [part.reshape(batch, kv_heads, -1, size) for part in (positive, negative)]
        bounds = (grouped[0] @ high.mT + grouped[1] @ low.mT).reshape(batch, heads, queries, -1)
        if queries == 1 and bool(view.visible[..., -1].all()):
            return bounds  # of the newest token, which sees every page as it is
        # Of the page that a query is in itself, it sees the first part only.
        last = (view.visible[:, 0] * torch.arange(1, keys + 1, device=query.device)).amax(-1).clamp(min=1) - 1
        page = last // self._page
        places = (page * self._page)[..., None] + torch.arange(self._page, device=query.device)
        places = torch.minimum(places, last[..., None])
        own = view.keys.gather(2, places.flatten(1)[:, None, :, None].expand(-1, kv_heads, -1, size))
        own = own.reshape(batch, kv_heads, queries, self._page, size).float()
        group = view.group
        lowest, highest = (part.repeat_interleave(group, 1) for part in (own.amin(3), own.amax(3)))
        bound = (positive * highest + negative * lowest).sum(-1, keepdim=True)
        return bounds.scatter(-1, page[:, None, :, None].expand(batch, heads, queries, 1), bound)

    def _ranges(self, keys: Tensor) -> Tensor:
        """The lowest and the highest of each channel, page by page, one after the other in the last dimension."""
        import torch

        if not keys.shape[2]:
            return keys.new_zeros(*keys.shape[:2], 0, 2 * keys.shape[-1], dtype=torch.float32)
        paged = keys.unflatten(2, (-1, self._page))
        return torch.cat([paged.amin(3), paged.amax(3)], dim=-1).float()

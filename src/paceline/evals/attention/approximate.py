"""Rules that guess which keys matter without computing all scores: bit signatures, bounds of pages."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from paceline.errors import MissingExtra
from paceline.evals.attention.maskers import Choice, View, tokens, top
from paceline.evals.attention_config import AttentionError, HashAttentionConfig, QuestConfig

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


class HashAttentionMasker:
    """The keys whose bit signatures agree with the query's in most bits.

    A signature is the signs of random projections, the same for all heads of a layer, or of small networks from a
    safetensors file. It holds, for layer i and step j of the network, `layers.{i}.query.{j}.weight` (heads × in × out)
    and, if there is one, `.bias` (heads × out), and the same for `key`; between steps stands SiLU.
    """

    def __init__(self, config: HashAttentionConfig) -> None:
        self._config = config
        self._networks = _load(config.weights) if config.weights is not None else None

    def choose(self, view: View, kept: Tensor) -> Choice:
        agreement = self._bits(view.query, view.layer, "query") @ self._bits(view.key, view.layer, "key").mT
        wanted = tokens(self._config.heavy_size, view.counts())
        return Choice(keys=top(agreement, view.visible & ~kept, wanted))

    def _bits(self, vectors: Tensor, layer: int, side: str) -> Tensor:
        """Signs as +1 and -1."""
        if self._networks is None:
            projected = vectors.float() @ self._projection(layer, vectors)
        else:
            projected = _run(self._networks, f"layers.{layer}.{side}", vectors.float())
        return (projected > 0).float() * 2 - 1

    def _projection(self, layer: int, vectors: Tensor) -> Tensor:
        return _random_matrix(self._config.seed, layer, vectors.shape[-1], self._config.bits).to(
            vectors.device
        )


@lru_cache(maxsize=256)
def _random_matrix(seed: int, layer: int, rows: int, columns: int) -> Tensor:
    import torch

    generator = torch.Generator().manual_seed(seed * 1_000_003 + layer)
    return torch.randn(rows, columns, generator=generator)


def _load(path: str) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingExtra("hash attention with learned weights", "evals") from error
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise AttentionError(f"cannot read the weights {path}: {error}") from error


def _run(networks: dict[str, Tensor], name: str, vectors: Tensor) -> Tensor:
    import torch

    step = 0
    while (weight := networks.get(f"{name}.{step}.weight")) is not None:
        if weight.ndim != 3 or weight.shape[0] != vectors.shape[1] or weight.shape[1] != vectors.shape[-1]:
            shape, heads, size = tuple(weight.shape), vectors.shape[1], vectors.shape[-1]
            raise AttentionError(f"{name}.{step}.weight is {shape}, and the model wants ({heads}, {size}, …)")
        vectors = torch.nn.functional.silu(vectors) if step else vectors
        vectors = vectors @ weight.to(vectors.device)
        bias = networks.get(f"{name}.{step}.bias")
        vectors = vectors if bias is None else vectors + bias.to(vectors.device)[:, None]
        step += 1
    if not step:
        raise AttentionError(f"the weights have no {name}.0.weight")
    return vectors


class QuestMasker:
    """The pages whose bounds promise the highest scores.

    The bound of a page is the highest score that a key within the ranges of its keys' channels could have. A page that
    is not full yet is bounded by the keys that it has. As many pages as `heavy_size` fills are kept, one at least.
    """

    def __init__(self, config: QuestConfig) -> None:
        self._size, self._page = config.heavy_size, config.page_size

    def choose(self, view: View, kept: Tensor) -> Choice:
        import torch

        candidates = view.visible & ~kept
        keys = view.key.shape[2]
        pages = math.ceil(keys / self._page)
        bounds = self._bounds(view, pages)
        page_of = torch.arange(keys, device=view.key.device) // self._page
        open_pages = torch.zeros_like(bounds, dtype=torch.int32).scatter_add_(
            -1, page_of.expand(*bounds.shape[:-1], keys), candidates.expand(*bounds.shape[:-1], keys).int()
        )
        wanted = torch.ceil(tokens(self._size, view.counts()).double() / self._page).long()
        chosen = top(bounds, open_pages > 0, wanted)
        return Choice(keys=chosen[..., page_of] & candidates)

    def _bounds(self, view: View, pages: int) -> Tensor:
        """For each query and page, the most that a key of it that the query sees can score."""
        import torch

        batch, heads, keys, size = view.key.shape
        missing = pages * self._page - keys
        padded = torch.cat([view.key, view.key[:, :, -1:].expand(batch, heads, missing, size)], dim=2)
        paged = padded.reshape(batch, heads, pages, self._page, size).float()
        low, high = paged.cummin(3).values, paged.cummax(3).values
        query = view.query.float()
        # Where a channel of the query is positive its highest key counts, else its lowest: two products do.
        positive, negative = query.clamp(min=0), query.clamp(max=0)
        bounds = positive @ high[:, :, :, -1].mT + negative @ low[:, :, :, -1].mT
        last = (view.visible * torch.arange(1, keys + 1, device=view.key.device)).amax(-1) - 1
        last = last.clamp(min=0).expand(batch, heads, query.shape[2])
        index = last[..., None].expand(*last.shape, size)
        so_far = [part.reshape(batch, heads, -1, size).gather(2, index) for part in (low, high)]
        own = (positive * so_far[1] + negative * so_far[0]).sum(-1, keepdim=True)
        return bounds.scatter(-1, last[..., None] // self._page, own)

"""What a masker sees of one layer's attention, what it answers, and what it may remember of keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from paceline.evals.attention_config import Size

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


@dataclass(frozen=True, kw_only=True)
class View:
    """Some heads and some queries of one layer, in one call. Keys lie in the order of their tokens.

    Shapes: batch × heads × queries × keys, and the size of a head last in `query` and `key`. Several heads of queries
    may share one of keys, of which `keys` has each once.
    """

    query: Tensor
    keys: Tensor
    visible: Tensor
    """Which keys a query may look at at all; one head stands for all."""
    layer: int
    scaling: float
    softcap: float | None = None
    bias: Tensor | None = None
    """What the model adds to the scores by the distance of keys, if it does."""
    first_head: int = 0
    """The number of the first of these heads within the layer."""
    memory: "KeyMemory | None" = None
    """What is known of the keys from earlier steps; None where they are not the same ones any more."""

    @property
    def heads(self) -> int:
        return int(self.query.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries, keys."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.keys.shape[2]

    @cached_property
    def counts(self) -> Tensor:
        """How many keys each query may look at."""
        return self.visible.sum(-1, keepdim=True)

    @cached_property
    def ranks(self) -> Tensor:
        """Each key's place among those that the query may look at, from 0."""
        import torch

        return self.visible.cumsum(-1, dtype=torch.int32) - 1

    @property
    def group(self) -> int:
        """How many heads of queries share one of keys."""
        return self.heads // int(self.keys.shape[1])

    @cached_property
    def key(self) -> Tensor:
        """The keys with one head for each of the query's."""
        return self.keys.repeat_interleave(self.group, dim=1) if self.group > 1 else self.keys

    @cached_property
    def logits(self) -> Tensor:
        """The exact scores of all keys, which only oracles and samplers may look at."""
        if self.query.shape[2] > 1:
            return self.scored(self.query @ self.key.mT, self.bias)
        return self.scored(self.by_group(self.keys), self.bias)

    @property
    def has_logits(self) -> bool:
        """Whether somebody has looked at the exact scores."""
        return "logits" in self.__dict__

    def by_group(self, keys: Tensor) -> Tensor:
        """Products of the queries with keys, of which each head is read once for all that share it."""
        batch, heads, queries, size = self.query.shape
        grouped = self.query.reshape(batch, keys.shape[1], -1, size)
        return (grouped @ keys.mT).reshape(batch, heads, queries, keys.shape[2])

    def scored(self, products: Tensor, bias: Tensor | None) -> Tensor:
        """Products of queries and keys as the softmax gets them."""
        import torch

        scores = products * self.scaling
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        return scores if bias is None else scores + bias


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Keys to keep, and with what chance each was drawn if it was by chance; one head may stand for all."""

    keys: Tensor
    chance: Tensor | None = None


class Masker(Protocol):
    """Carries out one `MaskerConfig`, of which it is made."""

    def choose(self, view: View, kept: Tensor) -> Choice:
        """The keys to add to those that the maskers before it keep. It may name invisible ones; they stay so."""


@dataclass(slots=True)
class KeyMemory:
    """What maskers worked out of the keys of earlier steps, by layer and name, so that each key is read once."""

    _known: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)

    def extend(
        self, name: tuple[Any, ...], keys: Tensor, make: Callable[[Tensor], Tensor], *, page: int = 1
    ) -> Tensor:
        """What `make` gives for all keys, `page` of them at a time; it is asked for those that are new."""
        import torch

        known = self._known.get(name)
        done = 0 if known is None else int(known.shape[2])
        whole = int(keys.shape[2]) // page
        if known is None or done > whole or known.shape[0] != keys.shape[0]:
            known, done = None, 0
        if done < whole:
            fresh = make(keys[:, :, done * page : whole * page])
            known = fresh if known is None else torch.cat([known, fresh], dim=2)
            self._known[name] = known
        return make(keys[:, :, :0]) if known is None else known

    def forked(self) -> "KeyMemory":
        """A memory of the same keys that goes on by itself."""
        return KeyMemory(dict(self._known))

    def select(self, indices: Tensor) -> None:
        """Keep these sequences of the batch."""
        self._known = {name: known[indices] for name, known in self._known.items()}


def tokens(size: Size, counts: Tensor) -> Tensor:
    """`size_in_tokens` for many counts at once: at least one, at most all."""
    import torch

    wanted = (counts.double() * size).long() if isinstance(size, float) else torch.full_like(counts, size)
    return torch.minimum(wanted.clamp(min=1), counts)


def top(scores: Tensor, candidates: Tensor, how_many: Tensor) -> Tensor:
    """The best candidates of each query, the earlier key of equals; all candidates where there are not so many."""
    import torch

    scores = scores.float().masked_fill(~candidates, -torch.inf)
    most = min(int(how_many.max()), int(scores.shape[-1]))
    if most < 1:
        return torch.zeros_like(scores, dtype=torch.bool)
    best = scores.topk(most, dim=-1).values
    wanted = how_many.expand(*scores.shape[:-1], 1)
    least = best.gather(-1, (wanted - 1).clamp(0, most - 1))
    chosen = (scores > least) & candidates
    missing = wanted - chosen.sum(-1, keepdim=True)
    equal = (scores == least) & candidates
    if bool((equal.sum(-1, keepdim=True) > missing).any()):
        equal &= equal.cumsum(-1, dtype=torch.int32) <= missing
    return (chosen | equal) & (wanted > 0)

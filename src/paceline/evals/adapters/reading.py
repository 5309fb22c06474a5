"""What a model has read of some contexts, which questions and answers are added to and taken off again."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from paceline.evals.attention.view import KeyMemory


@dataclass(slots=True, kw_only=True)
class Reading:
    """Contexts as a batch, padded in front to one length."""

    cache: Any
    mask: Any
    """Batch × tokens: 1 for a token, 0 for padding."""
    memory: KeyMemory = field(default_factory=KeyMemory)

    @contextmanager
    def borrowed(self, places: Sequence[int]) -> Iterator["Reading"]:
        """These contexts, each as often as it is named, to go on from; all is as it was afterwards."""
        if list(places) == list(range(self.mask.shape[0])):
            saved = [_saved(layer) for layer in self.cache.layers]
            try:
                yield Reading(cache=self.cache, mask=self.mask, memory=self.memory.forked())
            finally:
                self.cache.layers = [restored() for restored in saved]
            return
        own = Reading(cache=copy.copy(self.cache), mask=self.mask, memory=self.memory.forked())
        own.cache.layers = [_copied(layer) for layer in self.cache.layers]
        if self.mask.shape[1]:
            own.select(list(places))
        else:
            own.mask = self.mask.new_zeros(len(places), 0)
        yield own

    def select(self, places: Sequence[int]) -> None:
        """Keep these sequences of the batch."""
        indices = self.mask.new_tensor(list(places))
        self.cache.batch_select_indices(indices)
        self.mask = self.mask[indices]
        self.memory.select(indices)


def _saved(layer: Any) -> Callable[[], Any]:
    """What gives the layer as it is now, whatever happens to it: without a copy, where its room is written behind."""
    if isinstance(layer, _roomy_layer()):
        return layer.point_of_return()  # type: ignore[no-any-return]
    copied = _copied(layer)
    return lambda: copied


def _copied(layer: Any) -> Any:
    """A layer that goes on by itself. Those that put new tensors in the place of old ones need no copies of these."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer):
        return copy.copy(layer)
    return layer.apart() if isinstance(layer, _roomy_layer()) else copy.deepcopy(layer)


def new_cache(config: Any, tokens: int) -> Any:
    """A cache of transformers for a model, with room for so many tokens where all of them are kept."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    cache = DynamicCache(config=config)
    cache.layers = [
        _roomy_layer()(tokens) if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache


@lru_cache(maxsize=1)
def _roomy_layer() -> Any:
    from transformers.cache_utils import DynamicLayer

    class RoomyLayer(DynamicLayer):  # type: ignore[misc, unused-ignore]
        """Keys and values in tensors with room to spare: a new token is written behind the others, which stay."""

        def __init__(self, tokens: int = 0) -> None:
            super().__init__()
            self._tokens = tokens
            self._room: tuple[Any, Any] | None = None

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            there = self.get_seq_length()
            end = there + key_states.shape[-2]
            if self._room is None or self._room[0].shape[-2] < end:
                room = max(self._tokens, end + end // 8 + 16)
                self._room = (
                    _larger(self.keys, key_states, there, room),
                    _larger(self.values, value_states, there, room),
                )
            for whole, new in zip(self._room, (key_states, value_states), strict=True):
                whole[..., there:end, :] = new
            self._shorten(end)
            return self.keys, self.values

        def _shorten(self, length: int) -> None:
            assert self._room is not None
            self.keys, self.values = (whole[..., :length, :] for whole in self._room)

        def point_of_return(self) -> Callable[[], "RoomyLayer"]:
            room, length = self._room, self.get_seq_length()

            def go_back() -> RoomyLayer:
                self._room = room
                if room is None:
                    self.reset()
                else:
                    self._shorten(length)
                return self

            return go_back

        def apart(self) -> "RoomyLayer":
            """The same keys and values, which the other layer's next tokens are not written behind."""
            other = RoomyLayer()
            other.__dict__.update(self.__dict__, _room=None, _tokens=0)
            return other

        def batch_select_indices(self, indices: Any) -> None:
            super().batch_select_indices(indices)
            self._room = None

    return RoomyLayer


def _larger(old: Any, like: Any, there: int, room: int) -> Any:
    whole = like.new_empty(*like.shape[:-2], room, like.shape[-1])
    if there:
        whole[..., :there, :] = old
    return whole

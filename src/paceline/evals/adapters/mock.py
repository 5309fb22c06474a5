"""A reader without a model: it answers with the sentence of the context that shares most words with the question.

It follows the same rules as a real one, so that everything around it can be tried in milliseconds: sparse attentions
hide words from it, and it measures its density.
"""

import re
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from paceline.errors import PacelineError
from paceline.evals.attention_config import (
    LocalMaskerConfig,
    MaskerConfig,
    SinkMaskerConfig,
    SparseAttentionConfig,
    StreamingConfig,
    size_in_tokens,
)
from paceline.evals.interfaces import ContextGroup, Device, GenerationSpec, ModelSpec, Prediction, Sample

_SENTENCE = re.compile(r"[^.!?]+[.!?]?")
_WORD = re.compile(r"\w+")
_ARGUMENTS = frozenset({"seconds_per_sample", "seconds_to_load", "memory_bytes", "torch_dtype", "dtype"})


class MockAdapter:
    """Answers by word overlap; `model_kwargs` say how slow and how large it pretends to be."""

    version: ClassVar[str] = "1"
    uses_gpu: ClassVar[bool] = False

    def __init__(self, model: ModelSpec, device: Device) -> None:
        self._kwargs = model.model_kwargs
        self._seconds = float(model.model_kwargs.get("seconds_per_sample", 0.0))
        self._attention: SparseAttentionConfig | None = None

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        unknown = sorted(set(model.model_kwargs) - _ARGUMENTS)
        if unknown:
            known = ", ".join(sorted(_ARGUMENTS))
            raise PacelineError(f"the mock adapter has no model_kwargs {unknown[0]!r}; it takes: {known}")

    @classmethod
    def estimate_memory_bytes(cls, model: ModelSpec, generation: GenerationSpec) -> int | None:
        declared = model.model_kwargs.get("memory_bytes")
        return None if declared is None else int(declared)

    def load(self) -> None:
        time.sleep(float(self._kwargs.get("seconds_to_load", 0.0)))

    def set_attention(self, attention: SparseAttentionConfig | None) -> None:
        self._attention = attention

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        budget = generation.generation_kwargs.get("max_new_tokens")
        for group in groups:
            words = group.context.split()
            kept = _kept(words, self._attention)
            context = " ".join(word for word, keep in zip(words, kept, strict=True) if keep)
            density = sum(kept) / len(words) if words else 1.0
            for sample in group.samples:
                yield self._answer(sample, context, density, budget)

    def _answer(self, sample: Sample, context: str, density: float, budget: int | None) -> Prediction:
        if self._seconds:
            time.sleep(self._seconds)
        limit = min((int(count) for count in (budget, sample.max_new_tokens) if count), default=None)
        words = _closest_sentence(context, sample.question).split()[:limit]
        return Prediction(
            sample_id=sample.id,
            text=" ".join(words),
            density=density,
            input_tokens=len(sample.context.split()) + len(sample.question.split()),
            output_tokens=len(words),
            seconds=self._seconds,
        )

    def peak_memory_bytes(self) -> int | None:
        declared = self._kwargs.get("memory_bytes")
        return None if declared is None else int(declared)

    def close(self) -> None:
        self._attention = None


def _closest_sentence(context: str, question: str) -> str:
    asked = {word.lower() for word in _WORD.findall(question)}
    sentences = [found.strip() for found in _SENTENCE.findall(context)]
    shared = [len(asked & {word.lower() for word in _WORD.findall(sentence)}) for sentence in sentences]
    return sentences[shared.index(max(shared))] if sentences else ""


def _kept(words: Sequence[str], attention: SparseAttentionConfig | None) -> list[bool]:
    """Which words the reader sees; it knows positions only, so that maskers that score keys let it see all."""
    if attention is None:
        return [True] * len(words)
    kept = [False] * len(words)
    for masker in attention.maskers:
        for index in _kept_by(masker, len(words)):
            kept[index] = True
    return kept


def _kept_by(masker: MaskerConfig, count: int) -> set[int]:
    kept: set[int] = set()
    if isinstance(masker, SinkMaskerConfig | StreamingConfig):
        kept |= set(range(min(count, size_in_tokens(masker.sink_size, count))))
    if isinstance(masker, LocalMaskerConfig | StreamingConfig):
        kept |= set(range(max(0, count - size_in_tokens(masker.window_size, count)), count))
    known = isinstance(masker, SinkMaskerConfig | LocalMaskerConfig | StreamingConfig)
    return kept if known else set(range(count))

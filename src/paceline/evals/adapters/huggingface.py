"""Models of Hugging Face transformers, dense or with a sparse attention on the same weights."""

import copy
import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from paceline.errors import MissingExtra, PacelineError
from paceline.evals.adapters.decoding import (
    Decoding,
    Tail,
    cut_at,
    cut_middle,
    next_token,
    read_decoding,
    split_prompt,
    weigh,
)
from paceline.evals.adapters.weights import check_place, estimate, find_weights
from paceline.evals.attention import sparse
from paceline.evals.attention_config import SparseAttentionConfig
from paceline.evals.interfaces import (
    ContextGroup,
    Device,
    GenerationSpec,
    ModelSpec,
    Prediction,
    Sample,
    sample_seed,
)

_CHUNK = 1024
"""Tokens of a context that are read at once; a sparse attention needs memory for so many times all keys."""


@dataclass(slots=True, kw_only=True)
class _Row:
    """One answer in the making."""

    sample: Sample
    context: tuple[int, ...]
    question: list[int]
    budget: int
    generator: Any
    said: list[int] = field(default_factory=list)
    done: bool = False
    seconds: float = 0.0
    tails: list[Tail] = field(default_factory=list)
    """Continuations to be weighed."""
    weighed: list[list[float | bool]] = field(default_factory=list)
    seen: float = 0.0
    there: float = 0.0


class HuggingFaceAdapter:
    """Reads each context once and asks all its questions of what it has read.

    `model_kwargs` and `tokenizer_kwargs` go to `from_pretrained`. Beside transformers' own names for sampling,
    `generation_kwargs` takes `stop`, `chat_template` (false for the plain text, as models without a template get it),
    `chat_template_kwargs`, and `prefill`: "dense" lets a sparse attention begin at the question only. A context longer
    than `max_context_length`, or than the model's positions allow, loses its middle.
    """

    version: ClassVar[str] = "1"
    uses_gpu: ClassVar[bool] = True

    def __init__(self, model: ModelSpec, device: Device) -> None:
        self._spec, self._device = model, device
        self._model: Any = None
        self._tokenizer: Any = None
        self._dense = ""
        self._attention: sparse.SparseAttention | None = None

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        read_decoding(generation.generation_kwargs)
        check_place(model.name)
        limit = generation.request_kwargs.get("max_context_length")
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise PacelineError(
                f"request_kwargs.max_context_length is to be an integer from 1, not {limit!r}"
            )
        for name in ("attn_implementation", "device_map"):
            if model.model_kwargs.get(name) in (sparse.NAME, "auto"):
                raise PacelineError(f"model_kwargs.{name}: the executor decides this one")

    @classmethod
    def estimate_memory_bytes(cls, model: ModelSpec, generation: GenerationSpec) -> int | None:
        place = find_weights(model.name, model.revision)
        return None if place is None else estimate(place, model.model_kwargs, generation)

    def load(self) -> None:
        transformers, torch = _import()
        if self._device.name == "cpu" and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)  # a worker a slot: more threads than slots only fight for the cores
        kwargs = dict(self._spec.model_kwargs)
        kwargs.setdefault("dtype", kwargs.pop("torch_dtype", "auto"))
        where = {"revision": self._spec.revision} if self._spec.revision else {}
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            self._spec.name, **where, **self._spec.tokenizer_kwargs
        )
        model = transformers.AutoModelForCausalLM.from_pretrained(self._spec.name, **where, **kwargs)
        self._model = model.to(self._device.name).eval()
        self._dense = self._model.config._attn_implementation
        sparse.register()

    def set_attention(self, attention: SparseAttentionConfig | None) -> None:
        self._attention = None if attention is None else sparse.SparseAttention(attention)
        self._use(attention is not None)

    def _use(self, is_sparse: bool) -> None:
        wanted = sparse.NAME if is_sparse else self._dense
        if self._model.config._attn_implementation != wanted:
            self._model.set_attn_implementation(wanted)
        if self._model.config._attn_implementation != wanted:
            raise PacelineError(
                f"{self._spec.name} cannot take another attention: its class does not support it"
            )

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        decoding = read_decoding(generation.generation_kwargs)
        rows = [self._row(sample, decoding, generation) for group in groups for sample in group.samples]
        together = max(1, len(groups))
        contexts = list(dict.fromkeys(row.context for row in rows))
        for start in range(0, len(contexts), together):
            part = contexts[start : start + together]
            asked = [row for row in rows if row.context in set(part)]
            yield from self._answer(part, asked, decoding, together)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        import torch

        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if self._attention is not None:
                stack.enter_context(sparse.active(self._attention))
            yield

    def _answer(
        self, contexts: Sequence[tuple[int, ...]], rows: Sequence[_Row], decoding: Decoding, together: int
    ) -> Iterator[Prediction]:
        started = time.perf_counter()
        dense_prefill = self._attention is not None and decoding.prefill == "dense"
        with self._reading():
            self._use(self._attention is not None and not dense_prefill)
            cache, mask = self._prefill(contexts)
            self._use(self._attention is not None)
        counts = self._counts(len(contexts))
        read_s = (time.perf_counter() - started) / len(rows)
        for first in range(0, len(rows), together):
            part = rows[first : first + together]
            started = time.perf_counter()
            with self._reading():
                self._weigh([row for row in part if row.tails], contexts, cache, mask)
                self._ask([row for row in part if not row.tails], contexts, cache, mask, decoding)
            for row in part:
                place = contexts.index(row.context)
                row.seen, row.there = row.seen + counts[0][place], row.there + counts[1][place]
                row.seconds = read_s + (time.perf_counter() - started) / len(part)
                yield self._prediction(row, decoding)

    def _row(self, sample: Sample, decoding: Decoding, generation: GenerationSpec) -> _Row:
        import torch

        chat = decoding.chat_template
        chat = bool(self._tokenizer.chat_template) if chat is None else chat
        before, after = split_prompt(
            self._tokenizer, sample, chat=chat, options=decoding.chat_template_kwargs
        )
        question = self._tokenizer(after, add_special_tokens=False)["input_ids"]
        tails = self._tails(sample, after, len(question))
        budget = decoding.budget(sample.max_new_tokens)
        context = self._tokenizer(before, add_special_tokens=not chat)["input_ids"]
        context = cut_middle(context, self._room(len(question) + budget, generation))
        if not context and not question and not (tails and all(lead for lead, _ in tails)):
            raise PacelineError(f"sample {sample.id}: neither context nor question has a token")
        if not question:  # the model needs a token to answer on
            context, question = context[:-1], context[-1:]
        generator = torch.Generator().manual_seed(sample_seed(generation.seed, sample.id))
        return _Row(
            sample=sample,
            context=tuple(context),
            question=question,
            budget=budget,
            generator=generator,
            tails=tails,
        )

    def _tails(self, sample: Sample, after: str, length: int) -> list[Tail]:
        """Each continuation as tokens, and those of what leads to it; `length` are the tokens of the question."""
        found = []
        leads = sample.lead_ins or ("",) * len(sample.continuations)
        for lead, tail in zip(leads, sample.continuations, strict=True):
            before, whole = (
                self._tokenizer(after + text, add_special_tokens=False)["input_ids"]
                for text in (lead, lead + tail)
            )
            found.append((before[length:], whole[len(before) :]))
        if not all(tail for _, tail in found):
            raise PacelineError(f"sample {sample.id}: a continuation has no token of its own")
        return found

    def _room(self, needed: int, generation: GenerationSpec) -> int:
        """How many tokens a context may have; one sample's own affair, so that its answer depends on no other."""
        limits = [generation.request_kwargs.get("max_context_length")]
        positions = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        limits.append(positions - needed if positions else None)
        return min((limit for limit in limits if limit is not None), default=1 << 62)

    def _prefill(self, contexts: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """The cache of some contexts, padded in front to one length, and which of its places are real."""
        import torch
        from transformers import DynamicCache

        longest = max(len(context) for context in contexts)
        ids, mask = self._padded([list(context) for context in contexts], longest)
        cache = DynamicCache(config=self._model.config)
        for start in range(0, longest, _CHUNK):
            end = min(start + _CHUNK, longest)
            self._forward(ids[:, start:end], mask[:, :end], cache)
        return cache, mask if longest else torch.zeros(len(contexts), 0, dtype=torch.long, device=ids.device)

    def _padded(self, sequences: Sequence[Sequence[int]], longest: int) -> tuple[Any, Any]:
        import torch

        ids = torch.zeros(len(sequences), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for index, sequence in enumerate(sequences):
            if sequence:
                ids[index, -len(sequence) :] = torch.tensor(sequence)
                mask[index, -len(sequence) :] = 1
        return ids.to(self._device.name), mask.to(self._device.name)

    def _weigh(self, rows: Sequence[_Row], contexts: Sequence[tuple[int, ...]], read: Any, mask: Any) -> None:
        """Weigh the continuations of some rows, one after the other."""
        for row in rows:
            place = contexts.index(row.context)
            own = copy.deepcopy(read)
            if mask.shape[1]:
                own.batch_select_indices(mask.new_tensor([place]))
            row.weighed = weigh(self._forward, own, mask[place : place + 1], row.question, row.tails)
            self._credit([row])

    def _forward(self, ids: Any, mask: Any, cache: Any, keep: int = 1) -> Any:
        """Scores of the tokens after the last ones; `mask` covers all that is cached and what is new."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        found = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        return found.logits

    def _ask(
        self,
        rows: Sequence[_Row],
        contexts: Sequence[tuple[int, ...]],
        read: Any,
        mask: Any,
        decoding: Decoding,
    ) -> None:
        """Answer some questions together, each on a copy of what was read of its context."""
        import torch

        if not rows:
            return
        places = torch.tensor([contexts.index(row.context) for row in rows], device=self._device.name)
        cache = copy.deepcopy(read)
        if mask.shape[1]:
            cache.batch_select_indices(places)
        ids, asked = self._padded([row.question for row in rows], max(len(row.question) for row in rows))
        mask = torch.cat([mask[places], asked], dim=1)
        active = list(rows)
        while True:
            scores = self._forward(ids, mask, cache)[:, -1]
            self._credit(active)
            for row, logits in zip(active, scores, strict=True):
                self._extend(row, next_token(logits, decoding, row.generator, row.said), decoding)
            left = [index for index, row in enumerate(active) if not row.done]
            if not left:
                return
            if len(left) < len(active):
                chosen = torch.tensor(left, device=mask.device)
                cache.batch_select_indices(chosen)
                mask, active = mask[chosen], [active[index] for index in left]
            ids = torch.tensor([[row.said[-1]] for row in active], device=mask.device)
            mask = torch.cat([mask, torch.ones_like(ids)], dim=1)

    def _extend(self, row: _Row, token: int, decoding: Decoding) -> None:
        if token in self._ends():
            row.done = True
            return
        row.said.append(token)
        row.done = len(row.said) >= row.budget
        if decoding.stop and cut_at(self._text(row), decoding.stop) is not None:
            row.done = True

    def _ends(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        listed = ends if isinstance(ends, list | tuple) else [ends]
        return {end for end in (*listed, self._tokenizer.eos_token_id) if end is not None}

    def _text(self, row: _Row) -> str:
        return str(self._tokenizer.decode(row.said, skip_special_tokens=True))

    def _counts(self, batch: int) -> list[list[float]]:
        """Keys looked at and keys there were, for each sequence, since this was asked last."""
        if self._attention is None:
            return [[0.0] * batch, [0.0] * batch]
        counts = self._attention.take_counts()
        return [[float(value) for value in part.expand(batch)] for part in counts]

    def _credit(self, rows: Sequence[_Row]) -> None:
        seen, there = self._counts(len(rows))
        for index, row in enumerate(rows):
            row.seen, row.there = row.seen + seen[index], row.there + there[index]

    def _prediction(self, row: _Row, decoding: Decoding) -> Prediction:
        text = self._text(row)
        cut = cut_at(text, decoding.stop)
        if self._attention is not None and not row.there:
            raise PacelineError(
                f"{self._spec.name} never called the sparse attention: its answers would be dense under another name"
            )
        return Prediction(
            sample_id=row.sample.id,
            text=text if cut is None else cut,
            density=row.seen / row.there if row.there else 1.0,
            input_tokens=len(row.context) + len(row.question),
            output_tokens=len(row.said),
            seconds=row.seconds,
            extra={"loglikelihoods": row.weighed} if row.tails else {},
        )

    def peak_memory_bytes(self) -> int | None:
        if self._device.name == "cpu":
            return None
        import torch

        return int(torch.cuda.max_memory_allocated())

    def close(self) -> None:
        self._model = self._tokenizer = self._attention = None
        gc.collect()
        if self._device.name != "cpu":
            import torch

            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def _import() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra("the huggingface adapter", "evals") from error
    return transformers, torch

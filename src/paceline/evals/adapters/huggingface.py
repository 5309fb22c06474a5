"""Models of Hugging Face transformers, dense or with a sparse attention on the same weights."""

import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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
from paceline.evals.adapters.memory import check_place, estimate, find_weights, prefill_chunk
from paceline.evals.adapters.reading import Reading, new_cache
from paceline.evals.attention import sparse
from paceline.evals.attention.workspace import DEFAULT_BYTES
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
from paceline.evals.keys import resolve_revision


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
    tails: list[Tail] = field(default_factory=list)
    """Continuations to be weighed."""
    weighed: list[list[float | bool]] = field(default_factory=list)
    prefill_s: float = 0.0
    decode_s: float = 0.0
    first_token_s: float | None = None
    last_token_s: float = 0.0
    steps: int = 0
    """Tokens that were decoded, the one that ended the answer included."""
    counts: Any = None
    """Layers × 4: keys looked at, keys there were, sum of errors, calls."""


class HuggingFaceAdapter:
    """Reads each context once and asks all its questions of what it has read.

    `model_kwargs` and `tokenizer_kwargs` go to `from_pretrained`. Beside transformers' own names for sampling,
    `generation_kwargs` takes `stop`, `chat_template` (false for the plain text, as models without a template get it),
    and `chat_template_kwargs`. A context longer than `max_context_length`, or than the model's positions allow, loses
    its middle.
    """

    version: ClassVar[str] = "2"
    uses_gpu: ClassVar[bool] = True

    def __init__(self, model: ModelSpec, device: Device) -> None:
        self._spec, self._device = model, device
        self._model: Any = None
        self._tokenizer: Any = None
        self._dense = ""
        self._attention: sparse.SparseAttention | None = None
        self._config: SparseAttentionConfig | None = None
        self._budget = DEFAULT_BYTES

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        read_decoding(generation.generation_kwargs)
        check_place(model.name)
        limit = generation.request_kwargs.get("max_context_length")
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise PacelineError(
                f"request_kwargs.max_context_length is to be an integer from 1, not {limit!r}"
            )
        if model.model_kwargs.get("attn_implementation") == sparse.NAME:
            raise PacelineError("model_kwargs.attn_implementation: the matrix's attentions decide this one")

    @classmethod
    def estimate_memory_bytes(cls, model: ModelSpec, generation: GenerationSpec) -> int | None:
        place = find_weights(model.name, model.revision)
        return None if place is None else estimate(place, model.model_kwargs, generation)

    @classmethod
    def resolve(cls, model: ModelSpec) -> str | None:
        """The commit that a model's revision stands for; None for a model on this disk, and where nobody knows."""
        return None if Path(model.name).is_dir() else resolve_revision("model", model.name, model.revision)

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
        if self._device.count > 1:
            kwargs.setdefault("device_map", "auto")
        elif "quantization_config" in kwargs:
            kwargs.setdefault("device_map", {"": self._device.name})
        model = transformers.AutoModelForCausalLM.from_pretrained(self._spec.name, **where, **kwargs)
        is_placed = "device_map" in kwargs or getattr(model, "is_quantized", False)
        self._model = (model if is_placed else model.to(self._device.name)).eval()
        self._dense = self._model.config._attn_implementation
        sparse.register()

    def set_attention(self, attention: SparseAttentionConfig | None) -> None:
        self._config = attention
        self._attention = None if attention is None else sparse.SparseAttention(attention, self._budget)
        self._use(attention is not None)

    def _use(self, is_sparse: bool) -> None:
        wanted = sparse.NAME if is_sparse else self._dense
        if self._model.config._attn_implementation != wanted:
            self._model.set_attn_implementation(wanted)
        if self._model.config._attn_implementation != wanted:
            raise PacelineError(
                f"{self._spec.name} cannot take another attention: "
                f"{type(self._model).__name__} computes its attention itself"
            )

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        if generation.attention_bytes != self._budget:
            self._budget = generation.attention_bytes
            self.set_attention(self._config)
        decoding = read_decoding(generation.generation_kwargs)
        rows = [self._row(sample, decoding, generation) for group in groups for sample in group.samples]
        together = max(1, len(groups))
        contexts = list(dict.fromkeys(row.context for row in rows))
        for start in range(0, len(contexts), together):
            part = contexts[start : start + together]
            asked = [row for row in rows if row.context in set(part)]
            yield from self._answer(part, asked, decoding, together)

    def _answer(
        self, contexts: Sequence[tuple[int, ...]], rows: Sequence[_Row], decoding: Decoding, together: int
    ) -> Iterator[Prediction]:
        started = time.perf_counter()
        with self._computing():
            self._use(self._config is not None and self._config.prefill == "sparse")
            room = max(len(row.question) + row.budget for row in rows)
            reading = self._read(contexts, room)
            self._use(self._config is not None)
        read_s = self._clock() - started
        counts = self._take_counts(len(contexts))
        for row in rows:
            row.counts = counts[:, :, contexts.index(row.context)].clone()
        for first in range(0, len(rows), together):
            part = rows[first : first + together]
            began = time.perf_counter() - read_s
            with self._computing():
                for row in part:
                    self._weigh(row, contexts, reading)
                self._ask([row for row in part if not row.tails], contexts, reading, decoding, began)
            asked_s = self._clock() - began - read_s
            for row in part:
                row.prefill_s, row.decode_s = read_s / len(rows), asked_s / len(part)
                yield self._prediction(row, decoding)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        import torch

        with torch.inference_mode():
            yield

    def _clock(self) -> float:
        """The time when all that was asked of the device is done."""
        if self._device.name != "cpu":
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()

    def _row(self, sample: Sample, decoding: Decoding, generation: GenerationSpec) -> _Row:
        import torch

        chat = decoding.chat_template
        chat = bool(self._tokenizer.chat_template) and not sample.plain if chat is None else chat
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

    def _read(self, contexts: Sequence[tuple[int, ...]], room: int) -> Reading:
        """Some contexts, padded in front to one length, in parts that fit the memory for attention."""
        longest = max(len(context) for context in contexts)
        ids, mask = self._padded([list(context) for context in contexts], longest)
        config = self._model.config.get_text_config()
        reading = Reading(cache=new_cache(self._model.config, longest + room), mask=mask[:, :0])
        heads = int(getattr(config, "num_attention_heads", 1)) if self._dense == "eager" else 0
        many = prefill_chunk(len(contexts), heads, longest, self._budget)
        for start in range(0, longest, many):
            end = min(start + many, longest)
            self._forward(ids[:, start:end], reading, asked=mask[:, start:end])
        return reading

    def _padded(self, sequences: Sequence[Sequence[int]], longest: int) -> tuple[Any, Any]:
        import torch

        ids = torch.zeros(len(sequences), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for index, sequence in enumerate(sequences):
            if sequence:
                ids[index, -len(sequence) :] = torch.tensor(sequence)
                mask[index, -len(sequence) :] = 1
        return ids.to(self._model.device), mask.to(self._model.device)

    def _weigh(self, row: _Row, contexts: Sequence[tuple[int, ...]], reading: Reading) -> None:
        """Weigh the continuations of a row, one after the other."""
        for tail in row.tails:
            with reading.borrowed([contexts.index(row.context)]) as own:
                row.weighed.append(weigh(self._forward, own, row.question, tail))
            self._credit([row])

    def _forward(self, ids: Any, reading: Reading, keep: int = 1, asked: Any = None) -> Any:
        """Scores of the tokens after the last ones; what is new is added to what was read."""
        import torch

        mask = torch.cat([reading.mask, torch.ones_like(ids) if asked is None else asked], dim=1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        with ExitStack() as stack:
            if self._attention is not None:
                stack.enter_context(sparse.active(self._attention, reading.memory))
            found = self._model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=reading.cache,
                use_cache=True,
                logits_to_keep=keep,
            )
        reading.mask = mask
        return found.logits

    def _ask(
        self,
        rows: Sequence[_Row],
        contexts: Sequence[tuple[int, ...]],
        reading: Reading,
        decoding: Decoding,
        began: float,
    ) -> None:
        """Answer some questions together, each after what was read of its context."""
        if not rows:
            return
        with reading.borrowed([contexts.index(row.context) for row in rows]) as own:
            ids, asked = self._padded([row.question for row in rows], max(len(row.question) for row in rows))
            active = list(rows)
            while True:
                scores = self._forward(ids, own, asked=asked)[:, -1]
                self._credit(active)
                for row, logits in zip(active, scores, strict=True):
                    self._extend(row, next_token(logits, decoding, row.generator, row.said), decoding)
                    row.last_token_s, row.steps = time.perf_counter() - began, row.steps + 1
                    if row.first_token_s is None:
                        row.first_token_s = row.last_token_s
                left = [index for index, row in enumerate(active) if not row.done]
                if not left:
                    return
                if len(left) < len(active):
                    own.select(left)
                    active = [active[index] for index in left]
                ids = own.mask.new_tensor([[row.said[-1]] for row in active])
                asked = None

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

    def _take_counts(self, batch: int) -> Any:
        """What the sparse attention counted since the last time: layers × 4 × batch."""
        import torch

        if self._attention is None:
            return torch.zeros(1, 4, batch)
        counts = self._attention.take_counts().cpu()
        return counts.expand(-1, -1, batch)

    def _credit(self, rows: Sequence[_Row]) -> None:
        counts = self._take_counts(len(rows))
        for index, row in enumerate(rows):
            mine = counts[:, :, index]
            row.counts = mine.clone() if row.counts.shape != mine.shape else row.counts + mine

    def _prediction(self, row: _Row, decoding: Decoding) -> Prediction:
        text = self._text(row)
        cut = cut_at(text, decoding.stop)
        looked, there = row.counts.sum(0)[:2].tolist()
        if self._attention is not None and not there:
            raise PacelineError(
                f"{self._spec.name} never called the sparse attention: its answers would be dense under another name"
            )
        extra: dict[str, Any] = {"loglikelihoods": row.weighed} if row.tails else {}
        if not row.tails:
            extra["finish_reason"] = "length" if cut is None and len(row.said) >= row.budget else "stop"
        if self._attention is not None:
            extra["layer_density"] = [round(one[0] / one[1], 6) for one in row.counts.tolist() if one[1]]
            if self._attention.config.measure_error:
                extra["layer_error"] = [round(one[2] / one[3], 6) for one in row.counts.tolist() if one[3]]
        steps = row.steps - 1
        return Prediction(
            sample_id=row.sample.id,
            text=text if cut is None else cut,
            density=looked / there if there else 1.0,
            input_tokens=len(row.context) + len(row.question),
            output_tokens=len(row.said),
            seconds=row.prefill_s + row.decode_s,
            prefill_s=row.prefill_s,
            first_token_s=row.first_token_s,
            token_s=(row.last_token_s - (row.first_token_s or 0.0)) / steps if steps > 0 else None,
            extra=extra,
        )

    def peak_memory_bytes(self) -> int | None:
        if self._device.name == "cpu":
            return _peak_of_process()
        import torch

        return sum(int(torch.cuda.max_memory_allocated(number)) for number in range(self._device.count))

    def end_stub(self) -> None:
        gc.collect()
        if self._device.name == "cpu":
            _forget_peak()
            return
        import torch

        torch.cuda.empty_cache()
        for number in range(self._device.count):
            torch.cuda.reset_peak_memory_stats(number)

    def close(self) -> None:
        self._model = self._tokenizer = self._attention = None
        self.end_stub()


def _peak_of_process() -> int | None:
    """The most memory that this process has had since the peak was last forgotten; None where Linux does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), None)


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # not allowed here: the peak stays that of the whole process


def _import() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra("the huggingface adapter", "evals") from error
    return transformers, torch

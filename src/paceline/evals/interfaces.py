"""What an adapter, a benchmark, a masker, a scheduler and an exporter are, and how each is found.

How a stub (model × attention × benchmark × subset) runs in a worker:

1. `benchmark.load(subset, …)` gives its `Sample`s, always the same ones in the same order for the same data.
2. Samples whose predictions are on disk already are left out; the rest are put together by context.
3. The adapter that holds the model is taken, or a new one made: `Adapter(model, device)`, then `load()`. One load
   serves all stubs of that model; between them only `set_attention()` is called.
4. `adapter.generate(groups, …)` yields one `Prediction` a sample, each appended to disk as it comes.
5. `benchmark.score(samples, predictions)` gives `Scores`. It sees no adapter and no GPU, and may be called again
   at any later time (`paceline evals score`).

Everything is found by name in an entry point group, or by an import path such as `my_package.adapters:MyAdapter`:

| group                        | name in it       | what it is                                              |
|------------------------------|------------------|---------------------------------------------------------|
| `paceline.eval_adapters`     | `adapter_name`   | a class with the methods of `Adapter`                   |
| `paceline.eval_benchmarks`   | `benchmark_name` | a class with the methods of `EvalBenchmark`             |
| `paceline.eval_masker_configs` | `kind`         | a `MaskerConfig` class of somebody else's               |
| `paceline.eval_maskers`      | `kind`           | a class made of such a config, which carries it out     |
| `paceline.eval_schedulers`   | `scheduler`      | a class with the methods of `StubScheduler`             |
| `paceline.eval_exporters`    | `exporters`      | a function of (`ExecutionResults`, directory)           |

Modules of adapters and benchmarks must be importable without torch and the like: the parent imports them to check
names, subsets and arguments before any worker starts. Heavy imports belong into `load` and `generate`.

Faults: whatever an adapter or a benchmark raises fails the attempt. `MemoryError` and any class named
`OutOfMemoryError` are tried again alone or on a larger device, `ConnectionError`, `TimeoutError` and
`TransientFault` after a pause; everything else is taken to happen again, and is not repeated.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from paceline.errors import PacelineError
from paceline.evals.attention.workspace import DEFAULT_BYTES
from paceline.evals.attention_config import SparseAttentionConfig
from paceline.evals.code import find_part, part_name
from paceline.model import Direction

Source = Literal["real", "toy", "generated"]
"""Where questions come from: the benchmark's own data, a few of ours that show that things work, or its recipe."""


class TransientFault(Exception):
    """Raised by an adapter or a benchmark for what may go away: a server that is busy, a download that broke off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question about one context. `id` is unique within its stub and stays the same for the same data.

    `extra` holds what scoring needs besides the references; no adapter is to look at either. Samples of one context
    count as one where results are compared, and so do those of one `extra["group"]`.
    """

    id: str
    context: str
    question: str
    answer_prefix: str = ""
    references: tuple[str, ...] = ()
    max_new_tokens: int | None = None
    task: str = ""
    continuations: tuple[str, ...] = ()
    """Not to be answered but weighed: `Prediction.extra["loglikelihoods"]` has for each the logarithm of its
    probability, and whether greedy decoding would say it. An adapter that cannot do so raises a `PacelineError`."""
    plain: bool = False
    """To be asked without the model's chat template, as the benchmark's authors do."""
    lead_ins: tuple[str, ...] = ()
    """What stands between the question and each continuation and is not weighed, where that differs; else none."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGroup:
    """A context and all that is asked about it, so that it needs to be read (prefilled) once only."""

    context: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model answered. `density` is the measured share of keys that were looked at; None where unknown."""

    sample_id: str
    text: str
    density: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0
    """In all: of reading a context that several samples ask about, each has its share."""
    prefill_s: float | None = None
    """Its share of reading the context."""
    first_token_s: float | None = None
    """From the beginning of the context to the first token of the answer."""
    token_s: float | None = None
    """For each token after the first."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreValue:
    """One number of a benchmark, with the range it can have."""

    value: float
    low: float = 0.0
    high: float = 1.0
    direction: Direction | None = "higher"
    n: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What scoring found: metrics by name, which of them is the one, and the scores of each sample."""

    metrics: Mapping[str, ScoreValue]
    primary: str
    per_sample: Mapping[str, Mapping[str, float]]
    """Sample id → metric → score. The primary metric's are what attentions are compared by."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Sample id → how much it counts in the mean, where that is not the same for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where an adapter is to put its model.

    `name` is `cpu` or `cuda`: a worker sees its own GPUs only, so that they count from 0. `id` is what the user called
    it: an index, a UUID, a MIG instance; several are joined by commas, and `count` says how many.
    """

    name: str
    id: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The model as an adapter gets it."""

    name: str
    revision: str | None = None
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSpec:
    """How to generate: the user's `generation_kwargs` and `request_kwargs`, and the seed.

    Of the user's `max_new_tokens` and `Sample.max_new_tokens`, the benchmark's own budget, the smaller counts. What is
    drawn at random for a sample must depend on `sample_seed(seed, sample.id)` alone, so that a stub that goes on in
    mid-way, or asks its samples in other groups, gives the same answers.
    """

    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    request_kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch_size: int = 1
    """How many contexts are handed over at once, for those who estimate what that takes."""
    attention: SparseAttentionConfig | None = None
    """The attention that is set, for the same."""
    attention_bytes: int = DEFAULT_BYTES
    """The memory that a sparse attention may take for its own work, a layer at a time."""


class Adapter(Protocol):
    """A model behind one interface. Made with a `ModelSpec` and a `Device`; cheap until `load` is called."""

    version: ClassVar[str]
    """Changed when the same arguments give other answers: it is a part of the key that a resume goes by."""

    uses_gpu: ClassVar[bool]
    """Whether it computes on the device it is given; GPUs are only looked for if it does."""

    takes_all: ClassVar[bool]
    """Whether it is handed all contexts of a stub at once, and itself keeps to `batch_size` of them at a time. One that
    does not say so is handed `batch_size` at a time."""

    def __init__(self, model: ModelSpec, device: Device) -> None: ...

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        """Raise a `PacelineError` for arguments that can never work; called in the parent, before anything starts."""

    @classmethod
    def estimate_memory_bytes(cls, model: ModelSpec, generation: GenerationSpec) -> int | None:
        """What the model will take on its devices (weights, KV cache, attention), if it can be told; else None."""

    def load(self) -> None:
        """Bring the model onto the device. Not again before `close`."""

    def set_attention(self, attention: SparseAttentionConfig | None) -> None:
        """Use this attention from now on, on the weights that are there; None is dense."""

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        """One prediction for each sample of the groups, in any order, each as soon as it is known."""

    def peak_memory_bytes(self) -> int | None:
        """The most memory taken on the device since the last stub ended; None if it cannot tell."""

    def end_stub(self) -> None:
        """Called after each stub: what is only cached is given back. An adapter may do without."""

    def close(self) -> None:
        """Give back all memory; the process lives on and may load another model."""


class EvalBenchmark(Protocol):
    """A set of questions and the rule that scores answers. Made with the `params` of its configuration."""

    name: ClassVar[str]
    version: ClassVar[str]
    """Changed when the prompts or the scores of the same data change: it is a part of the key."""

    def subsets(self) -> tuple[str, ...]:
        """The names of its parts; none if it has none. With two or more, no choice means each one by itself."""

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        """The samples of a subset (of all, with None): from `data_dir`, else the hub, else those that ship with it.

        Always the same ids in the same order for the same data; an unusable row is an error, never left out.
        """

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        """Metrics over all samples; every sample has its prediction. Pure: no model, no network, no clock."""

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        """Whether its questions are the benchmark's own. One that does not say so has real ones."""

    def files(self, subset: str | None, data_dir: Path | None) -> Sequence[Path]:
        """The local files that decide its samples. Of one that does not say so, all of `data_dir` do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A stub that waits for a worker, as a scheduler sees it; `number` tells stubs apart."""

    number: int
    model_key: str
    expected_s: float | None
    memory_bytes: int = 0
    alone: bool = False
    """It ran out of memory in company, and is to have a device for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A place for a stub: a worker that is idle (with the model it holds), or one that could be started."""

    device: str
    resident: str | None = None
    """The `model_key` of the model in memory."""


class StubScheduler(Protocol):
    """Decides which stub runs next. Made without arguments; used by one thread."""

    def add(self, stubs: Iterable[Waiting]) -> None:
        """These wait now; those that are tried again come once more."""

    def take(self, seat: Seat, fits: "Fits", working: Mapping[str, int]) -> Waiting | None:
        """Remove and give the next stub for a seat, one that fits; None leaves the seat empty for now.

        `working` counts, for each model key, the workers that are busy with it.
        """

    def remove(self, model_key: str | None = None) -> list[Waiting]:
        """Remove and give all that wait, or all of one model."""

    def __len__(self) -> int: ...


class Fits(Protocol):
    """Whether a stub may run at a seat now, by the device's memory."""

    def __call__(self, stub: Waiting) -> bool: ...


def sample_seed(seed: int, sample_id: str) -> int:
    """A seed of 63 bits for one sample, the same in every process and every order."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{sample_id}".encode()).digest()[:8]) >> 1


def group_by_context(samples: Sequence[Sample]) -> list[ContextGroup]:
    """Samples that share a context together, in the order in which contexts first appear."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.context, []).append(sample)
    return [ContextGroup(context=context, samples=tuple(members)) for context, members in groups.items()]


class EvalError(PacelineError):
    """What was asked of the executor cannot be done as asked."""


@lru_cache(maxsize=256)
def find(group: str, name: str) -> Any:
    """The object of that name in an entry point group, at an import path or in a file; asked once a process."""
    return find_part(group, name)


def import_path(thing: Any) -> str:
    """Where a worker finds the same object; one of the main script is out of its reach."""
    path = part_name(thing)
    if thing.__module__ == "__main__" or "<locals>" in path:
        raise EvalError(f"{path} cannot be imported by a worker: put it into a module of its own")
    return path


def make_benchmark(benchmark: Any, name: str, params: Mapping[str, Any]) -> Any:
    """A benchmark's object; parameters that its class does not take are the user's mistake."""
    try:
        return benchmark(**params)
    except TypeError as error:
        raise EvalError(f"benchmark {name}: params do not fit: {error}") from error

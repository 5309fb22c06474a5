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
from typing import Any, ClassVar, Protocol

from paceline import plugins
from paceline.errors import PacelineError
from paceline.evals.attention_config import SparseAttentionConfig
from paceline.model import Direction


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where an adapter is to put its model.

    `name` is `cpu` or `cuda`: a worker sees its own GPU only, so it is always the first one. `id` is what the user
    called it: an index, a UUID, a MIG instance.
    """

    name: str
    id: str


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

    `Sample.max_new_tokens` is the benchmark's own budget; a `max_new_tokens` of the user's wins over it. What is
    drawn at random for a sample must depend on `sample_seed(seed, sample.id)` alone, so that a stub that goes on in
    mid-way, or asks its samples in other groups, gives the same answers.
    """

    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    request_kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch_size: int = 1
    """How many contexts are handed over at once, for those who estimate what that takes."""


class Adapter(Protocol):
    """A model behind one interface. Made with a `ModelSpec` and a `Device`; cheap until `load` is called."""

    version: ClassVar[str]
    """Changed when the same arguments give other answers: it is a part of the key that a resume goes by."""

    uses_gpu: ClassVar[bool]
    """Whether it computes on the device it is given; GPUs are only looked for if it does."""

    def __init__(self, model: ModelSpec, device: Device) -> None: ...

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        """Raise a `PacelineError` for arguments that can never work; called in the parent, before anything starts."""

    @classmethod
    def estimate_memory_bytes(cls, model: ModelSpec, generation: GenerationSpec) -> int | None:
        """What the model will take on its device (weights, KV cache, margin) as far as it can be told; else None."""

    def load(self) -> None:
        """Bring the model onto the device. Not again before `close`."""

    def set_attention(self, attention: SparseAttentionConfig | None) -> None:
        """Use this attention from now on, on the weights that are there; None is dense."""

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        """One prediction for each sample of the groups, in any order, each as soon as it is known."""

    def peak_memory_bytes(self) -> int | None:
        """The most memory taken on the device since `load`; None if it cannot tell."""

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
    """The object of that name in an entry point group, or the one at an import path; asked once a process."""
    return plugins.find(group, name)


def import_path(thing: Any) -> str:
    """Where a worker finds the same object; one of the main script is out of its reach."""
    path = f"{thing.__module__}:{thing.__qualname__}"
    if thing.__module__ == "__main__" or "<locals>" in path:
        raise EvalError(f"{path} cannot be imported by a worker: put it into a module of its own")
    return path


def make_benchmark(benchmark: Any, name: str, params: Mapping[str, Any]) -> Any:
    """A benchmark's object; parameters that its class does not take are the user's mistake."""
    try:
        return benchmark(**params)
    except TypeError as error:
        raise EvalError(f"benchmark {name}: params do not fit: {error}") from error

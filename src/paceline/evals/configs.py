"""What a user asks for: models, adapters, benchmarks; and the stub, which is one cell of all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.evals.attention.workspace import DEFAULT_BYTES
from paceline.evals.attention_config import SparseAttentionConfig, attention_from_content
from paceline.evals.interfaces import GenerationSpec, ModelSpec, Source


@dataclass(frozen=True, slots=True)
class BenchmarkConfig:
    """A benchmark and those of its subsets that are to run, each as a stub of its own.

    Without `subsets`: one stub for each, if the benchmark has two or more; else one for the whole benchmark.
    `data_dir` has the data as local files, `revision` is the hub's; `params` are arguments of the benchmark's class.
    """

    benchmark_name: str
    subsets: Sequence[str] | None = None
    data_dir: str | None = None
    revision: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """How models are brought to answer; the attention is a part of the matrix, not of this."""

    adapter_name: str = "huggingface"
    model_kwargs: Mapping[str, Any] | None = None
    tokenizer_kwargs: Mapping[str, Any] | None = None
    batch_size: int = 1
    """How many contexts the adapter is handed at once."""
    attention_bytes: int = DEFAULT_BYTES
    """The memory that a sparse attention may take for its own work, a layer at a time."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model with what is its own; a plain name stands for one of defaults.

    `model_kwargs` and `tokenizer_kwargs` win over those of the adapter's configuration. `memory_bytes` is what it takes
    on its device, if you know better than the adapter.
    """

    model_name: str
    revision: str | None = None
    model_kwargs: Mapping[str, Any] | None = None
    tokenizer_kwargs: Mapping[str, Any] | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkStub:
    """One task: model × attention × benchmark × subset. `key` is the content it stands for; a resume goes by it."""

    model_name: str
    sparse_config_name: str
    sparse_attention_config: SparseAttentionConfig | None
    benchmark_name: str
    subset: str | None
    adapter_config: AdapterConfig
    generation_kwargs: Mapping[str, Any]
    result_dir: str
    key: str = ""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that decides the result, as `spec.json` has it; `key` is its hash."""
    memory_bytes: int | None = None
    data_dir: str | None = None
    has_namesake: bool = False
    """Whether another stub of its matrix differs from it in parameters only."""
    source: Source = "real"
    """Whether its questions are the benchmark's own."""

    @property
    def name(self) -> str:
        """What people call it: model, attention, benchmark and subset."""
        return "/".join((self.model_name, self.sparse_config_name, self.task))

    @property
    def task(self) -> str:
        return task_name(self.benchmark_name, self.subset, self.source)


def task_name(benchmark: str, subset: str | None, source: str) -> str:
    """A benchmark's subset as everything calls it; rows that are not the benchmark's own are in its name.

    `mock_benchmark` says so itself.
    """
    name = f"{benchmark}_{subset}" if subset else benchmark
    return name if source == "real" or name.startswith("mock") else f"{source}-{name}"


def model_spec(model: ModelConfig, adapter: AdapterConfig) -> ModelSpec:
    """The model as its adapter gets it."""
    return ModelSpec(
        name=model.model_name,
        revision=model.revision,
        model_kwargs={**(adapter.model_kwargs or {}), **(model.model_kwargs or {})},
        tokenizer_kwargs={**(adapter.tokenizer_kwargs or {}), **(model.tokenizer_kwargs or {})},
    )


def model_from_content(content: Mapping[str, Any]) -> ModelSpec:
    """The model of a stub's content, at the commit that its key is of."""
    model = content["model"]
    return ModelSpec(
        name=model["name"],
        revision=model.get("commit") or model["revision"],
        model_kwargs=model["model_kwargs"],
        tokenizer_kwargs=model["tokenizer_kwargs"],
    )


def generation_from_content(
    content: Mapping[str, Any], batch_size: int, attention_bytes: int = DEFAULT_BYTES
) -> GenerationSpec:
    """How a stub's content wants answers made."""
    return GenerationSpec(
        generation_kwargs=content["generation_kwargs"],
        request_kwargs=content["request_kwargs"],
        seed=content["seed"],
        batch_size=batch_size,
        attention=attention_from_content(content["attention"]),
        attention_bytes=attention_bytes,
    )

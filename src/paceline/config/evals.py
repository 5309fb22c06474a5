"""The `evals:` section of a suite: models × attentions × benchmarks, and the devices to run them on."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from paceline.config.schema import Config
from paceline.config.sections import Section
from paceline.config.values import Bytes, Count, Name, PositiveCount, Seconds


class EvalsModel(Section):
    """A model with what is its own; a plain name stands for one of defaults."""

    name: Name = Field(description="Its name on the hub, or the directory that holds it.")
    revision: Name | None = Field(default=None, description="The revision on the hub.")
    model_kwargs: dict[str, Any] = Field(default={}, description="Win over those of the adapter.")
    tokenizer_kwargs: dict[str, Any] = Field(default={}, description="Win over those of the adapter.")
    memory: Bytes | None = Field(default=None, description="What it takes on its device, if you know.")


class EvalsBenchmark(Section):
    """A benchmark and the subsets to run; a plain name stands for all of them."""

    name: Name = Field(description="A known benchmark or an import path `module:Class`.")
    subsets: list[Name] | None = Field(default=None, description="Those to run; all by default.")
    data_dir: Name | None = Field(default=None, description="Its data as local files.")
    revision: Name | None = Field(default=None, description="The revision of its data on the hub.")
    params: dict[str, Any] = Field(default={}, description="Arguments of the benchmark itself.")


class EvalsAttention(Section):
    """An attention under a name; a plain name stands for the masker of that kind with its defaults, or `dense`."""

    name: Name = Field(description="What results call it.")
    maskers: list[dict[str, Any]] = Field(description="In their order, each with its `kind`.")
    prefill: Literal["dense", "sparse"] = Field(
        default="dense", description="How a context is read; question and answer are sparse either way."
    )
    dense_first_layers: Count | None = Field(
        default=None,
        description="Layers at the bottom that keep every key; as the maskers' authors do by default.",
    )
    dense_last_layers: Count = Field(default=0, description="Layers at the top that keep every key.")
    measure_error: bool = Field(
        default=False, description="Also record how far each layer's output is from the dense one's."
    )


class EvalsAdapter(Section):
    """How models are brought to answer."""

    name: Name = Field(default="huggingface", description="A known adapter or an import path `module:Class`.")
    model_kwargs: dict[str, Any] = Field(default={}, description="Handed to the model.")
    tokenizer_kwargs: dict[str, Any] = Field(default={}, description="Handed to the tokenizer.")
    batch_size: PositiveCount = Field(default=1, description="Contexts handed to the model at once.")
    attention_memory: Bytes = Field(
        default=512 << 20, description="What a sparse attention may take for its own work, a layer at a time."
    )


class EvalsEarlyStop(Section):
    """When an attention need not be asked any more: its difference from the baseline is certain."""

    baseline: Name = Field(default="dense", description="The attention that the others are held against.")
    looks: int = Field(default=5, ge=2, le=50, description="How often is looked, over all samples.")


class EvalsClocks(Section):
    """The three clocks of every stub."""

    startup_timeout_s: Seconds = Field(default=900.0, description="Until its model is loaded.")
    stall_timeout_s: Seconds = Field(default=1800.0, description="From one sample to the next.")
    timeout_per_benchmark_s: Seconds = Field(default=86400.0, description="All in all.")


class EvalsRetry(Section):
    """How often a stub is tried again after a fault of each class."""

    out_of_memory: Count = Field(default=2, description="Alone on the largest device.")
    crash: Count = Field(default=2, description="In a fresh process.")
    startup: Count = Field(default=1, description="Of a model that was not loaded in time.")
    stall: Count = Field(default=1, description="Of a worker that hung.")
    timeout: Count = Field(default=1, description="Of a stub that took too long.")
    network: Count = Field(default=5, description="After a pause, twice as long each time.")
    network_pause_s: Seconds = Field(default=2.0, description="The first pause.")
    longest_pause_s: Seconds = Field(default=300.0, description="The longest one.")


def _by_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _by_kind(value: Any) -> Any:
    return {"name": value, "maskers": [{"kind": value}]} if isinstance(value, str) else value


class Evals(Section):
    """Models × attentions × benchmarks on a pool of devices, run by `paceline run` after the entries, or alone by
    `paceline evals run`."""

    models: list[Annotated[EvalsModel, BeforeValidator(_by_name)]] = Field(
        description="Names of models, or mappings."
    )
    attentions: list[Annotated[EvalsAttention, BeforeValidator(_by_kind)]] = Field(
        default=[EvalsAttention(name="dense", maskers=[{"kind": "dense"}])],
        description="Names of attentions, or mappings with maskers.",
    )
    benchmarks: list[Annotated[EvalsBenchmark, BeforeValidator(_by_name)]] = Field(
        description="Names of benchmarks, or mappings."
    )
    adapter: EvalsAdapter = Field(default=EvalsAdapter(), description="How models are run.")
    gpu_ids: list[int | str] = Field(
        default=["cpu"], description="Devices: indices, UUIDs or MIG instances of GPUs, or `cpu`, many times."
    )
    gpus_per_model: PositiveCount = Field(
        default=1, description="GPUs that each model is spread over: so many of `gpu_ids` are one device."
    )
    max_concurrent_runs: PositiveCount | None = Field(
        default=None, description="Workers over all devices; one each by default."
    )
    on: Name | None = Field(
        default=None, description="A Ray cluster to run on, `HOST:PORT` or `auto`; this machine by default."
    )
    base_result_dir: Name = Field(
        default="benchmark_results", description="Where results lie, those of earlier executions too."
    )
    generation_kwargs: dict[str, Any] = Field(default={}, description="Such as `max_new_tokens`.")
    request_kwargs: dict[str, Any] = Field(default={}, description="`max_requests`, `max_context_length`.")
    repeat: PositiveCount = Field(
        default=1, description="How often each sample is asked, for the flip rate and pass^k."
    )
    early_stop: EvalsEarlyStop | None = Field(
        default=None,
        description="Stop asking when a difference is certain, by tests corrected for each look.",
    )
    seed: int = Field(default=0, description="What everything drawn at random depends on.")
    memory: dict[str, Bytes] = Field(
        default={}, description="Memory of devices, by id (or `cpu`), where the driver does not tell it."
    )
    clocks: EvalsClocks = Field(default=EvalsClocks(), description="Time limits.")
    retry: EvalsRetry = Field(default=EvalsRetry(), description="Patience with faults.")
    scheduler: Name = Field(
        default="longest_first",
        description="`longest_first`, `shortest_first`, `in_order`, or an import path.",
    )
    exporters: list[Name] = Field(default=[], description="Further forms of the results, such as `csv`.")


class WholeConfig(Config):
    """A whole configuration."""

    model_config = ConfigDict(title="Config")

    evals: Evals | None = Field(
        default=None, description="Models, attentions and benchmarks, which run after the entries."
    )

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema of files as they may be written: with shorthands, variables and nulls."""
        from paceline.config.explain import as_written

        return as_written(super().model_json_schema(*args, **kwargs))

"""Models × attentions × benchmarks × subsets → stubs; all that is wrong with them is said before anything starts."""

import difflib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.evals.attention_config import AttentionConfig, SparseAttentionConfig, as_attention
from paceline.evals.configs import AdapterConfig, BenchmarkConfig, BenchmarkStub, ModelConfig, model_spec
from paceline.evals.interfaces import (
    EvalBenchmark,
    EvalError,
    GenerationSpec,
    ModelSpec,
    find,
    import_path,
    make_benchmark,
)
from paceline.evals.keys import CONTENT_SCHEMA, Places, content_key, files_sha256, stub_path, written
from paceline.urls import split_login

REQUEST_KWARGS = frozenset({"max_requests", "max_context_length"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """What is to be combined with what."""

    models: Sequence[str | ModelConfig]
    attentions: Sequence[tuple[str, AttentionConfig]]
    benchmarks: Sequence[BenchmarkConfig]
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    request_kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0


def make_stubs(matrix: Matrix, root: Path) -> list[BenchmarkStub]:
    """All stubs of a matrix, models first, each with its key and its directory."""
    _check_matrix(matrix)
    generation = _generation(matrix)
    adapter = find("eval_adapters", matrix.adapter.adapter_name)
    models = [_model(model) for model in matrix.models]
    for model in models:
        adapter.check(model_spec(model, matrix.adapter), generation)
    attentions = [(name, as_attention(config)) for name, config in matrix.attentions]
    benchmarks = list(itertools.chain.from_iterable(map(_expand, matrix.benchmarks)))
    places = Places(root)
    parts = {
        "model": {model.model_name: _model_content(model_spec(model, matrix.adapter)) for model in models},
        "adapter": {"name": matrix.adapter.adapter_name, "version": adapter.version},
        "generation": generation,
    }
    combined = itertools.product(models, attentions, benchmarks)
    stubs = [_make_stub(matrix, parts, *cell, places) for cell in combined]
    named = Counter(stub.name for stub in stubs)
    return [replace(stub, has_namesake=True) if named[stub.name] > 1 else stub for stub in stubs]


def _make_stub(
    matrix: Matrix,
    parts: Mapping[str, Any],
    model: ModelConfig,
    attention: tuple[str, SparseAttentionConfig | None],
    benchmark: "_Subset",
    places: Places,
) -> BenchmarkStub:
    label, config = attention
    generation: GenerationSpec = parts["generation"]
    content = {
        "schema": CONTENT_SCHEMA,
        "model": parts["model"][model.model_name],
        "adapter": parts["adapter"],
        "attention": {"name": label, "maskers": None if config is None else config.content()},
        "benchmark": benchmark.content,
        "subset": benchmark.subset,
        "generation_kwargs": generation.generation_kwargs,
        "request_kwargs": generation.request_kwargs,
        "seed": generation.seed,
    }
    key = content_key(content)
    task = f"{benchmark.config.benchmark_name}_{benchmark.subset}"
    path = stub_path(model.model_name, label, task if benchmark.subset else benchmark.config.benchmark_name)
    return BenchmarkStub(
        model_name=model.model_name,
        sparse_config_name=label,
        sparse_attention_config=config,
        benchmark_name=benchmark.config.benchmark_name,
        subset=benchmark.subset,
        adapter_config=matrix.adapter,
        generation_kwargs=generation.generation_kwargs,
        result_dir=str(places.find(path, key)),
        key=key,
        content=content,
        memory_bytes=model.memory_bytes,
        data_dir=benchmark.config.data_dir,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subset:
    """One subset of a benchmark, with what its results depend on."""

    config: BenchmarkConfig
    subset: str | None
    content: Mapping[str, Any]


def _expand(config: BenchmarkConfig) -> Iterator[_Subset]:
    name = config.benchmark_name
    kind = find("eval_benchmarks", name)
    import_path(kind)
    benchmark: EvalBenchmark = make_benchmark(kind, name, config.params)
    data = None if config.data_dir is None else files_sha256(_existing(Path(config.data_dir), name))
    content = {
        "name": name,
        "version": benchmark.version,
        "params": written(config.params, f"benchmark {name}: params"),
        "data": {"revision": config.revision, "files_sha256": data},
    }
    for subset in _subsets(config, benchmark.subsets()):
        yield _Subset(config=config, subset=subset, content=content)


def _existing(path: Path, name: str) -> Path:
    if not path.exists():
        raise EvalError(f"benchmark {name}: data_dir {path} does not exist")
    return path


def _subsets(config: BenchmarkConfig, known: tuple[str, ...]) -> Sequence[str | None]:
    if config.subsets is None:
        return known if len(known) > 1 else [None]
    if not config.subsets or isinstance(config.subsets, str):
        raise EvalError(f"benchmark {config.benchmark_name}: subsets is a list of names, or None for all")
    for subset in config.subsets:
        if subset not in known:
            close = difflib.get_close_matches(str(subset), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known) or 'none'}"
            raise EvalError(f"benchmark {config.benchmark_name} has no subset {subset!r}; {hint}")
    return list(config.subsets)


def _model(model: str | ModelConfig) -> ModelConfig:
    return ModelConfig(model) if isinstance(model, str) else model


def _model_content(spec: ModelSpec) -> dict[str, Any]:
    """A model of the hub counts by name and revision, one on this disk by its files too."""
    local = Path(spec.name)
    kwargs = dict(spec.model_kwargs)
    if isinstance(kwargs.get("base_url"), str):  # who may ask a server does not decide what it answers
        kwargs["base_url"] = split_login(kwargs["base_url"])[0]
    return {
        "name": spec.name,
        "revision": spec.revision,
        "files_sha256": files_sha256(local) if local.is_dir() else None,
        "model_kwargs": written(kwargs, "model_kwargs"),
        "tokenizer_kwargs": written(spec.tokenizer_kwargs, "tokenizer_kwargs"),
    }


def _generation(matrix: Matrix) -> GenerationSpec:
    return GenerationSpec(
        generation_kwargs=written(matrix.generation_kwargs, "generation_kwargs"),
        request_kwargs=written(matrix.request_kwargs, "request_kwargs"),
        seed=matrix.seed,
        batch_size=matrix.adapter.batch_size,
    )


def _check_matrix(matrix: Matrix) -> None:
    for what, items in (
        ("model", matrix.models),
        ("attention", matrix.attentions),
        ("benchmark", matrix.benchmarks),
    ):
        if isinstance(items, str) or not list(items):
            raise EvalError(f"give a list of at least one {what}")
    names = [_model(model).model_name for model in matrix.models]
    labels = [label for label, _ in matrix.attentions]
    for what, given in (("model", names), ("attention", labels)):
        _check_names(what, given)
    unknown = sorted(set(matrix.request_kwargs) - REQUEST_KWARGS)
    if unknown:
        known = ", ".join(sorted(REQUEST_KWARGS))
        raise EvalError(f"request_kwargs has no {unknown[0]!r}; it takes: {known}")
    if matrix.adapter.batch_size < 1:
        raise EvalError("batch_size is 1 or more")


def _check_names(what: str, given: Iterable[str]) -> None:
    seen = set()
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise EvalError(f"{name!r} is no name of a {what}")
        if name in seen:
            raise EvalError(f"{what} {name!r} is given twice")
        seen.add(name)

"""Models × attentions × benchmarks × subsets → stubs; all that is wrong with them is said before anything starts."""

import difflib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from paceline.evals.attention_config import AttentionConfig, SparseAttentionConfig, as_attention
from paceline.evals.code import code_sha256, take_file
from paceline.evals.configs import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkStub,
    ModelConfig,
    model_spec,
    task_name,
)
from paceline.evals.interfaces import (
    EvalError,
    GenerationSpec,
    ModelSpec,
    Source,
    find,
    import_path,
    make_benchmark,
)
from paceline.evals.keys import (
    CONTENT_SCHEMA,
    Places,
    content_key,
    directory_files,
    files_sha256,
    model_files,
    resolve_revision,
    stub_path,
    written,
)
from paceline.urls import split_login

REQUEST_KWARGS = frozenset({"max_requests", "max_context_length", "repeat", "early_stop"})
_MOST_LOOKS = 50


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
    adapter = find("eval_adapters", take_file(matrix.adapter.adapter_name))
    models = [_model(model) for model in matrix.models]
    attentions = [(name, as_attention(config)) for name, config in matrix.attentions]
    for model, (_, attention) in itertools.product(models, attentions):
        adapter.check(model_spec(model, matrix.adapter), replace(generation, attention=attention))
    benchmarks = list(itertools.chain.from_iterable(map(_expand, matrix.benchmarks)))
    places = Places(root)
    common = {
        "schema": CONTENT_SCHEMA,
        "adapter": {
            "name": take_file(matrix.adapter.adapter_name),
            "version": adapter.version,
            **_code(adapter),
        },
        "generation_kwargs": generation.generation_kwargs,
        "request_kwargs": generation.request_kwargs,
        "seed": generation.seed,
    }
    of_models = {
        model.model_name: _model_content(model_spec(model, matrix.adapter), adapter) for model in models
    }
    stubs = [
        _make_stub(
            matrix, {**common, "model": of_models[model.model_name]}, model, attention, benchmark, places
        )
        for model, attention, benchmark in itertools.product(models, attentions, benchmarks)
    ]
    named = Counter(stub.name for stub in stubs)
    return [replace(stub, has_namesake=True) if named[stub.name] > 1 else stub for stub in stubs]


def _make_stub(
    matrix: Matrix,
    common: Mapping[str, Any],
    model: ModelConfig,
    attention: tuple[str, SparseAttentionConfig | None],
    benchmark: "_Subset",
    places: Places,
) -> BenchmarkStub:
    label, config = attention
    content = {
        **common,
        "attention": {"name": label, **({"maskers": None} if config is None else config.content())},
        "benchmark": benchmark.content,
        "subset": benchmark.subset,
    }
    key = content_key(content)
    name = str(benchmark.content["name"])
    path = stub_path(model.model_name, label, task_name(name, benchmark.subset, benchmark.source))
    return BenchmarkStub(
        model_name=model.model_name,
        sparse_config_name=label,
        sparse_attention_config=config,
        benchmark_name=name,
        subset=benchmark.subset,
        adapter_config=matrix.adapter,
        generation_kwargs=common["generation_kwargs"],
        result_dir=str(places.find(path, key)),
        key=key,
        content=content,
        memory_bytes=model.memory_bytes,
        data_dir=benchmark.config.data_dir,
        source=benchmark.source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subset:
    """One subset of a benchmark, with what its results depend on."""

    config: BenchmarkConfig
    subset: str | None
    source: Source
    content: Mapping[str, Any]


def _expand(config: BenchmarkConfig) -> Iterator[_Subset]:
    name = take_file(config.benchmark_name)
    kind = find("eval_benchmarks", name)
    import_path(kind)
    benchmark = make_benchmark(kind, name, config.params)
    place = None if config.data_dir is None else Path(config.data_dir)
    if place is not None and not place.exists():
        raise EvalError(f"benchmark {name}: data_dir {place} does not exist")
    content = {
        "name": name,
        "version": benchmark.version,
        "params": written(config.params, f"benchmark {name}: params"),
        **_code(kind),
        **_packages(benchmark),
    }
    hub = getattr(benchmark, "hub", "")
    commit = resolve_revision("dataset", hub, config.revision) if hub and config.revision else None
    source: Source = benchmark.source(place, config.revision) if hasattr(benchmark, "source") else "real"
    for subset in _subsets(config, name, benchmark.subsets()):
        data: dict[str, Any] = {
            "revision": config.revision,
            "files_sha256": data_sha256(benchmark, subset, place),
        }
        data |= {} if commit is None else {"commit": commit}
        yield _Subset(config=config, subset=subset, source=source, content={**content, "data": data})


def data_sha256(benchmark: Any, subset: str | None, place: Path | None) -> str | None:
    """A hash of the local files that decide a benchmark's samples; None if there are none."""
    if hasattr(benchmark, "files"):
        files = list(benchmark.files(subset, place))
    else:
        files = [] if place is None else directory_files(place)
    return files_sha256(files, place or Path()) if files or place is not None else None


def _code(kind: type) -> dict[str, str]:
    found = code_sha256(*(one for one in kind.__mro__ if one.__module__ not in ("builtins", "typing", "abc")))
    return {} if found is None else {"code_sha256": found}


def _packages(benchmark: Any) -> dict[str, Any]:
    """The versions of packages whose own files decide what is asked."""
    found = {}
    for name in benchmark.packages() if hasattr(benchmark, "packages") else ():
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return {"packages": found} if found else {}


def _subsets(config: BenchmarkConfig, name: str, known: tuple[str, ...]) -> Sequence[str | None]:
    if config.subsets is None:
        return known if len(known) > 1 else [None]
    if not config.subsets or isinstance(config.subsets, str):
        raise EvalError(f"benchmark {name}: subsets is a list of names, or None for all")
    for subset in config.subsets:
        if subset not in known:
            close = difflib.get_close_matches(str(subset), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known) or 'none'}"
            raise EvalError(f"benchmark {name} has no subset {subset!r}; {hint}")
    return list(config.subsets)


def _model(model: str | ModelConfig) -> ModelConfig:
    return ModelConfig(model) if isinstance(model, str) else model


def _model_content(spec: ModelSpec, adapter: Any) -> dict[str, Any]:
    """A model of the hub counts by the commit that its revision is, one on this disk by its files."""
    local = Path(spec.name)
    kwargs = dict(spec.model_kwargs)
    if isinstance(kwargs.get("base_url"), str):  # who may ask a server does not decide what it answers
        kwargs["base_url"] = split_login(kwargs["base_url"])[0]
    commit = adapter.resolve(spec) if hasattr(adapter, "resolve") else None
    return {
        "name": spec.name,
        "revision": spec.revision,
        "files_sha256": files_sha256(model_files(local), local) if local.is_dir() else None,
        "model_kwargs": written(kwargs, "model_kwargs"),
        "tokenizer_kwargs": written(spec.tokenizer_kwargs, "tokenizer_kwargs"),
        **({} if commit is None else {"commit": commit}),
    }


def _generation(matrix: Matrix) -> GenerationSpec:
    return GenerationSpec(
        generation_kwargs=written(matrix.generation_kwargs, "generation_kwargs"),
        request_kwargs=written(matrix.request_kwargs, "request_kwargs"),
        seed=matrix.seed,
        batch_size=matrix.adapter.batch_size,
        attention_bytes=matrix.adapter.attention_bytes,
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
    for name in ("max_requests", "repeat"):
        count = matrix.request_kwargs.get(name)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise EvalError(f"request_kwargs.{name} is an integer from 1, not {count!r}")
    if (early_stop := matrix.request_kwargs.get("early_stop")) is not None:
        _check_early_stop(early_stop, labels)
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


def _check_early_stop(value: Any, attentions: Sequence[str]) -> None:
    """Refuse what is no `{baseline: NAME, looks: N}`."""
    if not isinstance(value, Mapping) or set(value) != {"baseline", "looks"}:
        raise EvalError(f"request_kwargs.early_stop is {{baseline: dense, looks: 5}}, not {value!r}")
    if value["baseline"] not in attentions:
        raise EvalError(f"early_stop: there is no attention {value['baseline']!r} to hold the others against")
    looks = value["looks"]
    if isinstance(looks, bool) or not isinstance(looks, int) or not 2 <= looks <= _MOST_LOOKS:
        raise EvalError(f"early_stop: looks is an integer from 2 to {_MOST_LOOKS}, not {looks!r}")

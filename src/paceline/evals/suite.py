"""The `evals:` section of a suite: its stubs are cases of the session, and run when its entries have."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.config.evals import Evals
from paceline.evals.attention_config import attention_from_content
from paceline.evals.code import take_file
from paceline.evals.configs import AdapterConfig, BenchmarkConfig, ModelConfig
from paceline.evals.executor import BenchmarkExecutor, ExecutorOptions, ProgressCallback, StubExecutor
from paceline.evals.jobs import Clocks, RetryPolicy
from paceline.evals.planning import Matrix


class SuiteExecutor(StubExecutor):
    """The evals of a suite. Options that are given win over the suite's; `beside` is where the suite lies."""

    def __init__(
        self,
        section: Evals,
        *,
        gpu_ids: Sequence[int | str] = (),
        max_concurrent_runs: int | None = None,
        base_result_dir: str | None = None,
        on: str | None = None,
        on_progress: ProgressCallback | None = None,
        beside: Path | None = None,
    ) -> None:
        gpu_ids = gpu_ids or section.gpu_ids
        devices = max(1, len(gpu_ids) // section.gpus_per_model)
        owner = BenchmarkExecutor(
            gpu_ids,
            max_concurrent_runs or section.max_concurrent_runs or devices,
            base_result_dir or section.base_result_dir,
            options=ExecutorOptions(
                clocks=Clocks(**section.clocks.model_dump()),
                retry=RetryPolicy(**section.retry.model_dump()),
                memory_bytes=section.memory,
                gpus_per_model=section.gpus_per_model,
                scheduler=take_file(section.scheduler, beside),
                exporters=[take_file(name, beside) for name in section.exporters],
            ),
            on_progress=on_progress,
            on=on or section.on,
        )
        super().__init__(owner, _matrix(section, beside))


def _matrix(section: Evals, beside: Path | None) -> Matrix:
    """What a section asks for; Python files in it lie beside the suite."""
    adapter = section.adapter
    for attention in section.attentions:
        for masker in attention.maskers:
            masker["kind"] = take_file(str(masker.get("kind", "")), beside)
    return Matrix(
        models=[
            ModelConfig(
                model.name,
                model.revision,
                model.model_kwargs,
                model.tokenizer_kwargs,
                memory_bytes=model.memory,
            )
            for model in section.models
        ],
        attentions=[
            (attention.name, attention_from_content(attention.model_dump(exclude_none=True)))
            for attention in section.attentions
        ],
        benchmarks=[
            BenchmarkConfig(
                take_file(benchmark.name, beside),
                benchmark.subsets,
                benchmark.data_dir,
                benchmark.revision,
                benchmark.params,
            )
            for benchmark in section.benchmarks
        ],
        adapter=AdapterConfig(
            take_file(adapter.name, beside),
            adapter.model_kwargs,
            adapter.tokenizer_kwargs,
            adapter.batch_size,
            adapter.attention_memory,
        ),
        generation_kwargs=section.generation_kwargs,
        request_kwargs=_request_kwargs(section),
        seed=section.seed,
    )


def _request_kwargs(section: Evals) -> dict[str, Any]:
    """What is asked of each sample; keys that say nothing are left out, so that they change no stub's key."""
    repeat = {"repeat": section.repeat} if section.repeat > 1 else {}
    early_stop = {} if section.early_stop is None else {"early_stop": section.early_stop.model_dump()}
    return {**section.request_kwargs, **repeat, **early_stop}

"""The `evals:` section of a suite → an execution: its records go into history and sinks like those of any session."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.config.evals_schema import Evals, EvalsAttention, EvalsBenchmark, EvalsModel
from paceline.config.load import Loaded, load
from paceline.errors import ConfigError, PacelineError
from paceline.evals.attention_config import AttentionConfig, masker_from_content
from paceline.evals.configs import AdapterConfig, BenchmarkConfig, BenchmarkStub, ModelConfig
from paceline.evals.executor import BenchmarkExecutor, ExecutorOptions, ProgressCallback, RecordCallback
from paceline.evals.faults import Clocks, RetryPolicy
from paceline.evals.planning import Matrix
from paceline.evals.results import ExecutionResults
from paceline.model import Finding, Plan, Report, Status
from paceline.plan.assembly import find_secrets
from paceline.plan.sinks import check_sinks, make_sinks
from paceline.record.directory import SessionDir
from paceline.record.masking import mask_plan
from paceline.record.redact import Redactor
from paceline.report.files import write_report
from paceline.session_history import Remembered, choose_database, remember
from paceline.sinks.dispatch import Dispatcher

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalsRequest:
    """What a user asks of `paceline evals run` and `plan`; what is given here wins over the suite."""

    configs: tuple[Path, ...]
    gpu_ids: tuple[str, ...] = ()
    max_concurrent_runs: int | None = None
    base_result_dir: str | None = None
    on: str | None = None
    sinks: tuple[str, ...] = ()
    db: str | None = None
    history: bool = True


def plan_evals(request: EvalsRequest) -> list[BenchmarkStub]:
    """The stubs of a suite, with no side effect."""
    section = _section(load(request.configs))
    return _executor(section, request).plan(_matrix(section))


def run_evals(
    request: EvalsRequest,
    *,
    on_progress: ProgressCallback | None = None,
    on_record: RecordCallback | None = None,
    note: Note,
) -> ExecutionResults:
    """Run the evals of a suite; their records go into the history and to the sinks when all is over."""
    loaded = load(request.configs, sinks=request.sinks)
    section = _section(loaded)
    if problems := check_sinks(loaded):
        raise ConfigError(problems)
    configured = loaded.config.history
    is_enabled = request.history and (configured is None or configured.enabled)
    database = choose_database(request.db, configured.url if configured else None, enabled=is_enabled)
    executor = _executor(section, request, on_progress, on_record)
    results = executor.run(_matrix(section))
    remembered = Remembered()
    if database:
        remembered = remember(results.directory, results.directory, database)
        if remembered.fault:
            note(remembered.fault)
    _report(results, loaded, remembered.findings, note)
    return results


def _section(loaded: Loaded) -> Evals:
    if loaded.config.evals is None:
        raise PacelineError(
            f"{loaded.files[-1]} has no evals section: see docs/evals.md for one to start from"
        )
    return loaded.config.evals


def _executor(
    section: Evals,
    request: EvalsRequest,
    on_progress: ProgressCallback | None = None,
    on_record: RecordCallback | None = None,
) -> BenchmarkExecutor:
    gpu_ids: Sequence[int | str] = request.gpu_ids or section.gpu_ids
    return BenchmarkExecutor(
        gpu_ids,
        request.max_concurrent_runs or section.max_concurrent_runs or len(gpu_ids),
        request.base_result_dir or section.base_result_dir,
        options=ExecutorOptions(
            clocks=Clocks(**section.clocks.model_dump()),
            retry=RetryPolicy(**section.retry.model_dump()),
            memory_bytes=section.memory,
            scheduler=section.scheduler,
            exporters=section.exporters,
        ),
        on_progress=on_progress,
        on_record=on_record,
        on=request.on or section.on,
    )


def _matrix(section: Evals) -> Matrix:
    adapter = section.adapter
    return Matrix(
        models=[_model(model) for model in section.models],
        attentions=[_attention(attention) for attention in section.attentions],
        benchmarks=[_benchmark(benchmark) for benchmark in section.benchmarks],
        adapter=AdapterConfig(
            adapter.name, adapter.model_kwargs, adapter.tokenizer_kwargs, adapter.batch_size
        ),
        generation_kwargs=section.generation_kwargs,
        request_kwargs=section.request_kwargs,
        seed=section.seed,
    )


def _model(model: EvalsModel) -> ModelConfig:
    return ModelConfig(
        model.name, model.revision, model.model_kwargs, model.tokenizer_kwargs, memory_bytes=model.memory
    )


def _attention(attention: EvalsAttention) -> tuple[str, AttentionConfig]:
    return attention.name, [masker_from_content(masker) for masker in attention.maskers]


def _benchmark(benchmark: EvalsBenchmark) -> BenchmarkConfig:
    return BenchmarkConfig(
        benchmark.name, benchmark.subsets, benchmark.data_dir, benchmark.revision, benchmark.params
    )


def _report(results: ExecutionResults, loaded: Loaded, findings: tuple[Finding, ...], note: Note) -> None:
    """The session's report files, and the sinks of the suite."""
    directory = SessionDir.open(results.directory)
    records = [record for _, record in directory.stored_records()]
    names, values = find_secrets(loaded, os.environ)
    plan = Plan(
        session=results.directory.name,
        directory=results.directory,
        cases=tuple(record.case for record in records),
        sinks=tuple(make_sinks(loaded)),
        secret_names=names,
        secret_values=values,
        settings={"config_files": tuple(str(path.absolute()) for path in loaded.files)},
    )
    redactor = Redactor(values)
    masked = mask_plan(plan, redactor)
    counts = Counter[Status](record.status for record in records)
    report = Report(
        plan=masked, records=records, findings=findings, counts=counts, interrupted=results.interrupted
    )
    if fault := write_report(report, directory):
        note(fault)
    with Dispatcher(plan, redactor, note) as sinks:
        sinks.open(masked)
        for record in records:
            sinks.record(record)
        for name in sinks.close(report):
            note(f"sink {name} is required and did not get everything")

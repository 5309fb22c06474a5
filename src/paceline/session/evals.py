"""The `evals:` section of a suite: its stubs are cases of the session, and run when its entries have."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from paceline.config.evals import Evals, EvalsAttention, EvalsBenchmark, EvalsModel
from paceline.config.load import Loaded
from paceline.errors import PacelineError, SessionError
from paceline.evals.attention_config import AttentionConfig, masker_from_content
from paceline.evals.books import Books
from paceline.evals.configs import AdapterConfig, BenchmarkConfig, BenchmarkStub, ModelConfig
from paceline.evals.execution import new_name, stub_case
from paceline.evals.executor import BenchmarkExecutor, ExecutorOptions
from paceline.evals.faults import Clocks, RetryPolicy
from paceline.evals.planning import Matrix
from paceline.evals.results import ExecutionResults
from paceline.model import Case, Report
from paceline.run.listener import Listener
from paceline.session.request import EvalsOptions, Request, load_config, prepare_with_evals
from paceline.session.session import run
from paceline.sinks.sending import queue_records


class SuiteEvals:
    """The evals of a suite, planned: nothing is written or started before `run`."""

    def __init__(self, section: Evals, options: EvalsOptions) -> None:
        self._executor = _executor(section, options)
        self._matrix = _matrix(section)
        self.stubs: Sequence[BenchmarkStub] = self._executor.plan(self._matrix)
        timeout_s = section.clocks.timeout_per_benchmark_s
        self.cases: Sequence[Case] = [replace(stub_case(stub), timeout_s=timeout_s) for stub in self.stubs]
        self.names = frozenset(case.name for case in self.cases)

    @property
    def base_result_dir(self) -> Path:
        return self._executor.base_result_dir

    def check(self, session_dir: Path) -> None:
        """Raise what is wrong with the devices, or with the place of the results, before anything starts."""
        self._executor.check(self._matrix)
        inside = [stub for stub in self.stubs if Path(stub.result_dir).is_relative_to(session_dir.absolute())]
        if inside:
            raise SessionError(
                f"the results of model {inside[0].model_name} would lie in the session {session_dir}: "
                "choose another --session-name, or another evals.base_result_dir"
            )

    def run(self, names: Collection[str], books: Books) -> ExecutionResults:
        """Run the stubs of some cases as a part of a session."""
        keys = {case.fingerprint for case in self.cases if case.name in names}
        results = self._executor.run(self._matrix, books=books, keys=keys)
        for session_dir in results.killed_sessions:
            with suppress(SessionError):  # somebody has taken it up meanwhile, and tells its sinks
                queue_records(session_dir)
        return results


def find_evals(loaded: Loaded, options: EvalsOptions) -> SuiteEvals | None:
    """The evals of a suite, if it has some."""
    section = loaded.config.evals
    return None if section is None else SuiteEvals(section, options)


def plan_evals(request: Request) -> Sequence[BenchmarkStub]:
    """The stubs of a suite, with no side effect."""
    request = _alone(request, load_config(request))
    _, evals = prepare_with_evals(request, load_config(request))
    return evals.stubs if evals else ()


def run_evals(request: Request, listener: Listener) -> Report:
    """Run the evals of a suite and nothing else, in a session among its results."""
    return run(_alone(request, load_config(request)), listener)


def _alone(request: Request, loaded: Loaded) -> Request:
    """The same request for a session of evals only, which lies beside their results."""
    section = loaded.config.evals
    if section is None and not loaded.problems:
        raise PacelineError(
            f"{loaded.files[-1]} has no evals section: see docs/evals.md for one to start from"
        )
    root = Path(request.evals.base_result_dir or (section.base_result_dir if section else ".")).absolute()
    options = replace(request.evals, alone=True)
    return replace(request, results_dir=root, session_name=new_name(root), evals=options)


def _executor(section: Evals, options: EvalsOptions) -> BenchmarkExecutor:
    gpu_ids: Sequence[int | str] = options.gpu_ids or section.gpu_ids
    return BenchmarkExecutor(
        gpu_ids,
        options.max_concurrent_runs or section.max_concurrent_runs or len(gpu_ids),
        options.base_result_dir or section.base_result_dir,
        options=ExecutorOptions(
            clocks=Clocks(**section.clocks.model_dump()),
            retry=RetryPolicy(**section.retry.model_dump()),
            memory_bytes=section.memory,
            scheduler=section.scheduler,
            exporters=section.exporters,
        ),
        on_progress=options.on_progress,
        on=options.on or section.on,
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

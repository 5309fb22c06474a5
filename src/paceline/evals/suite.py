"""The `evals:` section of a suite: its stubs are cases of the session, and run when its entries have."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from paceline.config.evals import Evals
from paceline.errors import SessionError
from paceline.evals.attention_config import masker_from_content
from paceline.evals.configs import AdapterConfig, BenchmarkConfig, BenchmarkStub, ModelConfig
from paceline.evals.execution import stub_case
from paceline.evals.executor import BenchmarkExecutor, ExecutorOptions, ProgressCallback
from paceline.evals.faults import Clocks, RetryPolicy
from paceline.evals.planning import Matrix
from paceline.model import Case, Record
from paceline.run.context import Context, Stop, Write


class SuiteExecutor:
    """An executor of the session: the evals of a suite on devices of their own.

    Options that are given win over the suite's. Nothing is written or started before it is opened.
    """

    def __init__(
        self,
        section: Evals,
        *,
        gpu_ids: Sequence[int | str] = (),
        max_concurrent_runs: int | None = None,
        base_result_dir: str | None = None,
        on: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        gpu_ids = gpu_ids or section.gpu_ids
        self._executor = BenchmarkExecutor(
            gpu_ids,
            max_concurrent_runs or section.max_concurrent_runs or len(gpu_ids),
            base_result_dir or section.base_result_dir,
            options=ExecutorOptions(
                clocks=Clocks(**section.clocks.model_dump()),
                retry=RetryPolicy(**section.retry.model_dump()),
                memory_bytes=section.memory,
                scheduler=section.scheduler,
                exporters=section.exporters,
            ),
            on_progress=on_progress,
            on=on or section.on,
        )
        self._matrix = _matrix(section)
        self.stubs: Sequence[BenchmarkStub] = self._executor.plan(self._matrix)
        timeout_s = section.clocks.timeout_per_benchmark_s
        # Of the session; its plan may choose among them.
        self.cases: Sequence[Case] = [replace(stub_case(stub), timeout_s=timeout_s) for stub in self.stubs]

    @contextmanager
    def open(self, context: Context) -> Iterator[None]:
        """Check the devices and the directory of the results."""
        self._context = context
        self._executor.check(self._matrix)
        session_dir = context.directory.path
        inside = [stub for stub in self.stubs if Path(stub.result_dir).is_relative_to(session_dir.absolute())]
        if inside:
            raise SessionError(
                f"the results of model {inside[0].model_name} would lie in the session {session_dir}: "
                "choose another --session-name, or another evals.base_result_dir"
            )
        yield

    def run(self, cases: Sequence[Case], stop: Stop, write: Write) -> Iterator[Record]:
        """Run the stubs of these cases; signals are theirs meanwhile. The other cases have their records."""
        context = self._context
        keys = {case.fingerprint for case in cases}
        recorded = {case.fingerprint for case in self.cases} - keys
        results = yield from self._executor.execute(self._matrix, context, write, keys, stop, recorded)
        old = [result for result in results.individual_results if result.is_old and result.stub.key in keys]
        root, total = self._executor.base_result_dir, results.execution_summary["total"]
        if old and context.directory.path.parent != root:
            context.note(f"{len(old)} of {total} stubs were done before; their results are in {root}")
        if results.interrupted and not stop.is_set():
            stop.mark_signalled()

    def stop(self, now: bool = False) -> None:
        """Nothing to do: while stubs run, signals come to the supervisor itself."""


def _matrix(section: Evals) -> Matrix:
    adapter = section.adapter
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
            (attention.name, [masker_from_content(masker) for masker in attention.maskers])
            for attention in section.attentions
        ],
        benchmarks=[
            BenchmarkConfig(
                benchmark.name, benchmark.subsets, benchmark.data_dir, benchmark.revision, benchmark.params
            )
            for benchmark in section.benchmarks
        ],
        adapter=AdapterConfig(
            adapter.name, adapter.model_kwargs, adapter.tokenizer_kwargs, adapter.batch_size
        ),
        generation_kwargs=section.generation_kwargs,
        request_kwargs=section.request_kwargs,
        seed=section.seed,
    )

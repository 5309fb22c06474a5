"""`BenchmarkExecutor`: a matrix of stubs in, results out; what was done before is found and not done again.

A stub is a case of a session. `StubExecutor` is the session's executor for them: it is opened with the session's
context, given the cases that are to run, and yields their records.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from paceline.errors import SessionError
from paceline.evals.attention_config import AttentionConfig
from paceline.evals.code import take_file
from paceline.evals.configs import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkStub,
    ModelConfig,
)
from paceline.evals.devices import DevicePool, DeviceState, SlotFiles, device_names
from paceline.evals.execution import (
    STATES,
    ResultLinks,
    Summary,
    UnrecordedStubs,
    open_session,
    stub_case,
    stub_record,
)
from paceline.evals.interfaces import Adapter, EvalError, StubScheduler, find
from paceline.evals.jobs import (
    Clocks,
    Fault,
    Job,
    Maker,
    Outcome,
    RetryPolicy,
    make_jobs,
    stored_outcome,
)
from paceline.evals.launch import Berth, Launcher, LocalLauncher
from paceline.evals.planning import Matrix, make_stubs
from paceline.evals.results import ExecutionProgress, ExecutionResults, Pace
from paceline.evals.scheduling import Costs
from paceline.evals.stub_files import read_marker
from paceline.evals.supervisor import Supervisor
from paceline.evals.workers import DRAIN, Interrupts, WorkerSeat
from paceline.model import Case, Record
from paceline.record.capacity import whole_cpus
from paceline.record.environment import Environment
from paceline.record.events import SESSION_FINISHED, first_start
from paceline.record.layout import EVENTS, GPU_STATS, WORKERS
from paceline.run.collectors import gpu_collectors
from paceline.run.context import Context, Stop, Tasks, Write

ProgressCallback = Callable[[ExecutionProgress], None]
RecordCallback = Callable[[Record], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """What an executor does beyond running stubs: its clocks, its patience, its choice of the next stub."""

    clocks: Clocks = field(default_factory=Clocks)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """Memory of devices, by id, where the driver does not tell it (or `cpu` for each of those)."""
    gpus_per_model: int = 1
    """How many GPUs each model is spread over: so many of `gpu_ids` are one device."""
    scheduler: str = "longest_first"
    exporters: Sequence[str] = ()
    drain_grace_s: float = 10.0
    gpu_stats_interval_s: float = 5.0


class BenchmarkExecutor:
    """Runs combinations of models, attentions and benchmarks in parallel processes on a pool of devices.

    Args:
        gpu_ids: the devices: indices, UUIDs or MIG instances of GPUs, or "cpu" as often as it is to be used.
        max_concurrent_runs: how many worker processes run at most, over all devices. More than one share a device
            as far as its memory goes; one that runs out of memory there is tried again alone.
        base_result_dir: where results lie, those of earlier executions too.
        options: clocks, retries, GPUs a model, scheduler, exporters.
        on_progress: called with an `ExecutionProgress` whenever something has changed.
        on_record: called with the record of each stub that ended.
        on: the address of a Ray cluster (or "auto") whose nodes are to run the workers. All see `base_result_dir`; each
            of `gpu_ids` then stands for one GPU, or one CPU, that Ray finds.
    """

    def __init__(
        self,
        gpu_ids: Iterable[int | str],
        max_concurrent_runs: int,
        base_result_dir: str | os.PathLike[str] = "./benchmark_results",
        *,
        options: ExecutorOptions | None = None,
        on_progress: ProgressCallback | None = None,
        on_record: RecordCallback | None = None,
        on: str | None = None,
    ) -> None:
        self.gpu_ids = list(gpu_ids)
        self.options = options or ExecutorOptions()
        self.devices = device_names(self.gpu_ids, self.options.gpus_per_model)
        self.max_concurrent_runs = max_concurrent_runs
        self.base_result_dir = Path(os.path.abspath(base_result_dir))  # noqa: PTH100 - links stay as they are
        self.on_progress = on_progress
        self.on = None if on == "local" else on
        self._on_record = on_record
        if isinstance(max_concurrent_runs, bool) or max_concurrent_runs < 1:
            raise EvalError("max_concurrent_runs is 1 or more")

    def plan(self, matrix: Matrix) -> list[BenchmarkStub]:
        """The stubs of a matrix, each with its key and directory; nothing is written or started."""
        return list(StubExecutor(self, matrix).stubs)

    def run_benchmark_matrix(
        self,
        model_names: Sequence[str | ModelConfig],
        sparse_attention_configs: Sequence[tuple[str, AttentionConfig]],
        benchmark_configs: Sequence[BenchmarkConfig],
        adapter_config: AdapterConfig,
        generation_kwargs: Mapping[str, Any] | None = None,
        request_kwargs: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> ExecutionResults:
        """Run all combinations of models, attentions and benchmarks in parallel.

        Args:
            model_names: names of models, or `ModelConfig`s.
            sparse_attention_configs: (name, config) pairs, such as [("dense", None), ("streaming", StreamingConfig())].
            benchmark_configs: benchmarks with their subsets.
            adapter_config: how models are run.
            generation_kwargs: arguments for generating, such as {"max_new_tokens": 256}.
            request_kwargs: `max_requests` (samples a stub), `max_context_length` (tokens).
            seed: what everything that is drawn at random depends on.

        Returns:
            The results of all stubs, those that were done before included. What failed is in there too: only what
            is wrong with the arguments raises.
        """
        matrix = Matrix(
            models=model_names,
            attentions=sparse_attention_configs,
            benchmarks=benchmark_configs,
            adapter=adapter_config,
            generation_kwargs=generation_kwargs or {},
            request_kwargs=request_kwargs or {},
            seed=seed,
        )
        return self.run(matrix)

    def run(self, matrix: Matrix, *, keys: Collection[str] | None = None) -> ExecutionResults:
        """The same for a matrix that is put together already, in a session of its own.

        `keys` chooses stubs, all by default.
        """
        executor = StubExecutor(self, matrix)
        executor.cases = [case for case in executor.cases if keys is None or case.fingerprint in keys]
        executor.check()
        with open_session(self.base_result_dir, executor.cases) as context, executor.open(context):

            def write(record: Record, tasks: Tasks = ()) -> Record:
                record = context.directory.write_record(record)
                context.events.write(
                    "case_finished", case=record.case.name, status=record.status, reason=record.reason
                )
                if self._on_record is not None:
                    self._on_record(record)
                return record

            for _ in executor.run(executor.cases, Stop(), write):
                pass
            results = executor.results
            assert results is not None
            counts = {state: results.execution_summary[state] for state in STATES}
            context.events.write(SESSION_FINISHED, interrupted=results.interrupted, counts=counts)
        return results


class StubExecutor:
    """The executor of a session for the stubs of a matrix, on devices of their own.

    Nothing is written or started before it is opened.
    """

    def __init__(self, owner: BenchmarkExecutor, matrix: Matrix) -> None:
        self._owner, self._matrix = owner, matrix
        self.stubs: Sequence[BenchmarkStub] = make_stubs(matrix, owner.base_result_dir)
        self._scheduler: Callable[[], StubScheduler] = find(
            "eval_schedulers", take_file(owner.options.scheduler)
        )
        self._exporters = [find("eval_exporters", take_file(name)) for name in owner.options.exporters]
        timeout_s = owner.options.clocks.timeout_per_benchmark_s
        self.cases: Sequence[Case] = [replace(stub_case(stub), timeout_s=timeout_s) for stub in self.stubs]
        """Of the session; its plan may choose among them."""
        self.results: ExecutionResults | None = None
        self._pool: DevicePool | None = None

    def check(self) -> DevicePool:
        """Look for the devices and make the results directory; what is wrong with them is raised."""
        owner = self._owner
        adapter: type[Adapter] = find("eval_adapters", take_file(self._matrix.adapter.adapter_name))
        pool = DevicePool(
            owner.devices,
            max_workers=owner.max_concurrent_runs,
            memory_bytes=owner.options.memory_bytes,
            look_for_gpus=adapter.uses_gpu and owner.on is None,
            on_cluster=owner.on is not None,
        )
        try:
            owner.base_result_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"cannot make {owner.base_result_dir}: {error.strerror or error}; choose another base_result_dir"
            ) from error
        return pool

    @contextmanager
    def open(self, context: Context) -> Iterator[None]:
        """Check the devices and the directory of the results."""
        self._context = context
        self._pool = self.check()
        session_dir = context.directory.path.absolute()
        inside = [stub for stub in self.stubs if Path(stub.result_dir).is_relative_to(session_dir)]
        if inside:
            raise SessionError(
                f"the results of model {inside[0].model_name} would lie in the session {session_dir}: "
                "choose another --session-name, or another evals.base_result_dir"
            )
        yield

    def run(self, cases: Sequence[Case], stop: Stop, write: Write) -> Iterator[Record]:
        """Run the stubs of these cases; signals are theirs meanwhile. The other cases have their records."""
        assert self._pool is not None, "opened first"
        context, owner = self._context, self._owner
        names = {case.fingerprint: case.name for case in cases}
        recorded = {case.fingerprint for case in self.cases} - names.keys()
        stubs = [
            stub
            for stub in self.stubs
            if stub.key in names
            or (stub.key in recorded and read_marker(Path(stub.result_dir), stub.key) is not None)
        ]
        execution = _Execution(self, stubs, self._pool, context, write, recorded, stop)
        yield from execution.go()
        results = self.results = execution.results()
        for export in self._exporters:
            export(results, results.directory)
        if results.directory.parent == owner.base_result_dir:
            links = ResultLinks(results.directory, owner.base_result_dir)
            for result in results.individual_results:
                links.add(Path(result.result_dir))
        self._note_old(results, names)
        if results.interrupted and not stop.is_set():
            stop.mark_signalled()

    def _note_old(self, results: ExecutionResults, names: Mapping[str, str]) -> None:
        """Tell the session what earlier ones have the results of."""
        old = [result for result in results.individual_results if result.is_old and result.stub.key in names]
        for result in old:
            self._context.done_before[names[result.stub.key]] = f"its result is in {result.result_dir}"
        root, total = self._owner.base_result_dir, results.execution_summary["total"]
        if old and self._context.directory.path.parent != root:
            self._context.note(f"{len(old)} of {total} stubs were done before; their results are in {root}")

    def stop(self, now: bool = False) -> None:
        """Nothing to do: while stubs run, signals come to the supervisor itself."""


class _Execution:
    """One execution, from what earlier ones did to its summary; it is also the supervisor's observer."""

    def __init__(
        self,
        executor: StubExecutor,
        stubs: Sequence[BenchmarkStub],
        pool: DevicePool,
        context: Context,
        write: Write,
        recorded: Collection[str],
        stop: Stop,
    ) -> None:
        self._executor, self._owner = executor, executor._owner
        self._pool = pool
        self._context, self._write, self._recorded, self._stop = context, write, recorded, stop
        self._directory = context.directory.path
        self._costs = Costs(self._owner.base_result_dir)
        began = first_start(self._directory / EVENTS).get("time", "")
        self._maker = Maker(session=context.session, started_at=str(began), directory=str(self._directory))
        self._jobs = make_jobs(executor._matrix, stubs, self._costs, self._maker)
        self._pace = Pace({job.number: job.expected_s for job in self._jobs})
        self._interrupts = Interrupts()
        self._summary = Summary(context.session, self._directory, len(stubs))
        self._slots = SlotFiles(self._directory)
        self._running_since = monotonic()
        self._written: list[Record] = []
        self._busy = (0.0, 0.0)

    def go(self) -> Iterator[Record]:
        """Skip what is done, run what is not; records as they are written."""
        pending = self._skip_done()
        yield from self._take_written()
        with self._interrupts as interrupts:
            if pending:
                yield from self._supervise(pending, interrupts)

    def _take_written(self) -> Iterator[Record]:
        written, self._written = self._written, []
        yield from written

    def _skip_done(self) -> list[Job]:
        """Count what earlier executions did; what is left to run."""
        pending, unrecorded = [], UnrecordedStubs(self._maker)
        for job in self._jobs:
            marker = read_marker(Path(job.stub.result_dir), job.stub.key)
            if marker is None:
                pending.append(job)
                continue
            # This very session made it, and was ended before it could write the record: it does so now.
            is_ours = self._maker.made(marker.facts) and job.stub.key not in self._recorded
            job.attempt = int(marker.facts.get("attempt") or 1)
            job.outcome = stored_outcome(marker.facts, "completed" if is_ours else "skipped")
            self.ended(job, job.outcome)
            recovered = None if self._maker.made(marker.facts) else unrecorded.take_over(job, marker)
            if recovered is not None:
                self._record(job, stored_outcome(recovered.facts, "completed"), recovered.environment)
        return pending

    def _supervise(self, pending: Sequence[Job], interrupts: Interrupts) -> Iterator[Record]:
        """Run what is left; notes the seconds in which workers had a stub, and in which they could have had one."""
        owner, options = self._owner, self._owner.options
        launcher = make_launcher(owner.on, self._directory, self._context.secret_names)
        seats = min(owner.max_concurrent_runs, len(pending))
        cpus = whole_cpus()

        def berth(device: DeviceState) -> Berth:
            share = 0.0 if device.is_cpu else device.count / self._pool.workers_per_device
            environment = device.environment(self._pool.max_workers, cpus, os.environ)
            return Berth(environment=environment, gpu_share=share)

        supervisor = Supervisor(
            pending,
            pool=self._pool,
            scheduler=self._executor._scheduler(),
            launcher=launcher,
            observer=self,
            interrupts=interrupts,
            berth=berth,
            clocks=options.clocks,
            policy=options.retry,
            commands=self._slots.requests,
            mask=self._mask,
            drain_grace_s=options.drain_grace_s,
        )
        self._running_since = monotonic()
        with ExitStack() as stack:
            stack.callback(launcher.close)
            for collector in gpu_collectors(self._directory / GPU_STATS, options.gpu_stats_interval_s):
                stack.enter_context(collector)
            for _ in supervisor.run():
                yield from self._take_written()
            yield from self._take_written()
        self._busy = supervisor.busy_s, seats * (monotonic() - self._running_since)

    def results(self) -> ExecutionResults:
        """All that came of it, and its summary on disk."""
        busy_s, offered_s = self._busy
        interrupted = self._interrupts.level > 0
        self._costs.write()
        self._slots.forget()
        data = self._summary.data(
            interrupted=interrupted,
            slot_busy_share=busy_s / offered_s if offered_s else None,
            gpu_ids=self._owner.gpu_ids,
            max_concurrent_runs=self._owner.max_concurrent_runs,
        )
        self._summary.write(data)
        counts = {state: data[state] for state in STATES}
        self._context.events.write("execution_finished", interrupted=interrupted, counts=counts)
        self._tell_progress()
        results, failures = self._summary.results, self._summary.failures
        return ExecutionResults(
            execution_summary=data,
            individual_results=[results[number] for number in sorted(results)],
            failed_executions=[failures[number] for number in sorted(failures)],
            execution_time=data["execution_time"],
            directory=self._directory,
            interrupted=interrupted,
        )

    def _mask(self, fault: Fault) -> Fault:
        """What workers print and raise may hold secrets of the environment."""
        mask = self._context.redactor.text
        return replace(
            fault, message=mask(fault.message), log_tail=mask(fault.log_tail), traceback=mask(fault.traceback)
        )

    # What the supervisor tells

    def event(self, kind: str, **fields: Any) -> None:
        self._context.events.write(kind, **fields)

    def ended(self, job: Job, outcome: Outcome) -> None:
        self._summary.add(job, outcome)
        self._pace.end(job.number, ran=outcome.state in ("completed", "failed"))
        self._costs.note(job.stub, job.memory_key, outcome.facts)
        if outcome.state != "skipped":
            self._record(job, outcome, self._context.environment)

    def _record(self, job: Job, outcome: Outcome, environment: Environment) -> None:
        record = stub_record(self._context.session, job, outcome, environment)
        attempt = max(record.attempt, self._context.directory.next_attempt(record.case))
        self._written.append(self._write(replace(record, attempt=attempt), ()))
        if self._stop.is_set():
            self._interrupts.ask(DRAIN)

    def changed(self, supervisor: Supervisor) -> None:
        self._slots.show(self._pool, supervisor.workers.values())
        self._tell_progress(list(supervisor.workers.values()))

    def _tell_progress(self, workers: Sequence[WorkerSeat] = ()) -> None:
        if self._owner.on_progress is None:
            return
        known: dict[str, int | str] = {str(name): name for name in self._owner.gpu_ids}
        current: dict[int | str, str] = {}
        shares: list[tuple[int, float]] = []
        for worker in workers:
            if (lease := worker.lease) is not None:
                key = known.get(worker.device.id, worker.device.id)
                text = f"{lease.job.stub.name} ({lease.known}/{lease.total})"
                current[key] = f"{current[key]}; {text}" if key in current else text
                shares.append((lease.job.number, lease.known / max(1, lease.total)))
        counts, elapsed = self._summary.counts, monotonic() - self._running_since
        progress = ExecutionProgress(
            total_stubs=len(self._jobs),
            skipped_stubs=counts["skipped"],
            completed_stubs=counts["completed"],
            failed_stubs=counts["failed"],
            cancelled_stubs=counts["cancelled"],
            current_executions=current,
            elapsed_s=elapsed,
            eta_s=self._pace.eta_s(elapsed, shares),
        )
        self._owner.on_progress(progress)


def make_launcher(on: str | None, directory: Path, secret_names: tuple[str, ...]) -> Launcher:
    """Workers on this machine, or on the nodes of the Ray cluster at an address."""
    log_dir = directory / WORKERS
    if on is None:
        return LocalLauncher(log_dir, secret_names)
    from paceline.evals.ray_launch import RayLauncher

    return RayLauncher(log_dir, on, secret_names)

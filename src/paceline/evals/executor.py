"""`BenchmarkExecutor`: a matrix of stubs in, results out; what was done before is found and not done again."""

import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from paceline.errors import SessionError
from paceline.evals.attention_config import AttentionConfig
from paceline.evals.configs import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkStub,
    ModelConfig,
    generation_from_content,
    model_from_content,
    model_spec,
)
from paceline.evals.devices import DevicePool, DeviceState, device_names
from paceline.evals.execution import STATES, ResultLinks, Summary, open_session, stub_record
from paceline.evals.faults import Clocks, FaultClass, RetryPolicy
from paceline.evals.interfaces import Adapter, EvalError, StubScheduler, find, import_path
from paceline.evals.jobs import Fault, Job, Maker, Outcome, stored_outcome
from paceline.evals.keys import content_key
from paceline.evals.launch import Berth, Launcher, LocalLauncher
from paceline.evals.planning import Matrix, make_stubs
from paceline.evals.results import ExecutionProgress, ExecutionResults, Pace
from paceline.evals.scheduling import Costs
from paceline.evals.slots import SlotFiles
from paceline.evals.stub_files import read_attempts, read_marker
from paceline.evals.supervisor import Supervisor
from paceline.evals.unrecorded import UnrecordedStubs
from paceline.evals.workers import DRAIN, Interrupts, WorkerSeat
from paceline.model import Record
from paceline.record.capacity import whole_cpus
from paceline.record.environment import Environment
from paceline.record.events import SESSION_FINISHED, first_start
from paceline.record.layout import EVENTS, GPU_STATS, WORKERS
from paceline.run.collectors import gpu_collectors
from paceline.run.context import Context, Stop, Tasks, Write

_FAULTS = frozenset(fault.value for fault in FaultClass)
ProgressCallback = Callable[[ExecutionProgress], None]
RecordCallback = Callable[[Record], None]
Exporter = Callable[[ExecutionResults, Path], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """What an executor does beyond running stubs: its clocks, its patience, its choice of the next stub."""

    clocks: Clocks = field(default_factory=Clocks)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """Memory of devices, by id, where the driver does not tell it (or `cpu` for each of those)."""
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
        options: clocks, retries, scheduler, exporters.
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
        device_names(self.gpu_ids)
        self.max_concurrent_runs = max_concurrent_runs
        self.base_result_dir = Path(os.path.abspath(base_result_dir))  # noqa: PTH100 - links stay as they are
        self._options = options or ExecutorOptions()
        self._on_progress = on_progress
        self._on_record = on_record
        self._on = on
        if isinstance(max_concurrent_runs, bool) or max_concurrent_runs < 1:
            raise EvalError("max_concurrent_runs is 1 or more")

    def plan(self, matrix: Matrix) -> list[BenchmarkStub]:
        """The stubs of a matrix, each with its key and directory; nothing is written or started."""
        return make_stubs(matrix, self.base_result_dir)

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
        stubs = [stub for stub in self.plan(matrix) if keys is None or stub.key in keys]
        self.check(matrix)
        with open_session(self.base_result_dir, stubs) as context:

            def write(record: Record, tasks: Tasks = ()) -> Record:
                record = context.directory.write_record(record)
                context.events.write(
                    "case_finished", case=record.case.name, status=record.status, reason=record.reason
                )
                if self._on_record is not None:
                    self._on_record(record)
                return record

            chosen = {stub.key for stub in stubs}
            execution = self.execute(matrix, context, write, chosen, Stop())
            while True:
                try:
                    next(execution)
                except StopIteration as end:
                    results: ExecutionResults = end.value
                    break
            context.events.write(
                SESSION_FINISHED,
                interrupted=results.interrupted,
                counts={state: results.execution_summary[state] for state in STATES},
            )
        return results

    def execute(
        self,
        matrix: Matrix,
        context: Context,
        write: Write,
        keys: Collection[str],
        stop: Stop,
        recorded: Collection[str] = (),
    ) -> Generator[Record, None, ExecutionResults]:
        """Run the stubs with these keys as a part of a session, and yield their records as they are written.

        Stubs of this session that are `recorded` already are in the results, if they are done.
        """
        pool, scheduler, exporters = self.check(matrix)
        stubs = [
            stub
            for stub in self.plan(matrix)
            if stub.key in keys
            or (stub.key in recorded and read_marker(Path(stub.result_dir), stub.key) is not None)
        ]
        results = yield from _Run(self, matrix, stubs, pool, scheduler, context, write, recorded, stop).go()
        for export in exporters:
            export(results, results.directory)
        if results.directory.parent == self.base_result_dir:
            links = ResultLinks(results.directory, self.base_result_dir)
            for result in results.individual_results:
                links.add(Path(result.result_dir))
        return results

    def check(self, matrix: Matrix) -> tuple[DevicePool, StubScheduler, Sequence[Exporter]]:
        """Look for the devices and make the results directory; what is wrong with them is raised."""
        adapter: type[Adapter] = find("eval_adapters", matrix.adapter.adapter_name)
        pool = DevicePool(
            self.gpu_ids,
            max_workers=self.max_concurrent_runs,
            memory_bytes=self._options.memory_bytes,
            look_for_gpus=adapter.uses_gpu and self._on is None,
        )
        scheduler: StubScheduler = find("eval_schedulers", self._options.scheduler)()
        exporters = [find("eval_exporters", name) for name in self._options.exporters]
        try:
            self.base_result_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"cannot make {self.base_result_dir}: {error.strerror or error}; choose another base_result_dir"
            ) from error
        return pool, scheduler, exporters


class _Run:
    """One execution, from what earlier ones did to its summary; it is also the supervisor's observer."""

    def __init__(
        self,
        executor: BenchmarkExecutor,
        matrix: Matrix,
        stubs: Sequence[BenchmarkStub],
        pool: DevicePool,
        scheduler: StubScheduler,
        context: Context,
        write: Write,
        recorded: Collection[str],
        stop: Stop,
    ) -> None:
        self._executor = executor
        self._options = executor._options
        self._pool, self._scheduler = pool, scheduler
        self._context, self._write, self._recorded, self._stop = context, write, recorded, stop
        self._directory = context.directory.path
        self._costs = Costs(executor.base_result_dir)
        began = first_start(self._directory / EVENTS).get("time", "")
        self._maker = Maker(session=context.session, started_at=str(began), directory=str(self._directory))
        self._jobs = make_jobs(matrix, stubs, self._costs, self._maker)
        self._pace = Pace({job.number: job.expected_s for job in self._jobs})
        self._interrupts = Interrupts()
        self._summary = Summary(context.session, self._directory, len(stubs))
        self._slots = SlotFiles(self._directory)
        self._running_since = monotonic()
        self._written: list[Record] = []
        self._keys: dict[str, int | str] = {str(name): name for name in executor.gpu_ids}

    def go(self) -> Generator[Record, None, ExecutionResults]:
        pending = self._skip_done()
        yield from self._take_written()
        busy = (0.0, 0.0)
        with self._interrupts as interrupts:
            if pending:
                busy = yield from self._supervise(pending, interrupts)
            return self._finish(interrupted=interrupts.level > 0, busy=busy)

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

    def _supervise(
        self, pending: Sequence[Job], interrupts: Interrupts
    ) -> Generator[Record, None, tuple[float, float]]:
        """Run what is left; seconds in which workers had a stub, and in which they could have had one."""
        launcher = make_launcher(self._executor._on, self._directory, self._context.secret_names)
        seats = min(self._executor.max_concurrent_runs, len(pending))
        cpus = whole_cpus()

        def berth(device: DeviceState) -> Berth:
            share = 0.0 if device.is_cpu else 1 / self._pool.workers_per_device
            environment = device.environment(self._executor.max_concurrent_runs, cpus, os.environ)
            return Berth(environment=environment, gpu_share=share)

        supervisor = Supervisor(
            pending,
            pool=self._pool,
            scheduler=self._scheduler,
            launcher=launcher,
            observer=self,
            interrupts=interrupts,
            berth=berth,
            clocks=self._options.clocks,
            policy=self._options.retry,
            commands=self._slots.requests,
            mask=self._mask,
            drain_grace_s=self._options.drain_grace_s,
        )
        self._running_since = monotonic()
        with ExitStack() as stack:
            stack.callback(launcher.close)
            for collector in gpu_collectors(self._directory / GPU_STATS, self._options.gpu_stats_interval_s):
                stack.enter_context(collector)
            for _ in supervisor.run():
                yield from self._take_written()
            yield from self._take_written()
        return supervisor.busy_s, seats * (monotonic() - self._running_since)

    def _finish(self, *, interrupted: bool, busy: tuple[float, float]) -> ExecutionResults:
        busy_s, offered_s = busy
        self._costs.write()
        self._slots.forget()
        data = self._summary.data(
            interrupted=interrupted,
            slot_busy_share=busy_s / offered_s if offered_s else None,
            gpu_ids=self._executor.gpu_ids,
            max_concurrent_runs=self._executor.max_concurrent_runs,
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
        self._costs.note(job.stub, job.model_key, outcome.facts)
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
        if self._executor._on_progress is None:
            return
        current: dict[int | str, str] = {}
        shares: list[tuple[int, float]] = []
        for worker in workers:
            if (lease := worker.lease) is not None:
                key = self._keys.get(worker.device.id, worker.device.id)
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
        self._executor._on_progress(progress)


def make_launcher(on: str | None, directory: Path, secret_names: tuple[str, ...]) -> Launcher:
    """Workers on this machine, or on the nodes of the Ray cluster at an address."""
    log_dir = directory / WORKERS
    if on is None or on == "local":
        return LocalLauncher(log_dir, secret_names)
    from paceline.evals.ray_launch import RayLauncher

    return RayLauncher(log_dir, on, secret_names)


def make_jobs(matrix: Matrix, stubs: Sequence[BenchmarkStub], costs: Costs, maker: Maker) -> list[Job]:
    """Stubs as the supervisor takes them, with what is known of their length, size and earlier faults."""
    adapter: type[Adapter] = find("eval_adapters", matrix.adapter.adapter_name)
    # With its name and password, which are not part of what is written down.
    models = (ModelConfig(model) if isinstance(model, str) else model for model in matrix.models)
    urls = {
        model.model_name: model_spec(model, matrix.adapter).model_kwargs.get("base_url") for model in models
    }
    sizes: dict[str, int] = {}
    jobs = []
    for number, stub in enumerate(stubs):
        model_key = content_key({"model": stub.content["model"], "adapter": stub.content["adapter"]})
        if model_key not in sizes:
            sizes[model_key] = _memory_bytes(adapter, stub, costs.peak_bytes(model_key))
        job = Job(
            number=number,
            stub=stub,
            model_key=model_key,
            payload={
                "maker": maker.facts(),
                "base_url": urls.get(stub.model_name),
                **_payload(stub, model_key, adapter),
            },
            maker=maker,
            expected_s=costs.expected_s(stub),
            memory_bytes=sizes[model_key],
        )
        for attempt in read_attempts(Path(stub.result_dir)):
            if attempt.get("fault") in _FAULTS:
                job.faults[FaultClass(attempt["fault"])] += 1
        jobs.append(job)
    return jobs


def _memory_bytes(adapter: type[Adapter], stub: BenchmarkStub, peak_bytes: int | None) -> int:
    """What a model takes: as the user says, else as was seen, else as its adapter estimates, else nothing."""
    if stub.memory_bytes is not None:
        return stub.memory_bytes
    if peak_bytes is not None:
        return peak_bytes
    generation = generation_from_content(stub.content, stub.adapter_config.batch_size)
    return adapter.estimate_memory_bytes(model_from_content(stub.content), generation) or 0


def _payload(stub: BenchmarkStub, model_key: str, adapter: type[Adapter]) -> dict[str, Any]:
    return {
        "directory": stub.result_dir,
        "key": stub.key,
        "content": stub.content,
        "model_key": model_key,
        "adapter": import_path(adapter),
        "benchmark": import_path(find("eval_benchmarks", stub.benchmark_name)),
        "data_dir": None if stub.data_dir is None else str(Path(stub.data_dir).absolute()),
        "batch_size": stub.adapter_config.batch_size,
    }

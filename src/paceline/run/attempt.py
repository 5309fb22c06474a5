"""A case → a record: every path through here ends in exactly one."""

import statistics
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import PacelineError
from paceline.model import Case, Record, Status
from paceline.record.directory import SessionDir
from paceline.record.events import RUN_ENDED, RUN_STARTED, EventLog, utc_now
from paceline.record.masking import mask_record
from paceline.record.redact import Redactor
from paceline.run.collectors import Collector, SystemCollector, make_collectors, write_samples
from paceline.run.listener import Listener
from paceline.run.local.process import Command, Exit, Warden
from paceline.run.outcome import Run, measurements, merged_warnings, notes, usage_metrics, verdict
from paceline.run.output import OutputLog
from paceline.run.scheduler import Grant
from paceline.run.script_output import ScriptOutput, read

if TYPE_CHECKING:
    from paceline.run.ray.cluster import RayCluster


Tasks = tuple[Mapping[str, Any], ...]

METRICS = "metrics.json"
CURVE_FROM_S = 0.1
"""From which run time on the samples are kept as a curve; shorter runs have a handful of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the cases of one session share."""

    session: str
    directory: SessionDir
    redactor: Redactor
    events: EventLog
    listener: Listener
    environ: Mapping[str, str]
    store: Callable[[Record, Tasks], object]
    environment_id: str = ""
    revision: str = ""
    gpu_interval_s: float = 1.0
    details: Mapping[str, Any] = field(default_factory=dict)
    stopping: Callable[[], bool] = lambda: False


def run_case(case: Case, warden: Warden, grant: Grant, bench: Bench) -> tuple[Record, Tasks]:
    """Run a case, again after infrastructure faults as often as it allows; the last attempt's record and its tasks."""
    return retried(case, bench, lambda number: run_attempt(case, number, warden, grant, bench))


def retried(
    case: Case,
    bench: Bench,
    attempt: Callable[[int], tuple[Record, Tasks]],
    spared: Callable[[Record], bool] = lambda record: False,
) -> tuple[Record, Tasks]:
    """Attempts at a case, each with its number, up to the last; those that are `spared` do not use up its retries."""
    retries_left = case.retries
    while True:
        number = bench.directory.next_attempt(case)
        record, tasks = attempt(number)
        if record.status is not Status.INFRA_ERROR or bench.stopping():
            return record, tasks
        if not spared(record):
            if not retries_left:
                return record, tasks
            retries_left -= 1
        bench.store(record, tasks)
        bench.events.write("retry", case=case.name, attempt=number, reason=record.reason)
        bench.listener.note(f"{case.name}: attempt {number} failed and is repeated: {record.reason}")


def unrun_record(case: Case, status: Status, reason: str, bench: Bench) -> Record:
    """The record of a case whose command was never started."""
    return mask_record(
        blank_record(case, bench.directory.next_attempt(case), bench, status, reason), bench.redactor
    )


def run_attempt(case: Case, attempt: int, warden: Warden, grant: Grant, bench: Bench) -> tuple[Record, Tasks]:
    """One attempt at a case on this machine."""
    refusal = _refusal(case, grant)
    if refusal:
        return mask_record(
            blank_record(case, attempt, bench, Status.LAUNCH_ERROR, refusal), bench.redactor
        ), ()
    return guarded(case, attempt, bench, _Attempt(case, attempt, warden, grant, bench).record)


def guarded(
    case: Case, attempt: int, bench: Bench, action: Callable[[], tuple[Record, Tasks]]
) -> tuple[Record, Tasks]:
    """What an attempt comes to, with secrets masked; a bug in it makes a record too."""
    tasks: Tasks = ()
    try:
        record, tasks = action()
    except PacelineError:
        raise
    except Exception as bug:  # noqa: BLE001 - one case's fault, even if it is ours, must not end the session
        bench.events.write("bug", case=case.name, traceback=bench.redactor.text(traceback.format_exc()))
        reason = f"{type(bug).__name__}: {bug} (the traceback is in events.jsonl)"
        record = blank_record(case, attempt, bench, Status.INFRA_ERROR, reason)
    return mask_record(record, bench.redactor), tasks


def _refusal(case: Case, grant: Grant) -> str | None:
    if case.blocked:
        return case.blocked
    if case.resources.gpus > len(grant.gpus):
        return f"needs {case.resources.gpus} GPUs; this machine has {len(grant.gpus)}"
    return None


class _Attempt:
    """One attempt at a case: its cluster, its warm-ups and repetitions."""

    def __init__(self, case: Case, attempt: int, warden: Warden, grant: Grant, bench: Bench) -> None:
        self._case = case
        self._number = attempt
        self._warden = warden
        self._grant = grant
        self._bench = bench
        self._log: OutputLog | None = None
        self._cluster: RayCluster | None = None
        self._timings_s: dict[str, float] = {}

    def record(self) -> tuple[Record, Tasks]:
        entry_dir = self._bench.directory.prepare(self._case)
        command = [self._bench.redactor.text(word) for word in self._argv(entry_dir)]
        self._bench.listener.case_started(self._case, command, entry_dir, self._tail)
        started = utc_now()
        begun = time.monotonic()
        runs: list[Run] = []
        with ExitStack() as stack:
            fault = self._start_cluster(stack, entry_dir)
            if fault is None:
                runs = self._run_all()
        self._bench.directory.clean(self._case)
        self._timings_s |= {
            "total": time.monotonic() - begun,
            **(self._cluster.timings_s if self._cluster else {}),
        }
        if fault is not None:
            status = Status.INTERRUPTED if self._bench.stopping() else Status.INFRA_ERROR
            record = blank_record(self._case, self._number, self._bench, status, fault)
        else:
            record = self._combined(runs)
        complete = replace(
            record,
            started_at=started,
            command=tuple(command),
            warnings=(*record.warnings, *(self._cluster.warnings if self._cluster else ())),
            timings_s={name: round(value, 6) for name, value in self._timings_s.items()},
            artifacts=self._bench.directory.artifacts(self._case),
        )
        return complete, runs[-1].output.tasks if runs else ()

    def _start_cluster(self, stack: ExitStack, entry_dir: Path) -> str | None:
        """Start the entry's own Ray cluster if it has one; what went wrong, or None."""
        if self._case.cluster is None:
            return None
        from paceline.run.ray.cluster import ClusterError, RayCluster

        self._cluster = cluster = RayCluster(
            self._case.cluster,
            entry_dir / "ray_cluster",
            self._environ(entry_dir),
            cwd=self._cwd(entry_dir),
            redactor=self._bench.redactor,
            stopping=self._bench.stopping,
        )
        try:
            stack.enter_context(cluster)
        except ClusterError as error:
            return str(error)
        return None

    def _run_all(self) -> list[Run]:
        """Warm-ups, then repetitions, up to the first that does not pass; warm-ups that passed are not counted."""
        runs = []
        labels = _labels(self._case)
        for position, label in enumerate(labels):
            if label:
                self._bench.listener.run_started(self._case, _spoken(self._case, position))
            run = self._run_once(label)
            if position >= self._case.warmup or run.status is not Status.PASSED:
                runs.append(run)
            if run.status is not Status.PASSED:
                break
        return runs

    def _run_once(self, label: str | None) -> Run:
        run_dir = self._bench.directory.run_dir(self._case, label)
        run_id = uuid.uuid4().hex
        command = self._command(run_dir, run_id)
        results_path = Path(command.env["PACELINE_RESULTS_PATH"])
        metrics_before = _stamp(results_path / METRICS)
        collectors = make_collectors(run_dir, gpu_interval_s=self._bench.gpu_interval_s)
        system = SystemCollector()
        with OutputLog(run_dir / "logs", self._bench.redactor.stream) as log, ExitStack() as stack:
            self._log = log
            self._bench.events.write(RUN_STARTED, case=self._case.name, label=label, run_id=run_id)
            for collector in collectors:
                stack.enter_context(collector)
            with system:
                ended = self._warden.run(command, log.write, cancelled=self._bench.stopping)
        self._bench.events.write(RUN_ENDED, run_id=run_id)
        sampling_fault = ""
        if ended.usage.wall_s >= CURVE_FROM_S:
            sampling_fault = write_samples(run_dir / "resources.csv", ended.usage.samples)
        output = _written_by_this_run(read(results_path), results_path / METRICS, metrics_before)
        status, reason = verdict(self._case, ended, output, log.tail(1))
        collected = _collected(ended, system, collectors)
        warnings = (*notes(ended, output, log), *(note for part in collectors for note in part.warnings()))
        return Run(
            exit=ended,
            output=output,
            collected=collected,
            warnings=tuple(filter(None, (*warnings, sampling_fault, *system.warnings(ended.usage)))),
            status=status,
            reason=reason,
        )

    def _command(self, run_dir: Path, run_id: str) -> Command:
        case = self._case
        results_path = Path(case.at(case.results_path, run_dir))
        results_path.mkdir(parents=True, exist_ok=True)
        env = {
            **self._environ(run_dir),
            **(self._cluster.env if self._cluster else {}),
            "PACELINE_RESULTS_PATH": str(results_path),
            "PACELINE_SESSION": self._bench.session,
            "PACELINE_CASE": case.name,
            "PACELINE_RUN_ID": run_id,
        }
        return Command(
            argv=self._argv(run_dir),
            env=env,
            cwd=self._cwd(run_dir),
            timeout_s=case.timeout_s,
            grace_s=case.grace_s,
            max_processes=case.limits.processes,
            max_memory_bytes=case.limits.memory_bytes,
        )

    def _environ(self, run_dir: Path) -> dict[str, str]:
        """The user's environment, changed only as the entry says; its cluster's workers have it too."""
        env = {**self._bench.environ}
        env.update((name, self._case.at(value, run_dir)) for name, value in self._case.env.items())
        if self._case.resources.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(self._grant.gpus)
        return env

    def _cwd(self, run_dir: Path) -> str:
        return self._case.at(self._case.cwd, run_dir) if self._case.cwd else str(Path.cwd())

    def _argv(self, run_dir: Path) -> tuple[str, ...]:
        return tuple(self._case.at(word, run_dir) for word in self._case.argv)

    def _tail(self, count: int) -> list[str]:
        return self._log.tail(count) if self._log is not None else []

    def _combined(self, runs: Sequence[Run]) -> Record:
        """One record out of all counted runs; the last one decides the status."""
        last = runs[-1]
        walls_s = [run.exit.usage.wall_s for run in runs]
        self._timings_s["run"] = sum(walls_s)
        record = blank_record(self._case, self._number, self._bench, last.status, last.reason)
        return replace(
            record,
            exec_time_s=round(statistics.median(walls_s), 6),
            returncode=last.exit.returncode,
            metrics=measurements(runs),
            params=last.output.params,
            warnings=merged_warnings(runs),
        )


def _collected(ended: Exit, system: SystemCollector, collectors: Sequence[Collector]) -> dict[str, float]:
    """What we measured; nothing of a command that never ran or whose figures were lost, not even zeros."""
    if ended.reason in ("launch_error", "lost"):
        return {}
    parts = (part.metrics() for part in collectors)
    return {
        **usage_metrics(ended.usage),
        **system.metrics(ended.usage),
        **{k: v for part in parts for k, v in part.items()},
    }


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _written_by_this_run(
    output: ScriptOutput, metrics: Path, before: tuple[int, int, int] | None
) -> ScriptOutput:
    """What a script wrote, without the metrics that an earlier run left in a directory they share."""
    if before is None or _stamp(metrics) != before:
        return output
    problem = f"{metrics.name} was there before and is not from this run"
    return replace(output, metrics={}, has_metrics=False, problems=(*output.problems, problem))


def _labels(case: Case) -> list[str | None]:
    if case.runs == 1:
        return [None]
    warmups = [f"warmup-{number}" for number in range(1, case.warmup + 1)]
    return [*warmups, *(f"repeat-{number}" for number in range(1, case.repeat + 1))]


def _spoken(case: Case, position: int) -> str:
    if position < case.warmup:
        return f"warmup {position + 1}/{case.warmup}"
    return f"repeat {position - case.warmup + 1}/{case.repeat}"


def blank_record(case: Case, attempt: int, bench: Bench, status: Status, reason: str) -> Record:
    """The record of an attempt that has nothing more to say."""
    return Record(
        session=bench.session,
        case=case,
        attempt=attempt,
        status=status,
        reason=reason,
        started_at=utc_now(),
        environment=bench.environment_id,
        revision=bench.revision,
        details=bench.details,
    )

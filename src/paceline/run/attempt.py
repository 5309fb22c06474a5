"""A case → a record: every path through here ends in exactly one."""

import re
import statistics
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paceline import metrics as known
from paceline.errors import PacelineError
from paceline.model import Case, Direction, Measurement, Metric, Record, Scalar, Status, is_number
from paceline.numbers import number
from paceline.record.events import RUN_ENDED, RUN_STARTED, utc_now
from paceline.record.packages import conda_explicit
from paceline.record.redact import mask_urls
from paceline.run.collectors import (
    Collector,
    SystemCollector,
    gpu_memory_warnings,
    make_collectors,
    write_samples,
)
from paceline.run.conditions import Conditions, disturbances, wanted_of_machine
from paceline.run.context import Context, Stop, Tasks, Write
from paceline.run.interpreter import foreign_python, packages_of
from paceline.run.local.process import Command, Exit, Warden, describe_death
from paceline.run.scheduler import Grant
from paceline.run.script_output import OUTCOME, OutputLog, ScriptOutput, line_that_says_why, read
from paceline.run.sharing import Ran, SharedProcess, blamed

if TYPE_CHECKING:
    from paceline.run.ray.cluster import RayCluster

METRICS = "metrics.json"
_RAY = re.compile(r"ray(?:==| @)")
_FIGURES = re.compile(r"\d[\d.,]*")
_LINES_OF_REASON = 200
CURVE_FROM_S = 0.1
"""From which run time on the samples are kept as a curve; shorter runs have a handful of them."""


def run(case: Case, warden: Warden, grant: Grant, context: Context, stop: Stop, write: Write) -> Record:
    """Run a case on this machine to its record, again after infrastructure faults as often as it allows."""
    retries = Retries(case, context, stop)
    while True:
        attempt = Attempt(case, retries.number, warden, grant, context, stop)
        record = write(*guarded(case, retries.number, context, attempt.record))
        if not retries.begin_again(record):
            return record


class Retries:
    """The attempts at a case: how many there may be after faults of the infrastructure, and the number of each."""

    def __init__(self, case: Case, context: Context, stop: Stop) -> None:
        self._case = case
        self._context = context
        self._stop = stop
        self._left = case.retries
        self.number = context.directory.next_attempt(case)

    def begin_again(self, record: Record, *, spared: bool = False) -> bool:
        """Whether another attempt follows the one of this record; one that is `spared` does not use up a retry."""
        if record.status is not Status.INFRA_ERROR or self._stop.is_set() or not (spared or self._left):
            return False
        self._left -= not spared
        text = f"{self._case.name}: attempt {self.number} failed and is repeated: {record.reason}"
        self._context.events.write("retry", case=self._case.name, attempt=self.number, reason=record.reason)
        self._context.listener.note(text)
        self.number = self._context.directory.next_attempt(self._case)
        return True


def guarded(
    case: Case, number: int, context: Context, action: Callable[[], tuple[Record, Tasks]]
) -> tuple[Record, Tasks]:
    """What an attempt comes to; a bug in it makes a record too."""
    try:
        return action()
    except PacelineError:
        raise
    except Exception as bug:  # noqa: BLE001 - one case's fault, even if it is ours, must not end the session
        context.events.write("bug", case=case.name, traceback=traceback.format_exc())
        reason = f"{type(bug).__name__}: {bug} (the traceback is in events.jsonl)"
        return context.blank_record(case, Status.INFRA_ERROR, reason, number), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a case's command: a warm-up, a repetition, or the only one."""

    exit: Exit
    output: ScriptOutput
    collected: Mapping[str, float]
    warnings: tuple[str, ...]
    conditions: Conditions
    status: Status
    reason: str


def verdict(case: Case, ended: Exit, output: ScriptOutput, tail: Sequence[str]) -> tuple[Status, str]:
    """What an exit means, before any requirement is looked at."""
    if ended.reason == "timeout":
        return Status.TIMEOUT, f"exceeded its timeout of {number(case.timeout_s)} s"
    if ended.reason != "exited":
        statuses = {
            "launch_error": Status.LAUNCH_ERROR,
            "stopped": Status.INTERRUPTED,
            "lost": Status.INFRA_ERROR,
        }
        return statuses.get(ended.reason, Status.FAILED), ended.message
    if output.outcome == "skipped" and not ended.returncode:
        return Status.SKIPPED, output.reason or "the benchmark says that it does not apply here"
    if output.outcome == "failed" and output.reason:
        return Status.FAILED, output.reason
    if ended.returncode:
        said, code = line_that_says_why(tail), ended.returncode
        death = describe_death(code) if code < 0 else f"exit code {code}"
        return Status.FAILED, f"{death}: {said}" if said else death
    if case.metrics_required and not output.has_metrics:
        why = f" ({'; '.join(output.problems)})" if output.problems else ""
        where = "the directory given by --benchmark-results-path"
        return Status.FAILED, f"exited 0 but left no usable metrics.json in {where}{why}"
    if output.metrics.get("is_success") is False:
        return Status.FAILED, "exited 0 but its metrics.json says is_success: false"
    return Status.PASSED, ""


def merged_warnings(runs: Sequence[Run]) -> tuple[str, ...]:
    """Each warning once, with how many further runs had it; figures in it may differ from run to run."""
    first: dict[str, str] = {}
    runs_with: Counter[str] = Counter()
    for run in runs:
        kinds = {_FIGURES.sub("#", text): text for text in run.warnings}
        runs_with.update(list(kinds))
        first = {**first, **{kind: text for kind, text in kinds.items() if kind not in first}}
    return tuple(
        f"{text} (and in {runs_with[kind] - 1} more runs)" if runs_with[kind] > 1 else text
        for kind, text in first.items()
    )


def measurements(runs: Sequence[Run], said: tuple[Metric, ...] = ()) -> dict[str, Measurement]:
    """All samples of each metric over the runs; what the script says wins over what we measured.

    What a metric means is for the suite to say (`said`), then for the script, then for its name.
    """
    samples: dict[str, list[Scalar]] = {}
    units: dict[str, str] = {}
    directions: dict[str, Direction] = {}
    for run in runs:
        units.update(run.output.units)
        directions.update(run.output.directions)
        for name, value in {**run.collected, **run.output.metrics}.items():
            samples.setdefault(name, []).extend(value if isinstance(value, tuple) else (value,))
    found = {}
    for name, values in samples.items():
        metric = known.describe(name, units.get(name), directions.get(name), said)
        found[name] = Measurement(
            value=_representative(values),
            unit=metric.unit,
            direction=metric.direction,
            samples=tuple(values),
            label=metric.label,
        )
    return found


def _representative(samples: Sequence[Scalar]) -> Scalar:
    """The median of numbers; a flag only if all agree it is set; of anything else the last."""
    if not samples:
        return None
    if all(isinstance(value, bool) for value in samples):
        return all(samples)
    numbers = [value for value in samples if is_number(value)]
    if len(numbers) < len(samples):
        return samples[-1]
    if any(number != number for number in numbers):
        return float("nan")  # sorting would hide it
    return numbers[0] if len(numbers) == 1 else statistics.median(numbers)


class Attempt:
    """One attempt at a case: its cluster, its warm-ups and repetitions."""

    def __init__(
        self, case: Case, number: int, warden: Warden, grant: Grant, context: Context, stop: Stop
    ) -> None:
        self._case = case
        self._number = number
        self._warden = warden
        self._grant = grant
        self._context = context
        self._stop = stop
        self._log: OutputLog | None = None
        self._cluster: RayCluster | None = None
        self._python: tuple[str, ...] = ()

    def record(self) -> tuple[Record, Tasks]:
        """Run the command as often as the case asks, up to the first run that does not pass."""
        case, context = self._case, self._context
        refusal, gpus = case.blocked, case.resources.gpus
        if refusal is None and gpus > len(self._grant.gpus):
            refusal = f"needs {gpus} GPUs; this machine has {len(self._grant.gpus)}"
        if refusal is not None:
            return context.blank_record(case, Status.LAUNCH_ERROR, refusal, self._number), ()
        entry_dir = context.directory.prepare(case)
        command = tuple(case.at(word, entry_dir) for word in case.argv)
        context.listener.case_started(
            case,
            context.redactor.data(command),
            entry_dir,
            lambda count: self._log.tail(count) if self._log else [],
        )
        self._find_python(entry_dir)
        started, begun = utc_now(), time.monotonic()
        crowded = gpu_memory_warnings(self._grant.gpus, case.gpu_mem_use_warning_threshold)
        runs: list[Run] = []
        with ExitStack() as stack:
            fault = self._start_cluster(stack, entry_dir) if case.cluster is not None else None
            while fault is None and len(runs) < case.runs:
                runs.append(self._run_once(len(runs)))
                if runs[-1].status is not Status.PASSED:
                    break
        context.directory.clean(case)
        if fault is None:
            # Warm-ups that passed are not counted.
            record = self._combined(runs[min(case.warmup, len(runs) - 1) :])
        else:
            status = Status.INTERRUPTED if self._stop.is_set() else Status.INFRA_ERROR
            record = context.blank_record(case, status, fault, self._number)
        timings_s = {**record.timings_s, "total": time.monotonic() - begun}
        record = replace(record, warnings=(*crowded, *record.warnings))
        if self._cluster is not None:
            record = replace(record, warnings=(*record.warnings, *self._cluster.warnings))
            timings_s |= self._cluster.timings_s
        complete = replace(
            record,
            started_at=started,
            command=command,
            timings_s={name: round(value, 6) for name, value in timings_s.items()},
            artifacts=context.directory.artifacts(case),
        )
        return complete, runs[-1].output.tasks if runs else ()

    def _find_python(self, entry_dir: Path) -> None:
        """If the case runs another Python than the session, keep the packages of that one."""
        command, context = self._command(entry_dir), self._context
        own = context.environment.data.get("python", {}).get("executable", sys.executable)
        python = foreign_python(self._case, command.env, command.cwd or ".", own)
        if python is None:
            return
        packages = packages_of(python, command.env)
        # An `interpreter` is the entry's word for it; a command that is a Python without Ray may well be another's.
        if self._case.script or any(_RAY.match(line) for line in packages):
            self._python = python.words
        prefix = str(Path(python.path or "/none/none").parents[1])
        text, conda = (
            "".join(f"{line}\n" for line in packages),
            conda_explicit({"CONDA_PREFIX": prefix}) or "",
        )
        mask = context.redactor.text
        context.directory.keep_packages(self._case, mask(mask_urls(text)), mask(conda))

    def _start_cluster(self, stack: ExitStack, entry_dir: Path) -> str | None:
        """Start the entry's own Ray cluster; what went wrong, or None."""
        from paceline.run.ray.cluster import ClusterError, RayCluster

        command = self._command(entry_dir)
        self._cluster = RayCluster(
            self._case.cluster or {},
            entry_dir / "ray_cluster",
            command.env,
            cwd=command.cwd,
            python=self._python,
            redactor=self._context.redactor,
            stopping=self._stop.is_set,
        )
        try:
            stack.enter_context(self._cluster)
        except ClusterError as error:
            return str(error)
        return None

    def _run_once(self, position: int) -> Run:
        """One of the case's runs, of which warm-ups come first."""
        case, context = self._case, self._context
        label = self._label(position)
        run_dir = context.directory.run_dir(case, label)
        results_path = Path(case.at(case.results_path, run_dir))
        results_path.mkdir(parents=True, exist_ok=True)
        # A run before may have left these, in a directory that they share.
        (results_path / OUTCOME).unlink(missing_ok=True)
        metrics_before = _stamp(results_path / METRICS)
        with context.shared.get(case.process, SharedProcess()).turn() as shared:
            ran = shared.take(case, label, results_path)
            if ran is None:
                command, run_id = self._command_of_run(run_dir, results_path, shared, label)
                gpus = self._grant.gpus if case.resources.gpus else ()
                collectors = make_collectors(run_dir, gpu_interval_s=context.gpu_interval_s, gpus=gpus)
                system = SystemCollector(case.resources.cpus, context.beside_cpus)
                with OutputLog(run_dir / "logs", context.redactor.stream) as log, ExitStack() as stack:
                    self._log = log
                    context.events.write(RUN_STARTED, case=case.name, label=label, run_id=run_id)
                    for collector in collectors:
                        stack.enter_context(collector)
                    with system:
                        ended = self._warden.run(command, log.write, cancelled=self._stop.is_set)
                context.events.write(RUN_ENDED, run_id=run_id)
                ran = shared.keep(label, _ran(ended, log, system, collectors, run_dir))
        output = _written_by_this_run(read(results_path), results_path / METRICS, metrics_before)
        ended = blamed(
            ran, has_told=bool(case.process) and (output.has_metrics or output.outcome is not None)
        )
        status, reason = verdict(case, ended, output, ran.tail)
        return Run(
            exit=ended,
            output=output,
            collected=ran.collected,
            warnings=tuple(filter(None, (*output.problems, *output.warnings, *ran.warnings))),
            conditions=ran.conditions,
            status=status,
            reason=reason,
        )

    def _label(self, position: int) -> str | None:
        """What a run of several is called, said to those who watch; None for the only one."""
        case = self._case
        if case.runs == 1:
            return None
        kind, number, count = "warmup", position + 1, case.warmup
        if position >= case.warmup:
            kind, number, count = "repeat", position + 1 - case.warmup, case.repeat
        self._context.listener.run_started(case, f"{kind} {number}/{count}")
        return f"{kind}-{number}"

    def _command_of_run(
        self, run_dir: Path, results_path: Path, shared: SharedProcess, label: str | None
    ) -> tuple[Command, str]:
        """The command with what tells its process where to write, and the id of the run."""
        command, run_id = self._command(run_dir), uuid.uuid4().hex
        told = {
            "PACELINE_RESULTS_PATH": str(results_path),
            "PACELINE_SESSION": self._context.session,
            "PACELINE_CASE": self._case.name,
            "PACELINE_RUN_ID": run_id,
        }
        timeout_s = shared.timeout_s(self._case, label)
        argv = (*command.argv, *shared.words(self._case, label))
        env = {**command.env, **(self._cluster.env if self._cluster else {}), **told}
        return replace(command, argv=argv, env=env, timeout_s=timeout_s), run_id

    def _command(self, run_dir: Path) -> Command:
        """The case's command in the user's environment, changed only as the entry says; its cluster has it too."""
        case = self._case
        env = {**self._context.environ}
        env.update((name, case.at(value, run_dir)) for name, value in case.env.items())
        if case.resources.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(self._grant.gpus)
        return Command(
            argv=tuple(case.at(word, run_dir) for word in case.argv),
            env=env,
            cwd=case.at(case.cwd, run_dir) if case.cwd else str(Path.cwd()),
            timeout_s=case.timeout_s,
            grace_s=case.grace_s,
            max_processes=case.limits.processes,
            max_memory_bytes=case.limits.memory_bytes,
        )

    def _combined(self, runs: Sequence[Run]) -> Record:
        """One record out of all counted runs; the last one decides the status."""
        last = runs[-1]
        runs, disturbed, warnings = self._undisturbed(runs)
        walls_s = [run.exit.usage.wall_s for run in runs]
        record = self._context.blank_record(self._case, last.status, last.reason, self._number)
        return replace(
            record,
            exec_time_s=round(statistics.median(walls_s), 6),
            timings_s={"run": sum(walls_s)},
            returncode=last.exit.returncode,
            metrics=measurements(runs, self._case.metrics),
            params=last.output.params,
            warnings=warnings,
            disturbed=disturbed,
        )

    def _undisturbed(self, runs: Sequence[Run]) -> tuple[Sequence[Run], tuple[str, ...], tuple[str, ...]]:
        """The runs that count, what disturbed each of them, and the warnings of all.

        Where the suite says so, disturbed runs do not count, unless there are no others.
        """
        wanted = wanted_of_machine() or self._case.disturbed
        texts = disturbances([run.conditions for run in runs]) if wanted != "ignore" else ()
        warnings = merged_warnings(
            [
                replace(run, warnings=(*run.warnings, f"the run was disturbed: {text}")) if text else run
                for run, text in zip(runs, texts or [""] * len(runs), strict=True)
            ]
        )
        kept = [run for run, text in zip(runs, texts, strict=True) if not text] if texts else []
        if wanted != "void" or not kept or runs[-1].status is not Status.PASSED:
            return runs, texts, warnings
        voided = f"{len(runs) - len(kept)} of {len(runs)} runs are not counted, since they were disturbed"
        return kept, (), (*warnings, voided)


def _ran(
    ended: Exit, log: OutputLog, system: SystemCollector, collectors: Sequence[Collector], run_dir: Path
) -> Ran:
    """What was seen around a process."""
    warnings = []
    if ended.leftovers:
        names = ", ".join(ended.leftovers)
        warnings.append(f"background processes outlived the command and were ended: {names}")
    warnings += [log.warning, *(note for part in collectors for note in part.warnings())]
    if ended.usage.wall_s >= CURVE_FROM_S:
        warnings.append(write_samples(run_dir / "resources.csv", ended.usage.samples))
    gpus = tuple(text for part in collectors for text in part.disturbances())
    return Ran(
        exit=ended,
        collected=_collected(ended, system, collectors),
        warnings=(*warnings, *system.warnings()),
        conditions=replace(system.conditions(ended.usage), gpus=gpus),
        tail=tuple(log.tail(_LINES_OF_REASON)),
    )


def _collected(ended: Exit, system: SystemCollector, others: Sequence[Collector]) -> dict[str, float]:
    """What was measured around a run; nothing of one that never ran or whose figures were lost, not even zeros."""
    if ended.reason in ("launch_error", "lost"):
        return {}
    collected = {**ended.usage.metrics(), **system.metrics(ended.usage)}
    return {**collected, **{name: value for part in others for name, value in part.metrics().items()}}


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

"""The spine: a request → a plan → records → a report."""

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from paceline.config.load import Loaded, load
from paceline.errors import SessionError
from paceline.judge.requirements import judge
from paceline.model import Case, Plan, Record, Report, SinkSpec, Status
from paceline.plan import find_results_dir, make_plan
from paceline.record.directory import SessionDir, newest
from paceline.record.environment import Environment
from paceline.record.events import EventLog
from paceline.record.masking import mask_plan
from paceline.record.redact import Redactor
from paceline.report.files import write_report
from paceline.run.attempt import Bench, run_case, unrun_record
from paceline.run.capacity import machine_capacity
from paceline.run.listener import Listener
from paceline.run.process import Warden
from paceline.run.scheduler import Grant, Scheduler
from paceline.run.stopping import Stopper
from paceline.session_files import Store, remove_leftovers, write_start
from paceline.sinks import SinkContext
from paceline.sinks.dispatch import Dispatcher, start_sinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user asks of `paceline run` and `paceline plan`."""

    configs: tuple[Path, ...]
    datasets: Path | None = None
    sinks: tuple[str, ...] = ()
    results_dir: Path | None = None
    session_name: str | None = None
    resume: str | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    jobs: int = 1
    rerun_failed: bool = False

    @property
    def resumes(self) -> bool:
        return self.resume is not None or self.rerun_failed

    @property
    def selects(self) -> bool:
        return bool(self.only or self.exclude or self.shard)


def load_config(request: Request) -> Loaded:
    """The merged configuration; what is wrong in it is raised by the plan, together with what is wrong there."""
    return load(request.configs, datasets=request.datasets, sinks=request.sinks, lenient=True)


def prepare(request: Request, loaded: Loaded | None = None) -> Plan:
    """What would run, with no side effect."""
    loaded = loaded or load_config(request)
    results_dir, name = _place(request, request.results_dir or find_results_dir(loaded))
    return make_plan(
        loaded,
        session=name,
        results_dir=results_dir,
        only=request.only,
        exclude=request.exclude,
        shard=request.shard,
    )


def run(request: Request, listener: Listener) -> Report:
    """Run a plan's cases, record each, judge it, tell the sinks, and write the session's report."""
    loaded = load_config(request)
    plan = prepare(request, loaded)
    redactor = Redactor(plan.secret_values)
    remove_leftovers(plan.directory.parent)
    if request.resumes:
        directory = SessionDir.open(plan.directory, plan.artifacts_dir, redactor)
    else:
        directory = SessionDir.create(plan, redactor)
    directory.lock()
    try:
        with EventLog(directory.path / "events.jsonl", redactor) as events:
            part_only = request.resumes and request.selects
            environment = write_start(plan, loaded, directory, redactor, keep_plan=part_only)
            return _Session(plan, directory, redactor, events, environment, listener).run(request)
    finally:
        directory.unlock()


class _Session:
    """The cases of one session, from the first to the report."""

    def __init__(
        self,
        plan: Plan,
        directory: SessionDir,
        redactor: Redactor,
        events: EventLog,
        environment: Environment,
        listener: Listener,
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._redactor = redactor
        self._events = events
        self._environment = environment
        self._listener = listener
        self._store = Store(directory)
        self._counts: Counter[Status] = Counter()
        self._untouched: tuple[Case, ...] = ()
        self._masked = mask_plan(plan, redactor)

    def run(self, request: Request) -> Report:
        setups, cases = (
            ({}, {})
            if not request.resumes
            else (
                self._kept(self._plan.setups, rerun_failed=request.rerun_failed),
                self._kept(self._plan.cases, rerun_failed=request.rerun_failed),
            )
        )
        if request.resumes and request.selects:
            self._leave_untouched()
        kept = len(setups) + len(cases)
        self._counts.update([*setups.values(), *cases.values()])
        self._events.write("session_started", session=self._plan.session, kept=kept)
        self._listener.session_started(self._masked, kept)
        for text in self._plan.warnings:
            self._note(text)
        sinks = start_sinks(self._plan, self._sink_context, self._note)
        sinks.open(self._masked)
        with ExitStack() as stack:
            wardens = [stack.enter_context(Warden()) for _ in range(self._slots(request.jobs))]
            stopper = stack.enter_context(Stopper(wardens, self._tell_stopping))
            for record in self._records(wardens, stopper, setups, cases):
                self._finish(record, sinks)
        return self._close(sinks, stopper)

    def _slots(self, jobs: int) -> int:
        return max(1, min(jobs, len(self._plan.cases)))

    def _records(
        self,
        wardens: Sequence[Warden],
        stopper: Stopper,
        kept_setups: Mapping[str, Status],
        kept_cases: Mapping[str, Status],
    ) -> Iterator[Record]:
        """The data set-ups one by one, then the cases; after a failed set-up nothing more runs."""
        bench = self._bench(stopper)

        def run_one(case: Case, grant: Grant) -> Record:
            record, tasks = run_case(case, wardens[grant.slot], grant, bench)
            judged = judge(record)
            if not self._store.write(judged, tasks):
                stopper.stop()
            return judged

        def skip(case: Case, reason: str) -> Record:
            record = unrun_record(case, Status.SKIPPED, reason, bench)
            self._store.write(record, ())
            return record

        capacity = machine_capacity()
        failed = next((name for name, status in kept_setups.items() if not status.ok), "")
        setups = () if failed else self._plan.setups
        for case, record in Scheduler(capacity, 1, run_one, stopper.event).run(
            setups, kept=kept_setups, skip=skip
        ):
            yield record
            if not record.status.ok:
                failed = case.name
                break
        if failed and not stopper.event.is_set():
            waiting = (case for case in self._plan.cases if case.name not in kept_cases)
            yield from (skip(case, f"the data set-up {failed} did not pass") for case in waiting)
            return
        scheduler = Scheduler(capacity, len(wardens), run_one, stopper.event)
        for _, record in scheduler.run(self._plan.cases, kept=kept_cases, skip=skip):
            yield record

    def _bench(self, stopper: Stopper) -> Bench:
        return Bench(
            session=self._plan.session,
            directory=self._directory,
            redactor=self._redactor,
            events=self._events,
            listener=self._listener,
            environ=dict(os.environ),
            store=self._store.write,
            environment_id=self._environment.id,
            revision=self._environment.revision,
            gpu_interval_s=self._plan.settings.get("gpu_stats_interval_s", 1.0),
            stopping=stopper.event.is_set,
        )

    def _kept(self, cases: Sequence[Case], *, rerun_failed: bool) -> dict[str, Status]:
        """What need not run again: finished with the same fingerprint, and passed if failures are to be run again."""
        kept = {}
        for case in cases:
            record = self._directory.read_record(case)
            if record is None or record.case.fingerprint != case.fingerprint:
                continue
            if record.status.ok or (record.status.finished and not rerun_failed):
                kept[case.name] = record.status
        return kept

    def _leave_untouched(self) -> None:
        """Cases of the session that this run of it does not select stay in its report."""
        planned = {self._directory.entry_dir(case) for case in (*self._plan.setups, *self._plan.cases)}
        records = [record for path, record in self._directory.stored_records() if path not in planned]
        self._untouched = tuple(record.case for record in records)
        self._counts.update(record.status for record in records)

    def _finish(self, record: Record, sinks: Dispatcher) -> None:
        self._counts[record.status] += 1
        self._events.write(
            "case_finished",
            case=record.case.name,
            status=record.status,
            reason=record.reason,
            attempt=record.attempt,
        )
        self._listener.case_finished(record, self._directory.entry_dir(record.case))
        sinks.record(record)

    def _close(self, sinks: Dispatcher, stopper: Stopper) -> Report:
        report = Report(
            plan=replace(self._masked, cases=(*self._masked.cases, *self._untouched)),
            records=self._directory.records((*self._plan.setups, *self._plan.cases, *self._untouched)),
            counts=dict(self._counts),
            interrupted=stopper.signalled,
            unfinished=self._store.fault,
        )
        self._store.release()
        self._write_report(report)
        undelivered = sinks.close(report)
        if undelivered:
            report = replace(report, undelivered=undelivered)
            self._write_report(report)
        self._events.write(
            "session_finished", ok=report.ok, interrupted=report.interrupted, counts=report.counts
        )
        self._listener.session_finished(report, self._directory.path)
        return report

    def _write_report(self, report: Report) -> None:
        fault = write_report(report, self._directory)
        if fault:
            self._note(fault)
        for name in report.undelivered:
            self._note(f"sink {name} is required and did not get everything")

    def _sink_context(self, spec: SinkSpec) -> SinkContext:
        return SinkContext(
            name=spec.name,
            session=self._plan.session,
            session_dir=self._directory.path,
            environment=self._environment.data,
        )

    def _note(self, text: str) -> None:
        text = self._redactor.text(text)
        self._events.write("note", text=text)
        self._listener.note(text)

    def _tell_stopping(self, again: bool) -> None:
        """Called from a signal handler, so it takes no lock and writes by single system calls."""
        self._events.write("stopping", now=again)
        word = b"ending at once" if again else b"ending the running case; again to end it at once"
        os.write(2, b"\nInterrupted: " + word + b"\n")


def _place(request: Request, results_dir: Path) -> tuple[Path, str]:
    """Where the session lies and what it is called."""
    if not request.resumes:
        return results_dir, request.session_name or _default_name(results_dir)
    asked = request.resume or request.session_name
    if not asked:
        found = newest(results_dir)
        if found is None:
            raise SessionError(f"no session to resume in {results_dir}: start one without --resume")
        return results_dir, found.name
    if os.sep not in asked and asked not in (os.curdir, os.pardir):
        return results_dir, asked
    path = Path(os.path.abspath(asked))  # noqa: PTH100 - `..` is to be taken out, links are not
    return path.parent, path.name


def _default_name(results_dir: Path) -> str:
    """A name by the time, with a number when two sessions begin in the same second."""
    name = f"nightly-run-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    candidates = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if not (results_dir / candidate).exists())

"""The spine: a plan → records → a report."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.config.load import Loaded
from paceline.history.urls import passwords_in
from paceline.judge.requirements import judge
from paceline.model import Case, Finding, Plan, Record, Report, Setting, Status
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment
from paceline.record.events import SESSION_FINISHED, SESSION_STARTED, EventLog
from paceline.record.masking import mask_finding, mask_plan
from paceline.record.redact import Redactor
from paceline.record.remote.session import KeptHere, NameTaken, keeping
from paceline.record.resumption import is_kept
from paceline.report.files import write_report
from paceline.run.attempt import Bench, unrun_record
from paceline.run.executor import Place, make_place
from paceline.run.listener import Listener
from paceline.run.local.signals import Stopper
from paceline.run.scheduler import Grant, Scheduler
from paceline.session.files import Store, remove_leftovers, write_start
from paceline.session.history import Held, choose_database, held_against, remember, remember_killed
from paceline.session.request import FollowUp, Request, load_config, prepare_with_evals
from paceline.sinks.dispatch import Dispatcher

if TYPE_CHECKING:
    from paceline.session.evals import SuiteEvals


def run(request: Request, listener: Listener) -> Report:
    """Run a plan's cases, record each, judge it, tell the sinks, and write the session's report."""
    loaded = load_config(request)
    plan, evals = prepare_with_evals(request, loaded)
    if evals is not None and any(_is_stub(case, evals) for case in plan.cases):
        evals.check(plan.directory)
    remove_leftovers(plan.directory.parent)
    try:
        with (
            _make_place(plan, request, evals) as place,
            keeping(plan, resumes=request.resumes) as kept,
        ):
            return _run_in(kept, plan, loaded, request, listener, place, evals)
    except NameTaken:
        if request.session_name:
            raise
        # Another machine began a session in the same second: this one gets the name of a later one.
        return run(request, listener)


def _make_place(plan: Plan, request: Request, evals: "SuiteEvals | None") -> Place:
    """Where the entries' cases run: here, or on a pool of machines."""
    pool, count = plan.settings.get("pool"), sum(not _is_stub(case, evals) for case in plan.cases)
    on = request.on if count or plan.setups else "local"
    return make_place(pool, on, jobs=request.jobs, cases=count, session_dir=plan.directory)


def _is_stub(case: Case, evals: "SuiteEvals | None") -> bool:
    return evals is not None and case.name in evals.names


def _run_in(
    kept: KeptHere,
    plan: Plan,
    loaded: Loaded,
    request: Request,
    listener: Listener,
    place: Place,
    evals: "SuiteEvals | None",
) -> Report:
    database = _database(loaded, request)
    redactor = Redactor((*plan.secret_values, *passwords_in(database)))
    if request.resumes:
        directory = SessionDir.open(plan.directory, plan.artifacts_dir, redactor)
    else:
        directory = SessionDir.create(plan, redactor)
    directory.lock()
    try:
        if request.resumes:
            kept.catch_up(directory, rerun_failed=request.rerun_failed)
        with EventLog(directory.path / "events.jsonl", redactor) as events:
            part_only = request.resumes and request.selects
            environment = write_start(
                plan, loaded, directory, redactor, keep_plan=part_only, setting=request.setting
            )
            kept.start()
            session = _Session(
                plan, directory, redactor, events, environment, listener, kept, place, database
            )
            session.setting = request.setting or Setting()
            session.follow_up = request.follow_up
            session.evals = evals
            return session.run(request)
    finally:
        directory.unlock()


def _database(loaded: Loaded, request: Request) -> str | None:
    """The history that the session is recorded in."""
    history = loaded.config.history
    enabled = request.history and (history is None or history.enabled)
    return choose_database(request.db, history.url if history else None, enabled=enabled)


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
        kept: KeptHere,
        place: Place,
        database: str | None,
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._redactor = redactor
        self._events = events
        self._environment = environment
        self._listener = listener
        self._kept_at = kept
        self._place = place
        self._database = database
        self._store = Store(directory, kept)
        self._counts: Counter[Status] = Counter()
        self.setting = Setting()
        self.follow_up: FollowUp | None = None
        self.evals: SuiteEvals | None = None
        self._untouched: tuple[Case, ...] = ()
        self._killed: Sequence[Path] = ()
        self._held: Held = held_against(plan, database, directory.path, environment)
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
        history = self._database is not None
        self._events.write(SESSION_STARTED, session=self._plan.session, kept=kept, history=history)
        self._listener.session_started(self._masked, kept)
        for text in (*self._plan.warnings, *filter(None, [self._held.fault])):
            self._note(text)
        with Dispatcher(self._plan, self._redactor, self._note) as sinks:
            sinks.open(self._masked)
            with Stopper([self._place], self._tell_stopping) as stopper:
                for record in self._records(stopper, setups, cases):
                    self._finish(record, sinks)
                if self.evals is not None and not stopper.event.is_set():
                    self._run_stubs(self.evals, stopper, cases, sinks)
            return self._close(sinks, stopper)

    def _records(
        self,
        stopper: Stopper,
        kept_setups: Mapping[str, Status],
        kept_cases: Mapping[str, Status],
    ) -> Iterator[Record]:
        """The data set-ups one by one, then the cases; after a failed set-up nothing more runs."""
        bench = self._bench(stopper)

        def run_one(case: Case, grant: Grant) -> Record:
            record, tasks = self._place.run_case(case, grant, bench)
            judged = judge(record, self._held.baselines(record))
            if not self._store.write(judged, tasks):
                stopper.stop()
            return judged

        def skip(case: Case, reason: str) -> Record:
            record = unrun_record(case, Status.SKIPPED, reason, bench)
            self._store.write(record, ())
            return record

        failed = next((name for name, status in kept_setups.items() if not status.ok), "")
        setups = () if failed else self._plan.setups
        for case, record in Scheduler(self._place.accounts(1), 1, run_one, stopper.event).run(
            setups, kept=kept_setups, skip=skip
        ):
            yield record
            if not record.status.ok:
                failed = case.name
                break
        if failed and not stopper.event.is_set():
            self.evals = None
            waiting = (case for case in self._plan.cases if case.name not in kept_cases)
            yield from (skip(case, f"the data set-up {failed} did not pass") for case in waiting)
            return
        jobs = self._place.jobs
        entries = [case for case in self._plan.cases if not _is_stub(case, self.evals)]
        scheduler = Scheduler(self._place.accounts(jobs), jobs, run_one, stopper.event)
        for _, record in scheduler.run(entries, kept=kept_cases, skip=skip):
            yield record

    def _run_stubs(
        self, evals: "SuiteEvals", stopper: Stopper, kept: Mapping[str, Status], sinks: Dispatcher
    ) -> None:
        """The stubs of the suite's evals, on devices of their own; signals are theirs meanwhile."""
        stubs = [case for case in self._plan.cases if _is_stub(case, evals)]
        recorded = {case.fingerprint for case in stubs if case.name in kept}
        # Those that passed are found done, and are in the summary with the others.
        names = {case.name for case in stubs if case.name not in kept or kept[case.name].ok}
        if not names:
            return
        from paceline.evals.books import Books

        def keep(record: Record) -> bool:
            attempt = max(record.attempt, self._directory.next_attempt(record.case))
            record = replace(record, attempt=attempt)
            is_written = self._store.write(record, ())
            self._finish(record, sinks)
            return is_written

        books = Books(
            session=self._plan.session,
            directory=self._directory.path,
            environment=self._environment,
            events=self._events,
            redactor=self._redactor,
            keep=keep,
            recorded=recorded,
            secret_names=self._plan.secret_names,
        )
        results = evals.run(names, books)
        self._killed = results.killed_sessions
        skipped = sum(
            result.stub.key not in recorded for result in results.individual_results if result.is_old
        )
        place = evals.base_result_dir
        if skipped and self._directory.path.parent != place:
            self._note(f"{skipped} of {len(names)} stubs were done before; their results are in {place}")
        if results.interrupted and not self._store.fault:
            stopper.event.set()
            stopper.signalled = True

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
            details=self.setting.details,
            stopping=stopper.event.is_set,
        )

    def _kept(self, cases: Sequence[Case], *, rerun_failed: bool) -> dict[str, Status]:
        """What need not run again: finished with the same fingerprint, and passed if failures are to be run again."""
        kept = {}
        for case in cases:
            record = self._directory.read_record(case)
            if record is not None and is_kept(record, case, rerun_failed=rerun_failed):
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
        report = replace(report, findings=self._remember())
        if self.follow_up is not None and not report.interrupted:
            report = self.follow_up(report, self._database, self._note)
        self._write_report(report)
        undelivered = sinks.close(report)
        if undelivered:
            report = replace(report, undelivered=undelivered)
            self._write_report(report)
        self._events.write(
            SESSION_FINISHED, ok=report.ok, interrupted=report.interrupted, counts=report.counts
        )
        unsent = self._kept_at.finish()
        if unsent:
            report = replace(report, unfinished="; ".join(filter(None, (report.unfinished, unsent))))
            self._write_report(report)
        self._listener.session_finished(report, self._kept_at.place)
        return report

    def _remember(self) -> tuple[Finding, ...]:
        if self._database is None:
            return ()
        for text in remember_killed(self._killed, self._database, by=self._plan.session):
            self._note(text)
        found = remember(self._directory.path, self._kept_at.place, self._database)
        if found.fault:
            self._note(found.fault)
        return tuple(mask_finding(finding, self._redactor) for finding in found.findings)

    def _write_report(self, report: Report) -> None:
        fault = write_report(report, self._directory)
        if fault:
            self._note(fault)
        for name in report.undelivered:
            self._note(f"sink {name} is required and did not get everything")

    def _note(self, text: str) -> None:
        text = self._redactor.text(text)
        self._events.write("note", text=text)
        self._listener.note(text)

    def _tell_stopping(self, again: bool) -> None:
        """Called from a signal handler, so it takes no lock and writes by single system calls."""
        self._events.write("stopping", now=again)
        word = b"ending at once" if again else b"ending the running case; again to end it at once"
        os.write(2, b"\nInterrupted: " + word + b"\n")

"""The spine: a request → records → a report."""

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.config.explain import resolved_text
from paceline.config.load import Loaded, config_error
from paceline.config.sinks import unset_in_sinks
from paceline.errors import PacelineError, SessionError
from paceline.history.urls import why_here
from paceline.judge.requirements import judge, why_inconclusive
from paceline.metrics import ask_for_directions, unheard_of
from paceline.model import Case, Check, Finding, Plan, Record, Report, Setting, Status
from paceline.plan import find_results_dir, plan_json
from paceline.record import below
from paceline.record.codec import dump, load
from paceline.record.directory import SessionDir, is_kept, sessions
from paceline.record.environment import Environment, capture
from paceline.record.events import SESSION_FINISHED, SESSION_STARTED, EventLog
from paceline.record.files import Reserve
from paceline.record.layout import EVENTS, other_environment, safe_name
from paceline.record.lock import clear_stale, stale_run_ids
from paceline.record.masking import mask_finding, mask_plan
from paceline.record.packages import CONDA, PACKAGES
from paceline.record.redact import Redactor, credentials_in, mask_urls
from paceline.record.remote.address import Location
from paceline.record.remote.session import NameTaken, RemoteCopy, keep_copy
from paceline.record.repository import DEFAULT_BRANCH
from paceline.report.files import write_report
from paceline.run.context import Context, Listener, Stop, Tasks
from paceline.run.executor import Executor, make_executor, skip_case
from paceline.run.local.tree import sweep
from paceline.run.ray.home import sweep_stale
from paceline.run.scheduler import setup_failed, unmet_need
from paceline.session.history import choose_database, read_before, read_levels, remember
from paceline.session.request import Request, fixed_name, load_config, prepare, suite_executors
from paceline.session.transcript import Transcript
from paceline.sinks.dispatch import Dispatcher

if TYPE_CHECKING:
    from paceline.evals.suite import SuiteExecutor

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
Part = tuple[Executor, Sequence[Case]]


def run(request: Request, listener: Listener) -> Report:
    """Run a plan's cases, record each, judge it, send it to the sinks, and write the session's report."""
    loaded = load_config(request)
    while True:
        others = suite_executors(request, loaded)
        plan = prepare(request, loaded, others)
        if unset := unset_in_sinks(loaded):
            raise config_error(unset, loaded.files)
        parts = divide(plan, others, request)
        remove_leftovers(plan.directory.parent)
        transcript = Transcript(listener, plan.directory)
        session = Session(plan, loaded, request, transcript)
        try:
            with ExitStack() as stack:
                stack.callback(transcript.close)
                for executor, _ in parts:
                    stack.enter_context(executor.open(session.context))
                stack.enter_context(session.open())
                return session.run(parts)
        except NameTaken:
            if fixed_name(request, loaded):
                raise
            # Another machine began a session in the same second: this one gets the name of a later one.


def divide(plan: Plan, others: "Sequence[SuiteExecutor]", request: Request) -> list[Part]:
    """The executors that a plan's cases run on, in their order, each with its own cases."""
    theirs = {case.key for executor in others for case in executor.cases}
    own = [*plan.setups, *(case for case in plan.cases if case.key not in theirs)]
    parts: list[Part] = []
    if own:
        count = len(own) - len(plan.setups)
        parts.append((make_executor(plan, request.on, jobs=request.jobs, cases=count), own))
    for executor in others:
        keys = {case.key for case in executor.cases}
        executor.cases = [case for case in plan.cases if case.key in keys]
        if executor.cases:
            parts.append((executor, executor.cases))
    return parts


def remove_leftovers(results_dir: Path) -> None:
    """End what runners that were killed left running; only processes that carry the mark of one of our runs."""
    for session_dir in sessions(results_dir):
        sweep(stale_run_ids(session_dir))
        clear_stale(session_dir)
    sweep_stale()


def _with_branch(declared: str | None) -> dict[str, str]:
    """Our variables, among them the default branch that the suite declares; what the user set wins."""
    own = dict(os.environ)
    return {**own, DEFAULT_BRANCH: declared} if declared and not own.get(DEFAULT_BRANCH) else own


class Session:
    """One run of a plan: what its cases share, the records they give, and the report at its end."""

    def __init__(self, plan: Plan, loaded: Loaded, request: Request, listener: Listener) -> None:
        self._plan = plan
        self._loaded = loaded
        self._request = request
        self._listener = listener
        setting = request.setting or Setting()
        history = loaded.config.history
        enabled = request.history and (history is None or history.enabled)
        configured = history.url if history else None
        # Evals by themselves lie elsewhere; what they find is kept with the suite's other results.
        self._results = find_results_dir(loaded) if request.evals.alone else plan.directory.parent
        self._database = choose_database(request.db, configured, self._results, enabled=enabled)
        redactor = Redactor((*plan.secret_values, *credentials_in(request.db or "")))
        environment = capture(
            python=setting.python or sys.executable,
            cwd=Path(setting.repo_dir) if setting.repo_dir else None,
            redactor=redactor,
            secret_names=plan.secret_names,
            # What is measured is the setting's repository, whichever one the suite lies in.
            config_files=() if setting.repo_dir else loaded.files,
            settings=plan.settings,
            environ=_with_branch(history.default_branch if history else None),
        )
        self.context = Context(
            session=plan.session,
            directory=SessionDir(plan.directory, plan.artifacts_dir, redactor, private=plan.settings.private),
            redactor=redactor,
            events=EventLog(plan.directory / EVENTS, redactor),
            listener=listener,
            environ={**os.environ, **setting.inherited},
            environment=environment,
            gpu_interval_s=plan.settings.gpu_stats_interval_s,
            details=setting.details,
            secret_names=plan.secret_names,
        )
        self._directory = self.context.directory
        self._masked = mask_plan(plan, redactor)
        self._levels = read_levels(plan, self._database, environment)
        self._reserve = Reserve(plan.directory)
        self._remote: RemoteCopy | None = None
        self._stop = Stop()
        self._counts: Counter[Status] = Counter()
        self._ended: dict[tuple[str, str], Status] = {}
        """How the cases of the plan that have a record ended, by kind and name."""
        self._relative: dict[tuple[str, str], tuple[Check, ...]] = {}
        """Their requirements that are relative to the history, checked."""
        self._said = {case.name: case.metrics for case in plan.cases if case.metrics}
        self._unheard_of: dict[str, None] = {}
        self._fault = ""
        """Why no further case should begin: the disk is full, or the session was taken over."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """The session's directory, locked, with all that is known before the first case starts."""
        request = self._request
        with keep_copy(self._plan, resumes=request.resumes) as self._remote, self.context.events:
            self._directory.check(resumes=True) if request.resumes else self._directory.make()
            self._directory.lock()
            try:
                if self._remote and request.resumes:
                    self._remote.catch_up(self._directory, rerun_failed=request.rerun_failed)
                self._write_start(self.context.environment)
                self._reserve.hold()
                if self._remote:
                    self._remote.start()
                yield
            finally:
                self._directory.unlock()

    def _write_start(self, environment: Environment) -> None:
        redactor, path = self.context.redactor, self._directory.path
        selection = {"selection": self._request.selection} if self._request.selection else {}
        files: dict[str, bytes] = {
            "config.yaml": resolved_text(
                self._loaded, lambda value: redactor.data(mask_urls(value))
            ).encode(),
            "plan.json": dump({**plan_json(self._masked), **redactor.data(selection)}, pretty=True),
            "environment.json": dump(environment.data, pretty=True),
            PACKAGES: "".join(f"{line}\n" for line in environment.packages).encode(),
        }
        if environment.conda_explicit:
            files[CONDA] = environment.conda_explicit.encode()
        if (
            self._request.resumes and self._request.selection
        ):  # this is only a part of what the session has planned
            files = {
                name: data
                for name, data in files.items()
                if name not in ("config.yaml", "plan.json") or not below.is_file(path, name)
            }
        try:
            if self._plan.artifacts_dir is not None:
                self._plan.artifacts_dir.mkdir(parents=True, exist_ok=True)
            self._keep_former_environment(environment.id)
            for name, data in files.items():
                below.write(path, name, data)
        except OSError as error:
            why = f"{error.filename or path}: {error.strerror or error}"
            raise SessionError(f"cannot write the session's files: {why}") from error

    def _keep_former_environment(self, ident: str) -> None:
        """Keep what describes the machine of the records so far, if this one is another or has changed since."""
        path = self._directory.path
        try:
            found = load(below.read(path, "environment.json"))
            listed = below.read(path, PACKAGES)
        except (OSError, ValueError):
            return
        former = found.get("id") if isinstance(found, dict) else None
        if isinstance(former, str) and former != ident and safe_name(former) == former:
            for name, data in zip(other_environment(former), (dump(found, pretty=True), listed), strict=True):
                below.write(path, name, data)

    def run(self, parts: Sequence[Part]) -> Report:
        """Run what has not finished before, and close the session."""
        self._read_finished()
        untouched = self._read_untouched()
        self._counts.update([*self._ended.values(), *(record.status for record in untouched)])
        self.context.events.write(
            SESSION_STARTED,
            session=self._plan.session,
            kept=len(self._ended),
            history=self._database is not None,
        )
        before = partial(read_before, self._plan, self._database, self._levels)
        self._listener.session_started(self._masked, len(self._ended), before)
        for text in (*self._plan.warnings, *filter(None, [self._levels.fault])):
            self.context.note(text)
        if here := why_here(self._database or "", self._results):
            self.context.mention(here)
        with Dispatcher(self._plan, self.context.redactor, self.context.note) as sinks:
            sinks.open(self._masked)
            executors = [executor for executor, _ in parts]
            with Stop(executors, self._say_stopping, self._say_failed) as self._stop:
                for executor, cases in parts:
                    waiting = self._choose(cases, sinks)
                    if not self._failed_setup and not self._stop.is_set():
                        for record in executor.run(waiting, self._stop, self.write):
                            self._finish(record, sinks)
            return self.close(sinks, [record.case for record in untouched])

    def _read_finished(self) -> None:
        """Note what a resumed session need not run again."""
        for case in (*self._plan.setups, *self._plan.cases) if self._request.resumes else ():
            record = self._directory.read_record(case)
            if record is not None and is_kept(record, case, rerun_failed=self._request.rerun_failed):
                self._ended[case.kind, case.name] = record.status
                self._count_checks(record)

    def _read_untouched(self) -> list[Record]:
        """Records of cases that this run of the session does not select; they stay in its report."""
        if not (self._request.resumes and self._request.selection):
            return []
        planned = {self._directory.entry_dir(case) for case in (*self._plan.setups, *self._plan.cases)}
        return [record for path, record in self._directory.stored_records() if path not in planned]

    @property
    def _failed_setup(self) -> str:
        """The data set-up that did not pass, after which nothing more runs."""
        setups = ((name, status) for (kind, name), status in self._ended.items() if kind == "data_setup")
        return next((name for name, status in setups if not status.ok), "")

    def _choose(self, cases: Sequence[Case], sinks: Dispatcher) -> list[Case]:
        """The cases that are to run; those that cannot run any more get their records now."""
        chosen, failed = [], self._failed_setup
        statuses = {name: status for (kind, name), status in self._ended.items() if kind != "data_setup"}
        for case in cases:
            if (case.kind, case.name) in self._ended:
                continue
            reason = setup_failed(failed) if failed else unmet_need(case, statuses)
            if not reason:
                chosen.append(case)
            elif case.kind != "data_setup":
                self._finish(skip_case(self.context, self.write, case, reason), sinks)
                statuses[case.name] = Status.SKIPPED
        return chosen

    def _finish(self, record: Record, sinks: Dispatcher) -> None:
        """A case has its record: count it, and tell the log, the terminal and the sinks."""
        case = record.case
        self._ended[case.kind, case.name] = record.status
        self._counts[record.status] += 1
        self._count_checks(record)
        self._unheard_of |= dict.fromkeys(unheard_of(record.metrics, self._said.get(case.name, ())))
        self.context.events.write(
            "case_finished",
            case=case.name,
            status=record.status,
            reason=record.reason,
            attempt=record.attempt,
        )
        self._listener.case_finished(record, self._directory.entry_dir(case))
        sinks.record(record)

    def _count_checks(self, record: Record) -> None:
        relative = tuple(check for check in record.requirements if check.kind == "max_regression")
        self._relative[record.case.kind, record.case.name] = relative

    def write(self, record: Record, tasks: Tasks = ()) -> Record:
        """Judge a record and put it on disk, where the case ended, so that nothing that finished can be lost.

        Hands back the record as it was written, without secrets.
        """
        record = judge(record, self._levels.of(record))
        try:
            written = self._directory.write_record(record, tasks)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise self._unwritable(record, error) from error
            self._reserve.release()  # it is there for this moment
            try:
                written = self._directory.write_record(record, tasks)
            except OSError as again:
                raise self._unwritable(record, again) from again
            if not self._reserve.hold():
                path = self._directory.path
                self._fault = (
                    f"the disk is full: free space under {path}, then go on with --resume {path.name}"
                )
        if self._remote:
            self._remote.case_ended(written)
            self._fault = self._fault or self._remote.fault
        if self._fault and not self._stop.is_set():
            self._stop.ask()
        return written

    def _unwritable(self, record: Record, error: OSError) -> SessionError:
        entry_dir = self._directory.entry_dir(record.case)
        return SessionError(
            f"cannot write the record of {record.case.name} into {entry_dir}: {error.strerror or error}"
        )

    def close(self, sinks: Dispatcher, untouched: Sequence[Case]) -> Report:
        """History, report, sinks, and the copy elsewhere; the report decides the exit code."""
        plan = self._plan
        relative = [check for checks in self._relative.values() for check in checks]
        report = Report(
            plan=replace(self._masked, cases=(*self._masked.cases, *untouched)),
            records=self._directory.records((*plan.setups, *plan.cases, *untouched)),
            counts=dict(self._counts),
            interrupted=self._stop.signalled,
            unfinished=self._fault,
            unjudged=sum(not check.judged for check in relative),
            inconclusive=why_inconclusive(relative),
            done_before=dict(self.context.done_before),
            database=self._database or "",
        )
        self._reserve.release()  # the report needs the room
        self._directory.remove_shared()
        if self._unheard_of:
            self.context.mention(ask_for_directions(self._unheard_of))
        report = replace(report, findings=self._remember())
        if self._request.follow_up is not None and not report.interrupted:
            report = self._request.follow_up(report, self._database, self.context.mention)
        self._write_report(report)
        undelivered = sinks.close(report)
        if undelivered:
            report = replace(report, undelivered=undelivered)
            self._write_report(report)
        self.context.events.write(
            SESSION_FINISHED, ok=report.ok, interrupted=report.interrupted, counts=report.counts
        )
        location: Location = plan.directory
        if self._remote:
            unsent = self._remote.finish(ok=report.ok)
            location = self._remote.location
            if unsent:
                report = replace(report, unfinished="; ".join(filter(None, (report.unfinished, unsent))))
                self._write_report(report)
        self._listener.session_finished(report, location)
        return report

    def _remember(self) -> tuple[Finding, ...]:
        """Record the session in the history; what that says of the series it added to."""
        if self._database is None:
            return ()
        location = self._remote.location if self._remote else self._directory.path
        found = remember(self._directory.path, location, self._database)
        if found.fault:
            self.context.note(found.fault)
        if found.note:
            self.context.mention(found.note)
        return tuple(mask_finding(finding, self.context.redactor) for finding in found.findings)

    def _write_report(self, report: Report) -> None:
        fault = write_report(report, self._directory)
        if fault:
            self.context.note(fault)
        for name in report.undelivered:
            self.context.note(f"sink {name} is required and did not get everything")

    def _say_failed(self, error: BaseException) -> None:
        why = f": {error}" if isinstance(error, PacelineError) else ""
        self.context.note(f"the session cannot go on{why}; the cases that still run are ended")

    def _say_stopping(self, again: bool) -> None:
        """Called from a signal handler, so it takes no lock and writes by single system calls."""
        self.context.events.write("stopping", now=again)
        word = b"ending at once" if again else b"ending the running case; again to end it at once"
        os.write(2, b"\nInterrupted: " + word + b"\n")

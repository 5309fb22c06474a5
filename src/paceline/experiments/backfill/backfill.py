"""The suite at one revision after the other, each a session like any other, in the history under its commit.

What says that a revision is measured are the records, in the history or on the disk: there is no other state, so a
backfill that was killed goes on with the same command.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.errors import BuildError, PacelineError
from paceline.experiments.builds.build import Builder, Built, Candidate, Worktree, missing_script, subjects
from paceline.experiments.builds.environments import Venv
from paceline.experiments.trials import setting_in, uses_setups
from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.history import open_store
from paceline.history.measured import PASSED_OVER, Measured, read_measured
from paceline.history.session_files import find_sessions, read_session
from paceline.history.store.database import driver_errors
from paceline.model import Case, Status
from paceline.record.environment import capture
from paceline.record.events import SESSION_FINISHED, session_events
from paceline.record.layout import EVENTS, is_session
from paceline.run.context import Listener
from paceline.session.request import Request, prepare
from paceline.session.session import run

_SHOWN = 12
"""Letters of a revision in the name of its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillTask:
    """What is to be measured; `revisions` are in the order of measuring, `database` is None for no history."""

    request: Request
    builder: Builder
    repo: Path
    revisions: tuple[str, ...]
    results_dir: Path
    name: str
    database: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What came of one revision."""

    revision: str
    title: str = ""
    session: str = ""
    statuses: Mapping[str, Status] = field(default_factory=dict)
    """How the cases ended that ran now."""
    reason: str = ""
    """Why it could not be built, or not even be checked out."""
    build_s: float = 0.0
    run_s: float = 0.0
    left_s: float = 0.0
    """How long the rest will take, if it goes on like this."""
    left: int = 0

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(name for name, status in self.statuses.items() if not status.ok)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """What came of all of them."""

    asked: int
    already: int
    steps: tuple[Step, ...] = ()
    changes: int = 0
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """Revisions that do not build are passed over, unless there is nothing else."""
        if self.interrupted:
            return 130
        built = [step for step in self.steps if not step.reason]
        return 1 if any(step.failed for step in built) or (self.steps and not built) else 0


OnStep = Callable[[int, Step], None]
"""Called with a step's number, from 1 on, before it is built (without a session) and when it is over."""


class Backfill:
    """One call of `paceline run --revisions`."""

    def __init__(self, task: BackfillTask, listener: Listener) -> None:
        self._task = task
        self._listener = listener
        self._class_id = capture().class_id
        self._titles = subjects(task.repo, task.revisions) if task.revisions else {}
        self._is_first = True
        self.notes: list[str] = []

    def look(self) -> list[tuple[str, tuple[str, ...]]]:
        """The revisions that are not fully measured, with the names of the cases that are missing.

        Of revisions that nothing is known of these are all, which no name stands for: no tree is needed to tell.
        """
        known: dict[str, set[Measured]] = {}
        stored = set(self._in_history())
        for one in (*stored, *self._on_disk(stored)):
            known.setdefault(one.revision, set()).add(one)
        found = []
        for revision in self._task.revisions:
            cases = self._missing(revision, known[revision]) if revision in known else ()
            if cases is not None:
                found.append((revision, cases))
        return found

    def run(self, wanted: Sequence[tuple[str, tuple[str, ...]]], on_step: OnStep) -> BackfillResult:
        """Measure what is missing; the next revision is built meanwhile if the user allows two jobs."""
        steps: list[Step] = []
        began = time.monotonic()
        interrupted = False
        try:
            for place, (revision, cases, made) in enumerate(self._built(wanted), start=1):
                step = Step(revision=revision, title=self._titles.get(revision, ""))
                on_step(place, step)
                built, build_s = made()
                step = replace(step, build_s=build_s, reason=built if isinstance(built, str) else "")
                step, interrupted = self._measure(step, built, cases)
                left = len(wanted) - place
                each_s = (time.monotonic() - began) / place
                steps.append(replace(step, left=left, left_s=left * each_s))
                on_step(place, steps[-1])
                if interrupted:
                    break
        except KeyboardInterrupt:
            interrupted = True
        asked = len(self._task.revisions)
        return BackfillResult(
            asked=asked,
            already=asked - len(wanted),
            steps=tuple(steps),
            changes=self._search() if steps and not interrupted else 0,
            notes=tuple(dict.fromkeys(self.notes)),
            interrupted=interrupted,
        )

    def _built(
        self, wanted: Sequence[tuple[str, tuple[str, ...]]]
    ) -> Iterator[tuple[str, tuple[str, ...], Callable[[], tuple[Built | str, float]]]]:
        ahead: Future[tuple[Built | str, float]] | None = None
        with ThreadPoolExecutor(1) as pool:
            for place, (revision, cases) in enumerate(wanted):
                if (self._task.request.jobs or 1) < 2:
                    yield revision, cases, lambda revision=revision: self._build(revision)  # type: ignore[misc]
                    continue
                made = ahead or pool.submit(self._build, revision)
                following = wanted[place + 1 :]
                ahead = pool.submit(self._build, following[0][0]) if following else None
                yield revision, cases, made.result

    def _build(self, revision: str) -> tuple[Built | str, float]:
        """What the revision is measured in, or why it cannot be built, and how long that took."""
        began = time.monotonic()
        try:
            built = self._task.builder.build(
                Candidate(ident=revision, label=revision[:_SHOWN], revision=revision)
            )
        except BuildError as error:
            return f"cannot be built: {str(error).splitlines()[0]}", time.monotonic() - began
        return built, time.monotonic() - began

    def _measure(self, step: Step, built: Built | str, only: tuple[str, ...]) -> tuple[Step, bool]:
        """A session of the cases that are missing; without a build it only says why none could run."""
        began = time.monotonic()
        try:
            ready = (
                built if isinstance(built, Built) else Built(worktree=self._task.builder.tree(step.revision))
            )
        except BuildError as error:  # it cannot even be checked out, so that no record could name its commit
            self.notes.append(f"{step.revision[:_SHOWN]}: {str(error).splitlines()[0]}")
            return step, False
        request = self._request(step.revision, ready, only)
        plan = prepare(request)
        blocked = {case.name: step.reason or _lacks(case, ready.worktree) for case in plan.cases}
        blocked = {name: reason for name, reason in blocked.items() if reason}
        setting = request.setting
        if blocked and setting is not None:
            setting = replace(setting, blocked=blocked, details={**setting.details, PASSED_OVER: True})
        setups = self._is_first or any(uses_setups(case, plan) for case in plan.cases)
        request = replace(request, setting=setting, setups=setups and not step.reason)
        report = run(request, self._listener)
        self._is_first = self._is_first and not request.setups
        self._remember(plan.directory)
        if report.unfinished:
            raise PacelineError(report.unfinished)
        statuses = {one.case.name: one.status for one in report.records if one.case.kind == "entry"}
        took_s = time.monotonic() - began
        return replace(step, session=plan.session, statuses=statuses, run_s=took_s), report.interrupted

    def _request(self, revision: str, built: Built, only: tuple[str, ...] = ()) -> Request:
        """The suite in a revision's tree; in its fingerprints the places of what was built do not count."""
        task, builder = self._task, self._task.builder
        setting = setting_in(built.venv, built.worktree)
        places = {str(built.worktree.path): f"{{repo_dir{_digest(builder.setup)}}}"} if built.worktree else {}
        if built.venv:
            places[str(built.venv.bin.parent)] = f"{{venv{_digest((*builder.install, *builder.options))}}}"
        jobs = task.request.jobs
        request = replace(
            task.request,
            setting=replace(setting, placeholders=places),
            results_dir=task.results_dir,
            jobs=jobs and max(1, jobs - 1),
            rerun_failed=False,
            history=False,
        )
        if only:
            request = replace(request, only=only, exclude=(), shard=None)
        name, is_begun = self._session_name(revision)
        return replace(request, resume=name) if is_begun else replace(request, session_name=name)

    def _session_name(self, revision: str) -> tuple[str, bool]:
        """The session of a revision that was cut short, or a name for a new one."""
        number = 1
        while True:
            name = f"{self._task.name}-{revision[:_SHOWN]}{f'-{number}' if number > 1 else ''}"
            path = self._task.results_dir / name
            if not path.exists():
                return name, False
            if is_session(path) and not _is_over(path):
                return name, True
            number += 1

    def _missing(self, revision: str, known: set[Measured]) -> tuple[str, ...] | None:
        """The cases that are not measured there as they would be now; None if that is none of them."""
        builder = self._task.builder
        try:
            tree = builder.tree(revision)
        except BuildError:
            return ()
        # Where the environment lies does not count, so it need not be built to tell.
        python = builder.cache_dir / "venvs" / "any" / "bin" / "python"
        venv = Venv(python=python, key="", packages=()) if builder.install else None
        plan = prepare(self._request(revision, Built(worktree=tree, venv=venv)))
        done = {(one.key, one.fingerprint) for one in known if self._counts(one)}
        missing = tuple(case.name for case in plan.cases if (case.key, case.fingerprint) not in done)
        return missing if missing else None

    def _counts(self, one: Measured) -> bool:
        """Whether a record need not be made again."""
        if one.class_id != self._class_id:
            return False
        if self._task.request.rerun_failed:
            return one.status == Status.PASSED
        return Status(one.status).finished or (one.status == Status.LAUNCH_ERROR and one.is_passed_over)

    def _in_history(self) -> list[Measured]:
        if self._task.database is None:
            return []
        with open_store(self._task.database) as store, store.database.reading():
            return list(read_measured(store.database, self._task.revisions))

    def _on_disk(self, stored: set[Measured]) -> Iterator[Measured]:
        """What sessions of ours hold; those that the history has lost, or never got, are added to it."""
        wanted = {revision[:_SHOWN] for revision in self._task.revisions}
        for path in find_sessions(self._task.results_dir) if self._task.results_dir.is_dir() else ():
            rest = path.name.removeprefix(f"{self._task.name}-")
            if rest == path.name or rest[:_SHOWN] not in wanted:
                continue
            files = read_session(path)
            class_id = str(files.environment.get("class_id", ""))
            found = {
                Measured(
                    revision=one.revision,
                    key=one.case.key,
                    fingerprint=one.case.fingerprint,
                    status=one.status,
                    is_passed_over=bool(one.details.get(PASSED_OVER)),
                    class_id=class_id,
                )
                for one in files.records
                if one.case.kind == "entry"
            }
            if not found <= stored:
                self._remember(path)
            yield from found

    def _remember(self, path: Path) -> None:
        """Add a session to the history; one that cannot be written to costs nothing but the order of things."""
        if self._task.database is None:
            return
        try:
            with open_store(self._task.database) as store:
                store.add(*read_session(path))
        except _database_errors() as error:
            why = str(error).splitlines()[0]
            self.notes.append(
                f"not recorded in the history: {why}; 'paceline history import {path}' does so later"
            )

    def _search(self) -> int:
        """Look for changes in the series that grew; how many there are that nobody heard of."""
        if self._task.database is None:
            return 0
        try:
            with open_store(self._task.database) as store:
                before = {one.id for one in store.findings()}
                detect(store, Repository(self._task.repo))
                return sum(one.id not in before for one in store.findings())
        except _database_errors() as error:
            self.notes.append(f"not searched for changes: {str(error).splitlines()[0]}")
            return 0


def _database_errors() -> tuple[type[Exception], ...]:
    return (PacelineError, OSError, *driver_errors())


def _lacks(case: Case, tree: Worktree | None) -> str:
    """Why a case cannot run at a revision, if the benchmark is younger."""
    name = missing_script(case, tree)
    return name and f"it has no {name}; write {{repo_dir}} into the entry to measure it by your own copy"


def _is_over(path: Path) -> bool:
    """Whether a session came to its end."""
    last = session_events(path / EVENTS)[-1:]
    return bool(last) and last[0].get("event") == SESSION_FINISHED and not last[0].get("interrupted")


def _digest(words: Sequence[str]) -> str:
    """Nothing for nothing, else a colon and a hash."""
    return f":{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:16]}" if words else ""

"""Night after night through the real loop: store, detection, report, confirmation, bisection, a person's word."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from year_parts.book import Alarm, Book, Inquiry
from year_parts.line import Branch, time_of
from year_parts.simulated import SimulatedBuilder, Trials, simulated_trials
from year_parts.world import BRANCH_EFFECT, MACHINES, Track, World

from paceline.config.sections import Nightly
from paceline.errors import HistoryError
from paceline.experiments.builds.build import Candidate
from paceline.experiments.nightly import night as nightly
from paceline.experiments.nightly.investigation import Night, investigate
from paceline.experiments.nightly.suspicions import Suspected
from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.findings.telling import session_findings
from paceline.history import SessionInfo, Store, open_store
from paceline.history.session_info import session_id
from paceline.model import Case, Finding, Measurement, Plan, Record, Report, Status
from paceline.record.events import iso_time
from paceline.session.request import Request

PATIENCE = 7
"""Nights after which a person has looked at what was reported, and says what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of the year: of a night on a machine, of the line or of a branch."""

    info: SessionInfo
    night: int
    machine: int
    is_branch: bool


class Year:
    """The loop over the nights of a world; `confirms` as `paceline nightly` does, else as `paceline run`."""

    def __init__(self, world: World, database: str, directory: Path, *, confirms: bool) -> None:
        self._world, self._database, self._confirms = world, database, confirms
        self._repository = Repository(world.line.root)
        self._trials = Trials(world)
        self._tracks = {(one.case, one.metric, MACHINES[one.machine]): one for one in world.tracks}
        self._cases = {one.case: Case(name=one.case, entry=one.case, key=one.case) for one in world.tracks}
        self._sessions: dict[str, Session] = {}
        self._due: list[tuple[int, str, bool]] = []
        self._also: dict[str, Sequence[Any]] = {}
        self._options = Nightly()
        self._request = Request(configs=(_suite(directory, self._cases),), sinks=("none",))
        self._results = directory / "results"
        self._results.mkdir()
        self.book = Book(world=world)

    def run(self) -> Book:
        with open_store(self._database) as self._store, simulated_trials(self._trials.run):
            for night in range(self._world.nights):
                for machine in range(len(MACHINES)):
                    if (machine, night) not in self._world.missing:
                        self._spend(night, machine)
                for branch in self._world.line.branches:
                    if night in branch.nights:
                        self._measure_branch(night, branch)
                self._look(night)
            self.book.incidents(self._found())
        self.book.trials = self._trials.count
        return self.book

    def _spend(self, night: int, machine: int) -> None:
        """A night of one machine, up to its report."""
        revision = self._world.line.commits[self._world.line.newest[night]]
        session = self._add(night, machine, f"{MACHINES[machine]}-{night:03}", "main", revision, revision)
        if session is None:
            return
        told = self._judged(session)
        if self._confirms:
            with self._timed("follow up"):
                told = self._followed_up(session, told)
        self.book.sessions += 1
        self.book.red_nights += any(one.fails for one in told)
        for one in told:
            if one.fails:
                self._alarm(session, one)

    def _measure_branch(self, night: int, branch: Branch) -> None:
        base = self._world.line.commits[branch.base]
        name = f"{branch.name}-{night:03}"
        session = self._add(night, 0, name, branch.name, branch.commits[-1], base, factor=1 + BRANCH_EFFECT)
        if session is not None:
            self.book.branch_reports += sum(one.fails for one in self._judged(session))

    def _judged(self, session: Session) -> tuple[Finding, ...]:
        with self._timed("detect"):
            detect(self._store, self._repository)
        with self._timed("report"):
            return session_findings(self._store, session.info.id)

    def _add(
        self,
        night: int,
        machine: int,
        name: str,
        branch: str,
        revision: str,
        base: str,
        *,
        factor: float = 1.0,
    ) -> Session | None:
        """Record a session of all cases of a machine."""
        started = iso_time(time_of(night, minutes=60 * machine + 120 * (branch != "main")))
        info = SessionInfo(
            id=session_id(name, started),
            name=name,
            started_at=started,
            revision=revision,
            branch=branch,
            merge_base=base,
            commit_time=started,
        )
        environment = _environment(machine, self._world.versions[night])
        records = list(self._records(info, night, machine, environment["id"], factor))
        if not records:
            return None
        with self._timed("store"):
            self._store.add(info, environment, records)
        self._sessions[name] = Session(info=info, night=night, machine=machine, is_branch=branch != "main")
        return self._sessions[name]

    def _records(
        self, info: SessionInfo, night: int, machine: int, environment: str, factor: float
    ) -> Iterator[Record]:
        world = self._world
        place = self._trials.place(info.revision)[0] if factor != 1 else world.line.newest[night]
        by_case: dict[str, dict[str, Measurement]] = {}
        for track in world.tracks:
            if track.machine != machine:
                continue
            value = world.measured(track, night, factor * world.level(track, place, world.versions[night]))
            metrics = by_case.setdefault(track.case, {})
            if not math.isnan(value):
                metrics[track.metric] = Measurement(
                    value=value, unit=track.unit, direction=track.direction, samples=(value,)
                )
        for case, metrics in by_case.items():
            passed = any(not metric.startswith(("exec_", "cpu_", "peak_")) for metric in metrics)
            yield Record(
                session=info.name,
                case=self._cases[case],
                attempt=1,
                status=Status.PASSED if passed else Status.FAILED,
                started_at=info.started_at,
                metrics=metrics,
                environment=environment,
                revision=info.revision,
            )

    def _followed_up(self, session: Session, told: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """The report once the strongest suspicions were run again, as `paceline nightly` does it."""
        self._trials.night, self._trials.machine = session.night, session.machine
        own = MACHINES[session.machine]
        ran = {one.case for one in self._world.tracks if one.machine == session.machine}
        plan = Plan(
            session=session.info.name,
            directory=self._results,
            cases=tuple(case for name, case in self._cases.items() if name in ran),
        )
        night = Night(
            request=self._request,
            options=self._options,
            builder=SimulatedBuilder(
                cache_dir=self._results / "cache",
                log=self._results / "build.log",
                repo=self._world.line.root,
            ),
            tonight=Candidate(
                ident="tonight", label="tonight", kind="environment", revision=session.info.revision
            ),
            repository=self._repository,
            results_dir=self._results / own,
        )

        def watched(suspected: Suspected, store: Store, night: Night) -> Finding:
            before = self._trials.count
            finding = investigate(suspected, store, night)
            self._inquired(session, suspected, finding, self._trials.count - before)
            return finding

        with (
            patch.object(nightly, "investigate", watched),
            patch.object(nightly, "_own_class", lambda report: own),
        ):
            report = Report(plan=plan, records=(), findings=told)
            return nightly._follow_up(report, self._database, night).findings

    def _inquired(self, session: Session, suspected: Suspected, finding: Finding, runs: int) -> None:
        world = self._world
        key = suspected.series
        track = self._tracks[key.case, key.metric, key.environment_class]
        good, bad = (self._sessions[place.session] for place in (suspected.good, suspected.bad))
        levels = [self._level(track, one) for one in (good, bad)]
        between = [
            one
            for one in world.events_of[track.number]
            if one.is_worse and good.night < one.night <= bad.night
        ]
        truth = {
            world.line.commits[one.commit] if one.commit >= 0 else f"{one.package}=={one.version}.0"
            for one in between
        }
        truth |= {branch.commits[0] for branch in world.line.branches if bad.info.branch == branch.name}
        self._also[suspected.id] = suspected.also
        culprit = finding.culprit or {}
        self.book.inquiry(
            suspected.id,
            Inquiry(
                track=track,
                night=session.night,
                truth=frozenset(truth),
                changed=levels[1] > levels[0] * 1.001,
                runs=runs,
                confirmed=finding.stage in ("confirmed", "bisected"),
                culprit=str(culprit.get("revision") or culprit.get("name") or ""),
            ),
        )

    def _level(self, track: Track, session: Session) -> float:
        """The true level of a series in a session."""
        place, factor = self._trials.place(session.info.revision)
        return factor * self._world.level(track, place, self._world.versions[session.night])

    def _alarm(self, session: Session, finding: Finding) -> None:
        """Write down that a person was told of something worse."""
        good, bad = (self._sessions[place.session] for place in (finding.last_good, finding.first_bad))
        track = self._tracks[finding.case, finding.metric, finding.environment_class]
        also = [
            self._tracks[key.case, key.metric, key.environment_class]
            for key in self._also.get(finding.id, ())
        ]
        alarm = Alarm(
            id=finding.id,
            night=session.night,
            track=track,
            after=good.night,
            until=bad.night,
            kind=finding.kind,
            why=f"{finding.kind}, {finding.stage}: {finding.message}",
            is_from_branch=good.is_branch or bad.is_branch,
        )
        new = self.book.alarm(alarm, also)
        if new is not None:
            self._due.append((session.night + PATIENCE, finding.id, new.event is not None))

    def _look(self, night: int) -> None:
        """A person says what was reported some nights ago: known now, or not true."""
        for _, ident, is_true in [due for due in self._due if due[0] <= night]:
            try:
                self._store.say(
                    ident, "acknowledged" if is_true else "false", why="looked at", who="a person"
                )
            except HistoryError:
                continue  # A suspicion that was told and not stored.
        self._due = [due for due in self._due if due[0] > night]

    def _found(self) -> Iterator[tuple[Track, int, int, str]]:
        for one in self._store.findings():
            if one.verdict == "worse" and one.incident and one.stage != "not_reproduced":
                good, bad = (self._sessions[place.session].night for place in (one.last_good, one.first_bad))
                track = self._tracks[one.series.case, one.series.metric, one.series.environment_class]
                yield track, good, bad, one.incident

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.book.seconds[what] += time.process_time() - began


def _environment(machine: int, versions: Mapping[str, int]) -> dict[str, Any]:
    mark = "-".join(map(str, versions.values()))
    return {
        "id": f"{MACHINES[machine]}-{mark}",
        "class_id": MACHINES[machine],
        "hostname": MACHINES[machine],
        "platform": "Linux-6.1-x86_64",
        "python": {"version": "3.11.7"},
        "packages": {name: f"{version}.0" for name, version in versions.items()},
    }


def _suite(directory: Path, cases: Sequence[str] | Mapping[str, Any]) -> Path:
    """A suite with these cases: experiments look their cases up in it."""
    (directory / "case.py").write_text("")
    entries = "".join(f"  - {{name: {name}, script: case.py}}\n" for name in cases)
    suite = directory / "suite.yaml"
    suite.write_text(f"results_dir: {directory / 'results'}\nentries:\n{entries}")
    return suite

"""A session's records into the history, once it is over: the files are the truth, the history follows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline.errors import PacelineError
from paceline.history.urls import check_driver, find_url, parse_target
from paceline.judge.requirements import Baseline
from paceline.model import Finding, Plan, Record
from paceline.record.codec import load
from paceline.record.environment import Environment
from paceline.record.events import SESSION_STARTED, EventLog, session_events
from paceline.record.layout import EVENTS
from paceline.record.repository import git_of_suite

if TYPE_CHECKING:
    from paceline.findings.baselines import Baselines
    from paceline.history import Store


_RECORDED = "session_recorded"


def choose_database(asked: str | None, configured: str | None, *, enabled: bool) -> str | None:
    """The database to record into, None for none; one that could never be used is an error before anything runs."""
    if not enabled:
        return None
    url = find_url(asked, configured)
    check_driver(parse_target(url))
    return url


class Remembered(NamedTuple):
    """What the history says of the series that a session added to; `fault` is why it says nothing, and what to do."""

    findings: tuple[Finding, ...] = ()
    fault: str = ""


def remember(session_dir: Path, place: Path | str, url: str) -> Remembered:
    """Record what the session's files hold, and look for changes in the series that it added to.

    A database that is down or locked costs a session nothing: its files stay, and can be imported at any time.
    """
    from paceline.history import open_store  # a quarter of a second, which no case has to wait for
    from paceline.history.session_files import read_session
    from paceline.history.store.database import driver_errors

    expected: tuple[type[Exception], ...] = (PacelineError, OSError, *driver_errors())
    recorded = False
    try:
        session, environment, records = read_session(session_dir, str(place))
        with open_store(url) as store:
            store.add(session, environment, records)
            recorded = True
            return Remembered(findings=_findings(store, session.id, environment))
    except expected as error:
        if recorded:
            later = "'paceline regressions' does so later"
            return Remembered(fault=f"not searched for regressions: {str(error).splitlines()[0]}; {later}")
        later = f"'paceline history import {place}' adds the session later"
        return Remembered(fault=f"not recorded in the history: {str(error).splitlines()[0]}; {later}")


def remember_killed(session_dirs: Sequence[Path], url: str, *, by: str) -> list[str]:
    """Record sessions whose runner was killed before it could; what to tell of it."""
    notes = []
    for session_dir in session_dirs:
        events = session_events(session_dir / EVENTS)
        starts = [event for event in events if event["event"] == SESSION_STARTED]
        if not (starts and starts[-1].get("history")) or events[-1]["event"] == _RECORDED:
            continue
        fault = remember(session_dir, session_dir.absolute(), url).fault
        if not fault:
            with EventLog(session_dir / EVENTS) as log:
                log.write(_RECORDED, by=by)
        notes.append(fault or f"session {session_dir.name}, whose runner was killed, is in the history now")
    return notes


def _findings(store: "Store", session_id: str, environment: Mapping[str, Any]) -> tuple[Finding, ...]:
    from paceline.findings.commits import find_repository  # all that numpy costs, once the cases are done
    from paceline.findings.detection import detect
    from paceline.findings.telling import session_findings

    root = git_of_suite(environment).get("root")
    detect(store, find_repository(Path(root)) if root else None)
    return session_findings(store, session_id)


def _asked_for(plan: Plan) -> dict[str, set[str]]:
    """The cases with a requirement that is relative to their history: the metrics, by the case's key."""
    wanted: dict[str, set[str]] = {}
    for case in plan.cases:
        for requirement in case.requirements:
            if requirement.kind == "max_regression":
                wanted.setdefault(case.key, set()).add(requirement.metric)
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The levels that requirements are relative to; `fault` is why there are none."""

    session_dir: Path
    environment: Environment
    known: "Baselines" = field(default_factory=dict)
    fault: str = ""

    def baselines(self, record: Record) -> Mapping[str, Baseline]:
        """The level of each of the record's metrics that has one, on machines like its own."""
        if not self.known:
            return {}
        case = record.case
        return self.known.get((case.key, case.variant or "", case.version, self._class_of(record)), {})

    def _class_of(self, record: Record) -> str:
        """The class of the machine that a record was made on; a pool's nodes have files of their own."""
        if record.environment == self.environment.id:
            return self.environment.class_id
        try:
            data = load((self.session_dir / f"environment-{record.environment}.json").read_bytes())
        except (OSError, ValueError):
            return self.environment.class_id
        return str(data.get("class_id", "")) if isinstance(data, dict) else ""


def held_against(plan: Plan, url: str | None, session_dir: Path, environment: Environment) -> Held:
    """What the plan's requirements are held against, if any is relative to the history."""
    held = Held(session_dir=session_dir, environment=environment)
    wanted = _asked_for(plan)
    if not wanted:
        return held
    if url is None:
        return replace(
            held, fault="the history is off, so max_regression has nothing to hold results against"
        )
    target = parse_target(url)
    if target.path is not None and not target.path.exists():
        return held
    from paceline.findings.baselines import read_baselines  # brings numpy and SQLAlchemy
    from paceline.history import open_store
    from paceline.history.store.database import driver_errors

    expected: tuple[type[Exception], ...] = (PacelineError, OSError, *driver_errors())
    try:
        with open_store(url) as store:
            return replace(held, known=read_baselines(store, wanted, but=plan.session))
    except expected as error:
        why = f"the history cannot be read: {str(error).splitlines()[0]}"
        return replace(held, fault=f"{why}, so max_regression has nothing to hold results against")

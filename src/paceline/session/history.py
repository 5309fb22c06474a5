"""A session's records into the history, once it is over: the files are the truth, the history follows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline.errors import PacelineError
from paceline.history.urls import check_driver, find_url, parse_target
from paceline.judge.requirements import NO_BASELINE, Baseline
from paceline.model import Finding, Plan, Record, Since
from paceline.numbers import count
from paceline.record import below
from paceline.record.codec import load
from paceline.record.environment import Environment
from paceline.record.layout import other_environment
from paceline.record.repository import git_of_suite

if TYPE_CHECKING:
    from paceline.findings.segments import Baselines, CaseKey
    from paceline.findings.since import Past
    from paceline.history import Store


def choose_database(asked: str | None, configured: str | None, results: Path, *, enabled: bool) -> str | None:
    """The database to record into, None for none; one that could never be used is an error before anything runs."""
    if not enabled:
        return None
    url = find_url(asked, configured, results=results)
    check_driver(parse_target(url))
    return url


class Remembered(NamedTuple):
    """What the history found in the series that a session added to; why it could not, and what else there is to say."""

    findings: tuple[Finding, ...] = ()
    fault: str = ""
    note: str = ""


def remember(session_dir: Path, place: Path | str, url: str) -> Remembered:
    """Record what the session's files hold, and look for changes in the series that it added to.

    A database that is down or locked costs a session nothing: its files stay, and can be imported at any time.
    """
    from paceline.history import open_store  # a quarter of a second, which no case has to wait for
    from paceline.history.session_files import read_session
    from paceline.history.store.database import driver_errors

    expected: tuple[type[Exception], ...] = (PacelineError, OSError, *driver_errors())
    is_recorded = False
    try:
        files = read_session(session_dir, str(place))
        with open_store(url) as store:
            store.add(*files)
            is_recorded = True
            return _findings(store, files.session.id, files.environment)
    except expected as error:
        why = str(error).splitlines()[0]
        if is_recorded:
            return Remembered(
                fault=f"not searched for regressions: {why}; 'paceline regressions' does so later"
            )
        later = f"'paceline history import {place}' adds the session later"
        return Remembered(fault=f"not recorded in the history: {why}; {later}")


def _findings(store: "Store", session_id: str, environment: Mapping[str, Any]) -> Remembered:
    from paceline.findings.commits import find_repository  # all that numpy costs, once the cases are done
    from paceline.findings.detection import detect
    from paceline.findings.order import read_order, why_in_time
    from paceline.findings.telling import session_findings

    git = git_of_suite(environment)
    root = git.get("root")
    repository = find_repository(Path(root), str(git.get("default_branch") or "")) if root else None
    done = detect(store, repository)
    found = f"{count(done.past, 'change')} found in a past that was not searched before"
    notes = [f"{found}: 'paceline regressions' lists them"] if done.past else []
    notes += filter(None, [why_in_time(read_order(store), repository)])
    return Remembered(session_findings(store, session_id), note="; ".join(notes))


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels that requirements are relative to; `fault` is why there are none."""

    session_dir: Path
    environment: Environment
    known: "Baselines" = field(default_factory=dict)
    fault: str = ""

    def of(self, record: Record) -> Mapping[str, Baseline]:
        """The level of each of the record's metrics on machines like its own, and how many results others have."""
        if not self.known:
            return {}
        case, own = record.case, self.class_of(record)
        found: dict[str, Baseline] = {}
        for class_id, levels in self._by_case.get((case.key, case.variant or "", case.version), ()):
            for metric, level in levels.items():
                known = found.get(metric, NO_BASELINE)
                others = known.elsewhere + (level.results if class_id != own else 0)
                found[metric] = (level if class_id == own else known)._replace(elsewhere=others)
        return found

    @cached_property
    def _by_case(self) -> Mapping[tuple[str, str, str], Sequence[tuple[str, Mapping[str, Baseline]]]]:
        """For each case the classes of machines that it has levels on: asked once for every record."""
        found: dict[tuple[str, str, str], list[tuple[str, Mapping[str, Baseline]]]] = {}
        for (*case, class_id), levels in self.known.items():
            found.setdefault((case[0], case[1], case[2]), []).append((class_id, levels))
        return found

    def class_of(self, record: Record) -> str:
        """The class of the machine that a record was made on; a pool's nodes have files of their own."""
        if record.environment == self.environment.id:
            return self.environment.class_id
        try:
            data = load(below.read(self.session_dir, other_environment(record.environment)[0]))
        except (OSError, ValueError):
            return ""  # of an unknown machine nothing is known to be held against
        return str(data.get("class_id", "")) if isinstance(data, dict) else ""


_MOST_ASKED = 300
"""Cases of a plan up to which the past of each is read before the first begins."""


@dataclass(frozen=True, kw_only=True)
class Before:
    """The results that the history had before the session: called for a record, how that compares with them."""

    levels: Levels
    known: "Mapping[CaseKey, Mapping[str, Past]]"
    comparisons: int

    def __call__(self, record: Record, metric: str) -> Since | None:
        from paceline.findings.since import since

        case = record.case
        key = (case.key, case.variant or "", case.version, self.levels.class_of(record))
        past = self.known.get(key, {}).get(metric)
        return since(past, record.metrics[metric], comparisons=self.comparisons) if past else None


def read_before(plan: Plan, url: str | None, levels: Levels) -> Before | None:
    """What the history knows of the plan's cases; None if that is nothing, or more than anybody reads."""
    target = parse_target(url) if url else None
    is_there = target is not None and (target.path is None or target.path.exists())
    if url is None or not is_there or len(plan.cases) > _MOST_ASKED:
        return None
    from paceline.findings.since import read_pasts  # brings numpy
    from paceline.history import open_store
    from paceline.history.store.database import driver_errors

    expected: tuple[type[Exception], ...] = (PacelineError, OSError, *driver_errors())
    try:
        with open_store(url) as store:
            known = read_pasts(store, [case.key for case in plan.cases], but=plan.session)
    except expected:
        return None  # said when the session is to be recorded there
    return Before(levels=levels, known=known, comparisons=len(plan.cases)) if known else None


def read_levels(plan: Plan, url: str | None, environment: Environment) -> Levels:
    """What the plan's requirements are compared with, if any is relative to the history."""
    levels = Levels(session_dir=plan.directory, environment=environment)
    wanted: dict[str, set[str]] = {}
    for case in plan.cases:
        for requirement in case.requirements:
            if requirement.kind == "max_regression":
                wanted.setdefault(case.key, set()).add(requirement.metric)
    if not wanted:
        return levels
    nothing = "so max_regression has nothing to hold results against"
    if url is None:
        return replace(levels, fault=f"the history is off, {nothing}")
    target = parse_target(url)
    if target.path is not None and not target.path.exists():
        return levels
    from paceline.findings.segments import read_baselines  # brings numpy
    from paceline.history import open_store
    from paceline.history.store.database import driver_errors

    expected: tuple[type[Exception], ...] = (PacelineError, OSError, *driver_errors())
    try:
        with open_store(url) as store:
            return replace(levels, known=read_baselines(store, wanted, but=plan.session))
    except expected as error:
        return replace(levels, fault=f"the history cannot be read: {str(error).splitlines()[0]}, {nothing}")

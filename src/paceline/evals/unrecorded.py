"""Stubs that are done and have no record: their runner was killed between the two, and the next one records them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paceline.evals.jobs import Job, Maker, maker_of
from paceline.evals.stub_files import Busy, Marker, add_to_marker, owned, read_marker
from paceline.record.codec import load
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment
from paceline.record.events import SESSION_FINISHED, first_start, session_events
from paceline.record.files import write_atomic
from paceline.record.layout import EVENTS, other_environment
from paceline.record.lock import is_running


class _Killed(NamedTuple):
    """A session whose runner was killed: where it is, and the keys of the stubs that it recorded."""

    directory: Path
    recorded: frozenset[str]


class Recovered(NamedTuple):
    """A stub of a killed session that this one records: what its marker says, and where it ran."""

    facts: Mapping[str, Any]
    environment: Environment


class UnrecordedStubs:
    """Finds them among the stubs that sessions before `maker` have done."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._directory = Path(maker.directory)
        self._sessions: dict[Maker, _Killed | None] = {}

    def take_over(self, job: Job, marker: Marker) -> Recovered | None:
        """A done stub that this session is to record; None if it is recorded, or is not ours to record.

        The session becomes its maker first: should this runner be killed too, the next one finds it by that.
        """
        directory = Path(job.stub.result_dir)
        if self._killed_maker(marker) is None:
            return None
        try:
            with owned(directory):
                now = read_marker(directory, job.stub.key)
                killed = None if now is None else self._killed_maker(now)
                if now is None or killed is None:
                    return None  # another session was faster
                environment = self._copy_environment(killed.directory)
                changed = {**self._maker.facts(), "recovered_from": maker_of(now.facts).session}
                add_to_marker(directory, changed)
                return Recovered({**now.facts, **changed}, environment)
        except (Busy, OSError, ValueError, KeyError, TypeError):  # a later session tries again
            return None

    def _killed_maker(self, marker: Marker) -> _Killed | None:
        """The killed session that made a stub and did not record it."""
        maker = maker_of(marker.facts)
        if maker not in self._sessions:
            self._sessions[maker] = self._find_killed(maker)
        killed = self._sessions[maker]
        return None if killed is None or marker.key in killed.recorded else killed

    def _find_killed(self, maker: Maker) -> _Killed | None:
        if not maker.started_at:
            return None
        # Beside us first: what was copied elsewhere goes on where it is now.
        for place in (self._directory.parent / maker.session, Path(maker.directory)):
            if first_start(place / EVENTS).get("time") == maker.started_at:
                last = session_events(place / EVENTS)[-1]["event"]
                if last == SESSION_FINISHED or is_running(place):
                    return None
                records = SessionDir.open(place).stored_records()
                passed = (record.case.fingerprint for _, record in records if record.status.ok)
                return _Killed(place, frozenset(passed))
        return None

    def _copy_environment(self, session_dir: Path) -> Environment:
        """Where the killed session ran, kept with ours as the nodes of a pool are."""
        data = (session_dir / "environment.json").read_bytes()
        facts = load(data)
        found = Environment(id=str(facts["id"]), class_id=str(facts["class_id"]), data=facts, packages=())
        write_atomic(self._directory / other_environment(found.id)[0], data, durable=False)
        return found

"""Sends what sessions have for their sinks, beside a run, at its end and later; no sink slows or fails a run."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Self

from paceline.errors import PacelineError, SessionError
from paceline.model import Finding, Plan, Record, Report, SinkSpec, Status
from paceline.record import below, codec
from paceline.record.directory import SessionDir
from paceline.record.events import SESSION_FINISHED, session_events
from paceline.record.layout import EVENTS
from paceline.record.lock import unchanged_time
from paceline.record.redact import TAKEN_OUT, Redactor, secret_values
from paceline.sinks.delivery import NO_LIMIT_S, Common, Delivery, Note, wait_for
from paceline.sinks.outbox import (
    Outbox,
    Standing,
    StoredPlan,
    one_line,
    read_plan,
    standing,
    waiting_sessions,
)
from paceline.sinks.specs import FOREIGN, StoredSpec, read_specs, write_spec

OLDER_WAIT_S = 15.0
"""How long the end of a session takes for what earlier ones have left, if their sinks take it."""
_SHOW_SAID_EVERY_S = 1.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Dispatcher:
    """All sinks of a session that runs."""

    def __init__(self, plan: Plan, redactor: Redactor, note: Note) -> None:
        self._plan = plan
        self._session_dir = plan.directory
        self._redactor = redactor
        self._note = note
        self._outbox = Outbox(plan.directory)
        self._deliveries: list[Delivery] = []
        self._common = Common(session_dir=plan.directory, secrets=plan.secret_values, note=note)
        self._show_said_from_s = 0.0
        self._kept_plan: Plan | None = None
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for delivery in self._deliveries:
            delivery.end()
        self._outbox.close()

    def open(self, masked: Plan) -> None:
        """Begin the journal and start the senders of live sinks; `masked` is the plan without secrets."""
        if not self._plan.sinks:
            return
        with self._sparing_run():
            session_id = self._outbox.begin(masked)
            self._kept_plan = masked
            for spec in self._plan.sinks:
                stored = write_spec(self._plan, session_id, spec, self._redactor, os.environ)
                if not spec.blocked:
                    self._deliveries.append(Delivery(stored, self._common))
            for delivery in self._live:
                delivery.start()

    def record(self, record: Record) -> None:
        if not self._plan.sinks:
            return
        with self._sparing_run():
            self._outbox.add_record(record)
            for delivery in self._live:
                delivery.wake()
            if monotonic() >= self._show_said_from_s:
                self._show_said_from_s = monotonic() + _SHOW_SAID_EVERY_S
                for delivery in self._deliveries:
                    delivery.show_said()

    def close(self, report: Report) -> tuple[str, ...]:
        """Deliver the rest; the names of required sinks that did not get everything."""
        waiting: Sequence[SinkSpec] = self._plan.sinks
        with _Impatience() as impatience, self._sparing_run():
            waiting = self._finish(report, impatience) if self._plan.sinks else ()
            working = {spec.type: spec not in waiting for spec in self._plan.sinks}
            deliver_older(self._plan, working, self._common, impatience.is_shown)
        if impatience.is_shown():
            self._note("interrupted: sinks are not waited for any longer")
        return tuple(spec.name for spec in waiting if spec.required)

    @contextmanager
    def _sparing_run(self) -> Iterator[None]:
        """A disk that takes no more is the sinks' trouble, not the run's: what is on it is found again later."""
        try:
            yield
        except OSError as error:
            fault = f"sinks: their journal cannot be written: {error.strerror or error}"
            if fault not in self._said:
                self._said.add(fault)
                self._note(f"{fault}; paceline send {self._session_dir.name} finds what is on disk")

    def _finish(self, report: Report, impatience: "_Impatience") -> Sequence[SinkSpec]:
        if report.plan != self._kept_plan:
            self._outbox.keep_plan(report.plan)
        self._outbox.add_close(replace(report, unfinished=self._redactor.text(report.unfinished)))
        wait_for(self._deliveries, impatience.is_shown)
        stored = read_plan(self._session_dir)
        waiting = []
        for spec in self._plan.sinks:
            found = standing(self._session_dir, spec.name, spec.only, stored)
            if found.waiting:
                waiting.append(spec)
                fault = (f"off: {spec.blocked}" if spec.blocked else found.fault) or "not delivered"
                total = found.delivered + found.waiting
                self._note(
                    f"sink {spec.name}: {fault}; {found.waiting:,} of {total:,} messages wait: "
                    f"paceline send {self._session_dir.name}"
                )
        if not waiting:
            self._outbox.forget()
        return waiting

    @property
    def _live(self) -> list[Delivery]:
        return [delivery for delivery in self._deliveries if delivery.spec.live]


class _Impatience:
    """While entered, Ctrl-C ends no more than the wait for sinks: the session itself is over."""

    def __init__(self) -> None:
        self._is_shown = False
        self._before: dict[signal.Signals, Any] = {}

    def is_shown(self) -> bool:
        return self._is_shown

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._show) for number in _ENDING_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _show(self, *_: object) -> None:
        self._is_shown = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of one sink of a session."""

    session: str
    name: str
    type: str
    delivered: int
    waiting: int
    required: bool = False
    fault: str = ""


def describe(sent: Sent) -> str:
    """One line on what became of a sink's queue."""
    line = f"session {sent.session}: sink {one_line(sent.name)}: {sent.delivered:,} delivered"
    if not sent.waiting:
        return f"{line}, nothing waits"
    return f"{line}, {sent.waiting:,} still waiting ({sent.fault or 'not delivered'})"


def send(
    session_dir: Path,
    note: Note,
    *,
    sinks: Sequence[str] = (),
    given: Sequence[SinkSpec] = (),
    secrets: Sequence[str] = (),
    wait_s: float = NO_LIMIT_S,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Sent]:
    """Deliver what waits in a session, to sinks that this user has set up there.

    Settings `given` now, by a configuration, have what the disk does not keep: secrets that are written out there.
    """
    with _taken(session_dir) as outbox:
        plan = read_plan(session_dir)
        found = read_specs(session_dir, plan.id, os.environ)
        wanted = [_as_given(one, given) for name, one in found.items() if not sinks or name in sinks]
        before = {one.spec.name: _standing(session_dir, one, plan) for one in wanted}
        # What a session says is no secret may be somebody else's word.
        marked = [name for name in plan.plan.secret_names if not name.startswith(TAKEN_OUT)]
        values = (*secrets, *secret_values(os.environ, marked))
        common = Common(session_dir=session_dir, secrets=values, note=note)
        usable = [one for one in wanted if not one.spec.blocked and before[one.spec.name].waiting]
        wait_for([Delivery(one, common, wait_s) for one in usable], is_stopped)
        now = {name: _standing(session_dir, one, plan) for name, one in found.items()}
        if not any(one.waiting for one in now.values()):
            outbox.forget()
    return [
        Sent(
            session=session_dir.name,
            name=one.spec.name,
            type=one.spec.type,
            delivered=now[one.spec.name].delivered - before[one.spec.name].delivered,
            waiting=now[one.spec.name].waiting,
            required=one.spec.required,
            fault=(one.spec.blocked or now[one.spec.name].fault) if now[one.spec.name].waiting else "",
        )
        for one in wanted
    ]


def _as_given(stored: StoredSpec, given: Sequence[SinkSpec]) -> StoredSpec:
    """Settings of ours; those of the same sink in a configuration, where the disk does not keep all of them."""
    same = [spec for spec in given if (spec.name, spec.type) == (stored.spec.name, stored.spec.type)]
    return replace(stored, spec=same[0]) if same and stored.needs_config else stored


def _standing(session_dir: Path, stored: StoredSpec, plan: StoredPlan) -> Standing:
    return standing(session_dir, stored.spec.name, stored.spec.only, plan)


@contextmanager
def _taken(session_dir: Path) -> Iterator[Outbox]:
    """The outbox of a session that nobody runs, with all in its journal that is on disk."""
    outbox = Outbox(session_dir)
    if not outbox.exists:
        raise SessionError(f"session {session_dir.name} was run without sinks: name some with --config")
    directory = SessionDir.open(session_dir)
    with unchanged_time(session_dir):
        directory.lock()
        try:
            outbox.resume()
            outbox.catch_up()
            if not outbox.is_closed:
                outbox.add_close(_report_of(directory, read_plan(session_dir)))
            yield outbox
        finally:
            outbox.close()
            directory.unlock()


def _report_of(directory: SessionDir, stored: StoredPlan) -> Report:
    """The report of a session that had no sinks when it ended, or whose runner was killed."""
    counts: Counter[Status] = Counter(record.status for _, record in directory.stored_records())
    planned = len(stored.cases)
    end = (session_events(directory.path / EVENTS) or [{}])[-1]
    ended = end.get("event") == SESSION_FINISHED
    missing = f"{max(0, planned - counts.total()):,} of {planned:,} cases have no record"
    return Report(
        plan=stored.plan,
        records=(),
        findings=_findings(directory.path) if ended else (),
        counts=counts,
        interrupted=bool(end.get("interrupted")),
        unfinished="" if ended else f"the runner was killed; {missing}",
    )


def _findings(session_dir: Path) -> tuple[Finding, ...]:
    try:
        found = codec.load(below.read(session_dir, "report.json"))["findings"]
        return tuple(codec.read_finding(one) for one in found)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, PacelineError):
        return ()


def deliver_older(
    plan: Plan, working: dict[str, bool], common: Common, is_stopped: Callable[[], bool]
) -> None:
    """Deliver what earlier sessions of the same results directory left, to sinks of the types that work just now.

    Where this session has none of the type, only what never failed is tried: a session does not wait for others'
    services that were away.
    """
    until_s = monotonic() + OLDER_WAIT_S
    for older in waiting_sessions(plan.directory.parent):
        if older.name == plan.directory.name:
            continue
        try:
            names = list(_worth_trying(older, working, plan.sinks, common.note))
            left_s = until_s - monotonic()
            if not names or left_s <= 0 or is_stopped():
                continue
            for one in send(
                older,
                common.note,
                sinks=names,
                given=plan.sinks,
                secrets=common.secrets,
                wait_s=left_s,
                is_stopped=is_stopped,
            ):
                working[one.type] = not one.waiting
                common.note(describe(one))
        except SessionError:
            continue  # Somebody runs it just now, and will deliver at its end.
        except (PacelineError, OSError, ValueError) as error:
            common.note(f"session {older.name}: what waits for its sinks could not be sent: {error}")


def _worth_trying(
    session_dir: Path, working: Mapping[str, bool], given: Sequence[SinkSpec], note: Note
) -> Iterator[str]:
    """The sinks for which something waits that was not refused for good, and that work now and did not hang."""
    stored = read_plan(session_dir)
    for name, found in read_specs(session_dir, stored.id, os.environ).items():
        one, now = _as_given(found, given), _standing(session_dir, found, stored)
        if now.waiting and not one.is_own:
            note(f"sink {one_line(name)} of session {session_dir.name} was {FOREIGN}")
        elif now.is_worth_trying and not one.spec.blocked and working.get(one.spec.type, not now.fault):
            yield name

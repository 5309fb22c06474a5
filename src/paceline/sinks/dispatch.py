"""Tells sinks about a session by way of its journal on disk, so that no sink slows, fails or blocks a run."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Self

from paceline.model import Plan, Record, Report, SinkSpec
from paceline.record.redact import Redactor
from paceline.sinks.delivery import Delivery, Note, Post, wait_for
from paceline.sinks.ledger import standing
from paceline.sinks.outbox import Outbox, read_plan, sink_dir
from paceline.sinks.sending import deliver_older, keep_spec, still_waiting

_SAYINGS_EVERY_S = 1.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Dispatcher:
    """All sinks of a session."""

    def __init__(self, plan: Plan, redactor: Redactor, note: Note) -> None:
        self._specs = plan.sinks
        self._session_dir = plan.directory
        self._redactor = redactor
        self._note = note
        self._outbox = Outbox(plan.directory)
        self._deliveries: dict[str, Delivery] = {}
        self._names = (*plan.secret_names, *plan.sink_variables)
        self._post = Post(session_dir=plan.directory, secrets=plan.secret_values, note=note)
        self._next_sayings_s = 0.0
        self._kept_plan: Plan | None = None
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for delivery in self._deliveries.values():
            delivery.end()
        self._outbox.close()

    def open(self, masked: Plan) -> None:
        """Begin the journal and start the couriers of live sinks; `masked` is the plan without secrets."""
        if self._specs:
            with self._sparing_run():
                self._begin(masked)

    def record(self, record: Record) -> None:
        if not self._specs:
            return
        with self._sparing_run():
            self._outbox.add_record(record)
            for delivery in self._live:
                delivery.ring()
            if monotonic() >= self._next_sayings_s:
                self._next_sayings_s = monotonic() + _SAYINGS_EVERY_S
                for delivery in self._deliveries.values():
                    delivery.tell_sayings()

    def close(self, report: Report) -> tuple[str, ...]:
        """Deliver the rest; the names of required sinks that did not get everything."""
        waiting: Sequence[SinkSpec] = self._specs
        with _Impatience() as impatience, self._sparing_run():
            waiting = self._finish(report, impatience) if self._specs else ()
            failing = frozenset(spec.type for spec in waiting)
            deliver_older(self._session_dir, failing, self._post, impatience.is_shown)
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

    def _begin(self, masked: Plan) -> None:
        self._outbox.begin(masked)
        self._kept_plan = masked
        for spec in self._specs:
            directory = sink_dir(self._session_dir, spec.name)
            keep_spec(directory, spec, os.environ, self._names, self._redactor)
            if not spec.blocked:
                self._deliveries[spec.name] = Delivery(spec, self._post)
        for delivery in self._live:
            delivery.start()

    def _finish(self, report: Report, impatience: "_Impatience") -> Sequence[SinkSpec]:
        if report.plan != self._kept_plan:
            self._outbox.keep_plan(report.plan)
        self._outbox.add_close(replace(report, unfinished=self._redactor.text(report.unfinished)))
        wait_for(tuple(self._deliveries.values()), impatience.is_shown)
        stored = read_plan(self._outbox.path)
        waiting = []
        for spec in self._specs:
            found = standing(sink_dir(self._session_dir, spec.name), spec.only, stored)
            if found.waiting:
                waiting.append(spec)
                fault = f"off: {spec.blocked}" if spec.blocked else found.fault
                self._note(still_waiting(self._session_dir.name, spec.name, replace(found, fault=fault)))
        if not waiting:
            self._outbox.forget()
        return waiting

    @property
    def _live(self) -> list[Delivery]:
        return [delivery for delivery in self._deliveries.values() if delivery.spec.live]


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _show(self, number: int, frame: FrameType | None) -> None:
        self._is_shown = True

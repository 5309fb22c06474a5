"""Hands records to sinks from threads of their own, so that a sink never slows, fails or blocks a run."""

import queue
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from paceline import plugins
from paceline.errors import PacelineError
from paceline.model import Plan, Record, Report, SinkSpec
from paceline.sinks import Sink, SinkContext
from paceline.sinks.legacy import adapt

Note = Callable[[str], None]
Build = Callable[[], Sink]

CLOSE_TIMEOUT_S = 30.0
"""How long the end of a session waits for each sink."""

PENDING_LIMIT = 10_000
"""Records held for a slow sink; past it new ones are dropped and the loss is said."""


class Courier:
    """Delivers to one sink, in order, on one thread; the first failure of each call is said in a line."""

    def __init__(self, spec: SinkSpec, build: Build, note: Note) -> None:
        self.spec = spec
        self._build = build
        self._note = note
        self._calls: queue.Queue[tuple[str, object] | None] = queue.Queue(maxsize=PENDING_LIMIT)
        self._said: set[str] = set()
        self.failures = 0
        self._thread = threading.Thread(target=self._deliver, name=f"sink-{spec.name}", daemon=True)
        self._thread.start()

    def send(self, method: str, argument: object) -> None:
        try:
            self._calls.put_nowait((method, argument))
        except queue.Full:
            self.failures += 1
            self._say(
                "full",
                f"sink {self.spec.name}: too slow, results are left out; they are in the session's files",
            )

    def finish(self, deadline: float) -> None:
        """Wait for what was sent; say what did not get through."""
        self._thread_end()
        self._thread.join(max(0.0, deadline - monotonic()))
        if self._thread.is_alive():
            self.failures += 1
            self._note(
                f"sink {self.spec.name}: still busy at the end of the session, {self._calls.qsize()} calls undelivered"
            )

    def _thread_end(self) -> None:
        try:
            self._calls.put_nowait(None)
        except queue.Full:
            self.failures += 1

    def _deliver(self) -> None:
        sink: Sink | None = None
        for method, argument in iter(self._calls.get, None):
            try:
                sink = sink or self._build()
                getattr(sink, method)(argument)
            except Exception as error:  # noqa: BLE001 - whatever a sink does, the run goes on
                self.failures += 1
                self._say(method, f"sink {self.spec.name}: {method} failed: {type(error).__name__}: {error}")

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._note(text)


class Dispatcher:
    """All sinks of a session."""

    def __init__(self, couriers: Sequence[Courier], missing: Sequence[SinkSpec] = ()) -> None:
        self._couriers = tuple(couriers)
        self._missing = tuple(missing)

    def open(self, plan: Plan) -> None:
        self._send("open", plan)

    def record(self, record: Record) -> None:
        self._send("record", record)

    def close(self, report: Report) -> tuple[str, ...]:
        """Deliver the rest; the names of required sinks that did not get everything."""
        self._send("close", report)
        deadline = monotonic() + CLOSE_TIMEOUT_S
        for courier in self._couriers:
            courier.finish(deadline)
        failed = [courier.spec for courier in self._couriers if courier.failures]
        return tuple(spec.name for spec in (*self._missing, *failed) if spec.required)

    def _send(self, method: str, argument: object) -> None:
        for courier in self._couriers:
            courier.send(method, argument)


def start_sinks(plan: Plan, context: Callable[[SinkSpec], SinkContext], note: Note) -> Dispatcher:
    """A courier for each sink of the plan that can be had; the others are said in a line each."""
    couriers, missing = [], []
    for spec in plan.sinks:
        try:
            if spec.blocked:
                raise PacelineError(spec.blocked)
            sink_class = plugins.find("sinks", spec.type)
        except PacelineError as error:
            missing.append(spec)
            note(f"sink {spec.name}: off: {error}")
        else:
            couriers.append(Courier(spec, _builder(sink_class, spec, context(spec)), note))
    return Dispatcher(couriers, missing)


def _builder(sink_class: object, spec: SinkSpec, context: SinkContext) -> Build:
    return lambda: adapt(sink_class, spec.options, context)

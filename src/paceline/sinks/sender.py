"""The process that delivers a session's calls to one sink; it may hang, starve or crash as it likes."""

import os
import resource
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import TypeAdapter

from paceline.errors import PacelineError
from paceline.model import SinkSpec
from paceline.numbers import size
from paceline.record import below, codec
from paceline.record.files import Tail, lock_file
from paceline.record.redact import Redactor, looks_secret, secret_values
from paceline.sinks import GoOn, Sink, SinkContext, TryLater, Undeliverable, answer_listeners
from paceline.sinks.curator import find_class
from paceline.sinks.legacy import adapt
from paceline.sinks.outbox import JOURNAL, Call, CallFilter, Ledger, as_call, one_line, read_plan, sink_dir
from paceline.sinks.specs import STATE

ALL_DELIVERED, GAVE_UP, OFF, BUSY, NO_MEMORY = 0, 3, 4, 5, 6
ENDS = frozenset({ALL_DELIVERED, GAVE_UP, OFF, BUSY, NO_MEMORY})
"""How a sender ends; any other way is a crash."""

LOCK, OUTPUT, BUSY_SINCE = "lock", "output.log", "busy"
OUTPUT_LIMIT_BYTES = 1 << 20

TRIES = 3
"""How often a call is made that fails for a reason of its own, and at the session's end also one to be made later."""
FIRST_PAUSE_S, SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 0.01, 60.0
LAST_PAUSE_S = 0.1
"""In place of the first one at the session's end: all tries of a sink that is down fit into half a second."""
ANSWER_S = 0.05
"""A call that returns has waited for an answer if it took so long; a class of one's own may only pretend to open."""

_PR_SET_PDEATHSIG = 1
_LAST_WORDS_S = 0.5
_NICENESS = (
    10  # A tenth of what a measurement gets that runs beside; less, and a busy machine starves a sink.
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Which sink of which session, the values to mask, and how long the session's end will wait."""

    session_dir: Path
    spec: SinkSpec
    secrets: Sequence[str]
    wait_s: float
    is_beside_run: bool
    is_patient: bool
    sys_path: Sequence[str]
    cwd: str
    artifacts_dir: Path | None

    @property
    def directory(self) -> str:
        return sink_dir(self.spec.name)


ORDER = TypeAdapter(Order)


class _GivenUp(Exception):
    """No further call of this sink should be made now; with the process's exit code."""


class Masks:
    """Masks all secrets that this process knows, those that a sink reads later included."""

    def __init__(self, values: tuple[str, ...]) -> None:
        self._values = values
        self.redactor = Redactor(values)

    def add(self, value: str) -> None:
        if value not in self._values:
            self._values = (*self._values, value, *filter(looks_secret, value.split()))
            self.redactor = Redactor(self._values)

    def one_line(self, text: str) -> str:
        return one_line(self.redactor.text(text))


class Sender:
    """Makes the calls of a journal, one after the other; each until it returns, is refused, or has to wait."""

    def __init__(self, order: Order, masks: Masks, wake_fd: int) -> None:
        self._order = order
        self._masks = masks
        self._wake_fd = wake_fd
        self._ledger = Ledger(order.session_dir, order.spec.name).read()
        self._journal = Tail(order.session_dir / JOURNAL, order.session_dir)
        self._read_plan()
        with suppress(OSError):
            os.chdir(order.cwd)  # Relative paths mean the same wherever the rest is sent from.
        self._filter = CallFilter(order.spec.only, self._stored.cases.get)
        self._waiting: deque[Call] = deque()
        self._is_opened = False
        self._ends_at_s: float | None = None
        self._left_out = self._failed_in_a_row = 0
        self._has_answered = False
        answer_listeners.append(self._note_answer)
        self._sink: Sink | None = None
        self._context = self._make_context()

    def _read_plan(self) -> None:
        """Where files are is not a session's own word, which may be somebody else's."""
        stored, order = read_plan(self._order.session_dir), self._order
        plan = replace(stored.plan, directory=order.session_dir, artifacts_dir=order.artifacts_dir)
        self._stored = replace(stored, plan=plan)

    def run(self) -> int:
        """Deliver until the session is over; how that went."""
        try:
            while self._take_news() or self._waiting or self._ends_at_s is None:
                while self._waiting:
                    self._deliver(self._waiting[0])
                    self._waiting.popleft()
                    self._take_news()
                self._wait(None)
        except _GivenUp as end:
            return int(end.args[0])
        finally:
            if self._sink is not None:
                self._guard("end", self._sink.end)
        return GAVE_UP if self._left_out else ALL_DELIVERED

    def _take_news(self) -> bool:
        """Take over what is new in the journal and not delivered."""
        calls = filter(None, map(as_call, self._journal.read()))
        found = [chosen for call in calls for chosen in self._filter.feed(call)]
        for call in found:
            if call.key in self._ledger.delivered:
                self._is_opened = self._is_opened or call.kind == "open"
            else:
                self._waiting.append(call)
        return bool(found)

    def _deliver(self, call: Call) -> None:
        tries = 0
        while True:
            tries += 1
            began_s = monotonic()
            fault = self._try(call)
            if fault is None:
                if monotonic() - began_s >= ANSWER_S:
                    self._note_answer()
                self._ledger.note(key=call.key, delivered=True)
                self._failed_in_a_row = 0
                return
            # What cannot be imported today cannot tomorrow, most likely: the next session leaves it alone.
            refused, stuck = isinstance(fault, Undeliverable), isinstance(fault, MemoryError | PacelineError)
            why = self._explain(call, fault)
            self._ledger.note(key=call.key, fault=why, refused=refused, stuck=stuck)
            if isinstance(fault, PacelineError) or (refused and self._sink is None):
                raise _GivenUp(OFF)
            if isinstance(fault, MemoryError):
                raise _GivenUp(NO_MEMORY)
            is_down = isinstance(fault, TryLater | OSError)
            tries = 0 if isinstance(fault, GoOn) else tries
            may_try = tries < (TRIES if is_down else 2) or (is_down and self._ends_at_s is None)
            if not refused and may_try:
                tries = 0 if self._pause(fault, tries) else tries
                continue
            # Go on with the next call, unless that would fare no better.
            self._left_out += 1
            self._failed_in_a_row += 0 if refused else 1
            if call.kind == "open" or is_down or self._failed_in_a_row >= TRIES:
                raise _GivenUp(GAVE_UP)
            return

    def _pause(self, fault: BaseException, tries: int) -> bool:
        """Wait before the next try; whether the session came to its end meanwhile, which is worth some fresh tries."""
        asked_s = fault.after_s if isinstance(fault, TryLater) else None
        # One that always says "at once" is not asked without end and pause.
        usual_s = FIRST_PAUSE_S if self._ends_at_s is None or self._order.is_patient else LAST_PAUSE_S
        first_s = usual_s if asked_s is None else 0.0 if isinstance(fault, GoOn) else SHORTEST_PAUSE_S
        pause_s = max(asked_s or 0.0, min(first_s * 2 ** min(tries - 1, 30), LONGEST_PAUSE_S))
        until_s = monotonic() + pause_s
        has_ended = self._ends_at_s is None and self._wait(pause_s)
        if self._ends_at_s is None or (has_ended and asked_s is None):
            return has_ended
        # What a service asks for is kept to also when the session ends meanwhile, or it is asked another day.
        most_s = LONGEST_PAUSE_S if self._has_answered or self._order.is_patient else FIRST_PAUSE_S
        if until_s > self._ends_at_s or pause_s > most_s:
            raise _GivenUp(GAVE_UP)
        self._wait(max(0.0, until_s - monotonic()))
        return has_ended

    def _note_answer(self) -> None:
        """The service is there: what is under way is waited for."""
        if not self._has_answered:
            self._has_answered = True
            self._ledger.note(answered=True)

    def _try(self, call: Call) -> BaseException | None:
        """Make a call once; what went wrong, or None."""
        if self._sink is None:
            fault = self._guard(call.kind, self._build)
            if fault is not None:
                return fault
        self._context.key = f"{self._stored.id}-{call.key}"
        return self._guard(call.kind, lambda: self._make(call))

    def _build(self) -> None:
        sink = adapt(find_class(self._order.spec.type), self._order.spec.options, self._context)
        if self._is_opened:
            sink.reopen(self._stored.plan)
        self._sink = sink

    def _make(self, call: Call) -> None:
        sink, session_dir = self._sink, self._order.session_dir
        assert sink is not None
        if call.kind == "open":
            sink.open(self._stored.plan)
            self._is_opened = True
        elif call.kind == "record":
            record = self._stored.record(session_dir, call.data)
            if record is None:
                raise Undeliverable(f"the record of {call.data['case']} is gone from {session_dir}")
            sink.record(record)
        else:
            self._read_plan()
            sink.close(self._stored.report(session_dir, call.data))

    def _guard(self, what: str, make: Callable[[], None]) -> BaseException | None:
        """Make one call of the sink; past its time the kernel ends this process, whatever holds it up."""
        session_dir, busy = self._order.session_dir, f"{self._order.directory}/{BUSY_SINCE}"
        below.write(session_dir, busy, b"", durable=False, mode=0o600)
        signal.setitimer(signal.ITIMER_REAL, self._order.spec.timeout_s)
        try:
            make()
        except Exception as error:  # noqa: BLE001 - whatever a sink does, the others and the run go on
            return error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            below.remove(session_dir, busy)
        return None

    def _explain(self, call: Call, fault: BaseException) -> str:
        if isinstance(fault, PacelineError):
            return self._masks.one_line(f"off: {fault}")
        text = str(fault) or "no reason given"
        kind = "" if isinstance(fault, Undeliverable | TryLater) else f"{type(fault).__name__}: "
        if isinstance(fault, MemoryError):
            kind, text = "", f"it took more than {size(self._order.spec.memory_bytes)} of memory"
        return self._masks.one_line(f"{call.kind} failed: {kind}{text}")

    def _wait(self, pause_s: float | None) -> bool:
        """Wait for news, or for a pause to pass; whether the session has just come to its end."""
        until_s = None if pause_s is None else monotonic() + pause_s
        while True:
            left_s = None if until_s is None else max(0.0, until_s - monotonic())
            if self._ends_at_s is not None:
                if left_s:
                    select.select([], [], [], left_s)
                return False
            ready, _, _ = select.select([self._wake_fd], [], [], left_s)
            if not ready:
                return False
            if not os.read(self._wake_fd, 4096):
                self._ends_at_s = monotonic() + self._order.wait_s
                return True
            if until_s is None:
                return False

    def _make_context(self) -> SinkContext:
        order, plan = self._order, self._stored.plan
        below.make_private_dir(order.session_dir, f"{order.directory}/{STATE}")
        return SinkContext(
            name=order.spec.name,
            session=plan.session,
            session_id=self._stored.id,
            session_dir=order.session_dir,
            state_dir=order.session_dir / order.directory / STATE,
            environment=_environment(order.session_dir),
            report_url=plan.settings.viewer_url or "",
            timeout_s=order.spec.timeout_s,
            say=lambda text: self._ledger.note(say=self._masks.one_line(text)),
            keep_secret=self._masks.add,
            redactor=lambda: self._masks.redactor,
            artifacts_dir=order.artifacts_dir,
        )


def _environment(session_dir: Path) -> dict[str, Any]:
    try:
        found = codec.load(below.read(session_dir, "environment.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def start(order_fd: str) -> None:
    """The process, from its first line to its last."""
    code = main(int(order_fd))
    # Threads that a sink left must not keep it.
    os._exit(code)


def main(order_fd: int) -> int:
    """The work of the process: read what to do, take the sink's lock, and deliver."""
    _die_with_parent()
    with open(order_fd, "rb") as file:
        order = ORDER.validate_json(file.read())
    sys.path[:] = order.sys_path
    masks = Masks((*order.secrets, *secret_values(os.environ)))
    try:
        directory = order.session_dir / order.directory
        lock_file(
            directory / LOCK, root=order.session_dir, optional=True, mode=0o600
        )  # Until the process ends.
    except BlockingIOError:
        return BUSY
    below.remove(order.session_dir, f"{order.directory}/{BUSY_SINCE}")  # Of a process that died in a call.
    wake_fd = os.dup(0)
    copier = _capture_output(order, masks)
    _limit(order)
    code = Sender(order, masks, wake_fd).run()
    for stream in (sys.stdout, sys.stderr):
        stream.close()
    copier.join(_LAST_WORDS_S)
    return code


def _die_with_parent() -> None:
    import ctypes  # The runner, which imports this module, too, does without.

    parent = os.getppid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(GAVE_UP)


def _limit(order: Order) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Data, not address space: what is only reserved, as runtimes do by the gigabyte, costs nobody anything.
    limit = order.spec.memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if order.is_beside_run:
        os.nice(_NICENESS)


def _capture_output(order: Order, masks: Masks) -> threading.Thread:
    """Send what the sink and its libraries print into a file, masked; the runner's output is not theirs."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    read_end, write_end = os.pipe()
    for number in (1, 2):
        os.dup2(write_end, number)
    os.close(write_end)
    copier = threading.Thread(target=_copy, args=(read_end, order, masks), daemon=True)
    copier.start()
    return copier


def open_output(session_dir: Path, directory: str) -> FileIO:
    """The file for what a sender prints."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return FileIO(below.open_below(session_dir, f"{directory}/{OUTPUT}", flags, 0o600), "ab")


def _copy(read_end: int, order: Order, masks: Masks) -> None:
    rest = b""
    with open_output(order.session_dir, order.directory) as file:
        while data := os.read(read_end, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-OUTPUT_LIMIT_BYTES:]
            for line in lines:
                if file.tell() < OUTPUT_LIMIT_BYTES:
                    file.write(masks.redactor.text(line.decode("utf-8", "replace")).encode() + b"\n")

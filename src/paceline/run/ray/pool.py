"""A pool of machines: cases run on the nodes of a Ray cluster that is there already, and what they leave comes home.

A slot is an actor that reserves, in Ray's own accounts, what its cases ask for; it runs one case after another, so that
a case costs a message and not a process. When a node dies, its case is begun again on another.
"""

import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import paceline
from paceline.model import Case, PoolSettings, Record, Status
from paceline.numbers import number
from paceline.record import below
from paceline.record.codec import dump
from paceline.record.events import RUN_ENDED, RUN_STARTED, utc_now
from paceline.record.files import write_atomic
from paceline.record.layout import ARTIFACTS, entry_name, other_environment
from paceline.run.attempt import Retries, guarded
from paceline.run.context import Context, Stop, Tasks, Write
from paceline.run.executor import skip_case
from paceline.run.interpreter import foreign_python
from paceline.run.ray.node import MESSAGE_BYTES, Job, Reply
from paceline.run.ray.placement import PoolLedger, Slot
from paceline.run.ray.shipping import LiveLog, Piece, TooMuch, find_roots, pack, put_down
from paceline.run.ray.slots import Cluster, Lost, digest
from paceline.run.scheduler import Grant, Scheduler

MOST_JOBS = 512
POLL_S = 0.2
PATIENCE_S = 10.0
"""How long a case waits for what Ray has given to others before it looks for another node."""
STARTS = 10
"""How often to look for a slot when one after the other does not even start."""
KILL_WAIT_S = 15.0
"""How long a node has to say that it killed a case; after that the case is given up."""
POLL_S_PER_CASE = 0.005
"""Keeps the questions for output at 200 a second, however many cases run."""
PACKAGE = Path(paceline.__file__).parent
SHOWN = 3
STOP, KILL = 1, 2
LOST = "lost_node"


class Ended(Exception):
    """An attempt that came to nothing: its status and why."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class RayPool:
    """An executor on the nodes of a Ray cluster."""

    def __init__(self, settings: PoolSettings, session_dir: Path, *, jobs: int | None, cases: int) -> None:
        self._jobs = max(1, min(cases, jobs or MOST_JOBS))
        self._settings = settings
        self._session_dir = session_dir
        self.cluster = Cluster(settings.address)
        self.ledger = PoolLedger(self.cluster.nodes, self._jobs, self.cluster.end)
        self.asked = 0
        """What the user wants of running cases by now: nothing, STOP or KILL."""
        self._lock = threading.Lock()
        self._packed: dict[str, Any] = {}
        self._most_cpus = 0.0
        self._misfits: dict[str, float] = {}
        self._environments: dict[str, str] = {}
        self._digest = digest(PACKAGE)
        self._marker = session_dir / f".pool-{uuid.uuid4().hex}"

    @contextmanager
    def open(self, context: Context) -> Iterator[None]:
        self._context = context
        with self.cluster, ExitStack() as stack:
            stack.callback(lambda: self._marker.unlink(missing_ok=True))
            stack.callback(lambda: self.cluster.close(self.ledger.slots))
            yield

    def run(self, cases: Sequence[Case], stop: Stop, write: Write) -> Iterator[Record]:
        def run_case(case: Case, grant: Grant) -> Record:
            return self._run_case(case, stop, write)

        self._most_cpus = max((case.resources.cpus for case in cases), default=0.0)
        skip = partial(skip_case, self._context, write)
        return Scheduler(self.ledger, self._jobs, run_case, skip, stop).run(cases)

    def stop(self, now: bool = False) -> None:
        """Noticed by the threads that wait for cases; takes no lock, as a signal handler calls it."""
        self.asked = KILL if now else max(self.asked, STOP)

    def _run_case(self, case: Case, stop: Stop, write: Write) -> Record:
        """Run a case on the node it was given, or on others after that one died."""
        context, retries, lost = self._context, Retries(case, self._context, stop), list[str]()
        while True:
            attempt = _Attempt(self, case, retries.number, context)
            record, tasks = guarded(case, retries.number, context, attempt.record)
            noted = tuple(f"an earlier attempt was lost with its node {name}" for name in lost)
            record = write(replace(record, warnings=(*record.warnings, *noted)), tasks)
            lost += [str(record.details[LOST])] if LOST in record.details else []
            spared = LOST in record.details and len(lost) <= self._settings.node_retries
            if not retries.begin_again(record, spared=spared):
                return record

    def cpus_beside(self, case: Case) -> float:
        """What other cases of the session may use on the machine of this one; nodes may share a machine."""
        return 0.0 if case.resources.exclusive else (self._jobs - 1) * self._most_cpus

    def is_ready(self, call: Any) -> bool:
        return self.cluster.is_ready(call, max(POLL_S, POLL_S_PER_CASE * self.ledger.running))

    def find_slot(self, case: Case) -> Slot:
        """A slot that is ready on the node that the case has a part of, or on another if that one is gone or busy."""
        faults: list[str] = []
        while len(faults) < STARTS:
            if self.asked:
                raise Ended(Status.INTERRUPTED, "stopped before it began")
            slot = self.ledger.place(case)
            try:
                if slot is None:
                    self._wait_for_node(case)
                elif slot.is_ready or self._get_ready(slot, case):
                    return slot
            except Lost as error:
                faults.append(str(error))
                self.ledger.leave(case)
        raise Ended(Status.INFRA_ERROR, f"no node began to run it in {STARTS} tries: {faults[-1]}")

    def _wait_for_node(self, case: Case) -> None:
        """Wait for room; for a node that could run the case at all, only as long as the settings say."""
        misfit = self.ledger.misfit(case)
        since = self._misfits.setdefault(misfit, monotonic())
        if misfit and monotonic() - since >= self._settings.wait_for_node_s:
            raise Ended(Status.LAUNCH_ERROR, misfit)
        time.sleep(POLL_S)

    def _get_ready(self, slot: Slot, case: Case) -> bool:
        """Start a slot's actor and wait for it; False once the user stops us or another node has room."""
        begun = monotonic()
        self.cluster.start(slot)
        loading = slot.actor.load.remote(self._digest)
        while not self.cluster.is_ready(loading, POLL_S):
            is_late = monotonic() - begun >= PATIENCE_S
            if self.asked or (is_late and self.ledger.place(case, elsewhere=True)):
                return False
        lacking = self.cluster.get(loading)
        if lacking == "code":
            code = self._pack(str(PACKAGE), limit_bytes=sys.maxsize)
            lacking = self.cluster.get(slot.actor.load.remote(self._digest, code))
        if lacking:
            why = f"{slot.node.name} has not {lacking}; install Paceline there"
            self.ledger.leave(case, unusable=why)
            self._context.note(f"a node of the pool is not used: {why}")
            return False
        if slot.node.id not in self._environments:
            self._environments[slot.node.id] = self._write_environment(slot)
        slot.environment_id = self._environments[slot.node.id]
        return True

    def _write_environment(self, slot: Slot) -> str:
        """Write down where cases ran, as is done for this machine; the id of that environment."""
        redactor = self._context.redactor
        known, packages = self.cluster.get(self.cluster.call(slot, "environment"))
        data = redactor.values(known)
        lines = "".join(f"{redactor.text(line)}\n" for line in packages)
        ident = str(data["id"])
        described, listed = other_environment(ident)
        write_atomic(self._session_dir / described, dump(data, pretty=True))
        write_atomic(self._session_dir / listed, lines.encode())
        return ident

    def ship(self, slot: Slot, case: Case) -> dict[str, str]:
        """Make sure that the slot has the directories of a case; where those are that it got a copy of."""
        settings = self._settings
        roots = find_roots(case, case.cwd or str(Path.cwd()), self._session_dir, settings.files)
        new = [root for root in roots if root.path not in slot.places]
        unseen = [root.path for root in new] if settings.ship == "always" else []
        if new and settings.ship == "auto":
            self._marker.touch()
            unseen = self.cluster.get(self.cluster.call(slot, "unseen", new, str(self._marker)))
        for path in (root.path for root in new):
            place = path
            if path in unseen:
                packed = self._pack(path, limit_bytes=settings.ship_limit, exclude=settings.exclude)
                place = self.cluster.get(self.cluster.call(slot, "put", path, packed))
            slot.places[path] = place
        here = {root.path: slot.places[root.path] for root in roots}
        return {path: place for path, place in here.items() if place != path}

    def _pack(self, path: str, **how: Any) -> Any:
        """A directory as an object of Ray's, packed once for all nodes."""
        key = repr((path, how))
        with self._lock:
            if key not in self._packed:
                results = (self._session_dir, self._session_dir.parent)
                self._packed[key] = self.cluster.ray.put(pack(path, leave_out=results, **how))
            return self._packed[key]


class _Attempt:
    """One attempt at a case, seen from home."""

    def __init__(self, pool: RayPool, case: Case, number: int, context: Context) -> None:
        self._pool = pool
        self._case = case
        self._number = number
        self._context = context
        self._begun = monotonic()
        self._node = ""

    def record(self) -> tuple[Record, Tasks]:
        """What came of it, however it ended."""
        if self._case.blocked:
            reason = self._case.blocked
            return self._context.blank_record(self._case, Status.LAUNCH_ERROR, reason, self._number), ()
        started, details, is_sound = utc_now(), dict[str, Any](), False
        try:
            result = self._run(self._pool.find_slot(self._case))
            is_sound = True
            return result
        except Ended as end:
            status, reason = end.status, str(end)
        except TooMuch as error:
            is_sound = True
            status, reason = Status.LAUNCH_ERROR, str(error)
        except Lost as error:
            status, reason = Status.INFRA_ERROR, f"lost with its node {self._node}: {error}"
            details[LOST] = self._node
        finally:
            if not is_sound:  # a slot that may still be at work is not used again
                self._pool.ledger.leave(self._case)
        if self._node:
            details["node"] = self._node
        record = self._context.blank_record(self._case, status, reason, self._number)
        return replace(record, started_at=started, details={**record.details, **details}), ()

    def _run(self, slot: Slot) -> tuple[Record, Tasks]:
        case, context, pool = self._case, self._context, self._pool
        self._node = slot.node.name
        places = pool.ship(slot, case)
        placed_s = monotonic() - self._begun
        entry_dir = context.directory.prepare(case)
        command = [context.redactor.text(case.at(word, entry_dir)) for word in case.argv]
        log = LiveLog(partial(context.directory.location, case), context.redactor)
        context.listener.case_started(case, command, entry_dir, log.tail)
        context.events.write("placed", case=case.name, attempt=self._number, node=slot.node.name)
        begun = monotonic()
        job = Job(
            case=replace(case, cwd=case.cwd or str(Path.cwd()), retries=0),
            attempt=self._number,
            session=context.session,
            places=places,
            python=sys.executable,
            environment_id=slot.environment_id,
            revision=context.environment.revision,
            gpu_interval_s=context.gpu_interval_s,
            beside_cpus=pool.cpus_beside(case),
        )
        call = pool.cluster.call(slot, "run", job)
        self._follow(slot, call, log)
        reply: Reply = pool.cluster.get(call)
        warnings = list(reply.record.warnings)
        if left := self._bring_home(slot, reply):
            more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
            warnings.append(f"not brought home from the node: {', '.join(left[:SHOWN])}{more}")
        for event in reply.events:
            if event["kind"] not in (RUN_STARTED, RUN_ENDED):
                context.events.write(**event)
        transfer_s = monotonic() - begun - reply.record.timings_s.get("total", 0.0)
        timings_s = {"placement": round(placed_s, 6), "transfer": round(transfer_s, 6)}
        record = replace(
            reply.record,
            case=case,
            timings_s={**reply.record.timings_s, **timings_s},
            warnings=tuple(warnings),
            artifacts=context.directory.artifacts(case),
            details={**reply.record.details, "node": slot.node.name},
        )
        return record, reply.tasks

    def _follow(self, slot: Slot, call: Any, log: LiveLog) -> None:
        """Pass on what the case prints and what the user wants, until it has ended."""
        pool, sent, give_up = self._pool, 0, float("inf")
        while not pool.is_ready(call):
            if pool.asked > sent:
                sent = pool.asked
                pool.cluster.call(slot, "stop", sent == KILL)
                give_up = monotonic() + KILL_WAIT_S if sent == KILL else give_up
            if monotonic() > give_up:
                raise Ended(
                    Status.INTERRUPTED, f"stopped; its node did not answer within {number(KILL_WAIT_S)} s"
                )
            question = pool.cluster.call(slot, "output", log.seen)
            if not pool.is_ready(question):
                continue
            chunks, labels = pool.cluster.get(question)
            for path, chunk in chunks.items():
                log.add(path, chunk)
            for label in labels:
                self._context.listener.run_started(self._case, label)

    def _bring_home(self, slot: Slot, reply: Reply) -> list[str]:
        """Put down what the case left; the names of what could not be."""
        cluster, context = self._pool.cluster, self._context

        def all_pieces() -> Iterator[Piece]:
            pieces = reply.pieces
            yield from pieces
            while sum(len(piece.data) for piece in pieces) >= MESSAGE_BYTES:
                pieces = cluster.get(cluster.call(slot, "pieces"))
                yield from pieces

        left = put_down(all_pieces(), partial(context.directory.location, self._case), context.redactor)
        packages, entry = other_environment(slot.environment_id)[1], entry_name(self._case)
        freeze, path = f"{ARTIFACTS}/pip-freeze.txt", context.directory.path
        with suppress(OSError):  # a list of packages is not worth a failure
            if freeze in reply.record.artifacts:
                pass  # that of a Python of the case's own
            elif foreign_python(self._case, context.environ, "/", sys.executable):
                context.directory.keep_packages(self._case, "", "")
            else:
                below.write(path, f"{entry}/{freeze}", below.read(path, packages), durable=False)
        context.directory.clean(self._case)  # it was prepared here as for a run
        return left

"""A pool of machines: cases run on the nodes of a Ray cluster that is there already, and what they leave comes home.

A slot is an actor that holds, in Ray's own accounts, what its cases ask for; it runs one case after another, so that a
case costs a message and not a process. When a node dies, its case is begun again on another.
"""

import hashlib
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import Any

from paceline.model import Case, PoolSettings, Record, Status
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump
from paceline.record.events import RUN_ENDED, RUN_STARTED, utc_now
from paceline.record.layout import ARTIFACTS, safe_name
from paceline.run.attempt import Retries, guarded
from paceline.run.context import Context, Tasks, Write
from paceline.run.executor import skip_case
from paceline.run.local.signals import Stop
from paceline.run.ray.archive import LiveLog, unpack_entry
from paceline.run.ray.node import Job, Reply
from paceline.run.ray.placement import Node, PoolLedger
from paceline.run.ray.shipping import MARKER_PREFIX, TooMuch, find_roots, pack
from paceline.run.ray.slots import POLL_S, Cluster, Lost, Slot, Slots, Unusable
from paceline.run.scheduler import Grant, Scheduler

MOST_JOBS = 512
PATIENCE_S = 10.0
"""How long a case waits for what Ray has given to others before it looks for another node."""
STARTS = 10
"""How often to look for a slot when one after the other does not even start."""
KILL_WAIT_S = 15.0
"""How long a node has to say that it killed a case; after that the case is given up."""
POLL_S_PER_CASE = 0.005
"""Keeps the questions for output at 200 a second, however many cases run."""
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
        self.slots = Slots(self.cluster)
        self._ledger = PoolLedger(self.cluster.nodes, self._jobs)
        self.asked = 0
        """What the user wants of running cases by now: nothing, STOP or KILL."""
        self._lock = threading.Lock()
        self._parcels: dict[str, Any] = {}
        self._misfits: dict[str, float] = {}
        self._token = uuid.uuid4().hex
        self._marker = session_dir / f"{MARKER_PREFIX}{self._token[:8]}"

    @contextmanager
    def open(self, context: Context) -> Iterator[None]:
        self._context = context
        with self.cluster, ExitStack() as stack:
            stack.callback(lambda: self._marker.unlink(missing_ok=True))
            stack.callback(self.slots.close)
            yield

    def run(self, cases: Sequence[Case], stop: Stop, write: Write) -> Iterator[Record]:
        def run_case(case: Case, grant: Grant) -> Record:
            return self._run_case(case, stop, write)

        skip = partial(skip_case, self._context, write)
        return Scheduler(self._ledger, self._jobs, run_case, skip, stop).run(cases)

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

    def is_ready(self, call: Any) -> bool:
        return self.cluster.is_ready(call, max(POLL_S, POLL_S_PER_CASE * self._ledger.running))

    def find_slot(self, case: Case) -> Slot:
        """A slot on the node that the case holds a part of, or on another if that one is gone or busy."""

        def keep_waiting(waited_s: float) -> bool:
            return not self.asked and (waited_s < PATIENCE_S or self._ledger.move(case) is None)

        faults: list[str] = []
        while len(faults) < STARTS:
            node = self._ledger.place(case) or self._find_node(case)
            try:
                wanted = self._ledger.wanted(case, node)
                slot = self.slots.take(node, wanted, keep_waiting, self._write_environment)
                if slot is not None:
                    return slot
            except Lost as error:
                faults.append(str(error))
                self.leave(case, node)
            except Unusable as error:
                self._ledger.exclude(node.id, str(error))
                self._ledger.settle(case)
                self._context.note(f"a node of the pool is not used: {error}")
            self.check_stop()
        raise Ended(Status.INFRA_ERROR, f"no node began to run it in {STARTS} tries: {faults[-1]}")

    def _find_node(self, case: Case) -> Node:
        """Wait for room; for a node that could run the case at all, only as long as the settings say."""
        while True:
            self.check_stop()
            node = self._ledger.settle(case)
            if node is not None:
                return node
            misfit = self._ledger.misfit(case)
            since = self._misfits.setdefault(misfit, monotonic())
            if misfit and monotonic() - since >= self._settings.wait_for_node_s:
                raise Ended(Status.LAUNCH_ERROR, misfit)
            time.sleep(POLL_S)

    def leave(self, case: Case, node: Node) -> None:
        """Let go of a node that lost the case."""
        self._ledger.shun(node.id)
        self._ledger.settle(case)

    def check_stop(self) -> None:
        if self.asked:
            raise Ended(Status.INTERRUPTED, "stopped before it began")

    def ship(self, slot: Slot, case: Case) -> dict[str, str]:
        """Make sure that the slot has the directories of a case; where those are that it got a copy of."""
        roots = find_roots(case, case.cwd or str(Path.cwd()), self._session_dir, self._settings.files)
        new = [root for root in roots if root.path not in slot.places]
        unseen = [root.path for root in new] if self._settings.ship == "always" else []
        if new and self._settings.ship == "auto":
            with self._lock:
                if not self._marker.exists():
                    write_atomic(self._marker, self._token.encode(), durable=False)
            unseen = self.cluster.get(slot.call("unseen", new, str(self._marker), self._token))
        for root in new:
            slot.places[root.path] = self._put(slot, root.path) if root.path in unseen else root.path
        here = {root.path: slot.places[root.path] for root in roots}
        return {path: place for path, place in here.items() if place != path}

    def _put(self, slot: Slot, path: str) -> str:
        with self._lock:
            if path not in self._parcels:
                results = (self._session_dir, self._session_dir.parent)
                settings = self._settings
                packed = pack(
                    path, limit_bytes=settings.ship_limit, exclude=settings.exclude, leave_out=results
                )
                self._parcels[path] = self.cluster.put(packed)
        name = f"{hashlib.sha256(path.encode()).hexdigest()[:8]}-{safe_name(Path(path).name or 'root')}"
        return str(self.cluster.get(slot.call("put", name, self._parcels[path])))

    def _write_environment(self, hello: Mapping[str, Any]) -> str:
        """Write down where cases ran, as is done for this machine; the id of that environment."""
        redactor = self._context.redactor
        data = redactor.values(hello["environment"])
        lines = "".join(f"{redactor.text(line)}\n" for line in hello["packages"])
        write_atomic(self._session_dir / f"environment-{data['id']}.json", dump(data, pretty=True))
        write_atomic(self._session_dir / f"packages-{data['id']}.txt", lines.encode())
        return str(data["id"])


class _Attempt:
    """One attempt at a case, seen from home."""

    def __init__(self, pool: RayPool, case: Case, number: int, context: Context) -> None:
        self._pool = pool
        self._case = case
        self._number = number
        self._context = context
        self._node = ""
        self._begun = monotonic()

    def record(self) -> tuple[Record, Tasks]:
        """What came of it, however it ended."""
        started, details = utc_now(), dict[str, Any]()
        try:
            if self._case.blocked:
                raise Ended(Status.LAUNCH_ERROR, self._case.blocked)
            return self._on(self._pool.find_slot(self._case))
        except Ended as end:
            status, reason = end.status, str(end)
        except Lost as error:
            status, reason = Status.INFRA_ERROR, f"lost with its node {self._node}: {error}"
            details[LOST] = self._node
        if self._node:
            details["node"] = self._node
        record = self._context.blank_record(self._case, status, reason, self._number)
        return replace(record, started_at=started, details={**record.details, **details}), ()

    def _on(self, slot: Slot) -> tuple[Record, Tasks]:
        self._node = slot.node.name
        is_sound = False
        try:
            result = self._run(slot)
            is_sound = True
        except TooMuch as error:
            is_sound = True
            raise Ended(Status.LAUNCH_ERROR, str(error)) from error
        except Lost:
            self._pool.leave(self._case, slot.node)
            raise
        finally:
            if is_sound:
                self._pool.slots.give_back(slot)
            else:
                self._pool.slots.bury(slot)
        return result

    def _run(self, slot: Slot) -> tuple[Record, Tasks]:
        case, context, pool = self._case, self._context, self._pool
        places = pool.ship(slot, case)
        placed_s = monotonic() - self._begun
        entry_dir = context.directory.prepare(case)
        command = [context.redactor.text(case.at(word, entry_dir)) for word in case.argv]
        log = LiveLog(entry_dir, context.redactor)
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
        )
        call = slot.call("run", job)
        self._follow(slot, call, log)
        reply: Reply = pool.cluster.get(call)
        left = self._bring_home(slot, reply, entry_dir)
        for event in reply.events:
            if event["kind"] not in (RUN_STARTED, RUN_ENDED):
                context.events.write(**event)
        record, warnings = reply.record, list(reply.record.warnings)
        if left:
            more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
            warnings.append(f"not brought home from the node: {', '.join(left[:SHOWN])}{more}")
        transfer_s = monotonic() - begun - record.timings_s.get("total", 0.0)
        timings_s = {"placement": round(placed_s, 6), "transfer": round(transfer_s, 6)}
        complete = replace(
            record,
            case=case,
            timings_s={**record.timings_s, **timings_s},
            warnings=tuple(warnings),
            artifacts=context.directory.artifacts(case),
            details={**record.details, "node": slot.node.name},
        )
        return complete, reply.tasks

    def _follow(self, slot: Slot, call: Any, log: LiveLog) -> None:
        """Pass on what the case prints and what the user wants, until it has ended."""
        pool, context, sent, give_up = self._pool, self._context, 0, float("inf")
        while not pool.is_ready(call):
            if pool.asked > sent:
                sent = pool.asked
                slot.call("stop", sent == KILL)
                give_up = monotonic() + KILL_WAIT_S if sent == KILL else give_up
            if monotonic() > give_up:
                raise Ended(Status.INTERRUPTED, f"stopped; its node did not answer within {KILL_WAIT_S:g} s")
            question = slot.call("output", log.seen)
            if not pool.is_ready(question):
                continue
            chunks, heard = pool.cluster.get(question)
            for path, chunk in chunks.items():
                log.add(path, chunk)
            for kind, text in heard:
                if kind == "run_started":
                    context.listener.run_started(self._case, text)
                else:
                    context.listener.note(context.redactor.text(text))

    def _bring_home(self, slot: Slot, reply: Reply, entry_dir: Path) -> list[str]:
        """Put down what the case left; the names of what could not be."""
        context = self._context
        if reply.size == len(reply.part):
            left = unpack_entry(BytesIO(reply.part), entry_dir, context.redactor)
        else:
            with TemporaryFile() as whole:
                whole.write(reply.part)
                while (have := whole.tell()) < reply.size:
                    whole.write(self._pool.cluster.get(slot.call("part", have)))
                whole.seek(0)
                left = unpack_entry(whole, entry_dir, context.redactor)
        packages = context.directory.path / f"packages-{slot.environment_id}.txt"
        with suppress(OSError):  # a list of packages is not worth a failure
            (entry_dir / ARTIFACTS / "pip-freeze.txt").unlink(missing_ok=True)
            shutil.copyfile(packages, entry_dir / ARTIFACTS / "pip-freeze.txt")
        context.directory.clean(self._case)  # it was prepared here as for a run
        return left

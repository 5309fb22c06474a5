"""The parent of all workers, which alone knows what is waiting, running and done.

Every stub ends exactly once: completed, skipped, failed or cancelled. A worker may die, hang or lie at any moment: what
it held is taken from it when its socket closes, and decided upon here. Nothing is shared between workers.
"""

import heapq
import selectors
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Protocol

from paceline.evals.devices import DevicePool, DeviceState
from paceline.evals.interfaces import EvalError, Seat, StubScheduler, Waiting
from paceline.evals.jobs import Clocks, Fault, FaultClass, Job, Outcome, RetryPolicy, kernel_oom_kills
from paceline.evals.launch import Berth, Launcher
from paceline.evals.stub_files import append_attempt, read_marker
from paceline.evals.workers import Interrupts, WorkerSeat, ending, new_lease

_TICK_S = 0.5
"""The longest wait: requests of `paceline evals slots` come by a file, which wakes nobody."""
_BUSY_AGAIN_S = 0.2
"""Until a stub is tried again that another execution is at: it lets go of the directory without a word."""
_QUARANTINE_AFTER = 5
_REAP_S = 2.0
"""Past the end of its socket a process is gone in no time; all others wait for this."""


class Observer(Protocol):
    """Is told what happens, in the order it happens."""

    def event(self, kind: str, **fields: Any) -> None: ...
    def ended(self, job: Job, outcome: Outcome) -> None: ...
    def changed(self, supervisor: "Supervisor") -> None: ...


class Supervisor:
    """Runs jobs on devices until each has ended."""

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        pool: DevicePool,
        scheduler: StubScheduler,
        launcher: Launcher,
        observer: Observer,
        interrupts: Interrupts,
        berth: Callable[[DeviceState], Berth],
        clocks: Clocks,
        policy: RetryPolicy,
        commands: Callable[[], Sequence[Mapping[str, str]]] = lambda: (),
        mask: Callable[[Fault], Fault] = lambda fault: fault,
        drain_grace_s: float = 10.0,
    ) -> None:
        self._jobs = {job.number: job for job in jobs}
        self._left = len(self._jobs)
        self._held: dict[int, list[Job]] = {}
        self._pool = pool
        self._scheduler = scheduler
        self._launcher = launcher
        self._observer = observer
        self._interrupts = interrupts
        self._berth = berth
        self._clocks = clocks
        self._policy = policy
        self._commands = commands
        self._mask = mask
        self._drain_grace_s = drain_grace_s
        self._random = Random(0)  # noqa: S311 - spreads pauses, guards nothing
        self._selector = selectors.DefaultSelector()
        self._delayed: list[tuple[float, int]] = []
        self._counters = Counter[str]()
        self._oom_kills = kernel_oom_kills()
        self._is_draining = False
        self._lonely: set[int] = set()
        self._ended: list[tuple[Job, Outcome]] = []
        self._peaks: dict[str, int] = {}
        self.workers: dict[int, WorkerSeat] = {}
        self.busy_s = 0.0

    def run(self) -> Iterator[None]:
        """Until every job has its outcome, a step at a time; no worker is left behind, whatever is raised."""
        self._selector.register(self._interrupts.wake_fd, selectors.EVENT_READ, None)
        for job in self._jobs.values():
            if job.after in self._jobs:
                self._held.setdefault(job.after, []).append(job)
            else:
                self._scheduler.add([job.waiting()])
        try:
            while self._left:
                self._obey_signals()
                self._admit()
                self._tell_ended()
                yield
                self._wait()
                self._enforce_clocks()
                self._obey_commands()
        finally:
            self._leave()
            self._tell_ended()

    # Signals and commands

    def _obey_signals(self) -> None:
        level = self._interrupts.level
        if level and not self._is_draining:
            self._is_draining = True
            self._observer.event("draining", waiting=len(self._scheduler) + len(self._delayed))
            self._cancel_waiting()
        if level >= 2:
            grace_s = self._drain_grace_s if level == 2 else 0.0
            for worker in self.workers.values():
                worker.pause(grace_s)
                if level > 2:
                    worker.end(worker.fault(FaultClass.CRASH, "interrupted"))

    def _cancel_waiting(self) -> None:
        waiting = [stub.number for stub in self._scheduler.remove()]
        delayed, self._delayed = [number for _, number in self._delayed], []
        held, self._held = [job.number for jobs in self._held.values() for job in jobs], {}
        for number in (*waiting, *delayed, *held):
            self._end(self._jobs[number], Outcome(state="cancelled"))

    def _obey_commands(self) -> None:
        for command in self._commands():
            name, do = str(command["device"]), command["do"]
            asked = {"do": do, "request": command.get("id")}
            try:
                if do == "add":
                    name = self._pool.add(name).id
                else:
                    self._pool.give_up(name)
            except EvalError as error:
                self._observer.event("slots_refused", device=name, reason=str(error), **asked)
                continue
            self._observer.event("slots_changed", device=name, workers=self._pool.max_workers, **asked)
            self._observer.changed(self)

    # Giving out work

    def _admit(self) -> None:
        """Put waiting stubs on free seats, as far as there are any."""
        if self._is_draining:
            return self._stop_idle(lambda worker: True)
        self._wake_delayed()
        self._reserve()
        self._stop_idle(lambda worker: worker.device.removing or worker.device.reserved_for is not None)
        self._pool.forget_removed()
        if not len(self._scheduler):
            self._take_back()
        granted = self._fill_seats() if len(self._scheduler) else 0
        if not granted and len(self._scheduler) and not self._delayed and self._nobody_works():
            # What waits does not fit beside idle workers: they make room.
            self._stop_idle(lambda worker: True)
        return None

    def _take_back(self) -> None:
        """Give what was lent to a worker that still waits for a place to one that has nothing to do."""
        idle = sum(worker.is_idle for worker in self.workers.values())
        waiting = [worker for worker in self.workers.values() if worker.lease and worker.process.is_waiting]
        for worker in waiting[:idle]:
            assert worker.lease is not None
            job, worker.lease = worker.lease.job, None
            job.attempt -= 1
            worker.end(worker.fault(FaultClass.STARTUP, "found no place"))
            self._scheduler.add([job.waiting()])

    def _reserve(self) -> None:
        """Keep a device free for the first of those that ran out of memory in company."""
        waiting = next((job for job in self._jobs.values() if job.number in self._lonely), None)
        if waiting is not None:
            self._pool.reserve(waiting.waiting())

    def _wake_delayed(self) -> None:
        now = monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            _, number = heapq.heappop(self._delayed)
            self._scheduler.add([self._jobs[number].waiting()])

    def _fill_seats(self) -> int:
        granted = 0
        for worker in [worker for worker in self.workers.values() if worker.is_idle]:
            granted += self._fill(worker.device, worker)
        while len(self._scheduler) and any(self._fill(device, None) for device in self._pool.with_seats()):
            granted += 1
        return granted

    def _fill(self, device: DeviceState, worker: WorkerSeat | None) -> bool:
        """Give the next fitting stub to a worker, or to a new one; False if there is none, or no worker starts."""
        if device.removing:
            return False
        number, resident = (worker.number, worker.resident) if worker else (None, None)

        def fits(stub: Waiting) -> bool:
            return self._pool.fits(device, stub, number)

        stub = self._scheduler.take(Seat(device=device.id, resident=resident), fits, self._working())
        if stub is None:
            return False
        job = self._jobs[stub.number]
        worker = worker or self._start(device, job)
        if worker is None:
            return False
        self._grant(worker, job)
        return True

    def _start(self, device: DeviceState, job: Job) -> WorkerSeat | None:
        number = self._count("worker")
        try:
            process = self._launcher.start(number, self._berth(device))
        except OSError as error:
            text = f"no worker can be started: {error.strerror or error}"
            self._blame(
                job, Fault(fault_class=FaultClass.STARTUP, message=text, device=device.id), pause_s=1.0
            )
            return None
        worker = self.workers[number] = WorkerSeat(number, device, process)
        self._selector.register(process.wire, selectors.EVENT_READ, worker)
        self._observer.event("worker_started", worker=number, device=device.id)
        return worker

    def _grant(self, worker: WorkerSeat, job: Job) -> None:
        job.attempt += 1
        worker.device.load[worker.number] = job.memory_bytes
        if job.alone:
            self._lonely.discard(job.number)
            self._pool.release(job.number)
            worker.device.reserved_for = job.number
        worker.grant(new_lease(self._count("lease"), job))
        fields = {"stub": job.stub.name, "worker": worker.number, "device": worker.device.id}
        self._observer.event("stub_started", attempt=job.attempt, **fields)
        self._observer.changed(self)

    def _working(self) -> Counter[str]:
        return Counter(worker.lease.job.model_key for worker in self.workers.values() if worker.lease)

    def _nobody_works(self) -> bool:
        return all(worker.is_idle for worker in self.workers.values())

    def _stop_idle(self, which: Callable[[WorkerSeat], bool]) -> None:
        for worker in self.workers.values():
            if worker.is_idle and which(worker):
                worker.stop()

    def _count(self, what: str) -> int:
        self._counters[what] += 1
        return self._counters[what]

    # What workers say

    def _wait(self) -> None:
        """Until somebody has something to say, or the next clock runs out."""
        if not self._left:
            return
        now = monotonic()
        ends = [worker.deadline(self._clocks) for worker in self.workers.values()]
        wakes = [self._delayed[0][0]] if self._delayed else []
        timeout_s = min([now + _TICK_S, *ends, *wakes]) - now
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.data is None:
                self._interrupts.clear_wake()
            else:
                self._listen(key.data)

    def _listen(self, worker: WorkerSeat) -> None:
        for message in worker.process.wire.receive():
            self._hear(worker, message)
        if worker.process.wire.closed:
            self._bury(worker)

    def _hear(self, worker: WorkerSeat, message: Mapping[str, Any]) -> None:
        kind, lease = message["t"], worker.lease
        if kind == "ready":
            worker.introduce(message["pid"])
            self._observer.event("worker_ready", worker=worker.number, pid=worker.pid)
            return
        if lease is None or message.get("lease") != lease.number:
            return  # of a lease that was taken from it
        lease.progress_at = monotonic()
        if kind == "begun":
            lease.is_loaded = True
            lease.known, lease.total, lease.load_s = message["known"], message["total"], message["load_s"]
        elif kind == "sample":
            lease.known = message["known"]
        elif kind != "scoring":
            worker.resident = message.get("resident") or None
            self._conclude(worker, message)
        self._observer.changed(self)

    def _conclude(self, worker: WorkerSeat, message: Mapping[str, Any]) -> None:
        """The worker is done with its lease, one way or another."""
        lease = worker.lease
        assert lease is not None
        job, kind = lease.job, message["t"]
        fault = None
        if kind == "fault":
            details = {name: message[name] for name in ("phase", "error_type", "traceback")}
            fault = worker.fault(FaultClass(message["class"]), message["message"], **details)
        elif kind == "done":
            self._complete(worker, message["facts"])
        worker.lease = None
        self.busy_s += monotonic() - lease.started
        if kind == "busy":
            job.attempt -= 1
            self._delay(job, _BUSY_AGAIN_S)
        elif kind == "paused":
            self._end(job, Outcome(state="cancelled"))
        elif fault is not None:
            if fault.phase in ("load", "generate"):
                worker.stop()  # what an exception leaves on a device is not to be built upon
            self._blame(job, fault)

    def _complete(self, worker: WorkerSeat, facts: Mapping[str, Any]) -> None:
        lease = worker.lease
        assert lease is not None
        worker.device.faults_in_a_row = 0
        seconds = monotonic() - lease.started
        peak = facts.get("peak_memory_bytes")
        if peak:
            self._correct_memory(lease.job.memory_key, int(peak))
        # Another execution may have been at the same stub, and is the one to record it.
        state: Any = "completed" if lease.job.maker.made(facts) else "skipped"
        outcome = Outcome(
            state=state, facts=facts, started_at=lease.started_at, seconds=seconds, load_s=lease.load_s
        )
        self._end(lease.job, outcome)

    def _correct_memory(self, memory_key: str, peak_bytes: int) -> None:
        """What a model was seen to take under an attention counts from now on."""
        if peak_bytes <= self._peaks.get(memory_key, 0):
            return
        self._peaks[memory_key] = peak_bytes
        for job in self._jobs.values():
            if job.memory_key == memory_key and job.outcome is None:
                job.memory_bytes = max(job.memory_bytes, peak_bytes)

    # What goes wrong

    def _bury(self, worker: WorkerSeat) -> None:
        """A worker is gone: what it held is free again, what it was lent is decided upon."""
        self._selector.unregister(worker.process.wire)
        del self.workers[worker.number]
        returncode = worker.process.returncode(_REAP_S)
        if returncode is None:  # its keeper is stopped, or was never reached
            worker.process.end_hard()
            returncode = worker.process.returncode(_REAP_S)
        lease, device = worker.lease, worker.device
        self._observer.event("worker_ended", worker=worker.number, returncode=returncode)
        if lease is not None:
            self.busy_s += monotonic() - lease.started
            self._settle(worker, returncode)
            worker.lease = None
        worker.process.close()
        device.load.pop(worker.number, None)
        self._pool.forget_removed()
        self._observer.changed(self)

    def _settle(self, worker: WorkerSeat, returncode: int | None) -> None:
        """Decide on the lease of a worker that is gone; it may have finished with its last breath."""
        lease = worker.lease
        assert lease is not None
        job = lease.job
        marker = read_marker(Path(job.stub.result_dir), job.stub.key)
        if marker is not None:
            return self._complete(worker, marker.facts)
        if self._is_draining and worker.is_leaving:
            return self._end(job, Outcome(state="cancelled"))
        fault = worker.ending or self._death(worker, returncode)
        if fault.fault_class in (FaultClass.CRASH, FaultClass.STARTUP):
            self._suspect(worker.device)
        return self._blame(job, fault)

    def _death(self, worker: WorkerSeat, returncode: int | None) -> Fault:
        """An end that nobody asked for: the kernel's, for memory, or a crash."""
        seen = kernel_oom_kills()
        by_kernel, self._oom_kills = seen > self._oom_kills, seen
        if returncode == -signal.SIGKILL and by_kernel:
            text = "killed by the kernel, which had no memory left"
            return worker.fault(FaultClass.OUT_OF_MEMORY, text, returncode=returncode)
        return worker.fault(FaultClass.CRASH, ending(returncode), returncode=returncode)

    def _suspect(self, device: DeviceState) -> None:
        """A device on which one worker after the other dies gets no more work, while there are others."""
        device.faults_in_a_row += 1
        others = [other for other in self._pool.usable if other is not device]
        if device.faults_in_a_row >= _QUARANTINE_AFTER and others and not device.removing:
            self._pool.remove(device.id)
            self._observer.event("device_quarantined", device=device.id, faults=device.faults_in_a_row)

    def _blame(self, job: Job, fault: Fault, *, pause_s: float = 0.0) -> None:
        """Count a fault against a job: once more, or failed for good."""
        fault = self._mask(fault)
        earlier = job.faults[fault.fault_class]
        job.faults[fault.fault_class] += 1
        again = self._policy.allows(fault.fault_class, earlier) and not self._is_draining
        self._note_attempt(job, fault, final=not again and not self._is_draining)
        if again:
            self._try_again(job, fault, earlier, pause_s)
            return
        self._end(job, Outcome(state="failed", fault=fault, seconds=fault.seconds))
        if fault.fault_class is FaultClass.ERROR and fault.phase == "load":
            self._give_up_model(job, fault)

    def _try_again(self, job: Job, fault: Fault, earlier: int, pause_s: float) -> None:
        self._pool.release(job.number)
        if fault.fault_class is FaultClass.OUT_OF_MEMORY:
            job.alone = True
            self._lonely.add(job.number)
        self._delay(job, pause_s + self._policy.pause_s(fault.fault_class, earlier, self._random))

    def _note_attempt(self, job: Job, fault: Fault, *, final: bool) -> None:
        noted = {
            "attempt": job.attempt,
            "fault": fault.fault_class.value,
            "message": fault.message,
            "phase": fault.phase,
            "returncode": fault.returncode,
            "device": fault.device,
            "seconds": fault.seconds,
            "final": final,
        }
        append_attempt(Path(job.stub.result_dir), {**noted, "log_tail": fault.log_tail})
        self._observer.event("attempt_failed", stub=job.stub.name, **noted)

    def _give_up_model(self, job: Job, fault: Fault) -> None:
        """A model that cannot be loaded cannot be for any of its stubs."""
        for stub in self._scheduler.remove(job.model_key):
            self._end(self._jobs[stub.number], Outcome(state="failed", fault=fault))

    def _delay(self, job: Job, pause_s: float) -> None:
        if self._is_draining:
            self._end(job, Outcome(state="cancelled"))
        elif pause_s:
            heapq.heappush(self._delayed, (monotonic() + pause_s, job.number))
        else:
            self._scheduler.add([job.waiting()])

    def _end(self, job: Job, outcome: Outcome) -> None:
        assert job.outcome is None, f"{job.stub.name} ended twice"
        job.outcome = outcome
        self._left -= 1
        self._lonely.discard(job.number)
        self._pool.release(job.number)
        self._ended.append((job, outcome))
        for held in self._held.pop(job.number, ()):
            self._delay(held, 0.0)

    def _tell_ended(self) -> None:
        """Have the books kept, which nobody has to wait for: the next stub is on its way by now."""
        ended, self._ended = self._ended, []
        for job, outcome in ended:
            self._observer.ended(job, outcome)
        if ended:
            self._observer.changed(self)

    def _enforce_clocks(self) -> None:
        now = monotonic()
        for worker in list(self.workers.values()):
            if not worker.enforce(self._clocks, now):
                self._pool.remove(worker.device.id)
                self._observer.event("device_quarantined", device=worker.device.id, worker=worker.number)
                self._bury(worker)

    def _leave(self) -> None:
        """End all workers: gently if all is done, at once if something was raised."""
        for worker in self.workers.values():
            if self._left:
                worker.end(worker.fault(FaultClass.CRASH, "the execution ended"))
            else:
                worker.stop()
        while self.workers:
            self._enforce_clocks()
            for key, _ in self._selector.select(_TICK_S):
                if key.data is None:
                    self._interrupts.clear_wake()
                    self._obey_signals()
                else:
                    self._drain(key.data)
        self._selector.close()

    def _drain(self, worker: WorkerSeat) -> None:
        worker.process.wire.receive()
        if worker.process.wire.closed:
            worker.lease = None
            self._bury(worker)

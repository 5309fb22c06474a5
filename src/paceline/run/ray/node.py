"""The side of a pool that is on a node: one slot, which runs a case at a time as a session on that machine would."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from paceline.model import Case, Record
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment, capture
from paceline.record.events import EventLog
from paceline.record.redact import Redactor
from paceline.run.attempt import Attempt, guarded
from paceline.run.context import Context, SilentListener, Stop, Tasks
from paceline.run.local.process import Warden, shelter_wardens
from paceline.run.local.tree import read_proc
from paceline.run.ray.home import homes, seize
from paceline.run.ray.shipping import Piece, Root, new_output, pieces_of, relocated, sees
from paceline.run.ray.slots import POOL_PREFIX, extract
from paceline.run.scheduler import Grant

MESSAGE_BYTES = 8 << 20
LIVE_BYTES = 1 << 18
KEPT_BYTES = 256 << 20
"""Up to which size the directories of earlier cases wait for the end: removing one takes as long as a short case."""
# What Ray sets for its workers, besides `RAY_…`, if the node has not; a benchmark must run as it would without Ray.
_RAYS_OWN = frozenset({"OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV"})
# How the node's own processes reach and trust each other: an entry with `ray.address: auto` needs it too.
_KEPT = ("RAY_AUTH_", "RAY_USE_TLS", "RAY_TLS_", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An attempt at a case, and where on the node its directories lie; `python` is the one of the driver."""

    case: Case
    attempt: int
    session: str
    python: str
    environment_id: str
    revision: str
    gpu_interval_s: float
    beside_cpus: float = 0.0
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a job; `pieces` are the first of what the case left in its directory."""

    record: Record
    tasks: Tasks
    events: Sequence[Mapping[str, Any]]
    pieces: list[Piece]


class NodeSlot:
    """Runs cases one at a time. `run` is for one thread; the rest may be called while it runs."""

    def __init__(self, home: Path, owner: BinaryIO) -> None:
        import ray

        for stale in homes(home.parent, POOL_PREFIX):
            if lock := seize(stale):
                shutil.rmtree(stale, ignore_errors=True)
                lock.close()
        shelter_wardens()
        self._niceness = _take_the_nodes_priority()
        self._home = home
        self._owner = owner
        self._gpus = tuple(str(number) for number in ray.get_gpu_ids())
        self._environ = _environ(self._gpus)
        self._warden = Warden()
        self._warden.__enter__()
        self._stop = Stop([self._warden])
        self._jobs = 0
        self._spent_bytes = 0
        self._entry_dir: Path | None = None
        self._left: Iterator[Piece] = iter(())
        self._labels: list[str] = []

    def environment(self) -> tuple[dict[str, Any], Sequence[str]]:
        """All that can be known of the machine, and its packages."""
        known = capture(environ=self._environ, cwd=self._home, command_line=())
        return dict(known.data), known.packages

    def unseen(self, roots: Sequence[Root], marker: str) -> list[str]:
        """Which of the directories cannot be used in place."""
        return [root.path for root in roots if not sees(root, marker)]

    def put(self, path: str, archive: bytes) -> str:
        """Keep a copy of a directory for the cases to come; where it is."""
        target = Path(tempfile.mkdtemp(dir=self._home)) / Path(path).name
        extract(archive, target)
        return str(target)

    def run(self, job: Job) -> Reply:
        """Make an attempt."""
        if self._spent_bytes > KEPT_BYTES:
            shutil.rmtree(self._home / "cases", ignore_errors=True)
            self._spent_bytes = 0
        self._labels.clear()
        self._jobs += 1
        directory = SessionDir(self._home / "cases" / str(self._jobs))
        directory.path.mkdir(parents=True)
        case = _moved_here(job)
        self._entry_dir = directory.entry_dir(case)
        events = _Events()
        known = {"git": {"revision": job.revision}}
        context = Context(
            session=job.session,
            directory=directory,
            redactor=Redactor(),  # secrets stay at home, and are masked there in what comes back
            events=events,
            listener=_Listener(self._labels),
            environ=self._environ,
            environment=Environment(id=job.environment_id, class_id="", data=known, packages=()),
            gpu_interval_s=job.gpu_interval_s,
            beside_cpus=job.beside_cpus,
        )
        grant = Grant(slot=0, gpus=self._gpus)
        attempt = Attempt(case, job.attempt, self._warden, grant, context, self._stop)
        record, tasks = guarded(case, job.attempt, context, attempt.record)
        if self._niceness:
            record = replace(record, details={**record.details, "nice": self._niceness})
        self._left = pieces_of(str(self._entry_dir)) if self._entry_dir.is_dir() else iter(())
        return Reply(record=record, tasks=tasks, events=events.written, pieces=self.pieces())

    def pieces(self) -> list[Piece]:
        """The next of what the case left; none after the last."""
        found, size = list[Piece](), 0
        while size < MESSAGE_BYTES and (piece := next(self._left, None)):
            found.append(piece)
            size += len(piece.data)
        self._spent_bytes += size
        return found

    def output(self, seen: dict[str, int]) -> tuple[dict[str, bytes], list[str]]:
        """What the running case has printed since, and the labels of the runs it has begun."""
        labels, self._labels[:] = list(self._labels), []
        return (new_output(self._entry_dir, seen, LIVE_BYTES) if self._entry_dir else {}), labels

    def stop(self, now: bool) -> None:
        """End the running case, and begin no other."""
        if now and not self._stop.is_set():
            self._stop.ask()
        self._stop.ask()

    def close(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):
            self._warden.close()
        # By a process that nobody has to wait for, and neither a child nor of our group, as those are killed with us.
        remove = ["/bin/sh", "-c", 'rm -rf "$0" &', str(self._home)]
        subprocess.run(remove, check=False, start_new_session=True, stdout=subprocess.DEVNULL)
        self._owner.close()


class _Events(EventLog):
    """Keeps events for the driver's journal."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull))
        self.written: list[Mapping[str, Any]] = []

    def write(self, kind: str, **fields: Any) -> bool:
        self.written.append({"kind": kind, **fields})
        return True


class _Listener(SilentListener):
    """Keeps for the driver's listener what it cannot see from there; an attempt has nothing else to say."""

    def __init__(self, labels: list[str]) -> None:
        self._labels = labels

    def run_started(self, case: Case, label: str) -> None:
        self._labels.append(label)


def _moved_here(job: Job) -> Case:
    """The case with the paths of this node; for an entry's cluster, `auto` is the one that the pool is made of."""
    places = dict(job.places)
    if not Path(job.python).exists():
        places[job.python] = sys.executable
    case = relocated(job.case, places)
    if case.cluster is None or case.cluster.get("address") != "auto":
        return case
    import ray

    return replace(case, cluster={**case.cluster, "address": ray.get_runtime_context().gcs_address})


def _environ(gpus: Sequence[str]) -> dict[str, str]:
    """The node's environment without what Ray adds; no GPU but those that are ours can be seen."""
    inherited = read_proc(f"/proc/{os.getppid()}/environ").split(b"\0")
    names = {os.fsdecode(pair.partition(b"=")[0]) for pair in inherited}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_KEPT)
        or not (name.startswith("RAY_") or (name in _RAYS_OWN and name not in names))
    }
    return {**kept, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def _take_the_nodes_priority() -> int:
    """Undo the lower priority of Ray's workers, where we may; how much lower it still is.

    Every thread has its own, which what it starts inherits.
    """
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    with suppress(OSError):  # only root may, unless the node's limits say otherwise
        for thread in Path("/proc/self/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), wanted)
    return os.getpriority(os.PRIO_PROCESS, 0) - wanted

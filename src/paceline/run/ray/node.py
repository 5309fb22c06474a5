"""The side of a pool that is on a node: one slot, which runs a case at a time as a session on that machine would."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.model import Case, Plan, Record, Report
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment, capture
from paceline.record.events import EventLog
from paceline.record.redact import Redactor
from paceline.run.attempt import Attempt, guarded
from paceline.run.context import Context, Tasks
from paceline.run.local.process import Warden, shelter_wardens
from paceline.run.local.signals import Stop
from paceline.run.local.tree import read_proc
from paceline.run.ray.archive import new_output, pack_entry
from paceline.run.ray.boot import PREFIX, own
from paceline.run.ray.shipping import Root, put_down, relocated, sees
from paceline.run.scheduler import Grant

PART_BYTES = 8 << 20
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
    places: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    environment_id: str = ""
    revision: str = ""
    gpu_interval_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a job; `part` is the first of the archive of the case's directory, which has `size` bytes."""

    record: Record
    tasks: Tasks
    events: tuple[Mapping[str, Any], ...]
    part: bytes
    size: int


class NodeSlot:
    """Runs cases one at a time. `run` is for one thread; the rest may be called while it runs."""

    def __init__(self) -> None:
        _sweep()
        shelter_wardens()
        self._niceness = _take_the_nodes_priority()
        self._home = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._owner = own(self._home)
        self._gpus = tuple(str(number) for number in _assigned_gpus())
        self._environ = _environ(self._gpus)
        self._warden = Warden()
        self._warden.__enter__()
        self._stop = Stop([self._warden])
        self._entry_dir: Path | None = None
        self._archive: tempfile.SpooledTemporaryFile[bytes] | None = None
        self._spent: list[Path] = []
        self._spent_bytes = 0
        self._jobs = 0
        self._told: list[tuple[str, str]] = []

    def hello(self, with_environment: bool) -> dict[str, Any]:
        """Who this is; with all that can be known of the machine if that is asked for."""
        known: dict[str, Any] = {"host": socket.gethostname(), "gpus": self._gpus}
        if with_environment:
            found = capture(environ=self._environ, cwd=self._home, command_line=())
            known["environment"] = dict(found.data)
            known["packages"] = found.packages
        return known

    def unseen(self, roots: Sequence[Root], marker: str, token: str) -> list[str]:
        """Which of the directories cannot be used in place."""
        return [root.path for root in roots if not sees(root, marker, token)]

    def put(self, name: str, archive: bytes) -> str:
        """Keep a directory for the cases to come; where it is."""
        target = self._home / "files" / name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            put_down(archive, target)
        return str(target)

    def run(self, job: Job) -> Reply:
        """Make an attempt."""
        self._forget()
        self._told.clear()
        self._jobs += 1
        directory = SessionDir(self._home / str(self._jobs))
        case = _joining_this_cluster(relocated(job.case, self._places(job)))
        self._entry_dir = directory.entry_dir(case)
        events = _Events()
        known = {"git": {"revision": job.revision}}
        context = Context(
            session=job.session,
            directory=directory,
            redactor=Redactor(),  # secrets stay at home, and are masked there in what comes back
            events=events,
            listener=_Listener(self._told),
            environ=self._environ,
            environment=Environment(id=job.environment_id, class_id="", data=known, packages=()),
            gpu_interval_s=job.gpu_interval_s,
        )
        grant = Grant(slot=0, gpus=self._gpus)
        attempt = Attempt(case, job.attempt, self._warden, grant, context, self._stop)
        record, tasks = guarded(case, job.attempt, context, attempt.record)
        if self._niceness:
            record = replace(record, details={**record.details, "nice": self._niceness})
        part, size = self._pack()
        return Reply(record=record, tasks=tasks, events=tuple(events.written), part=part, size=size)

    def _places(self, job: Job) -> dict[str, str]:
        python = {} if Path(job.python).exists() else {job.python: sys.executable}
        return {**job.places, **(python if job.python else {})}

    def _pack(self) -> tuple[bytes, int]:
        """Keep what the case left as an archive; its first part and its size."""
        archive = tempfile.SpooledTemporaryFile(PART_BYTES, mode="w+b", dir=str(self._home))  # noqa: SIM115
        self._archive = archive
        if self._entry_dir is not None and self._entry_dir.is_dir():
            pack_entry(self._entry_dir, archive)
        size = archive.tell()
        self._spent_bytes += size
        return self.part(0), size

    def part(self, offset: int) -> bytes:
        """A part of the archive."""
        assert self._archive is not None
        self._archive.seek(offset)
        return self._archive.read(PART_BYTES)

    def output(self, seen: dict[str, int]) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
        """What the running case has printed since, and what it has told its listener."""
        told, self._told[:] = list(self._told), []
        return (new_output(self._entry_dir, seen, LIVE_BYTES) if self._entry_dir else {}), told

    def stop(self, now: bool) -> None:
        """End the running case, and begin no other."""
        if now and not self._stop.is_set():
            self._stop.ask()
        self._stop.ask()

    def close(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):
            self._warden.close()
        self._forget()
        # By a process that nobody has to wait for, and neither a child nor of our group, as those are killed with us.
        remove = ["/bin/sh", "-c", 'rm -rf "$0" &', str(self._home)]
        subprocess.run(remove, check=False, start_new_session=True, stdout=subprocess.DEVNULL)
        self._owner.close()

    def _forget(self) -> None:
        if self._archive is not None:
            self._archive.close()
            self._archive = None
        if self._entry_dir is not None:
            self._spent.append(self._entry_dir.parent)
            self._entry_dir = None
        if self._spent_bytes > KEPT_BYTES:
            for spent in self._spent:
                shutil.rmtree(spent, ignore_errors=True)
            self._spent, self._spent_bytes = [], 0


class _Events(EventLog):
    """Keeps events for the driver's journal."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull))
        self.written: list[Mapping[str, Any]] = []

    def write(self, kind: str, **fields: Any) -> bool:
        self.written.append({"kind": kind, **fields})
        return True


class _Listener:
    """Keeps for the driver's listener what it cannot see from there."""

    def __init__(self, told: list[tuple[str, str]]) -> None:
        self._told = told

    def run_started(self, case: Case, label: str) -> None:
        self._told.append(("run_started", label))

    def note(self, text: str) -> None:
        self._told.append(("note", text))

    def case_started(self, *_: object) -> None: ...
    def session_started(self, plan: Plan, kept: int) -> None: ...
    def case_finished(self, record: Record, entry_dir: Path) -> None: ...
    def session_finished(self, report: Report, session_dir: Path | str) -> None: ...


def _assigned_gpus() -> list[Any]:
    import ray

    return list(ray.get_gpu_ids())


def _joining_this_cluster(case: Case) -> Case:
    """`auto` is the cluster that the pool is made of."""
    if case.cluster is None or case.cluster.get("address") != "auto":
        return case
    import ray

    address = ray.get_runtime_context().gcs_address
    return replace(case, cluster={**case.cluster, "address": address})


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


def _sweep() -> None:
    """Remove what slots left that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (home / "owner").open("rb") as owner:
            if home.stat().st_uid == os.getuid():
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(home, ignore_errors=True)

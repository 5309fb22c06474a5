"""End processes of earlier runs by the mark that every run leaves in its children's environment."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from paceline.run.local import tree

MARK = b"PACELINE_RUN_ID="
SWEEP_WAIT_S = 10.0


def sweep(run_ids: Iterable[str]) -> list[int]:
    """Kill this user's processes that carry one of these run ids, with their descendants; hands back their pids."""
    marks = frozenset(MARK + os.fsencode(run_id) for run_id in run_ids)
    ended: set[int] = set()
    until = time.monotonic() + SWEEP_WAIT_S
    while marks and (found := tree.kill_all(lambda: _marked(marks))):
        ended.update(process.pid for process in found)
        if time.monotonic() > until:
            break
        _reap(process.pid for process in found)
        # What is being killed is found again until it is gone; the kernel needs a moment for it.
        time.sleep(0.005)
    return sorted(ended)


def marked_by(run_id: str) -> list[int]:
    """This user's processes that carry a run's id, and their descendants."""
    return [process.pid for process in _marked(frozenset({MARK + os.fsencode(run_id)}))]


def _marked(marks: frozenset[bytes]) -> Iterator[tree.Process]:
    """Who carries a mark, and all below them: a child may have been given another environment."""
    spared = _self_and_ancestors()
    for process in tree.every_process():
        if process.pid in spared or not process.alive or not _carries(process.pid, marks):
            continue
        yield process
        yield from (
            below for below in tree.descendants(process.pid, process.threads) if below.pid not in spared
        )


def _carries(pid: int, marks: frozenset[bytes]) -> bool:
    environment = tree.read_proc(f"/proc/{pid}/environ")
    if MARK not in environment or marks.isdisjoint(environment.split(b"\0")):
        return False
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        return False


def _self_and_ancestors() -> set[int]:
    spared: set[int] = set()
    pid = os.getpid()
    while pid and (process := tree.look(pid)):
        spared.add(pid)
        pid = process.parent
    return spared


def _reap(pids: Iterable[int]) -> None:
    """Those of them that are our own children would stay as zombies."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue

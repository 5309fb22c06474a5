"""Processes of earlier runs are found by their mark and ended; nothing else is."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.run.local.tree import Process, descendants, every_process, look, sweep


@contextmanager
def started(argv: Sequence[str], run_id: str | None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has said a line; it is ended with the test in any case."""
    env = dict(os.environ) if run_id is None else {**os.environ, "PACELINE_RUN_ID": run_id}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


WAIT = ("sh", "-c", "echo up; exec sleep 600")


def test_only_marked_processes_are_ended() -> None:
    mine, other = uuid.uuid4().hex, uuid.uuid4().hex
    with ExitStack() as stack:
        marked = stack.enter_context(started(WAIT, mine))
        bystanders = [stack.enter_context(started(WAIT, run_id)) for run_id in (other, mine[:-1], None)]
        assert sweep([mine, uuid.uuid4().hex]) == [marked.pid]
        assert all(process.poll() is None for process in bystanders)


def test_descendants_without_the_mark_go_too() -> None:
    run_id = uuid.uuid4().hex
    with started(("sh", "-c", "env -i sleep 600 & echo $!; wait"), run_id) as process:
        (child,) = (found.pid for found in descendants(process.pid))
        assert sweep([run_id]) == sorted([process.pid, child])
        found = look(child)
        assert found is None or not found.alive


def test_the_sweeper_and_its_ancestors_are_spared() -> None:
    run_id = uuid.uuid4().hex
    code = f"from paceline.run.local.tree import sweep; print(sweep([{run_id!r}]))"
    env = {**os.environ, "PACELINE_RUN_ID": run_id, "CODE": code}
    script = f'"{sys.executable}" -c "$CODE"; echo alive'
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\nalive\n"


def test_nothing_to_sweep() -> None:
    assert sweep([]) == []
    assert sweep([uuid.uuid4().hex]) == []


@given(name=st.binary(min_size=1, max_size=15))
def test_a_process_may_have_any_name(name: bytes) -> None:
    rest = b" ".join(str(number).encode() for number in range(4, 53))
    process = Process(7, b"7 (" + name + b") S " + rest + b"\n")
    assert (process.pid, process.state, process.parent, process.group) == (7, b"S", 4, 5)
    assert process.name == name.decode("utf-8", "replace")


def test_the_tree_without_the_kernels_lists_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, time; os.fork(); os.fork(); print('up', flush=True); time.sleep(600)"
    run_id = uuid.uuid4().hex
    with started((sys.executable, "-c", code), run_id) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        listed = {found.pid for found in descendants(process.pid)}
        monkeypatch.setattr("paceline.run.local.tree.os.access", lambda _path, _mode: False)
        assert {found.pid for found in descendants(process.pid)} == listed
        assert len(listed) == 3
        assert len(sweep([run_id])) == 4


def test_children_of_any_thread_are_found() -> None:
    code = """
import subprocess, threading, time
threading.Thread(target=lambda: subprocess.run(["sleep", "600"])).start()
print("up", flush=True)
"""
    run_id = uuid.uuid4().hex
    with started((sys.executable, "-c", code), run_id) as process:
        while not (found := list(descendants(process.pid, 2))):
            assert process.poll() is None
        assert len(found) == 1
        assert os.getpid() in {each.pid for each in every_process()}
        sweep([run_id])

"""Profilers of this process: py-spy from outside, memray from inside."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.pytest_plugin.guarding import guarded
from paceline.pytest_plugin.profiles import Profiling

START_S, END_S = 20.0, 60.0
RENDER_S = 120.0


@contextmanager
def py_spy(profiling: Profiling) -> Iterator[None]:
    """Sample this process and its children, so the workers of a local Dask cluster too, into a flame graph."""
    program = _program("py-spy")
    target, log = profiling.directory / "py-spy.svg", profiling.directory / "py-spy.log"
    options = ("--pid", str(os.getpid()), "--output", str(target), "--subprocesses", "--nonblocking")
    with log.open("wb") as output:
        sampler = subprocess.Popen(
            [program, "record", *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    with guarded(profiling.warn, "py-spy"):
        _wait_until_sampling(sampler, log)
    try:
        yield
    finally:
        with guarded(profiling.warn, "py-spy"):
            _end(sampler, log)
            if not target.exists():
                raise RuntimeError(f"wrote no profile: {_last_line(log)}")
            profiling.keep("py_spy_profiles_url", target, target)


def _program(name: str) -> str:
    """A program of this environment, which need not be active."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return found


def _wait_until_sampling(sampler: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while b"Sampling process" not in log.read_bytes():
        if sampler.poll() is not None:
            raise RuntimeError(f"ended with {sampler.returncode}: {_last_line(log)}")
        if time.monotonic() > deadline:
            raise TimeoutError("does not begin to sample")
        time.sleep(0.02)


def _end(sampler: subprocess.Popen[bytes], log: Path) -> None:
    if sampler.poll() is None:
        sampler.send_signal(signal.SIGINT)
    try:
        sampler.wait(END_S)
    except subprocess.TimeoutExpired:
        sampler.kill()
        sampler.wait()
        raise


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no word from it"


@contextmanager
def memray_here(profiling: Profiling) -> Iterator[None]:
    """Follow every allocation of this process, then draw them."""
    import memray

    raw = profiling.directory / "memray.bin"
    raw.unlink(missing_ok=True)
    with memray.Tracker(raw):
        yield
    profiling.do_later(lambda: draw_memray(profiling, raw))


def draw_memray(profiling: Profiling, raw: Path) -> None:
    """Keep what memray wrote, with a flame graph of it."""
    profiling.keep("memray_profiles_url", profiling.directory, raw)
    page = raw.with_suffix(".html")
    command = [sys.executable, "-m", "memray", "flamegraph", "--force", "--output", str(page), str(raw)]
    done = subprocess.run(
        command, check=False, capture_output=True, timeout=RENDER_S, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError(f"flamegraph: {done.stderr.decode(errors='replace').strip()[-300:]}")
    profiling.keep("memray_profiles_url", profiling.directory, page)

"""Passes under profilers: a benchmark that passed is run once more for each, and nothing of these runs is measured.

The profilers are a Dask performance report, py-spy from outside, memray from inside. One that is missing or fails is a
warning.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodes import Node
from _pytest.runner import runtestprotocol

from paceline.model import Record
from paceline.pytest_plugin import asks_for_ours
from paceline.pytest_plugin.failures import guarded
from paceline.pytest_plugin.measuring import MEASURED, Measured
from paceline.record.codec import dump, load
from paceline.record.files import write_atomic
from paceline.record.layout import safe_name

NOTES = "profile.json"
START_S, END_S = 20.0, 60.0
RENDER_S = 120.0


class Profiling:
    """The profilers of one test, used one at a time so that none sees another, and what came of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kind = ""
        self.details: dict[str, str] = {}
        self.artifacts: list[str] = []
        self.warnings: list[str] = []
        self._later: list[Callable[[], None]] = []
        self._is_open = False

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def keep(self, detail: str, path: Path, *files: Path) -> None:
        """Note what a profiler wrote."""
        self.details[detail] = str(path)
        self.artifacts += map(str, files)

    def do_later(self, work: Callable[[], None]) -> None:
        """Put off work, such as drawing, that is no part of a pass."""
        self._later.append(work)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Around the test function, in this process."""
        profiler = {"memray": memray_here, "py-spy": py_spy}.get(self.kind)
        with ExitStack() as stack:
            if profiler is not None:
                self._enter(stack, profiler(self))
            yield

    @contextmanager
    def around(self, client: Any | None) -> Iterator[None]:
        """Around a marked region, on a Dask cluster if there is one; regions inside it are part of it."""
        profiler = {"memray": memray_workers, "dask": performance_report}.get(self.kind)
        found = find_client(client)
        with ExitStack() as stack:
            if found is None and self.kind == "dask":
                self.warn("dask: no report of a region in which no Dask client is there")
            if profiler is not None and found is not None and not self._is_open:
                self._is_open = True
                stack.callback(setattr, self, "_is_open", False)
                self._enter(stack, profiler(self, found))
            yield

    def _enter(self, stack: ExitStack, profiler: AbstractContextManager[None]) -> None:
        with guarded(self.warn, self.kind):
            self.directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(profiler)

    def finish(self) -> None:
        """Do what was put off, and leave a note of everything for the record."""
        for work in self._later:
            with guarded(self.warn, "memray"):
                work()
        notes = {"details": self.details, "artifacts": self.artifacts, "warnings": self.warnings}
        with guarded(self.warn, NOTES):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_atomic(self.directory / NOTES, dump(notes), durable=False)


class _Again:
    """Stands for the next item while a pass ends after which the same one comes again: wider fixtures stay alive."""

    def __init__(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._item = item
        self._nextitem = nextitem
        self.comes = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nextitem, name)

    def listchain(self) -> list[Node]:
        """Asked for when the pass is torn down: only what passed so far comes again."""
        measured = self._item.stash.get(MEASURED, None)
        reports = measured.reports if measured else {}
        self.comes = "call" in reports and all(report.passed for report in reports.values())
        if self.comes:
            return self._item.listchain()[:-1]
        return self._nextitem.listchain() if self._nextitem else []


class ProfilePass:
    """Runs each benchmark timed first, then under one profiler after the other."""

    def __init__(self, kinds: tuple[str, ...], directory: Path, session_id: str) -> None:
        self._kinds = kinds
        self._directory = directory / session_id
        self._current: Profiling | None = None

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not asks_for_ours(item):
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        again = _Again(item, nextitem)
        runtestprotocol(item, nextitem=again)  # type: ignore[arg-type]
        if again.comes:
            self._profile(item, nextitem)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _profile(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        profiling = Profiling(profile_dir(self._directory, item.nodeid))
        for position, kind in enumerate(self._kinds, start=1):
            again = _Again(item, nextitem)
            profiling.kind = kind
            self._run(item, profiling, nextitem if position == len(self._kinds) else again)
            if not again.comes:
                break
        profiling.finish()

    def _run(self, item: pytest.Item, profiling: Profiling, nextitem: Any) -> None:
        measured = item.stash[MEASURED] = Measured()
        measured.profiling = self._current = profiling
        try:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        finally:
            self._current = None
            del item.stash[MEASURED]
        for report in reports:
            if report.failed:
                profiling.warn(f"{profiling.kind}: the profiled pass failed in its {report.when}")
                if report.when == "teardown":
                    # Fixtures of the module end here, too, and nobody else tells of their failure.
                    item.ihook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        if self._current is None:
            yield
        else:
            with self._current.calling():
                yield


def profile_dir(session_dir: Path, nodeid: str) -> Path:
    return session_dir / safe_name(nodeid)


def with_profiles(record: Record, session_dir: Path) -> Record:
    """The record with what the profiled pass of its test left."""
    try:
        notes = load((profile_dir(session_dir, record.case.name) / NOTES).read_bytes())
    except (OSError, ValueError):
        return record
    return replace(
        record,
        details={**record.details, **notes["details"]},
        artifacts=(*record.artifacts, *notes["artifacts"]),
        warnings=(*record.warnings, *notes["warnings"]),
    )


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
            if sampler.poll() is None:
                sampler.send_signal(signal.SIGINT)
            try:
                sampler.wait(END_S)
            except subprocess.TimeoutExpired:
                sampler.kill()
                sampler.wait()
                raise
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


def find_client(client: Any | None) -> Any | None:
    """The client that was given, else the one that Dask would use; none if Dask was never imported."""
    if client is not None or "distributed" not in sys.modules:
        return client
    distributed: Any = sys.modules["distributed"]
    try:
        return distributed.default_client()
    except ValueError:
        return None


@contextmanager
def performance_report(profiling: Profiling, client: Any) -> Iterator[None]:
    """Dask's own page: task stream, profile, system."""
    import bokeh  # noqa: F401 - the scheduler only says so when the region is over

    distributed: Any = import_module("distributed")
    page = _free(profiling.directory, "performance-report", ".html")
    with client.as_current():
        report = distributed.performance_report(filename=str(page))
        report.__enter__()
    try:
        yield
    finally:
        with guarded(profiling.warn, "dask"), client.as_current():
            report.__exit__(None, None, None)
            profiling.keep("performance_report_url", page, page)


@contextmanager
def memray_workers(profiling: Profiling, client: Any) -> Iterator[None]:
    """Follow the allocations of the workers; drawn here, as they need not have memray's command."""
    from distributed.diagnostics import memray

    directory = _free(profiling.directory, "memray-workers", "")
    with client.as_current():
        tracking = memray.memray_workers(directory=directory, report_args=False)
        tracking.__enter__()
    try:
        yield
    finally:
        with guarded(profiling.warn, "memray"), client.as_current():
            tracking.__exit__(None, None, None)
            for raw in sorted(directory.glob("*.memray")):
                profiling.do_later(partial(draw_memray, profiling, raw))


def _free(directory: Path, stem: str, suffix: str) -> Path:
    """A name that no earlier region of the same test has taken."""
    path, number = directory / f"{stem}{suffix}", 1
    while path.exists():
        number += 1
        path = directory / f"{stem}-{number}{suffix}"
    return path

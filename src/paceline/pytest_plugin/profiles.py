"""Profiles of one test: a Dask performance report, py-spy, memray. One that is missing or fails is a warning."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.model import Record
from paceline.pytest_plugin.guarding import guarded
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump, load
from paceline.record.layout import safe_name

NOTES = "profile.json"


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
        from paceline.pytest_plugin.profilers import memray_here, py_spy

        profiler = {"memray": memray_here, "py-spy": py_spy}.get(self.kind)
        with ExitStack() as stack:
            if profiler is not None:
                self._enter(stack, profiler(self))
            yield

    @contextmanager
    def around(self, client: Any | None) -> Iterator[None]:
        """Around a marked region, on a Dask cluster if there is one; regions inside it are part of it."""
        from paceline.pytest_plugin.dask.profilers import find_client, memray_workers, performance_report

        profiler = {"memray": memray_workers, "dask": performance_report}.get(self.kind)
        found = find_client(client)
        with ExitStack() as stack:
            if found is None and self.kind == "dask":
                self.warn("dask: no report of a region in which no Dask client is there")
            if profiler is not None and found is not None and not self._is_open:
                self._is_open = True
                stack.callback(self._end_region)
                self._enter(stack, profiler(self, found))
            yield

    def _enter(self, stack: ExitStack, profiler: AbstractContextManager[None]) -> None:
        with guarded(self.warn, self.kind):
            self.directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(profiler)

    def _end_region(self) -> None:
        self._is_open = False

    def finish(self) -> None:
        """Do what was put off, and leave a note of everything for the record."""
        for work in self._later:
            with guarded(self.warn, "memray"):
                work()
        notes = {"details": self.details, "artifacts": self.artifacts, "warnings": self.warnings}
        with guarded(self.warn, NOTES):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_atomic(self.directory / NOTES, dump(notes), durable=False)


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

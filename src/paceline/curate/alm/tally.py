"""Manifests of the ALM pipeline: read, counted and written."""

import os
from collections.abc import Iterable, Sequence
from math import fsum
from pathlib import Path
from uuid import uuid4

from paceline.curate.files import MAX_LINE_BYTES, RANGE_BYTES, FilePartitionStage
from paceline.curate.jsonl import JsonlReaderStage, dump_lines
from paceline.curate.stage import CompositeStage, GroupStage, Stage
from paceline.curate.task import Task


class ALMManifestReader(CompositeStage):
    """Manifests (JSON Lines; a path, a directory, or several) -> a task an entry, `repeat_factor` times."""

    name = "alm_manifest_reader"

    def __init__(
        self,
        manifest_path: str | Sequence[str],
        *,
        repeat_factor: int = 1,
        range_bytes: int = RANGE_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.manifest_path = manifest_path
        self.repeat_factor = repeat_factor
        self.range_bytes = range_bytes
        self.max_line_bytes = max_line_bytes

    def decompose(self) -> Sequence[Stage]:
        partition = FilePartitionStage(
            self.manifest_path,
            suffixes=(".jsonl", ".json"),
            range_bytes=self.range_bytes,
            repeat_factor=self.repeat_factor,
        )
        return partition, JsonlReaderStage(max_line_bytes=self.max_line_bytes)


class ALMTallyStage(GroupStage):
    """A batch of finished entries -> one task with their counts, so that workers send back no payloads."""

    name = "alm_tally"
    is_plain = True
    inputs = ("windows", "filtered_windows", "filtered_dur")

    def begin(self, unit: int, part: int) -> None:
        self._first: Task | None = None
        self._durations_s: list[float] = []
        self._counts = dict.fromkeys(
            ("entries", "builder_windows", "filtered_windows", "truncation_events"), 0
        )
        self._size_bytes = 0

    def process_batch(self, tasks: Sequence[Task]) -> Iterable[Task]:
        counts = self._counts
        self._first = self._first or tasks[0]
        for task in tasks:
            entry = task.data
            counts["builder_windows"] += len(entry["windows"])
            counts["filtered_windows"] += len(entry["filtered_windows"])
            counts["truncation_events"] += entry.get("truncation_events", 0)
            self._durations_s.append(entry["filtered_dur"])
            self._size_bytes += task.size_bytes
        counts["entries"] += len(tasks)
        return ()

    def finish(self) -> Iterable[Task]:
        if self._first is not None:
            counts = {**self._counts, "filtered_duration_s": fsum(self._durations_s)}
            first = self._first
            yield Task(counts, first.dataset_name, first.label, first.origin, self._size_bytes)


class ManifestWriterStage(GroupStage):
    """Writes each batch to a part file of its own, named by its place in the input; passes the tasks on.

    A batch that is done again after a worker died replaces its part, so nothing is lost or doubled.
    """

    name = "manifest_writer"
    is_plain = True

    def __init__(self, parts_dir: str) -> None:
        self.parts_dir = parts_dir

    def begin(self, unit: int, part: int) -> None:
        self._part = f"{unit:09d}-{part:06d}.jsonl"
        self._lines: list[bytes] = []

    def process_batch(self, tasks: Sequence[Task]) -> Iterable[Task]:
        self._lines.append(dump_lines([task.data for task in tasks]))
        return tasks

    def finish(self) -> Iterable[Task]:
        if self._lines:
            parts = Path(self.parts_dir)
            draft = parts / f".{self._part}.{uuid4().hex}"
            draft.write_bytes(b"".join(self._lines))
            draft.rename(parts / self._part)
            self._lines = []
        return ()


def join_parts(parts_dir: Path, target: Path) -> None:
    """All parts in input order as one file, which appears whole or not at all."""
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    with draft.open("wb") as joined:
        for part in sorted(parts_dir.glob("[0-9]*.jsonl")):
            with part.open("rb") as source:
                _append(source.fileno(), joined.fileno(), part.stat().st_size)
            part.unlink()
    draft.rename(target)


def _append(source: int, target: int, size_bytes: int) -> None:
    """Copy inside the kernel: the output is ten times the input and needs no trip through Python."""
    left = size_bytes
    while left:
        sent = os.sendfile(target, source, None, left)
        if not sent:
            return
        left -= sent

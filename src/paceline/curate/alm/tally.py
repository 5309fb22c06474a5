"""What a run of the ALM pipeline is counted by, and its output manifest."""

import os
from collections.abc import Iterator, Sequence
from math import fsum
from pathlib import Path
from uuid import uuid4

from paceline.curate.jsonl import dump_lines
from paceline.curate.stage import Stage
from paceline.curate.task import Task


class ALMTallyStage(Stage):
    """A batch of finished entries -> one task with their counts, so that workers send back no payloads."""

    name = "alm_tally"
    inputs = ("windows", "filtered_windows", "filtered_dur")

    def process_batch(self, tasks: Sequence[Task]) -> Iterator[Task]:
        entries = [task.data for task in tasks]
        counts = {
            "entries": len(entries),
            "builder_windows": sum(len(entry["windows"]) for entry in entries),
            "filtered_windows": sum(len(entry["filtered_windows"]) for entry in entries),
            "filtered_duration_s": fsum(entry["filtered_dur"] for entry in entries),
            "truncation_events": sum(entry.get("truncation_events", 0) for entry in entries),
        }
        first = tasks[0]
        yield Task(
            counts, first.dataset_name, first.label, first.origin, sum(task.size_bytes for task in tasks)
        )


class ManifestWriterStage(Stage):
    """Writes each batch to a part file of its own, named by its place in the input; passes the tasks on.

    A batch that is done again after a worker died replaces its part, so nothing is lost or doubled.
    """

    name = "manifest_writer"

    def __init__(self, parts_dir: str) -> None:
        self.parts_dir = parts_dir
        self._part = "0"

    def begin(self, unit: int, part: int) -> None:
        self._part = f"{unit:09d}-{part:06d}.jsonl"

    def process_batch(self, tasks: Sequence[Task]) -> Iterator[Task]:
        parts = Path(self.parts_dir)
        draft = parts / f".{self._part}.{uuid4().hex}"
        draft.write_bytes(dump_lines([task.data for task in tasks]))
        draft.rename(parts / self._part)
        yield from tasks


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

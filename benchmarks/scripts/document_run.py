"""What the document benchmarks have in common: arguments, running pipelines, and the three result files."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline import emit
from paceline.curate import Pipeline, Task
from paceline.curate.executors import EXECUTORS, make_executor
from paceline.curate.partition import list_documents
from paceline.curate.rejects import RejectLog
from paceline.curate.tasks_file import write_tasks
from paceline.curate.writers import list_output
from paceline.errors import PacelineError

BYTES_PER_WORKER = 16 * 1_048_576


@dataclass(slots=True)
class Totals:
    """What the finished batches of all pipelines of a run add up to."""

    tasks: list[Task] = field(default_factory=list)
    rejects: RejectLog = field(default_factory=RejectLog)
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, stage: str, name: str) -> int:
        return self.counts[f"{stage}.{name}"]


Body = Callable[[argparse.Namespace, Totals], dict[str, Any]]


def make_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    add = parser.add_argument
    add("--benchmark-results-path", type=Path, required=True, help="directory for the result files")
    add("--executor", choices=EXECUTORS, default="local")
    add("--on-error", choices=("reject", "fail"), default="reject", help="what a bad document leads to")
    return parser


def add_input(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--input-path", required=True, help="Parquet or JSON Lines, a file or a directory, local or remote")
    add("--output-path", required=True, help="directory for the documents that are left")
    add("--files-per-partition", type=int, help="files a unit of work; by default files are cut by size")
    add("--max-files", type=int, help="read no more than this many files")


def run_script(args: argparse.Namespace, body: Body) -> int:
    """Run the body; its metrics and the costs are written also when it fails."""
    results = Path(emit.results_path())
    emit.params(
        {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    )
    make_absolute(args)
    totals = Totals()
    started = perf_counter()
    try:
        metrics = body(args, totals)
    except PacelineError as error:
        emit.metrics({"is_success": False, "time_taken_s": perf_counter() - started})
        write_tasks(results, totals.tasks)
        print(f"error: {error}", file=sys.stderr)
        return 1
    write_results(results, totals, metrics, perf_counter() - started)
    return 0


def make_absolute(args: argparse.Namespace) -> None:
    """Paths from the root: workers of other engines are in other directories."""
    for name, value in vars(args).items():
        if name.endswith("_path") and isinstance(value, str) and "://" not in value:
            setattr(args, name, str(Path(value).absolute()))


def run_pipeline(pipeline: Pipeline, args: argparse.Namespace, totals: Totals) -> list[Task]:
    """All tasks that come out, in input order; what they cost joins the totals."""
    found = []
    executor = make_executor(args.executor, **choose_workers(args))
    for outcome in pipeline.stream(executor, on_error=args.on_error):
        found.append(outcome)
        totals.rejects.add(outcome.rejects)
        for perf in outcome.perf:
            for name, value in perf.custom_metrics.items():
                totals.counts[f"{perf.stage_name}.{name}"] += int(value)
    found.sort(key=lambda outcome: (outcome.unit, outcome.part))
    return [task for outcome in found for task in outcome.tasks]


def choose_workers(args: argparse.Namespace) -> dict[str, int]:
    """As many local workers as the input is worth: to start one takes as long as to read tens of megabytes."""
    # What is no document (a WARC file) is worth a worker of its own.
    if args.executor != "local" or not hasattr(args, "max_files"):
        return {}
    size_bytes = sum(size for _, _, size in list_documents(args.input_path)[: args.max_files])
    return {"workers": max(1, min(len(os.sched_getaffinity(0)), size_bytes // BYTES_PER_WORKER))}


def keep_written(tasks: Sequence[Task], args: argparse.Namespace, totals: Totals, *others: str) -> None:
    """Remember the writer's tasks and list their files, and others that were written beside them."""
    totals.tasks.extend(tasks)
    list_output(args.output_path, [*(task.data["file"] for task in tasks), *others])


def write_results(results: Path, totals: Totals, metrics: dict[str, Any], time_taken_s: float) -> None:
    write_tasks(results, totals.tasks)
    rejects = results / "rejects.jsonl"
    rejects.unlink(missing_ok=True)
    if totals.rejects.total:
        totals.rejects.write(rejects)
        print(f"{totals.rejects.total} inputs were rejected: {rejects}", file=sys.stderr)
    documents = metrics["num_input_documents"]
    emit.metrics(
        {
            # A run that met no document has not shown that it works.
            "is_success": documents > 0,
            "time_taken_s": time_taken_s,
            "throughput_docs_per_sec": documents / time_taken_s,
            "num_rejected": totals.rejects.total,
            **metrics,
        }
    )

"""What the document benchmarks have in common: arguments, running pipelines, and the result files."""

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
from paceline.errors import MissingExtra, PacelineError

try:
    from output_checksum import checksum_of

    from paceline.curate import Pipeline, Stage, Task
    from paceline.curate.executors import EXECUTORS, make_executor
    from paceline.curate.partition import list_documents
    from paceline.curate.pipeline import RejectLog
    from paceline.curate.progress import MODES, make_progress
    from paceline.curate.readers import DocumentReader
    from paceline.curate.storage import is_remote
    from paceline.curate.tasks_file import FORMS, write_tasks
    from paceline.curate.writers import DocumentWriterStage, list_output, prepare_output
except MissingExtra as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)

XENNA_MODES = ("streaming", "batch")
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
    add("--xenna-mode", choices=XENNA_MODES, default=XENNA_MODES[0], help="how the xenna executor runs")
    add("--on-error", choices=("reject", "fail"), default="reject", help="what a bad document leads to")
    add("--progress", choices=MODES, default="auto", help="live on a terminal, a line now and then elsewhere")
    add(
        "--output-checksum",
        action="store_true",
        help="also say what was written, by a checksum of local output",
    )
    return parser


def add_input(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--input-path", required=True, help="Parquet or JSON Lines, a file or a directory, local or remote")
    add("--output-path", required=True, help="directory for the documents that are left")
    add("--files-per-partition", type=int, help="files a unit of work; by default files are cut by size")
    add("--max-files", type=int, help="read no more than this many files")


def make_text_parser(description: str) -> argparse.ArgumentParser:
    parser = make_parser(description)
    add_input(parser)
    parser.add_argument("--text-field", default="text")
    return parser


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
        write_tasks(results, totals.tasks, forms=FORMS)
        print(f"error: {error}", file=sys.stderr)
        return 1
    write_results(results, totals, metrics, perf_counter() - started)
    if args.output_checksum:
        emit.metrics({"output_checksum": checksum_of(Path(args.output_path))})
    return 0


def make_absolute(args: argparse.Namespace) -> None:
    """Paths from the root: workers of other engines are in other directories."""
    for name, value in vars(args).items():
        if name.endswith("_path") and isinstance(value, str) and not is_remote(value):
            setattr(args, name, str(Path(value).absolute()))


def run_stage(args: argparse.Namespace, totals: Totals, stage: Stage, **fields: str) -> dict[str, Any]:
    """Read documents, put them through one stage, write them; the metrics that all such runs have."""
    prepare_output(args.output_path, args.input_path)
    stages = [make_reader(args, **fields), stage, DocumentWriterStage(args.output_path)]
    keep_written(run_pipeline(Pipeline(stage.name, stages), args, totals), args, totals)
    return {
        "num_input_documents": totals.count("document_reader", "documents"),
        "num_output_documents": totals.count("document_writer", "documents"),
    }


def make_reader(args: argparse.Namespace, **options: Any) -> DocumentReader:
    return DocumentReader(
        args.input_path, files_per_partition=args.files_per_partition, max_files=args.max_files, **options
    )


def run_pipeline(pipeline: Pipeline, args: argparse.Namespace, totals: Totals) -> list[Task]:
    """All tasks that come out, in input order; what they cost joins the totals."""
    found = []
    executor = make_executor(args.executor, **executor_options(args))
    progress = make_progress(args.progress)
    for outcome in pipeline.stream(executor, on_error=args.on_error, progress=progress):
        found.append(outcome)
        totals.rejects.add(outcome.rejects)
        for perf in outcome.perf:
            for name, value in perf.custom_metrics.items():
                totals.counts[f"{perf.stage_name}.{name}"] += int(value)
    found.sort(key=lambda outcome: (outcome.unit, outcome.part))
    return [task for outcome in found for task in outcome.tasks]


def executor_options(args: argparse.Namespace) -> dict[str, Any]:
    """As many local workers as the input is worth: to start one takes as long as to read tens of megabytes."""
    if args.executor == "xenna":
        return {"mode": args.xenna_mode}
    # What is no document (a WARC file) is worth a worker of its own, and so is waiting for a store.
    if args.executor != "local" or not hasattr(args, "max_files") or is_remote(args.input_path):
        return {}
    size_bytes = sum(size for _, _, size in list_documents(args.input_path)[: args.max_files])
    return {"workers": max(1, min(len(os.sched_getaffinity(0)), size_bytes // BYTES_PER_WORKER))}


def keep_written(tasks: Sequence[Task], args: argparse.Namespace, totals: Totals, *others: str) -> None:
    """Remember the writer's tasks and list their files, and others that were written beside them."""
    totals.tasks.extend(tasks)
    list_output(args.output_path, [*(task.data["file"] for task in tasks), *others])


def write_results(results: Path, totals: Totals, metrics: dict[str, Any], time_taken_s: float) -> None:
    write_tasks(results, totals.tasks, forms=FORMS)
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

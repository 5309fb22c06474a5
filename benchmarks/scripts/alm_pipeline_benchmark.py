"""ALM pipeline benchmark: manifest -> windows -> windows that overlap little, on one of four executors.

    python benchmarks/scripts/alm_pipeline_benchmark.py --benchmark-results-path out \
        --input-manifest manifest.jsonl --executor local --repeat-factor 2000
    python benchmarks/scripts/alm_pipeline_benchmark.py --config benchmarks/curation.yaml

Every entry is read, parsed, built and filtered in full, also repeated ones; the counts are taken from the
finished entries. They stay in the workers unless `--output-manifest` asks for them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import Any

from paceline import emit
from paceline.curate import Pipeline, Stage, Task
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage, ALMManifestReader, ALMTallyStage
from paceline.curate.alm.tally import ManifestWriterStage, join_parts
from paceline.curate.executors import EXECUTORS, make_executor
from paceline.curate.pipeline import RejectLog
from paceline.curate.progress import MODES, make_progress
from paceline.curate.tasks_file import write_tasks
from paceline.errors import PacelineError

DEFAULT_ENTRY = "alm_pipeline_xenna"
XENNA_MODES = ("streaming", "batch")


def main(argv: Sequence[str]) -> int:
    try:
        args = parse_args(argv)
    except PacelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        run(args)
    except PacelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; with `--config` the entry's arguments come first, so that those given here win."""
    chooser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--config", type=Path)
    chooser.add_argument("--entry", default=DEFAULT_ENTRY)
    chosen, given = chooser.parse_known_args(argv)
    if chosen.config is not None:
        from suite_entry import entry_arguments

        given = [*entry_arguments(chosen.config, chosen.entry), *given]
    args = make_parser().parse_args(given)
    # `emit` looks for its directory on the command line, where that of an entry does not stand.
    sys.argv = [sys.argv[0], f"--benchmark-results-path={args.benchmark_results_path}"]
    return args


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="ALM pipeline benchmark", allow_abbrev=False)
    add = parser.add_argument
    add("--config", metavar="FILE", help="take the arguments of an entry of this suite")
    add("--entry", metavar="NAME", help=f"which entry of the suite ({DEFAULT_ENTRY})")
    add("--benchmark-results-path", type=Path, required=True, help="directory for the result files")
    add("--input-manifest", required=True, help="JSON Lines file or directory, local or remote")
    add("--executor", choices=EXECUTORS, default="xenna")
    add("--xenna-mode", choices=XENNA_MODES, default=XENNA_MODES[0], help="how the xenna executor runs")
    add("--repeat-factor", type=int, default=1, help="read the manifest this many times")
    add("--target-window-duration", type=float, default=120.0, help="seconds")
    add("--tolerance", type=float, default=0.1, help="share of the target by which windows may differ")
    add("--min-sample-rate", type=int, default=16000)
    add("--min-bandwidth", type=int, default=8000)
    add("--min-speakers", type=int, default=2)
    add("--max-speakers", type=int, default=5)
    add("--overlap-percentage", type=int, default=50, help="0 to 100")
    add("--output-manifest", type=Path, help="write the finished entries here, in the order of the input")
    add("--on-error", choices=("reject", "fail"), default="reject", help="what a bad entry leads to")
    add("--progress", choices=MODES, default="auto", help="live on a terminal, a line now and then elsewhere")
    return parser


@dataclass(slots=True)
class Totals:
    """What the finished batches add up to."""

    tasks: list[Task] = field(default_factory=list)
    rejects: RejectLog = field(default_factory=RejectLog)
    input_entries: int = 0

    def total(self, name: str) -> int:
        return sum(task.data[name] for task in self.tasks)

    def duration_s(self) -> float:
        return fsum(task.data["filtered_duration_s"] for task in self.tasks)


def run(args: argparse.Namespace) -> None:
    results = Path(emit.results_path())
    emit.params({name: _plain(value) for name, value in vars(args).items()})
    totals = Totals()
    started = perf_counter()
    try:
        run_pipeline(args, results, totals)
    except PacelineError:
        emit.metrics({"is_success": False, "time_taken_s": perf_counter() - started})
        write_tasks(results, totals.tasks)
        raise
    write_results(results, totals, perf_counter() - started)


def run_pipeline(args: argparse.Namespace, results: Path, totals: Totals) -> None:
    parts = results / "parts"
    pipeline = Pipeline("alm", make_stages(args, parts))
    options = {"mode": args.xenna_mode} if args.executor == "xenna" else {}
    executor, progress = make_executor(args.executor, **options), make_progress(args.progress)
    for outcome in pipeline.stream(executor, on_error=args.on_error, progress=progress):
        totals.tasks.extend(outcome.tasks)
        totals.rejects.add(outcome.rejects)
        totals.input_entries += int(sum(perf.custom_metrics.get("entries", 0) for perf in outcome.perf))
    if args.output_manifest is not None:
        join_parts(parts, args.output_manifest)
        rmtree(parts)


def make_stages(args: argparse.Namespace, parts: Path) -> list[Stage]:
    stages: list[Stage] = [
        ALMManifestReader(args.input_manifest, repeat_factor=args.repeat_factor),
        ALMDataBuilderStage(
            target_window_duration=args.target_window_duration,
            tolerance=args.tolerance,
            min_sample_rate=args.min_sample_rate,
            min_bandwidth=args.min_bandwidth,
            min_speakers=args.min_speakers,
            max_speakers=args.max_speakers,
        ),
        ALMDataOverlapStage(
            overlap_percentage=args.overlap_percentage, target_duration=args.target_window_duration
        ),
    ]
    if args.output_manifest is not None:
        rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        stages.append(ManifestWriterStage(str(parts.resolve())))
    return [*stages, ALMTallyStage()]


def write_results(results: Path, totals: Totals, time_taken_s: float) -> None:
    entries, windows = totals.total("entries"), totals.total("builder_windows")
    write_tasks(results, totals.tasks)
    rejects = results / "rejects.jsonl"
    rejects.unlink(missing_ok=True)
    if totals.rejects.total:
        totals.rejects.write(rejects)
        print(f"{totals.rejects.total} entries were rejected: {rejects}", file=sys.stderr)
    emit.metrics(
        {
            # A run that made nothing of its input has not shown that it works.
            "is_success": entries > 0,
            "time_taken_s": time_taken_s,
            "throughput_entries_per_sec": entries / time_taken_s,
            "throughput_windows_per_sec": windows / time_taken_s,
            "num_input_entries": totals.input_entries,
            "num_output_entries": entries,
            "num_rejected_entries": totals.rejects.total,
            "total_builder_windows": windows,
            "total_filtered_windows": totals.total("filtered_windows"),
            "total_filtered_duration_s": totals.duration_s(),
            "total_truncation_events": totals.total("truncation_events"),
        }
    )


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What the two deduplication benchmarks share: fingerprint all documents, find groups, write what is left."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from document_run import Totals, keep_written, make_reader, make_text_parser, run_pipeline

from paceline.curate import Pipeline, Stage
from paceline.curate.dedup import (
    DUPLICATES_FILE,
    BatchKey,
    Fingerprints,
    Places,
    RowDropStage,
    rows_to_drop,
    write_duplicates,
)
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.writers import DocumentWriterStage, list_output, prepare_output


def make_dedup_parser(description: str) -> argparse.ArgumentParser:
    parser = make_text_parser(description)
    parser.add_argument("--id-field", default="id")
    parser.add_argument(
        "--identify-only", action="store_true", help=f"write {DUPLICATES_FILE} and no documents"
    )
    return parser


def deduplicate(
    args: argparse.Namespace, totals: Totals, stage: Stage, group: Callable[[np.ndarray], Places]
) -> dict[str, Any]:
    """The metrics of a run; the first document of each group is kept."""
    prepare_output(args.output_path, args.input_path)
    # Both pipelines use one cluster: starting it takes longer than either.
    with nullcontext() if args.executor == "local" else ray_session():
        return identify_and_remove(args, totals, stage, group)


def identify_and_remove(
    args: argparse.Namespace, totals: Totals, stage: Stage, group: Callable[[np.ndarray], Places]
) -> dict[str, Any]:
    started = perf_counter()
    fields = {"id_field": args.id_field, "text_field": args.text_field}
    reader = make_reader(args, columns=list(fields.values()), **fields)
    pipeline = Pipeline("identification", [reader, stage])
    tasks = run_pipeline(pipeline, args, totals)
    batches: list[Fingerprints] = [task.data for task in tasks]
    kept = group(np.concatenate([batch.values for batch in batches])) if batches else np.zeros(0, np.int64)
    write_duplicates(args.output_path, batches, kept, args.id_field)
    totals.tasks.extend(
        task.carrying({"file": "", "documents": len(batch.values)})
        for task, batch in zip(tasks, batches, strict=True)
    )
    identified_s = perf_counter() - started
    written = write_rest(args, totals, fields, rows_to_drop(batches, kept))
    duplicates = int((kept != np.arange(len(kept))).sum())
    return {
        "num_input_documents": totals.count("document_reader", "documents"),
        "num_output_documents": written if written is not None else len(kept) - duplicates,
        "num_duplicates": duplicates,
        "num_removed": duplicates,
        "num_duplicate_groups": len(np.unique(kept[kept != np.arange(len(kept))])),
        "identification_time_s": identified_s,
        "removal_time_s": perf_counter() - started - identified_s,
    }


def write_rest(
    args: argparse.Namespace, totals: Totals, fields: dict[str, str], drop: Mapping[BatchKey, Places]
) -> int | None:
    """Read everything once more and write all but the duplicates; how many were written."""
    if args.identify_only:
        list_output(args.output_path, [DUPLICATES_FILE])
        return None
    # Rejects and counts of the second reading are those of the first.
    second = Totals()
    stages = [make_reader(args, **fields), RowDropStage(drop), DocumentWriterStage(args.output_path)]
    tasks = run_pipeline(Pipeline("removal", stages), args, second)
    keep_written(tasks, args, totals, DUPLICATES_FILE)
    return second.count("document_writer", "documents")

"""Score filter benchmark: documents that pass 28 heuristic filters, written in the format they were read in.

    python benchmarks/scripts/score_filter_benchmark.py --benchmark-results-path out --input-path docs \
        --output-path kept --text-field text --executor local
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, add_input, keep_written, make_parser, run_pipeline, run_script

from paceline.curate import Pipeline
from paceline.curate.readers import DocumentReader
from paceline.curate.text_filters import HEURISTIC_FILTERS, ScoreFilterStage
from paceline.curate.writers import DocumentWriterStage, prepare_output


def main(argv: Sequence[str]) -> int:
    parser = make_parser("heuristic filters")
    add_input(parser)
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--add-scores", action="store_true", help="write the scores into the documents")
    return run_script(parser.parse_args(argv), run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    prepare_output(args.output_path, args.input_path)
    reader = DocumentReader(
        args.input_path,
        text_field=args.text_field,
        files_per_partition=args.files_per_partition,
        max_files=args.max_files,
    )
    stage = ScoreFilterStage(text_field=args.text_field, add_scores=args.add_scores)
    pipeline = Pipeline("score_filter", [reader, stage, DocumentWriterStage(args.output_path)])
    keep_written(run_pipeline(pipeline, args, totals), args, totals)
    dropped = {one.score: totals.count("score_filter", one.score) for one in HEURISTIC_FILTERS}
    kept = totals.count("document_writer", "documents")
    return {
        "num_input_documents": totals.count("document_reader", "documents"),
        "num_documents_processed": totals.count("document_reader", "documents"),
        "num_output_documents": kept,
        "num_kept_documents": kept,
        "num_removed": sum(dropped.values()),
        **{f"num_removed_{name}": count for name, count in dropped.items()},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

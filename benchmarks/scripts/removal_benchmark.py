"""Removal benchmark: documents without those whose id is listed, written in the format they were read in.

    python benchmarks/scripts/removal_benchmark.py --benchmark-results-path out --input-path docs \
        --ids-to-remove-path remove.parquet --output-path kept --executor local --id-field id
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, add_input, keep_written, make_parser, run_pipeline, run_script

from paceline.curate import Pipeline
from paceline.curate.readers import DocumentReader
from paceline.curate.removal import RemovalStage
from paceline.curate.writers import DocumentWriterStage, prepare_output


def main(argv: Sequence[str]) -> int:
    parser = make_parser("remove documents by a list of ids")
    add_input(parser)
    parser.add_argument("--ids-to-remove-path", required=True, help="Parquet or JSON Lines with the id field")
    parser.add_argument("--id-field", default="id")
    return run_script(parser.parse_args(argv), remove)


def remove(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    prepare_output(args.output_path, args.input_path)
    reader = DocumentReader(
        args.input_path,
        id_field=args.id_field,
        files_per_partition=args.files_per_partition,
        max_files=args.max_files,
    )
    removal = RemovalStage(args.ids_to_remove_path, id_field=args.id_field)
    pipeline = Pipeline("removal", [reader, removal, DocumentWriterStage(args.output_path)])
    keep_written(run_pipeline(pipeline, args, totals), args, totals)
    removed = totals.count("removal", "removed")
    return {
        "num_input_documents": totals.count("document_reader", "documents"),
        "num_output_documents": totals.count("document_writer", "documents"),
        "num_removed": removed,
        "num_duplicates_removed": removed,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

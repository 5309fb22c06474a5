"""Modifier benchmark: six text modifiers over documents, written in the format they were read in.

    python benchmarks/scripts/modifier_benchmark.py --benchmark-results-path out --input-path docs \
        --output-path modified --text-field text --executor local
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, add_input, keep_written, make_parser, run_pipeline, run_script

from paceline.curate import Pipeline
from paceline.curate.readers import DocumentReader
from paceline.curate.text_modifiers import MODIFIERS, ModifierStage
from paceline.curate.writers import DocumentWriterStage, prepare_output


def main(argv: Sequence[str]) -> int:
    parser = make_parser("text modifiers")
    add_input(parser)
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--modifiers", nargs="+", choices=tuple(MODIFIERS), default=list(MODIFIERS))
    return run_script(parser.parse_args(argv), run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    prepare_output(args.output_path, args.input_path)
    reader = DocumentReader(
        args.input_path,
        text_field=args.text_field,
        files_per_partition=args.files_per_partition,
        max_files=args.max_files,
    )
    stage = ModifierStage(text_field=args.text_field, modifiers=args.modifiers)
    pipeline = Pipeline("modifier", [reader, stage, DocumentWriterStage(args.output_path)])
    keep_written(run_pipeline(pipeline, args, totals), args, totals)
    return {
        "num_input_documents": totals.count("document_reader", "documents"),
        "num_documents_processed": totals.count("document_reader", "documents"),
        "num_output_documents": totals.count("document_writer", "documents"),
        "num_modified": totals.count("modifier", "any"),
        **{f"num_modified_{name}": totals.count("modifier", name) for name in args.modifiers},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Modifier benchmark: six text modifiers over documents, written in the format they were read in.

    python benchmarks/scripts/modifier_benchmark.py --benchmark-results-path out --input-path docs \
        --output-path modified --text-field text --executor local
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, make_text_parser, run_script, run_stage

from paceline.curate.text_modifiers import MODIFIERS, ModifierStage


def main(argv: Sequence[str]) -> int:
    parser = make_text_parser("text modifiers")
    parser.add_argument("--modifiers", nargs="+", choices=tuple(MODIFIERS), default=list(MODIFIERS))
    return run_script(parser.parse_args(argv), run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    stage = ModifierStage(text_field=args.text_field, modifiers=args.modifiers)
    counts = run_stage(args, totals, stage, text_field=args.text_field)
    return {
        **counts,
        "num_documents_processed": counts["num_input_documents"],
        "num_modified": totals.count("modifier", "any"),
        **{f"num_modified_{name}": totals.count("modifier", name) for name in args.modifiers},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

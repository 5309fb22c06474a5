"""Score filter benchmark: documents that pass 28 heuristic filters, written in the format they were read in.

    python benchmarks/scripts/score_filter_benchmark.py --benchmark-results-path out --input-path docs \
        --output-path kept --text-field text --executor local
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, make_text_parser, run_script, run_stage

from paceline.curate.text_filters import HEURISTIC_FILTERS, ScoreFilterStage


def main(argv: Sequence[str]) -> int:
    parser = make_text_parser("heuristic filters")
    parser.add_argument("--add-scores", action="store_true", help="write the scores into the documents")
    return run_script(parser.parse_args(argv), run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    stage = ScoreFilterStage(text_field=args.text_field, add_scores=args.add_scores)
    counts = run_stage(args, totals, stage, text_field=args.text_field)
    dropped = {one.score: totals.count("score_filter", one.score) for one in HEURISTIC_FILTERS}
    return {
        **counts,
        "num_documents_processed": counts["num_input_documents"],
        "num_kept_documents": counts["num_output_documents"],
        "num_removed": sum(dropped.values()),
        **{f"num_removed_{name}": count for name, count in dropped.items()},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

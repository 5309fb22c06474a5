"""Exact deduplication benchmark: of documents with the same text the first stays.

    python benchmarks/scripts/exact_dedup_benchmark.py --benchmark-results-path out --input-path docs \
        --output-path kept --text-field text --id-field id --executor local
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from dedup_run import deduplicate, make_dedup_parser
from document_run import Totals, run_script

from paceline.curate.dedup import TextHashStage, first_of_each


def main(argv: Sequence[str]) -> int:
    return run_script(make_dedup_parser("exact deduplication").parse_args(argv), run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    stage = TextHashStage(text_field=args.text_field, id_field=args.id_field)
    return deduplicate(args, totals, stage, first_of_each)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

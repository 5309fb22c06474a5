"""Removal benchmark: documents without those whose id is listed, written in the format they were read in.

    python benchmarks/scripts/removal_benchmark.py --benchmark-results-path out --input-path docs \
        --ids-to-remove-path remove.parquet --output-path kept --executor local --id-field id
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, add_input, make_parser, run_script, run_stage

from paceline.curate.removal import RemovalStage


def main(argv: Sequence[str]) -> int:
    parser = make_parser("remove documents by a list of ids")
    add_input(parser)
    parser.add_argument("--ids-to-remove-path", required=True, help="Parquet or JSON Lines with the id field")
    parser.add_argument("--id-field", default="id")
    return run_script(parser.parse_args(argv), remove)


def remove(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    stage = RemovalStage(args.ids_to_remove_path, id_field=args.id_field)
    counts = run_stage(args, totals, stage, id_field=args.id_field)
    removed = totals.count("removal", "removed")
    return {**counts, "num_removed": removed, "num_duplicates_removed": removed}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

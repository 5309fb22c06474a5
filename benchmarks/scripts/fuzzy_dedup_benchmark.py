"""Fuzzy deduplication benchmark: of documents with similar texts the first stays (MinHash, LSH, components).

    python benchmarks/scripts/fuzzy_dedup_benchmark.py --benchmark-results-path out --input-path docs \
        --output-path kept --text-field text --id-field id --num-perm 128 --bands 16 --threshold 0.8 --executor local
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from dedup_run import deduplicate, make_dedup_parser
from document_run import Totals, run_script

from paceline.curate.minhash import MinHasher, MinHashStage
from paceline.curate.similarity import check_bands, group_similar


def main(argv: Sequence[str]) -> int:
    parser = make_dedup_parser("fuzzy deduplication")
    add = parser.add_argument
    add("--num-perm", type=int, default=128, help="values a signature")
    add("--bands", type=int, default=16, help="parts of a signature, of which one must be equal")
    add("--threshold", type=float, default=0.8, help="least estimated similarity of two duplicates")
    add("--shingle-words", type=int, default=5, help="words a shingle")
    add("--seed", type=int, default=1)
    return run_script(parser.parse_args(argv), run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    check_bands(args.num_perm, args.bands, args.threshold)
    hasher = MinHasher(num_perm=args.num_perm, shingle_words=args.shingle_words, seed=args.seed)
    stage = MinHashStage(hasher, text_field=args.text_field, id_field=args.id_field)
    group = partial(group_similar, bands=args.bands, threshold=args.threshold)
    metrics = deduplicate(args, totals, stage, group)
    return {**metrics, "num_without_words": totals.count("minhash", "without_words")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

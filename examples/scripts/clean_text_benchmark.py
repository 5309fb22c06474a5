"""Cleans texts with the library `wordbag` of the repository that is measured: PACELINE_REPO, or --repo.

    python examples/scripts/clean_text_benchmark.py --benchmark-results-path out --repo results/demo/repo

CPU time is taken, so that a busy machine does not look like a slow library.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

from paceline import emit

VOCABULARY = [
    *"the of and to in a is that for it was on are as with his they at be this from have or by".split(),  # noqa: SIM905
    *(f"word{number}" for number in range(60)),
]


def make_texts(count: int) -> list[str]:
    chooser = random.Random(7)  # noqa: S311 - made-up texts
    return [" ".join(chooser.choices(VOCABULARY, k=200)) for _ in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--repo", type=Path, default=os.environ.get("PACELINE_REPO"), help="has wordbag.py")
    parser.add_argument("--texts", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.repo is None:
        parser.error("which library? pass --repo, or run it by `paceline nightly`")
    sys.path.insert(0, str(args.repo))
    from wordbag import clean

    texts = make_texts(args.texts)
    samples = []
    for _ in range(args.rounds):
        started_s = time.process_time()
        cleaned = [clean(text) for text in texts]
        samples.append(time.process_time() - started_s)
    emit.params({"texts": args.texts, "rounds": args.rounds})
    kept = sum(text.count(" ") + 1 for text in cleaned)
    emit.metrics({"is_success": True, "clean_cpu_s": samples, "num_words_kept": kept})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

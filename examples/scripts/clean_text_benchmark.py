"""Cleans texts with the library `wordbag` of the repository that is measured: PACELINE_REPO, or --repo.

    python examples/scripts/clean_text_benchmark.py --benchmark-results-path out --repo results/demo/repo

What counts is its CPU time beside that of splitting and joining the same texts, taken in turn: a busy or a slow machine
slows both, and does not look like a slow library.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from paceline import emit

VOCABULARY = [
    *"the of and to in a is that for it was on are as with his they at be this from have or by".split(),  # noqa: SIM905
    *(f"word{number}" for number in range(60)),
]


def make_texts(count: int) -> list[str]:
    chooser = random.Random(7)
    return [" ".join(chooser.choices(VOCABULARY, k=200)) for _ in range(count)]


def cpu_s(work: Callable[[str], str], texts: list[str]) -> float:
    started_s = time.process_time()
    for text in texts:
        work(text)
    return time.process_time() - started_s


def split_and_join(text: str) -> str:
    return " ".join(text.casefold().split())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--repo", type=Path, default=os.environ.get("PACELINE_REPO"), help="has wordbag.py")
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    if args.repo is None:
        parser.error("which library? pass --repo, or run it by `paceline nightly`")
    sys.path.insert(0, str(args.repo))
    from wordbag import clean

    texts = make_texts(args.texts)
    ratios = [cpu_s(clean, texts) / cpu_s(split_and_join, texts) for _ in range(args.rounds)]
    emit.params({"texts": args.texts, "rounds": args.rounds})
    emit.metric("clean_overhead", ratios, unit="x")
    emit.metrics({"is_success": True, "num_words_kept": sum(len(clean(text).split()) for text in texts)})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Finds documents with the same text among generated ones, some of which were written twice."""

import argparse
import hashlib
import random

from paceline import emit


def make_documents(count: int, seed: int) -> list[str]:
    """Texts of 20 to 60 words; every tenth is a copy of the one before."""
    chooser = random.Random(seed)
    words = [f"word{number}" for number in range(500)]
    texts: list[str] = []
    for number in range(count):
        copied = number % 10 == 9
        texts.append(texts[-1] if copied else " ".join(chooser.choices(words, k=chooser.randint(20, 60))))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path")
    parser.add_argument("--documents", type=int, default=20_000)
    options = parser.parse_args()
    texts = make_documents(options.documents, seed=7)
    with emit.task("hash", items=len(texts)) as part:
        seen = {hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts}
    emit.params({"documents": options.documents})
    emit.metrics(
        {
            "num_duplicates": len(texts) - len(seen),
            "throughput_docs_per_sec": len(texts) / part.elapsed_s,
            "is_success": True,
        }
    )


if __name__ == "__main__":
    main()

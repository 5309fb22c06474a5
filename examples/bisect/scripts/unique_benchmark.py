"""Unique words among many: how long it takes, and how often two words are compared.

Comparisons are counted, so they are the same in every run, however busy the machine is.
"""

import argparse
import time

from words import unique

from paceline import emit


class CountedWord(str):
    """A word that counts how often one is compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedWord.compared += 1
        return str.__eq__(self, str(other))

    __hash__ = str.__hash__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path")
    parser.add_argument("--words", type=int, default=1500)
    options = parser.parse_args()
    texts = [f"word {number}" for number in range(options.words)] * 2
    started = time.process_time()
    num_unique = len(unique(texts))
    cpu_s = time.process_time() - started
    unique([CountedWord(text) for text in texts])
    emit.params({"words": options.words})
    emit.metrics({"unique_cpu_s": cpu_s, "comparisons": CountedWord.compared, "num_unique": num_unique})


if __name__ == "__main__":
    main()

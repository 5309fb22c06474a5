"""Benchmarks as asv runs them: methods whose names begin with `time_` and `track_`, a `setup`, parameters.

asv tells benchmarks apart by a hash of their code; a `version` of one's own says when their meaning changed.
"""

import random


class Sorting:
    """Sort numbers that are in no order."""

    params = [1000, 10_000]
    param_names = ["size"]
    version = "1"

    def setup(self, size):
        chooser = random.Random(7)
        self.numbers = [chooser.random() for _ in range(size)]

    def time_sort(self, size):
        sorted(self.numbers)

    def track_comparisons(self, size):
        counted = [Counted(number) for number in self.numbers]
        Counted.comparisons = 0
        sorted(counted)
        return Counted.comparisons

    track_comparisons.unit = "comparisons"


class Counted(float):
    """A number that counts how often one is compared with another."""

    comparisons = 0

    def __lt__(self, other):
        Counted.comparisons += 1
        return float.__lt__(self, other)

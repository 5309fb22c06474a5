"""Classes with parameters, set-ups, and what `setup_cache` keeps for all of them."""

import bisect
import heapq
import pathlib

from .clock import timer as timer


def setup(*_):
    """For every benchmark of this module, before the set-up of its class."""


class Containers:
    params = ([1000, 100_000], ["list", "tuple", "dict"])
    param_names = ["size", "kind"]

    def setup(self, size, kind):
        make = {"list": list, "tuple": tuple, "dict": dict.fromkeys}[kind]
        self.made = make(range(size))
        if kind == "dict" and size == 100_000:
            raise NotImplementedError("too large for a dict")

    def time_iterate(self, size, kind):
        for _ in self.made:
            pass

    def time_copy(self, size, kind):
        list(self.made)

    def time_sum(self, size, kind):
        sum(self.made)

    def track_length(self, size, kind):
        return len(self.made)


class Cached:
    """One `setup_cache` for all; a file that it leaves is there, too."""

    params = [10_000, 50_000]
    param_names = ["size"]

    def setup_cache(self):
        numbers = [number * 7919 % 100_003 for number in range(50_000)]
        pathlib.Path("numbers.txt").write_text("\n".join(map(str, numbers)), encoding="utf-8")
        return numbers

    setup_cache.timeout = 60

    def setup(self, numbers, size):
        self.part = numbers[:size]

    def time_sort(self, numbers, size):
        sorted(self.part)

    def time_heap(self, numbers, size):
        heapq.nsmallest(10, self.part)

    def time_read_file(self, numbers, size):
        text = pathlib.Path("numbers.txt").read_text(encoding="utf-8")
        [int(line) for line in text.splitlines()[:size]]

    def peakmem_copies(self, numbers, size):
        return [list(numbers) for _ in range(size // 100)]

    def mem_part(self, numbers, size):
        return self.part


class Bisecting:
    """A set-up in which each call leaves something behind, so that it has to run before each."""

    params = [2000]
    number = 3
    warmup_time = 0.05
    sample_time = 0.005

    def setup(self, size):
        self.found = []
        self.size = size

    def time_insort(self, size):
        for number in range(size):
            bisect.insort(self.found, number * 7919 % 10_007)

    def teardown(self, size):
        self.found.clear()

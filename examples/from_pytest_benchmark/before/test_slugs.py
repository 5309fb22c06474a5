"""The tests as they were written for pytest-benchmark."""

import pytest
from slugs import slugify, slugify_all


def test_slugify(benchmark):
    assert benchmark(slugify, "Crème brûlée: a dessert, and how to make it") == (
        "creme-brulee-a-dessert-and-how-to-make-it"
    )


@pytest.mark.parametrize("count", [100, 1000])
def test_slugify_all(benchmark, count):
    titles = [f"Title number {number}!" for number in range(count)]
    assert len(benchmark(slugify_all, titles)) == count

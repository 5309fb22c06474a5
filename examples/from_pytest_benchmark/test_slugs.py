"""The same tests for Paceline: `bench` in place of `benchmark`, and many calls a round of what takes microseconds."""

import pytest
from slugs import slugify, slugify_all


def test_slugify(bench):
    assert bench(slugify, "Crème brûlée: a dessert, and how to make it") == (
        "creme-brulee-a-dessert-and-how-to-make-it"
    )


@pytest.mark.parametrize("count", [100, 1000])
def test_slugify_all(bench, count):
    titles = [f"Title number {number}!" for number in range(count)]
    assert len(bench(slugify_all, titles, rounds=10)) == count

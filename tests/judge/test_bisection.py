"""Noise-aware bisection: it finds the culprit as often as it says, and knows when there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import PacelineError
from paceline.judge.bisection import Bisection

COUNT = 64


def bisect(
    culprit: int, effect: float, seed: int, *, unbuildable: frozenset[int] = frozenset(), spikes: float = 0.0
) -> Bisection:
    random = np.random.default_rng(seed)

    def measure(commit: int) -> float:
        spike = 20.0 if random.random() < spikes else 0.0
        return float(100 + random.normal() + effect * (commit >= culprit) + spike)

    ends = [[measure(commit) for _ in range(10)] for commit in (-1, COUNT - 1)]
    search = Bisection(COUNT, good=ends[0], bad=ends[1])
    while not search.done and search.runs < 400:
        commit = search.next()
        search.observe(commit, None if commit in unbuildable else measure(commit))
    return search


def test_a_clear_regression_takes_little_more_than_classic_bisection() -> None:
    search = bisect(culprit=23, effect=30, seed=1)
    assert search.culprit == 23
    assert search.runs <= 8
    assert search.reproduces is True


def test_its_confidence_is_honest() -> None:
    """At 1.5 standard deviations, of 40 searches that say 95 % at most a few are wrong."""
    random = np.random.default_rng(7)
    culprits = random.integers(1, COUNT, 40).tolist()
    searches = [bisect(culprit, 1.5, seed) for seed, culprit in enumerate(culprits)]
    right = sum(search.culprit == culprit for search, culprit in zip(searches, culprits, strict=True))
    assert right >= 36
    assert all(search.confidence >= 0.95 for search in searches if search.culprit is not None)
    # Classic bisection that is right as often repeats each of its six steps 16 times.
    assert sum(search.runs for search in searches) / 40 <= 6 * 16 * 0.4


def test_spikes_do_not_mislead_it() -> None:
    found = [bisect(culprit=40, effect=4, seed=seed, spikes=0.05) for seed in range(10)]
    assert sum(search.culprit == 40 for search in found) >= 9


def test_its_confidence_is_honest_among_spikes_and_they_cost_few_runs() -> None:
    random = np.random.default_rng(7)
    culprits = random.integers(1, COUNT, 30).tolist()
    searches = [bisect(culprit, 1.5, seed, spikes=0.05) for seed, culprit in enumerate(culprits)]
    right = sum(search.culprit == culprit for search, culprit in zip(searches, culprits, strict=True))
    assert right >= 27
    assert sum(search.runs for search in searches) / 30 <= 45


def search_without_difference(seed: int) -> Bisection:
    random = np.random.default_rng(seed)
    search = Bisection(COUNT, good=random.normal(100, 1, 12).tolist(), bad=random.normal(100, 1, 12).tolist())
    while not search.done and search.runs < 150:
        search.observe(search.next(), float(random.normal(100, 1)))
    return search


def test_what_does_not_reproduce_is_said() -> None:
    searches = [search_without_difference(seed) for seed in range(10)]
    hopeless = [search for search in searches if search.reproduces is False]
    assert len(hopeless) >= 6
    assert all(search.done and search.culprit is None and search.confidence == 0 for search in hopeless)
    assert sum(search.confidence >= 0.95 and search.culprit is not None for search in searches) <= 1


def test_commits_that_cannot_be_built_are_passed_over_and_counted() -> None:
    search = bisect(culprit=30, effect=10, seed=5, unbuildable=frozenset({28, 29, 30, 31}))
    assert set(search.suspects) == {28, 29, 30, 31, 32}
    assert search.culprit in search.suspects
    assert search.runs > 0


def test_it_ends_when_nothing_can_be_built() -> None:
    search = Bisection(3, good=[1.0, 1.1], bad=[2.0, 2.1])
    while not search.done:
        search.observe(search.next(), None)
    assert search.runs <= 3


@given(
    st.integers(1, 50),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12),
    st.lists(st.floats(-1e6, 1e6) | st.none(), max_size=15),
)
@settings(max_examples=60)
def test_any_values_are_taken(
    count: int, good: list[float], bad: list[float], values: list[float | None]
) -> None:
    search = Bisection(count, good=good, bad=bad)
    for value in values:
        if search.done:
            break
        commit = search.next()
        assert 0 <= commit < count
        search.observe(commit, value)
        assert 0 <= search.confidence <= 1 + 1e-9
        assert sum(search.posterior) <= 1 + 1e-9


def test_wrong_use_is_one_clear_line() -> None:
    with pytest.raises(PacelineError, match="at least one commit, one good value"):
        Bisection(0, good=[1], bad=[2])
    with pytest.raises(PacelineError, match="there is no commit 9: they are 0 to 3"):
        Bisection(4, good=[1], bad=[2]).observe(9, 1.0)


def test_a_commit_that_is_known_to_have_done_it_elsewhere_takes_fewer_runs() -> None:
    def runs(known: list[int]) -> int:
        total = 0
        for seed in range(15):
            random = np.random.default_rng(seed)
            ends = [[float(random.normal(level, 1)) for _ in range(8)] for level in (100, 102)]
            search = Bisection(COUNT, good=ends[0], bad=ends[1], known=known)
            while not search.done and search.runs < 200:
                commit = search.next()
                search.observe(commit, float(random.normal(100 + 2 * (commit >= 40), 1)))
            total += search.runs
        return total

    assert runs([40]) < 0.8 * runs([])

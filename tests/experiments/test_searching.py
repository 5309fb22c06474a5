"""The search as a function of its runs: what comes next, when it ends, and what it says."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.experiments.bisect.report import GOOD, Question
from paceline.experiments.bisect.search import Limits, Run, Search
from paceline.experiments.builds.build import Candidate

COUNT = 20
QUESTION = Question(
    case="work",
    metric="work_s",
    unit="s",
    direction="lower",
    good=Candidate(ident="g", label="g"),
    candidates=tuple(Candidate(ident=f"c{n}", label=f"c{n}", title=f"Step {n}") for n in range(COUNT)),
)


def go_on(search: Search, measure: Callable[[int], float | None], most: int = 500) -> Search:
    while (index := search.next()) is not None and len(search.runs) < most:
        value = measure(index)
        search.add(Run(index=index, value=value, reason="" if value else "broken", took_s=1.0))
    return search


def noisy(culprit: int, effect: float, seed: int = 1, noise: float = 0.05) -> Callable[[int], float]:
    source = random.Random(seed)
    return lambda index: (1 + effect * (index >= culprit)) * source.gauss(1, noise)


def test_it_finds_the_culprit_and_says_how_much_it_cost() -> None:
    result = go_on(Search(QUESTION, Limits()), noisy(13, 0.15)).result()
    assert (result.ending, result.culprit, result.exit_code) == ("found", 13, 0)
    assert result.confidence >= 0.95
    assert result.difference is not None
    assert result.difference.low <= 1.15 <= result.difference.high
    assert result.message.startswith("Commit c13 (Step 13) changed work_s of work by +1")
    assert result.runs == sum(max(1, len(tested.values)) for tested in result.tested)


def test_the_ends_are_measured_in_turns_before_anything_else() -> None:
    search = go_on(Search(QUESTION, Limits()), noisy(13, 0.5), most=10)
    ends = [run.index for run in search.runs]
    assert ends[:8] == [GOOD, COUNT - 1, COUNT - 1, GOOD] * 2
    assert GOOD not in ends[8:]


def test_ends_that_are_alike_are_seldom_said_to_differ() -> None:
    """In noise of two modes, which few values do not show: looks are few, and share what a single one may err."""
    source = random.Random(11)
    differ = 0
    for _ in range(120):
        search = Search(QUESTION, Limits())
        while search.next() in (GOOD, COUNT - 1) and search.guess is None:
            value = 1 + 0.01 * source.gauss(0, 0.55) + 0.0167 * (source.random() < 0.5)
            search.add(Run(index=search.next() or 0, value=value))
        differ += search.guess is not None or search.result().ending == "reversed"
    assert differ <= 6


def test_ends_of_a_mere_suspicion_differ_only_if_they_do_so_clearly() -> None:
    """Of fifty nights that look odd none may be confirmed by chance; a change of several times the noise still is."""
    alike = [go_on(Search(QUESTION, Limits(asked=50)), noisy(99, 0.0, seed)).result() for seed in range(200)]
    assert [one.ending for one in alike].count("not_reproduced") == 200
    assert go_on(Search(QUESTION, Limits(asked=50)), noisy(13, 0.2)).result().culprit == 13


def test_a_regression_that_is_not_there_is_said_to_be_none() -> None:
    result = go_on(Search(QUESTION, Limits()), noisy(99, 0.0, seed=3)).result()
    assert (result.ending, result.culprit, result.exit_code) == ("not_reproduced", None, 1)
    assert result.runs == 30
    assert "Does not reproduce" in result.message and "would have been seen" in result.message


@pytest.mark.parametrize(
    ("direction", "effect", "improved", "ending"),
    [
        ("lower", 0.5, False, "found"),
        ("lower", -0.4, False, "reversed"),
        ("higher", 0.5, False, "reversed"),
        ("higher", -0.4, False, "found"),
        ("lower", -0.4, True, "found"),
        ("higher", 0.5, True, "found"),
        (None, -0.4, False, "found"),
        (None, 0.5, False, "found"),
    ],
)
def test_worse_is_what_the_direction_says(direction: str, effect: float, improved: bool, ending: str) -> None:
    question = replace(QUESTION, direction=direction, improved=improved)  # type: ignore[arg-type]
    result = go_on(Search(question, Limits()), noisy(7, effect)).result()
    assert result.ending == ending
    assert result.culprit == (7 if ending == "found" else None)


def test_an_end_that_cannot_be_measured_ends_the_search() -> None:
    result = go_on(Search(QUESTION, Limits()), lambda index: None if index == GOOD else 1.0).result()
    assert result.ending == "unmeasurable"
    assert result.message == "The good end g cannot be measured: broken."


def test_what_cannot_be_built_is_passed_over_and_named_beside_the_culprit() -> None:
    measure = noisy(10, 0.5)
    result = go_on(
        Search(QUESTION, Limits()), lambda index: None if index in (9, 10) else measure(index)
    ).result()
    assert result.ending == "found"
    assert set(result.suspects) == {9, 10, 11}
    assert result.suspects_confidence >= 0.95


@pytest.mark.parametrize("limits", [Limits(max_runs=14), Limits(budget_s=14)])
def test_it_gives_up_when_its_runs_or_its_time_are_spent(limits: Limits) -> None:
    result = go_on(Search(QUESTION, limits), noisy(10, 0.15)).result()
    assert (result.ending, result.runs, result.exit_code) == ("unsure", 14, 1)
    assert result.message.startswith("Unsure after 14 runs in 14 s: most likely c")


def test_a_single_candidate_needs_the_ends_only() -> None:
    question = replace(QUESTION, candidates=QUESTION.candidates[:1])
    result = go_on(Search(question, Limits()), noisy(0, 0.5)).result()
    assert (result.ending, result.culprit, result.runs) == ("found", 0, 8)


@given(cut=st.integers(0, 40), seed=st.integers(0, 50))
def test_a_search_goes_on_from_its_runs_as_if_it_had_never_ended(cut: int, seed: int) -> None:
    whole = go_on(Search(QUESTION, Limits()), noisy(5, 0.2, seed))
    resumed = Search(QUESTION, Limits(), whole.runs[:cut])
    rest = iter(whole.runs[cut:])
    for run in rest:
        assert resumed.next() == run.index
        resumed.add(run)
    assert resumed.next() is None
    assert resumed.result() == whole.result()


def test_what_the_series_shows_is_refuted_only_by_what_is_surely_smaller() -> None:
    """Of a true change of 2 % in 2 % noise few runs say little: it stays open, and one of 10 % does not."""
    endings = [
        [
            go_on(Search(QUESTION, Limits(effect=effect)), noisy(13, true, seed, 0.02)).result().ending
            for seed in range(30)
        ]
        for effect, true in ((0.02, 0.02), (0.10, 0.0))
    ]
    assert endings[0].count("not_reproduced") <= 3
    assert endings[1].count("not_reproduced") >= 27


def test_a_budget_of_runs_ends_a_search_with_what_is_likely() -> None:
    result = go_on(Search(QUESTION, Limits(max_runs=40)), noisy(13, 0.02, noise=0.02)).result()
    assert result.runs <= 40 and result.ending in ("unsure", "not_reproduced")

"""A night reads whole only the series whose newest points are odd, and finds what reading all of them finds."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findings_nights import add_nights, make_repository, noisy
from paceline.dashboard.frame import read_verdicts
from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.findings.order import read_order
from paceline.findings.screening import Screened, read_unrest, screen
from paceline.history import Store, open_store
from paceline.history.findings import case_heads, read_left, read_marks

NIGHTS = 90


def screened(store: Store, repository: Repository | None = None) -> Screened:
    """What a search would read now."""
    order = read_order(store, repository)
    with store.database.reading():
        heads, known = case_heads(store.database), read_marks(store.database)
        (mark,) = {str(left["mark"]) for _, left in read_left(store.database)}
    new = {case: head for case, head in heads.items() if known.get(case) != f"{mark}:{head.mark}"}
    return screen(store, order, new, mark, frozenset())


def quiet_nights(store: Store, count: int = 12, nights: int = NIGHTS) -> dict[str, list[float]]:
    cases = {f"case-{number:02}": noisy(nights + 20, seed=number) for number in range(count)}
    add_nights(store, {case: values[:nights] for case, values in cases.items()})
    detect(store)
    return cases


def next_night(store: Store, cases: dict[str, list[float]], night: int, **known: object) -> None:
    add_nights(store, {case: [values[night - 1]] for case, values in cases.items()}, first=night, **known)


def test_quiet_series_are_not_read_and_odd_ones_are(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        cases = quiet_nights(store)
        cases["case-03"][NIGHTS] *= 1.10
        next_night(store, cases, NIGHTS + 1)
        found = screened(store)
        assert not found.whole and "case-03" in found.parts and found.quiet >= 6
        assert detect(store).series == 12  # each of them was tested
        next_night(store, cases, NIGHTS + 2)
        assert screened(store).quiet >= 6


@pytest.mark.parametrize("what", ["earlier", "told differently", "gone", "second attempt", "direction"])
def test_a_case_that_did_more_than_grow_is_read_whole(what: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        cases = quiet_nights(store, 2)
        only = {"case-00": cases["case-00"]}
        if what == "earlier":
            add_nights(store, {"case-00": [10.0]}, first=NIGHTS // 2)
        elif what == "told differently":
            next_night(store, only, NIGHTS + 1)
            with store.database.writing():
                store.database.rows("UPDATE record SET digest = digest + 1 WHERE id = 7")
        elif what == "gone":
            next_night(store, only, NIGHTS + 1)
            with store.database.writing():
                store.database.rows("DELETE FROM record WHERE id = 5")
        elif what == "second attempt":
            next_night(store, only, NIGHTS + 1)
            with store.database.writing():
                store.database.rows("UPDATE record SET attempt = 2 WHERE id = (SELECT max(id) FROM record)")
        else:
            next_night(store, only, NIGHTS + 1)
            with store.database.writing():
                store.database.rows("UPDATE series SET direction = 'higher'")
        found = screened(store)
        assert "case-00" in found.whole


def test_a_commit_that_lies_before_others_is_read_with_them(tmp_path: Path) -> None:
    names = make_repository(tmp_path / "repo", NIGHTS + 4)
    repository = Repository(tmp_path / "repo")
    with open_store(tmp_path / "benchmark.db") as store:
        cases = {"sort": noisy(NIGHTS + 4)}
        measured = [*names[:40], *names[41 : NIGHTS + 1]]
        add_nights(store, {"sort": cases["sort"][:NIGHTS]}, revisions=measured)
        detect(store, repository)
        next_night(store, cases, NIGHTS + 1, revisions=[names[NIGHTS + 1]])
        assert not screened(store, repository).whole
        detect(store, repository)
        next_night(store, cases, NIGHTS + 2, revisions=[names[40]])
        assert screened(store, repository).whole == {"sort"}


def test_what_another_version_left_says_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        cases = quiet_nights(store, 2)
        with store.database.writing():
            store.database.rows("UPDATE detection SET mark = '{\"mark\": 1}' WHERE mark LIKE '{%'")
        next_night(store, cases, NIGHTS + 1)
        assert detect(store).series == 2


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=6)
def test_nights_with_screens_find_what_nights_without_find(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng, directory = random.Random(seed), tmp_path_factory.mktemp("nights")
    cases = {
        f"case-{number}": noisy(
            NIGHTS + 16,
            (rng.randrange(20, NIGHTS + 12), rng.choice([1.0, 1.0, 1.02, 1.04, 0.95, 1.15])),
            seed=rng.random(),
            noise=rng.choice([0.01, 0.02]),
        )
        for number in range(8)
    }
    with open_store(directory / "screens.db") as store:
        add_nights(store, {case: values[:NIGHTS] for case, values in cases.items()})
        detect(store)
    shutil.copy(directory / "screens.db", directory / "whole.db")
    with open_store(directory / "screens.db") as screens, open_store(directory / "whole.db") as whole:
        for night in range(NIGHTS + 1, NIGHTS + 17):
            for store in (screens, whole):
                next_night(store, cases, night)
            with whole.database.writing():
                whole.database.rows("DELETE FROM detection WHERE mark LIKE '{%'")
            detect(screens)
            detect(whole)
            told = [
                {(one.id, one.verdict, one.found_in, one.stands) for one in store.findings() if one.found_in}
                for store in (screens, whole)
            ]
            assert told[0] == told[1]
        with screens.database.writing():
            screens.database.rows("DELETE FROM detection WHERE mark LIKE '{%'")
            screens.database.rows("UPDATE detection SET mark = replace(mark, '-', 'x-')")
        detect(screens)
        assert screens.findings(withdrawn=True) == whole.findings(withdrawn=True)


def test_what_is_restless_is_kept_with_how_much(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    levels = rng.normal(0, 0.08, 240).repeat(rng.geometric(1 / 8, 240))[:240]
    values = (10 * np.exp(levels) * (1 + rng.normal(0, 0.01, 240))).tolist()
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": values, "join": noisy(240)})
        detect(store)
        ((key, unrest),) = read_unrest(store).items()
        assert key.case == "sort" and 0.01 < unrest < 0.3
        assert len(store.findings()) <= 3
        ((told,),) = read_verdicts(store).restless.values()
        assert told["metric"] == "wall_s" and told["unrest"] == unrest

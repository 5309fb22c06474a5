"""Renames and resets: no record is touched, and everything is read by its new name and in its epoch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import HistoryError
from paceline.history import Store, open_store
from paceline.history.store.names import CaseNames, Epochs, matcher
from stored_records import ENVIRONMENT, record, series_of, session


def nights(store: Store, key: str, *numbers: int) -> None:
    for number in numbers:
        store.add(session(number), ENVIRONMENT, [record(key, float(number), number=number)])


def values(store: Store, key: str, **wanted: bool) -> list[tuple[float, ...]]:
    return [tuple(series.values) for series in series_of(store, key, "wall_s", **wanted)]


def test_a_renamed_case_keeps_its_points(url: str) -> None:
    with open_store(url) as store:
        nights(store, "sort_numbers", 1, 2)
        nights(store, "sort", 3)
        store.alias("sort_numbers", "sort")
        assert values(store, "sort") == values(store, "sort_numbers") == [(1.0, 2.0, 3.0)]
        assert [series.case_key for series in store.iter_columns()] == ["sort"] == store.cases()
        assert store.metrics("sort") == ["wall_s"] and store.case_counts()[0][:2] == ("sort", 3)
        assert [one.case.key for one in store.records("night-1")] == ["sort_numbers"]
        assert store.remove_alias("sort_numbers") and not store.remove_alias("sort_numbers")
        assert store.cases() == ["sort", "sort_numbers"]


def test_a_renamed_entry_renames_each_of_its_cases(url: str) -> None:
    with open_store(url) as store:
        nights(store, "old[n=1]", 1)
        nights(store, "new[n=1]", 2)
        nights(store, "old[n=2]", 3)
        store.alias("old", "new")
        assert values(store, "new[n=1]") == [(1.0, 2.0)] and values(store, "new[n=2]") == [(3.0,)]
        assert store.cases() == ["new[n=1]", "new[n=2]"]


def test_renames_follow_one_another_and_never_turn_in_a_circle(url: str) -> None:
    with open_store(url) as store:
        nights(store, "a", 1)
        store.alias("a", "b")
        store.alias("b", "c")
        assert values(store, "c") == [(1.0,)]
        for old, new in (("c", "a"), ("a", "a"), ("", "x"), ("x", "")):
            with pytest.raises(HistoryError, match="cannot rename"):
                store.alias(old, new)
        store.alias("a", "d")  # told anew
        assert store.aliases() == {"b": "c", "a": "d"}


_keys = st.sampled_from(["a", "b", "c", "a[n=1]", "b[n=1]", "c[n=1]"])


@given(aliases=st.dictionaries(_keys, _keys, max_size=5), key=_keys)
def test_a_name_always_leads_to_one_that_stands(aliases: dict[str, str], key: str) -> None:
    names = CaseNames(aliases)
    current = names.current(key)
    assert names.current(current) == current
    assert {names.current(one) for one in names.all_of(key)} == {current}


def test_a_reset_begins_an_epoch(url: str) -> None:
    with open_store(url) as store:
        nights(store, "sort", 1, 2, 3, 4)
        nights(store, "other", 1, 2)
        assert store.reset("sort", "sorts twice as much", at="2026-01-04") == "2026-01-04T00:00:00.000Z"
        assert values(store, "sort") == [(3.0, 4.0)] and values(store, "other") == [(1.0, 2.0)]
        epochs = [
            (series.epoch, tuple(series.values))
            for series in series_of(store, "sort", "wall_s", all_epochs=True)
        ]
        assert epochs == [(0, (1.0, 2.0)), (1, (3.0, 4.0))]
        assert [(one.case_key, one.epoch) for one in store.iter_columns()] == [("other", 0), ("sort", 1)]
        assert len(list(store.iter_columns(all_epochs=True))) == 3
        (epoch,) = store.epochs("sort")
        assert (epoch.case_key, epoch.why) == ("sort", "sorts twice as much") and store.epochs("other") == []
        # Told twice, it is the same reset; from now on nothing is left to compare.
        store.reset("sort", "sorts twice as much", at="2026-01-04T00:00:00Z")
        assert len(store.epochs()) == 1
        store.reset("sort", "again")
        assert values(store, "sort") == [] and len(values(store, "sort", all_epochs=True)) == 2


def test_a_reset_counts_for_all_names_and_parameters(url: str) -> None:
    with open_store(url) as store:
        nights(store, "old[n=1]", 1)
        nights(store, "new[n=1]", 3)
        store.reset("old", "new data", at="2026-01-03")
        store.alias("old", "new")
        assert values(store, "new[n=1]") == [(3.0,)]
        store.reset("new[n=1]", "once more", at="2026-01-02T00:00:00")
        assert [epoch.why for epoch in store.epochs("new[n=1]")] == ["once more", "new data"]


@pytest.mark.parametrize(("why", "at", "told"), [("", None, "without a reason"), ("x", "soon", "is no time")])
def test_a_reset_that_makes_no_sense(url: str, why: str, at: str | None, told: str) -> None:
    with open_store(url) as store, pytest.raises(HistoryError, match=told):
        store.reset("sort", why, at)


def test_epochs_of_one_moment() -> None:
    epochs = Epochs(
        [("a", "2026-01-02"), ("a", "2026-01-02"), ("b[n=1]", "2026-01-01")], CaseNames({"b": "a"})
    )
    assert epochs.of("a") == ["2026-01-02"] and epochs.of("a[n=1]") == ["2026-01-01", "2026-01-02"]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a[n=1]", "a[n=1]", True),
        ("a[n=?]", "a[n=2]", True),
        ("a*", "a[n=2]", True),
        ("a", "a[n=2]", False),
        ("[ab]", "a", False),
        ("*", "any\nthing", True),
        ("a.b", "axb", False),
    ],
)
def test_globs_take_brackets_as_they_are(pattern: str, name: str, fits: bool) -> None:
    assert bool(matcher([pattern]).fullmatch(name)) is fits

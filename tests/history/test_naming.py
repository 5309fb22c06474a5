"""Series in words: as few as it takes, and no hash."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.history import open_store
from paceline.history.naming import read_series_names, shortest
from stored_records import case, record, session

HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def machine(python: str = "3.11.7", **facts: Any) -> dict[str, Any]:
    comparable = {"python": python[:4], **facts}
    told = "-".join(map(str, comparable.values()))
    return {
        "id": told,
        "class_id": f"{abs(hash(told)):016x}",
        "python": {"version": python},
        "comparable": comparable,
    }


@pytest.mark.parametrize(
    ("described", "names"),
    [
        ([["Python 3.11", "box"]], [""]),
        ([["Python 3.11", "box"], ["Python 3.12", "box"]], ["Python 3.11", "Python 3.12"]),
        ([["box", "numpy"], ["box", "numpy", "scipy"]], ["without scipy", "scipy"]),
        ([["a", "x"], ["a", "y"], ["b", "x"], ["b", "y"]], ["a, x", "a, y", "b, x", "b, y"]),
        ([["a"], ["a"]], ["1", "2"]),
        ([[], ["a"]], ["without a", "a"]),
    ],
)
def test_the_fewest_words(described: list[list[str]], names: list[str]) -> None:
    assert list(shortest(tuple(map(tuple, described)))) == names


_words = st.lists(st.sampled_from("abcdefgh"), max_size=6, unique=True).map(tuple)


@given(st.lists(_words, min_size=2, max_size=8).map(tuple))
def test_every_name_is_another_one(described: tuple[tuple[str, ...], ...]) -> None:
    names = shortest(described)
    assert len(set(names)) == len(names) and all(names)


def test_names_come_from_machines_variants_and_versions(tmp_path: Path) -> None:
    environments = [machine(), machine("3.13.1"), machine("3.13.1", machine_name="big")]
    with open_store(tmp_path / "h.db") as store:
        for number, (env, told) in enumerate(
            [
                (environments[0], {"version": HASH, "variant": "numpy=,scipy="}),
                (environments[1], {"version": HASH, "variant": "numpy=,scipy="}),
                (environments[1], {"version": HASH[::-1], "variant": "numpy=,scipy="}),
                (environments[1], {"version": HASH, "variant": "numpy=2.1,scipy="}),
                (environments[2], {"version": HASH, "variant": "numpy=,scipy="}),
            ]
        ):
            one = record("sort", number=number, case=case("sort", **told), environment=env["id"])
            store.add(
                session(number),
                env,
                [one, record("alone", number=number, environment=env["id"])][: 2 - bool(number)],
            )
        with store.database.reading():
            names = read_series_names(store.database)
            assert read_series_names(store.database, ["alone"]) == {
                one: named for one, named in names.items() if one[0] == "alone"
            }
    told = [named.name for one, named in names.items() if one[0] == "sort"]
    assert told == ["Python 3.11", "Python 3.13, numpy, version 1", "version 2", "numpy 2.1", "big"]
    assert [named.name for one, named in names.items() if one[0] == "alone"] == [""]
    assert not any(re.search("[0-9a-f]{12}", name) for name in told)
    assert {named.newest for one, named in names.items() if one[0] == "alone"} == {session(0).started_at}


def test_machines_of_which_nothing_is_known_are_numbered(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        for number, class_id in enumerate(("box", "0123456789abcdef")):
            env = {"id": f"e{number}", "class_id": class_id}
            store.add(session(number), env, [record("sort", number=number, environment=env["id"])])
        with store.database.reading():
            names = read_series_names(store.database)
    assert [named.name for named in names.values()] == ["machines box", "machines 2"]

"""Selecting cases by name, glob and tag; needs; sharding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SelectionError
from paceline.plan.selection import Candidate, Cycle, arrange, select, split_terms, take_shard


def candidate(name: str, *needs: str, tags: tuple[str, ...] = ()) -> Candidate:
    return Candidate(name=name, entry=name.split("[")[0], tags=tags, needs=needs)


SUITE = [
    candidate("prepare"),
    candidate("read[executor=local,size=1]", tags=("io", "nightly")),
    candidate("read[executor=ray,size=1]", "prepare", tags=("io",)),
    candidate("write", "read[executor=ray,size=1]", tags=("io-heavy",)),
]


def chosen(only: list[str] | None = None, exclude: list[str] | None = None) -> list[str]:
    return [c.name for c in select(SUITE, only or [], exclude or [])[0]]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (["prepare"], [0]),
        (["read[executor=local,size=1]"], [1]),
        (["read[executor=local,size=1],prepare"], [0, 1]),
        (["prepare", "read[executor=local,size=1]"], [0, 1]),
        (["read"], [0, 1, 2]),
        (["re*"], [0, 1, 2]),
        (["read[[]executor=l*"], [1]),
        (["read[executor=l*]"], [1]),
        (["read[*local*]"], [1]),
        (["[p]repare"], [0]),
        (["pre????"], [0]),
        (["tag:nightly"], [1]),
        (["tag:io"], [0, 1, 2]),
        (["tag:night*, prepare"], [0, 1]),
        (["tag:io*"], [0, 1, 2, 3]),
    ],
)
def test_only(only: list[str], expected: list[int]) -> None:
    assert chosen(only) == [SUITE[i].name for i in expected]


def test_exclude_and_both() -> None:
    assert chosen(exclude=["write"]) == [c.name for c in SUITE[:3]]
    assert chosen(["read"], ["*ray*"]) == ["read[executor=local,size=1]"]


def test_nothing_asked_is_everything() -> None:
    assert chosen() == [c.name for c in SUITE]


def test_needed_cases_come_along_with_a_word() -> None:
    found, warnings = select(SUITE, ["write"])
    assert [c.name for c in found] == ["prepare", "read[executor=ray,size=1]", "write"]
    assert warnings == [
        "read[executor=ray,size=1] was not selected and runs because write needs it",
        "prepare was not selected and runs because read[executor=ray,size=1] needs it",
    ]


@pytest.mark.parametrize(
    ("only", "words"),
    [
        (["wriet"], "did you mean 'write'.*there is: prepare, read"),
        (["tag:nigthly"], "did you mean 'tag:nightly'"),
        (["tag:zzz"], "matches no case; tags are "),
        (["zzz*"], "matches no case; there is"),
        (["write,nothing-like-it"], "'nothing-like-it' matches no case"),
        ([" , "], "--only is empty"),
        (["["], "matches no case"),
    ],
)
def test_a_term_that_matches_nothing(only: list[str], words: str) -> None:
    with pytest.raises(SelectionError, match=words):
        select(SUITE, only)


def test_everything_excluded() -> None:
    with pytest.raises(SelectionError, match="leave no case"):
        select(SUITE, [], ["*"])


def test_a_long_list_is_cut() -> None:
    many = [candidate(f"case{i}") for i in range(50)]
    with pytest.raises(SelectionError, match=r"case19, … and 30 more$"):
        select(many, ["zzz"])


@pytest.mark.parametrize(
    ("expression", "terms"),
    [
        ("a,b", ["a", "b"]),
        (" a , ,b ", ["a", "b"]),
        ("e[x=1,y=2],f", ["e[x=1,y=2]", "f"]),
        ("a],b", ["a]", "b"]),
        ("e[v=[1,2],w=3],f", ["e[v=[1,2],w=3]", "f"]),
    ],
)
def test_split_terms(expression: str, terms: list[str]) -> None:
    assert split_terms(expression) == terms


def test_arrange_is_stable() -> None:
    given_order = [candidate("c", "z"), candidate("a"), candidate("z"), candidate("b", "c", "c")]
    assert [c.name for c in arrange(given_order)] == ["a", "z", "c", "b"]


@pytest.mark.parametrize(
    "cases",
    [
        [candidate("a", "a")],
        [
            candidate("free"),
            candidate("a", "b"),
            candidate("b", "c"),
            candidate("c", "a"),
            candidate("d", "a"),
        ],
    ],
)
def test_a_circle_of_needs(cases: list[Candidate]) -> None:
    with pytest.raises(Cycle) as caught:
        arrange(cases)
    names = caught.value.names
    by_name = {c.name: c for c in cases}
    assert all(
        after in by_name[name].needs for name, after in zip(names, [*names[1:], names[0]], strict=True)
    )


@st.composite
def suites(draw: st.DrawFn) -> list[Candidate]:
    """Cases that need earlier ones, in a random order."""
    count = draw(st.integers(1, 30))
    cases = []
    for i in range(count):
        needs = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i and draw(st.booleans()) else []
        cases.append(candidate(f"c{i}", *(f"c{j}" for j in needs)))
    return draw(st.permutations(cases))


@given(suites())
def test_needs_come_first(cases: list[Candidate]) -> None:
    names = [c.name for c in arrange(cases)]
    assert sorted(names) == sorted(c.name for c in cases)
    assert all(names.index(need) < names.index(c.name) for c in cases for need in c.needs)


@given(suites(), st.data())
def test_a_selection_is_closed_and_holds_what_was_asked(cases: list[Candidate], data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.sampled_from([c.name for c in cases]), min_size=1))
    found, _ = select(cases, asked)
    names = {c.name for c in found}
    assert set(asked) <= names
    assert all(need in names for c in found for need in c.needs)
    assert found == [c for c in cases if c.name in names]


@given(suites(), st.integers(1, 8))
def test_shards_partition(cases: list[Candidate], parts: int) -> None:
    shards = [take_shard(cases, (i, parts)) for i in range(1, parts + 1)]
    names = [c.name for shard in shards for c in shard]
    assert sorted(names) == sorted(c.name for c in cases)
    for shard in shards:
        inside = {c.name for c in shard}
        assert all(need in inside for c in shard for need in c.needs)
    assert shards == [take_shard(cases, (i, parts)) for i in range(1, parts + 1)]


@given(st.integers(0, 100), st.integers(1, 10))
def test_shards_of_free_cases_differ_by_one_at_most(count: int, parts: int) -> None:
    cases = [candidate(f"c{i}") for i in range(count)]
    sizes = [len(take_shard(cases, (i, parts))) for i in range(1, parts + 1)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("shard", [(0, 3), (4, 3), (1, 0), (-1, -1)])
def test_a_shard_that_makes_no_sense(shard: tuple[int, int]) -> None:
    with pytest.raises(SelectionError, match="1/4"):
        take_shard(SUITE, shard)


def test_a_tag_without_its_prefix_is_suggested() -> None:
    cases = [Candidate(name="a", entry="a", tags=("fast",)), Candidate(name="faster", entry="faster")]
    with pytest.raises(SelectionError, match=r"--only 'fast' matches no case; did you mean 'tag:fast'\?"):
        select(cases, ["fast"])

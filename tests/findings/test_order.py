"""One order of a series for all who read it: commits where they are known, else time; other branches are apart."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from findings_nights import add_nights, make_repository, noisy
from git_commands import git
from paceline.dashboard.frame import read_verdicts
from paceline.experiments.nightly.suspicions import find_suspicions
from paceline.findings.commits import Repository, open_repository
from paceline.findings.detection import detect
from paceline.findings.order import Order, _ascending, by_commits, read_order
from paceline.findings.segments import read_baselines
from paceline.findings.telling import read_curves, session_findings
from paceline.history import Store, open_store
from stored_records import series_of, session

SORT = ("sort", "", "1", "class-1")


def measured_backwards(store: Store, directory: Path) -> list[str]:
    """Forty commits, a fifth slower from the twentieth on, measured from the newest to the oldest."""
    names = make_repository(directory, 40)
    add_nights(store, {"sort": noisy(40, (19, 1.2))[::-1]}, revisions=names[::-1])
    return names


def verdicts(store: Store) -> list[tuple[str, str]]:
    return [(one.verdict, one.first_bad.revision) for one in store.findings()]


def test_measured_newest_first_is_worse_at_the_right_commit_with_and_without_a_repository(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = measured_backwards(store, tmp_path / "repo")
        detect(store, Repository(tmp_path / "repo"))
        assert verdicts(store) == [("worse", names[19])]
        detect(store)  # nothing is new, and nobody needs to know the repository again
        assert verdicts(store) == [("worse", names[19])]
        add_nights(store, {"sort": [10.0]}, first=41, revisions=[names[0]])
        detect(store)
        assert verdicts(store) == [("worse", names[19])]
        level = read_baselines(store, {"sort": ["wall_s"]}, but="")[SORT]["wall_s"]
        assert abs(level.level - 10.0) < 0.1 and level.results == 20
        (curve,) = read_curves(store, store.findings()[:1], read_order(store), window=5)
        assert curve.index == 5 and max(curve.values[:5]) < 11 < min(curve.values[5:])


def test_found_without_a_repository_it_is_put_right_with_one(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = measured_backwards(store, tmp_path / "repo")
        detect(store)
        assert [verdict for verdict, _ in verdicts(store)] == ["better"]
        detect(store, Repository(tmp_path / "repo"))
        assert verdicts(store) == [("worse", names[19])]


def test_the_page_has_the_same_order(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        measured_backwards(store, tmp_path / "repo")
        detect(store, Repository(tmp_path / "repo"))
        places = read_verdicts(store).places
        assert [places[session(number).id] for number in range(1, 41)] == list(range(40))[::-1]


def test_a_revision_that_nobody_knows_lies_between_those_measured_before_and_after(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = make_repository(tmp_path / "repo", 40)
        values = noisy(40, (19, 1.2))
        names[5] = "f" * 40
        add_nights(store, {"sort": values[::-1]}, revisions=names[::-1])
        detect(store, Repository(tmp_path / "repo"))
        assert verdicts(store) == [("worse", names[19])]
        (series,) = series_of(store, "sort", "wall_s")
        assert [point.revision for point in read_order(store).points(series)] == names


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=30))
def test_known_ones_are_in_order_and_none_is_lost(places: list[int | None]) -> None:
    order = by_commits(places)
    known = [place for i in order if (place := places[i]) is not None]
    assert sorted(order) == list(range(len(places))) and known == sorted(known)


def test_the_commits_of_two_repositories_follow_each_other_in_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for number, first in (("two", 21), ("one", 1)):
            names = make_repository(tmp_path / number, 20, times=days(40)[first - 1 :])
            add_nights(store, {"sort": [float(first)] * 20}, first=first, revisions=names)
            read_order(store, Repository(tmp_path / number))
        (series,) = series_of(store, "sort", "wall_s")
        assert [point.value for point in read_order(store).points(series)] == [1.0] * 20 + [21.0] * 20


def feature(store: Store, directory: Path | None, names: list[str], values: list[float]) -> None:
    """Runs of a branch that left the default one at its newest commit."""
    revisions = [f"{number:x}" * 40 for number in range(10, 10 + len(values))]
    if directory:
        git(directory, "checkout", "-q", "-b", "feature")
        revisions = []
        for number in range(len(values)):
            git(directory, "commit", "-q", "--allow-empty", "-m", f"Idea {number}")
            revisions.append(git(directory, "rev-parse", "HEAD"))
    known = {"branch": "feature", "merge_base": names[-1]}
    add_nights(store, {"sort": values}, first=len(names) + 1, revisions=revisions, **known)


def test_runs_of_a_branch_raise_nothing_on_the_default_one(tmp_path: Path) -> None:
    for directory in (tmp_path / "repo", None):
        with open_store(tmp_path / f"{directory is None}.db") as store:
            names = make_repository(tmp_path / "repo" if directory else tmp_path / "other", 40)
            repository = Repository(directory) if directory else None
            add_nights(store, {"sort": noisy(40)}, revisions=names)
            feature(store, directory, names, noisy(4, (0, 1.1), seed=2))
            detect(store, repository)
            assert store.findings() == []
            level = read_baselines(store, {"sort": ["wall_s"]}, but="")[SORT]["wall_s"]
            assert abs(level.level - 10.0) < 0.1 and level.results == 40
            assert find_suspicions(store, repository, session(44).id, ["sort"]) == []
            (told,) = session_findings(store, session(44).id)
            assert told.verdict == "worse" and told.fails and "its merge base" in told.message
            add_nights(store, {"sort": noisy(10, seed=3)}, first=45, revisions=names[-10:])
            detect(store, repository)
            assert store.findings() == []


def test_what_became_the_default_branch_is_judged(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = make_repository(tmp_path / "repo", 40)
        add_nights(store, {"sort": noisy(40)}, revisions=names)
        feature(store, tmp_path / "repo", names, noisy(12, (0, 1.2), seed=2))
        detect(store, Repository(tmp_path / "repo"))
        assert store.findings() == []
        git(tmp_path / "repo", "branch", "-f", "main", "feature")
        detect(store, Repository(tmp_path / "repo"))
        assert [one.verdict for one in store.findings()] == ["worse"]
        detect(store)
        assert [one.verdict for one in store.findings()] == ["worse"]


def test_a_history_of_another_branch_alone_is_judged(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = make_repository(tmp_path / "repo", 1)
        feature(store, tmp_path / "repo", names, noisy(40, (20, 1.2)))
        detect(store, Repository(tmp_path / "repo"))
        assert [one.verdict for one in store.findings()] == ["worse"]


def test_a_branch_is_held_against_the_level_where_it_began(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = make_repository(tmp_path / "repo", 60)
        add_nights(store, {"sort": noisy(60, (30, 1.2))}, revisions=names)
        read_order(store, Repository(tmp_path / "repo"))
        for number, base, value, expected in (
            (61, 24, 10.05, []),
            (62, 24, 12.0, ["worse"]),
            (63, 50, 12.0, []),
            (64, 50, 10.0, ["better"]),
        ):
            told = {"branch": f"idea-{number}", "merge_base": names[base], "revisions": [f"{number:040x}"]}
            add_nights(store, {"sort": [value]}, first=number, **told)
            detect(store)
            found = session_findings(store, session(number).id)
            assert [one.verdict for one in found] == expected
            assert all(f"idea-{number}" in one.message and names[base][:10] in one.message for one in found)
        assert [one.verdict for one in store.findings()] == ["worse"]


def test_reading_a_series_writes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(3)}, revisions=[f"{number:040x}" for number in range(3)])
        read_order(store)
        assert store.database.rows("SELECT count(*) FROM commit_place") == [(0,)]
        detect(store)
        assert store.database.rows("SELECT count(*) FROM commit_place") == [(3,)]


def days(count: int) -> list[str]:
    return [f"2025-{1 + number // 28:02}-{1 + number % 28:02}T12:00:00.000Z" for number in range(count)]


def test_the_times_of_commits_are_an_order_where_no_repository_is_known(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names, values = [f"{number:040x}" for number in range(40)], noisy(40, (19, 1.2))
        for number, (name, time) in enumerate(list(zip(names, days(40), strict=True))[::-1], start=1):
            add_nights(
                store, {"sort": [values[40 - number]]}, first=number, revisions=[name], commit_time=time
            )
        detect(store)
        assert verdicts(store) == [("worse", names[19])]
        level = read_baselines(store, {"sort": ["wall_s"]}, but="")[SORT]["wall_s"]
        assert abs(level.level - 10.0) < 0.1 and level.results == 19
        order = read_order(store)
        assert [
            one.revision for one in order.sort(store.sessions(), time=lambda one: one.started_at)
        ] == names
        assert order.commit_times == dict(zip(names, days(40), strict=True)) and order.unknown == 0


def test_a_history_of_an_older_version_is_judged_anew_in_the_order_of_commits(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = [f"{number:040x}" for number in range(40)]
        add_nights(store, {"sort": noisy(40, (19, 1.2))[::-1]}, revisions=names[::-1])
        detect(store)
        assert [verdict for verdict, _ in verdicts(store)] == ["better"]
        with store.database.writing():
            told = list(zip(days(40), names, strict=True))
            store.database.many("UPDATE session SET commit_time = ? WHERE revision = ?", told)
        detect(store)
        assert verdicts(store) == [("worse", names[19])]


def test_a_commit_that_the_repository_lacks_lies_where_its_time_puts_it(tmp_path: Path) -> None:
    names = make_repository(tmp_path / "repo", 6, times=days(6))
    lost = "f" * 40
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": [1.0] * 6}, revisions=names)
        time = days(3)[2].replace("12:00", "13:00")
        add_nights(store, {"sort": [1.0]}, first=7, revisions=[lost], commit_time=time)
        order = read_order(store, Repository(tmp_path / "repo"))
        (series,) = series_of(store, "sort", "wall_s")
        assert [one.revision for one in order.points(series)] == [*names[:3], lost, *names[3:]]


@given(st.lists(st.sampled_from(["", "1", "2", "3", "4"]), max_size=12))
def test_a_wrong_clock_moves_no_other_commit(times: list[str]) -> None:
    ascending = _ascending(times)
    assert ascending == sorted(ascending) and len(ascending) == len(times)
    if times == sorted(times) and all(times):
        assert ascending == times


def test_one_commit_of_the_far_future_is_not_believed() -> None:
    assert _ascending(["1", "9", "2", "3", "", "4"]) == ["1", "1", "2", "3", "3", "4"]


def test_a_bare_repository_knows_commits_and_tags(tmp_path: Path) -> None:
    names = make_repository(tmp_path / "repo", 6, times=days(6))
    git(tmp_path / "repo", "branch", "-m", "develop")
    git(tmp_path / "repo", "tag", "v1", names[1])
    git(tmp_path / "repo", "tag", "-a", "-m", "second", "v2", names[2])
    git(tmp_path / "repo", "branch", "main", names[0])
    git(tmp_path, "clone", "-q", "--bare", "repo", "bare.git")
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": [1.0] * 4}, revisions=[names[5], names[4], names[2], names[0]])
        read_order(store, open_repository(tmp_path / "bare.git"))
        order = read_order(store)  # kept, so that nobody needs the repository again
        (series,) = series_of(store, "sort", "wall_s")
        assert [names.index(one.revision) for one in order.points(series)] == [0, 2, 4, 5]
        assert order.tags == {names[2]: (("v1", days(6)[1]), ("v2", days(6)[2]))}
        assert order.commit_times == {names[i]: days(6)[i] for i in (0, 2, 4, 5)}


def test_anything_can_be_sorted() -> None:
    order = Order(places={"a": 1, "b": 2})
    rows = [("b", 1), ("x", 4), ("a", 2), ("", 3)]
    assert order.sort(rows, revision=lambda row: row[0], time=lambda row: row[1]) == [
        *(("a", 2), ("", 3), ("x", 4), ("b", 1)),
    ]


def test_the_default_branch_is_the_one_that_is_declared_and_readers_go_by_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        names = make_repository(tmp_path / "repo", 40)
        add_nights(store, {"sort": noisy(40)}, revisions=names)
        feature(store, tmp_path / "repo", names, noisy(12, (0, 1.2), seed=2))
        detect(store, Repository(tmp_path / "repo"))
        assert store.findings() == []
        detect(store, Repository(tmp_path / "repo", "feature"))
        assert [one.verdict for one in store.findings()] == ["worse"]
        detect(store, Repository(tmp_path / "repo"))  # who reads the history knows no configuration
        assert [one.verdict for one in store.findings()] == ["worse"]
        detect(store, Repository(tmp_path / "repo", "main"))  # it is declared no more
        assert store.findings() == []


def test_the_curve_of_a_drift_shows_it_from_end_to_end(tmp_path: Path) -> None:
    rising = [10.0 * (1 + 0.004 * max(0, night - 20)) for night in range(200)]
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(
            store, {"sort": [value * (1 + 0.002 * (-1) ** night) for night, value in enumerate(rising)]}
        )
        detect(store)
        drift = next(one for one in store.findings() if one.kind == "drift")
        (curve,) = read_curves(store, [drift], read_order(store), window=8)
        assert curve.index is not None and len(curve.values) <= 16
        assert curve.values[-1] > 1.2 * curve.values[curve.index], curve.values

"""Changes are found in the history, keep their ids, and are judged again only when there is something new."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findings_nights import add_nights, make_repository, noisy
from paceline.errors import HistoryError
from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.history import open_store
from stored_records import ENVIRONMENT


def test_a_step_is_found_placed_and_keeps_its_id(url: str) -> None:
    values = noisy(60, (40, 1.15), noise=0.03)
    seen: dict[str, set[int]] = {}
    with open_store(url) as store:
        add_nights(store, {"sort": values[:42]})
        for night in range(43, 61):
            add_nights(store, {"sort": [values[night - 1]]}, first=night)
            detect(store)
            for one in store.findings():
                seen.setdefault(one.id, set()).add(night)
        (found,) = store.findings()
    assert list(seen) == [found.id] and max(seen[found.id]) == 60 and min(seen[found.id]) <= 50
    assert (found.verdict, found.state) == ("worse", "new")
    assert (
        found.low <= found.effect <= found.high and abs(found.effect - 0.15) < 0.03 and found.p_value < 1e-6
    )
    assert found.last_good.session == "night-40" and found.first_bad.session in ("night-41", "night-42")
    assert found.last_good.time < found.first_bad.time and found.found_at <= "2026-02-23"


def test_series_without_new_points_are_not_read_again(url: str) -> None:
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(30), "join": noisy(30, seed=2)})
        first = detect(store)
        assert (first.cases, first.series) == (2, 2)
        assert detect(store).series == 0
        add_nights(store, {"sort": [10.0]}, first=31)
        assert (detect(store).cases, detect(store).cases) == (1, 0)
        store.reset("join", "other data", at="2026-01-20")
        assert detect(store).cases == 1
        store.alias("join", "merge")
        assert detect(store).cases == 1


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_a_night_finds_what_judging_all_series_anew_finds(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Only series with new points are read; the others must stand where a judgement of all points puts them."""
    rng, directory = random.Random(seed), tmp_path_factory.mktemp("nights")
    values = {
        f"case-{number}": noisy(
            40, (rng.randrange(5, 40), rng.choice([1.0, 1.05, 0.9, 1.3])), seed=rng.random()
        )
        for number in range(6)
    }
    with open_store(directory / "nightly.db") as store:
        add_nights(store, {key: of_case[:25] for key, of_case in values.items()})
        for night in range(26, 40):
            ran = {key: [of_case[night - 1]] for key, of_case in values.items() if rng.random() < 0.7}
            add_nights(store, ran or {"case-0": [values["case-0"][night - 1]]}, first=night)
            detect(store)
        add_nights(store, {key: [values[key][39]] for key in sorted(values)[:3]}, first=40)
    shutil.copy(directory / "nightly.db", directory / "anew.db")
    with open_store(directory / "nightly.db") as nightly, open_store(directory / "anew.db") as anew:
        with anew.database.writing():
            anew.database.rows("UPDATE detection SET mark = replace(mark, '-', 'x-')")
        assert (detect(nightly).series, detect(anew).series) == (3, 6)
        assert nightly.findings(withdrawn=True) == anew.findings(withdrawn=True)


def test_a_record_that_is_told_differently_is_judged_again(url: str) -> None:
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(30)})
        detect(store)
        add_nights(store, {"sort": [11.0]}, first=30)
        assert detect(store).series == 1


@pytest.mark.parametrize(
    ("direction", "verdicts"), [("lower", ["worse"]), ("higher", ["better"]), (None, [])]
)
def test_the_direction_says_what_is_worse(direction: str | None, verdicts: list[str], tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(40, (20, 1.3))}, direction=direction)
        detect(store)
        assert [one.verdict for one in store.findings()] == verdicts


def test_failed_records_and_points_before_an_epoch_are_left_out(url: str) -> None:
    broken = noisy(40, (25, 3.0))
    with open_store(url) as store:
        add_nights(store, {"sort": broken}, failed=range(26, 41))
        detect(store)
        assert store.findings() == []
        add_nights(store, {"join": noisy(40, (20, 1.5), seed=3)})
        detect(store)
        (found,) = store.findings()
        store.reset("join", "counts twice as much", at=found.first_bad.time)
        detect(store)
        assert store.findings() == [] and [one.stands for one in store.findings(withdrawn=True)] == [False]


def test_machines_of_another_class_are_another_series(url: str) -> None:
    other = {**ENVIRONMENT, "id": "env-9", "class_id": "class-9"}
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(25)})
        add_nights(store, {"sort": noisy(25, (0, 2.0))}, first=26, environment=other)
        detect(store)
        assert store.findings() == []


def test_a_change_that_a_later_one_undoes_is_fixed(url: str) -> None:
    values = noisy(70, (25, 1.2), (50, 1 / 1.2))
    with open_store(url) as store:
        add_nights(store, {"sort": values[:40]})
        detect(store)
        (worse,) = store.findings()
        assert worse.state == "new"
        store.say(worse.id, "acknowledged", why="", who="keeper")
        add_nights(store, {"sort": values[40:]}, first=41)
        detect(store)
        found = {one.verdict: one for one in store.findings()}
    assert found["worse"].id == worse.id and found["worse"].state == "fixed"
    assert found["worse"].fixed_at == found["better"].at_time
    assert found["better"].state == "new" and found["better"].incident != worse.incident


def test_a_part_of_the_way_back_is_no_fix(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(70, (25, 1.4), (50, 1.25 / 1.4))})
        detect(store)
        assert {one.verdict: one.state for one in store.findings()} == {"worse": "new", "better": "new"}


def test_one_cause_is_one_incident(url: str) -> None:
    cases = {f"case-{number}": noisy(50, (30, 1.2), seed=number) for number in range(4)}
    cases["other"] = noisy(50, (12, 0.8), seed=9)
    cases["later"] = noisy(58, (30, 1.2), seed=11)
    with open_store(url) as store:
        add_nights(store, {key: values[:50] for key, values in cases.items() if key != "later"})
        detect(store)
        together = {one.series.case: one.incident for one in store.findings()}
        add_nights(store, {"later": cases["later"]})
        detect(store)
        found = {one.series.case: one.incident for one in store.findings()}
    assert len({together[f"case-{number}"] for number in range(4)}) == 1
    assert together["other"] != together["case-0"]
    assert found == {**together, "later": together["case-0"]}


def test_environments_and_sources_are_suspects(url: str) -> None:
    before = {**ENVIRONMENT, "kernel": "6.1.0", "cpu": {"model": "fast"}, "packages": ["dask==1", "gone==1"]}
    after = {
        **{**before, "id": "env-2", "kernel": "6.1.9", "packages": ["dask==2", "added==1"]},
        **{"python": {"version": "3.12.1"}, "variables": {"OMP_NUM_THREADS": "1", "CI_JOB": "7"}},
    }
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(25)}, environment=before)
        add_nights(store, {"sort": noisy(25, (0, 1.5))}, first=26, environment=after)
        detect(store)
        (found,) = store.findings()
    told = [
        (one["kind"], one.get("name"), one.get("before"), one.get("after"))
        for one in found.suspects
        if one["kind"] != "commits"
    ]
    assert told == [
        ("package", "added", None, "1"),
        ("package", "dask", "1", "2"),
        ("package", "gone", "1", None),
        ("environment", "kernel", "6.1.0", "6.1.9"),
        ("environment", "python.version", "3.11.7", "3.12.1"),
        ("environment", "variables.OMP_NUM_THREADS", None, "1"),
    ]
    assert found.suspects[0] == {"kind": "commits", "from": f"{25:040x}", "to": f"{26:040x}"}


def test_points_are_in_commit_order_where_the_repository_knows_them(tmp_path: Path) -> None:
    names = make_repository(tmp_path / "repo", 40)
    # Every second commit was measured only afterwards, as somebody does who fills in a history.
    order = [*range(0, 40, 2), *range(1, 40, 2)]
    values = noisy(40, (20, 1.3))
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": [values[i] for i in order]}, revisions=[names[i] for i in order])
        detect(store)
        in_time = [one.first_bad.revision for one in store.findings()]
        detect(store, Repository(tmp_path / "repo"))
        (found,) = [one for one in store.findings() if one.state == "new"]
        assert detect(store).cases == 0, "a search in commit order stays until there is something new"
    assert len(in_time) != 1 or in_time != [names[20]]
    assert (found.last_good.revision, found.first_bad.revision) == (names[19], names[20])
    (commit,) = found.suspects
    assert (commit["kind"], commit["revision"], commit["subject"], commit["author"]) == (
        *("commit", names[20], "Change number 20", "Demo"),
    )


def test_many_quiet_series_raise_next_to_no_alarm(tmp_path: Path) -> None:
    cases = {f"case-{number}": noisy(60, seed=number, noise=0.05) for number in range(150)}
    cases["slow"] = noisy(60, (40, 1.4), seed=999, noise=0.05)
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, cases)
        assert detect(store).series == 151
        assert [one.series.case for one in store.findings()] == ["slow"]


def test_the_last_word_counts_however_fast_it_came(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.history.findings.utc_now", lambda: "2026-03-01T00:00:00.999Z")
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(40, (20, 1.3))})
        detect(store)
        (found,) = store.findings()
        for number in range(6):
            store.say(found.id, "expected" if number % 2 else "false", why=f"word {number}", who="a reader")
            (kept,) = store.findings()
            assert kept.said and kept.said.why == f"word {number}"
    assert kept.said.at == "2026-03-01T00:00:01.004Z"


def test_a_verdict_is_kept_whatever_the_detector_says_next(url: str) -> None:
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(40, (20, 1.3))})
        detect(store)
        (found,) = store.findings()
        said = store.say(found.id[:6], "false", why="a backup ran", who="keeper")
        assert (said.id, said.state) == (found.id, "false")
        store.say(found.id, "expected", why="more rows", who="reader")
        add_nights(store, {"sort": noisy(40, seed=5)}, first=1)  # the files say otherwise now
        detect(store)
        (kept,) = store.findings()
        assert kept.said and (kept.state, kept.said.who, kept.said.why) == ("expected", "reader", "more rows")
        assert not kept.stands
        with pytest.raises(
            HistoryError, match=r"no finding 'nope' in .*'paceline regressions' shows their ids"
        ):
            store.say("nope", "false", why="", who="")


def test_findings_and_verdicts_are_merged(url: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "job.db") as job:
        add_nights(job, {"sort": noisy(40, (20, 1.3))})
        detect(job)
        (found,) = job.findings()
        job.say(found.id, "expected", why="more rows", who="keeper")
    with open_store(url) as store:
        for _ in range(2):
            store.merge_from(tmp_path / "job.db")
            detect(store)
            (merged,) = store.findings()
            assert (merged.id, merged.state, merged.said and merged.said.who) == (
                found.id,
                "expected",
                "keeper",
            )


def test_what_rests_on_pruned_nights_stays(url: str) -> None:
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(60, (20, 1.3))})
        detect(store)
        (found,) = store.findings()
        store.prune(older_than="2026-02-05")
        assert detect(store).series == 1
        assert [(one.id, one.stands) for one in store.findings()] == [(found.id, True)]


def test_a_renamed_case_keeps_its_findings(url: str) -> None:
    with open_store(url) as store:
        add_nights(store, {"sort": noisy(40, (20, 1.3))})
        detect(store)
        (found,) = store.findings()
        store.alias("sort", "order")
        detect(store)
        assert [(one.id, one.series.case) for one in store.findings()] == [(found.id, "order")]

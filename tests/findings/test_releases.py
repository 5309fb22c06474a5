"""What changed since each release, by the changes that were found, and which commits own it."""

import json
import math
from pathlib import Path

import pytest

from findings_nights import add_nights, make_repository, noisy
from git_commands import git
from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.findings.order import read_order
from paceline.findings.releases import Ledger, ledger_json, read_ledger
from paceline.findings.telling import tell
from paceline.history import Store, open_store
from workplace import Workplace


def tagged(directory: Path, commits: int, tags: dict[str, int]) -> list[str]:
    names = make_repository(directory, commits)
    for tag, number in tags.items():
        git(directory, "tag", tag, names[number])
    return names


def ledger_of(store: Store, directory: Path, **wanted: object) -> Ledger:
    repository = Repository(directory)
    detect(store, repository)
    return read_ledger(store, read_order(store, repository), tell(store, store.findings()), **wanted)  # type: ignore[arg-type]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Ninety commits and three releases: one case gets slower twice, one faster once, one stays as it is."""
    names = tagged(tmp_path / "repo", 90, {"v1.0": 10, "v1.1": 40, "v2.0": 70, "other": 75})
    with open_store(tmp_path / "benchmark.db") as store:
        series = {
            "slower": noisy(90, (25, 1.2), (60, 1.1), seed=1),
            "faster": noisy(90, (50, 0.8), seed=2),
            "same": noisy(90, seed=3),
            "late": noisy(90, seed=4)[:30],
        }
        add_nights(store, {name: series[name] for name in ("slower", "faster", "same")}, revisions=names)
        add_nights(store, {"late": series["late"]}, first=200, revisions=names[60:])
    return tmp_path


def test_changes_since_each_release(history: Path) -> None:
    with open_store(history / "benchmark.db") as store:
        ledger = ledger_of(store, history / "repo", tags=["v*"])
    assert [one.name for one in ledger.releases] == ["v1.0", "v1.1", "v2.0"]
    rows = {row.series.case: row for row in ledger.rows}

    def told(case: str) -> list[tuple[float, str] | None]:
        return [one and (round(one.change, 1), one.verdict) for one in rows[case].since]

    assert told("slower") == [(0.3, "worse"), (0.1, "worse"), (0.0, "same")]
    assert told("faster") == [(-0.2, "better"), (-0.2, "better"), (0.0, "same")]
    assert told("same") == [(0.0, "same")] * 3
    assert told("late") == [None, None, (0.0, "same")]
    assert next(iter(rows)) == "slower"


def test_the_largest_changes_own_most_of_the_mean(history: Path) -> None:
    with open_store(history / "benchmark.db") as store:
        ledger = ledger_of(store, history / "repo", tags=["v1.0"], cases=["slower", "same"])
    (balance,) = ledger.balances
    assert balance.series == 2
    assert balance.change == pytest.approx(math.sqrt(1.2 * 1.1) - 1, abs=0.01)
    first, second = balance.owners
    assert first.share == pytest.approx(math.log(1.2) / math.log(1.32), abs=0.05)
    assert first.share + second.share == pytest.approx(1, abs=0.05)
    assert first.findings[0].first_bad.revision
    data = json.loads(json.dumps(ledger_json(ledger)))
    assert data["balances"][0]["owners"][0]["findings"] == [first.findings[0].id]
    assert data["rows"][0]["since"][0]["verdict"] == "worse"


def test_releases_alone_are_compared_by_their_samples(tmp_path: Path) -> None:
    """As after `run --tags`: a point a release, in which no detector can see a change."""
    names = tagged(tmp_path / "repo", 30, {"v1": 0, "v2": 10, "v3": 20, "v4": 29})
    with open_store(tmp_path / "benchmark.db") as store:
        from paceline.model import Measurement
        from stored_records import ENVIRONMENT, record, session

        for number, (at, level) in enumerate(((0, 10.0), (10, 10.0), (20, 12.0), (29, 12.0)), start=1):
            samples = tuple(level * (1 + 0.001 * step) for step in range(-5, 6))
            metrics = {"wall_s": Measurement(value=level, unit="s", direction="lower", samples=samples)}
            told = {"revision": names[at]}
            store.add(
                session(number, **told), ENVIRONMENT, [record("sort", number=number, metrics=metrics, **told)]
            )
        ledger = ledger_of(store, tmp_path / "repo")
    (row,) = ledger.rows
    assert [one and one.verdict for one in row.since] == ["worse", "worse", "same", "same"]
    assert row.since[0] and row.since[0].change == pytest.approx(0.2)


def test_the_command_names_the_owners(history: Path) -> None:
    place = Workplace(history)
    words = ("releases", "--repo", "repo", "--db", "benchmark.db")
    done = place.run(*words, "--tag", "v*")
    assert done.returncode == 0, done.stderr
    head, first, *_ = done.stdout.splitlines()
    assert head.split()[-6:] == ["since", "v1.0", "since", "v1.1", "since", "v2.0"]
    assert first.startswith("slower") and "worse" in first and first.rstrip().endswith("=")
    assert "since v1.0, the mean of 3 series: " in done.stdout
    assert "Change number" in done.stdout
    markdown = place.run(*words, "--last", "1", "--markdown")
    assert markdown.stdout.startswith("| case | metric | now | since other |")
    nothing = place.run(*words, "--tag", "w*")
    assert nothing.returncode == 2 and "no tag that fits w* is at a measured commit" in nothing.stderr

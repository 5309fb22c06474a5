"""The closed loop: nights in a row, of which one brings a regression that is found, confirmed and named."""

import json
from collections.abc import Iterable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from demo_repo import SCRIPT, SUITE, DemoRepo, make_repo, make_wheel
from git_commands import git
from paceline.cli import cli
from paceline.errors import PacelineError
from paceline.experiments.nightly.night import run_nightly
from paceline.model import Report
from paceline.run.context import SilentListener
from paceline.session.request import Request
from workplace import Workplace

SINK = """
sinks:
  - type: files
    directory: delivered
"""


@pytest.fixture
def demo(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("DEMO_LEDGER", str(place.path / "ledger"))
    monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
    place.write("work.py", SCRIPT)
    return place


def spend(place: Workplace, name: str) -> Report:
    """A night, in this process."""
    with chdir(place.path):
        return run_nightly(Request(configs=(Path("nightly.yaml"),), session_name=name), SilentListener())


def nights(place: Workplace, names: Iterable[str]) -> Iterator[tuple[str, Report]]:
    """Nights one after the other, until one finds something that got worse."""
    for name in names:
        report = spend(place, name)
        yield name, report
        if not report.ok:
            return


def delivered(place: Workplace, session: str) -> dict[str, Any]:
    """The finding that the file sink was sent at the end of a session."""
    summary = json.loads((place.path / f"delivered/{session}.summary.json").read_text())
    assert summary["ok"] is False
    (finding,) = summary["findings"]
    assert isinstance(finding, dict)
    return finding


def commit_nights(repo: DemoRepo) -> Iterator[str]:
    for number in range(3, 41, 3):
        repo.checkout(number)
        yield f"commit-{number}"


def test_a_commit_is_found_confirmed_named_and_reported(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=40, culprit=25)
    demo.write("nightly.yaml", f"{SUITE}{SINK}nightly:\n  repo: repo\n  metrics: [work_s]\n")
    told = dict(nights(demo, commit_nights(repo)))
    session, report = list(told.items())[-1]
    assert all(other.ok and not other.findings for other in list(told.values())[:-1])
    finding = delivered(demo, session)
    assert (finding["verdict"], finding["metric"]) == ("worse", "work_s")
    assert (finding["stage"], finding["culprit"]["revision"]) == ("bisected", repo.revision(25))
    assert finding["evidence"]["culprit"] == repo.revision(25)
    assert finding["evidence"]["confirmed"] is True
    assert "walk the long way" in finding["message"]
    assert 0.05 < finding["low"] < finding["effect"] < finding["high"] < 0.3
    assert "walk the long way" in (demo.path / f"results/{session}/report.md").read_text()
    assert report.exit_code == 1
    # The night after, by the command itself: the same culprit is told again, and nothing is run for it.
    ran = len(demo.ran())
    git(repo.path, "checkout", "--quiet", "main")
    done = demo.run("nightly", "nightly.yaml", "--session-name", "after", "--json")
    assert done.returncode == 1, done.stderr
    again = json.loads(done.stdout)["findings"][0]
    assert again["evidence"]["culprit"] == repo.revision(25)
    assert len(demo.ran()) == ran + 1
    # What was confirmed is in the history, and its bracket can be taken from there; the runs of the night count.
    listed = json.loads(demo.run("regressions", "--json").stdout)
    (known,) = [one for one in listed if one["metric"] == "work_s"]
    assert (known["stage"], known["culprit"]["revision"]) == ("bisected", repo.revision(25))
    assert known["culprit"]["probability"] >= 0.95 and known["culprit"]["author"]
    assert [one["revision"] for one in known["suspects"]] == [repo.revision(25)]
    assert known["said"] is None
    words = ("--regression", known["id"][:6], "--config", "nightly.yaml", "--repo", "repo", "--json")
    done = demo.run("bisect", *words)
    assert json.loads(done.stdout)["culprit"] == repo.revision(25), done.stderr
    assert json.loads(done.stdout)["regression"] == known["id"]
    assert len(demo.ran()) == ran + 1


def test_a_version_of_a_dependency_is_found_when_only_that_changed(demo: Workplace) -> None:
    make_repo(demo.path / "repo", commits=1)
    make_wheel(demo.path / "wheels", "1.0", 1.0)
    where = "  packages: [demo-dep]\n  find_links: [wheels]\n  no_index: true\n"
    demo.write("nightly.yaml", f"{SUITE}{SINK}nightly:\n  repo: repo\n  metrics: [work_s]\n{where}")
    assert all(report.ok for _, report in nights(demo, [f"quiet-{number}" for number in range(9)]))
    for version, factor in (("1.1", 1.0), ("1.2", 1.0), ("1.3", 1.25), ("1.4", 1.25)):
        make_wheel(demo.path / "wheels", version, factor)
    *_, (session, report) = nights(demo, [f"upgraded-{number}" for number in range(9)])
    assert report.exit_code == 1
    finding = delivered(demo, session)
    assert finding["evidence"]["culprit"] == "demo-dep==1.3", finding["message"]
    assert finding["evidence"]["kind"] == "version"
    assert "demo-dep 1.2 → 1.3" in finding["message"]


def test_a_night_tells_of_its_metrics_only(demo: Workplace) -> None:
    demo.write("work.py", f"{SCRIPT}\nemit.metrics({{'side_s': (1 if run < 9 else 3) * noise}})\n")
    demo.write("repo/seconds.txt", "2.0")
    demo.write("repo/step.txt", "0")
    demo.write("nightly.yaml", f"{SUITE}nightly:\n  metrics: [work_s]\n")
    assert all(report.ok for _, report in nights(demo, [f"night-{number}" for number in range(16)]))
    listed = json.loads(demo.run("regressions", "--json").stdout)
    assert "side_s" in {one["metric"] for one in listed}


def test_odd_values_are_run_again_where_there_is_nothing_to_go_back_to(
    demo: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_NOISE", "0.01")
    seconds = demo.write("repo/seconds.txt", "2.0")
    demo.write("repo/step.txt", "0")
    demo.write("nightly.yaml", f"{SUITE}nightly:\n  metrics: [work_s]\n  confirm_runs: 4\n")
    assert all(report.ok for _, report in nights(demo, [f"quiet-{number}" for number in range(7)]))
    # A disk that was slow for one run: it does not come again.
    demo.write("work.py", f"{SCRIPT}\nif run == 8:\n    emit.metrics({{'work_s': 3.0}})\n")
    odd = spend(demo, "odd")
    assert [finding.verdict for finding in odd.findings] == ["inconclusive"]
    assert odd.findings[0].message.startswith("Not confirmed")
    assert odd.exit_code == 0
    seconds.write_text("2.4")
    (finding,) = spend(demo, "slow").findings
    assert finding.verdict == "worse"
    assert finding.message.startswith("Confirmed by 4 runs, held against 7 nights before: +")
    assert "Weaker evidence" in finding.message
    assert finding.evidence["culprit"] is None


def test_a_night_with_nothing_to_say_runs_every_case_once(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=3)
    git(repo.path, "checkout", "--quiet", repo.revision(3))
    git(repo.path, "branch", "--force", "main", repo.revision(2))
    options = "  repo: repo\n  ref: main\n  setup: sh build.sh\n"
    demo.write("nightly.yaml", f"{SUITE}nightly:\n{options}")
    done = demo.run("nightly", "nightly.yaml", "--json", "--session-name", "one")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["records"][0]["revision"] == repo.revision(2)
    assert demo.ran() == ["2"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("history: {enabled: false}\nnightly: {}\n", "needs the history"),
        ("nightly: {repo: nowhere}\n", "is in no git repository"),
        ("nightly: {budget: soon}\n", "nightly.yaml:5: nightly.budget: expected a time such as"),
        ("nightly: {confidence: 2}\n", "nightly.yaml:5: nightly.confidence"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(demo: Workplace, text: str, complaint: str) -> None:
    demo.write("nightly.yaml", f"{SUITE}{text}")
    with chdir(demo.path), pytest.raises(PacelineError) as raised:
        cli.main(["nightly", "nightly.yaml"], standalone_mode=False)
    assert raised.value.exit_code == 2
    assert complaint in str(raised.value)
    assert demo.ran() == []

"""`paceline compare`: sessions, revisions, branches, environments and files."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from findings_nights import make_repository
from git_commands import git
from in_process import Here, make_here
from paceline.history import open_store
from paceline.model import Status
from stored_records import ENVIRONMENT, measured, record, session

OTHER = {**ENVIRONMENT, "id": "env-9", "class_id": "class-9", "comparable": {"cpu": "slow", "cpus": 2}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def samples(level: float, seed: int, count: int = 8) -> list[float]:
    rng = random.Random(seed)
    return [level * rng.lognormvariate(0, 0.01) for _ in range(count)]


def add(
    here: Here, number: int, levels: dict[str, float], *, environment: Any = ENVIRONMENT, **told: Any
) -> None:
    """A session with 8 samples of `wall_s` and of `rows_per_s` for each case; a level of 0 is a failed one."""
    records = []
    for key, level in levels.items():
        times = samples(level or 1.0, number)
        rates = [100 / time for time in times]
        metrics = {
            "wall_s": measured(sorted(times)[4], *times),
            "rows_per_s": measured(sorted(rates)[4], *rates, unit="rows/s", direction="higher"),
            "count": measured(number, unit=None, direction=None),
        }
        status = Status.PASSED if level else Status.FAILED
        records.append(
            record(
                key,
                number=number,
                metrics=metrics,
                status=status,
                environment=environment["id"],
                revision=told.get("revision", ""),
            )
        )
    with open_store(here.path / "results/benchmark.db") as store:
        store.add(session(number, **{"revision": "", **told}), environment, records)


def compared(here: Here, *words: str, code: int = 0) -> dict[str, Any]:
    done = here.run("compare", "--json", *words)
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verdicts(found: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(one["case"], one["metric"]): one["verdict"] for one in found["comparisons"]}


def test_two_sessions(here: Here) -> None:
    add(here, 1, {"sort": 1.0, "join": 1.0, "sum": 1.0, "gone": 1.0, "broken": 1.0})
    add(here, 2, {"sort": 1.2, "join": 0.5, "sum": 1.0, "added": 1.0, "broken": 0})
    found = compared(here, "night-1", "night-2", code=1)
    assert verdicts(found) == {
        **{("sort", metric): "worse" for metric in ("wall_s", "rows_per_s")},
        **{("join", metric): "better" for metric in ("wall_s", "rows_per_s")},
        **{("sum", metric): "same" for metric in ("wall_s", "rows_per_s")},
    }
    assert [one["case"] for one in found["comparisons"]] == ["join"] * 2 + ["sort"] * 2 + ["sum"] * 2
    for one in found["comparisons"]:
        assert one["low"] <= one["ratio"] <= one["high"] and 0 < one["minimum_detectable"] < 0.1
        assert one["samples"] == [8, 8]
    missing = {(one["case"], one["metric"], one["side"], one["why"], one["kind"]) for one in found["missing"]}
    assert missing == {
        ("gone", None, "night-2", "", "gone"),
        ("broken", None, "night-2", "failed", "failing"),
        ("added", None, "night-1", "", "new"),
    }
    assert abs(found["geometric_mean"]["wall_s"] - (1.2 * 0.5) ** (1 / 3)) < 0.02
    assert verdicts(compared(here, "night-1", "night-2", "--case", "j*", "--metric", "wall*")) == {
        ("join", "wall_s"): "better"
    }
    lines = here.run("compare", "night-1", "night-2").stdout.splitlines()
    assert lines[0] == "2 worse, 2 better, 2 same, 0 inconclusive, 1 failing, 1 gone of 6 comparisons"
    assert lines[1:3] == ["A  session night-1", "B  session night-2"]
    assert "fails in night-2: broken (failed)" in lines
    markdown = here.run("compare", "night-1", "night-2", "--markdown").stdout
    assert "| better | join | wall_s |" in markdown and "- geometric mean of wall_s over 3 cases" in markdown


def test_unlike_machines_are_refused_or_flagged(here: Here) -> None:
    add(here, 1, {"sort": 1.0}, environment={**ENVIRONMENT, "comparable": {"cpu": "fast", "cpus": 2}})
    add(here, 2, {"sort": 1.5}, environment=OTHER)
    done = here.run("compare", "night-1", "night-2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ran on unlike machines (cpu fast → slow): --force compares" in done.stderr
    assert compared(here, "night-1", "night-2", "--force", code=1)["unlike_machines"] == ["cpu fast → slow"]
    found = compared(here, "env:env-1", "env:class-9", code=1)
    assert verdicts(found)["sort", "wall_s"] == "worse" and found["unlike_machines"]


def test_only_like_machines_count_where_both_sides_have_some(here: Here) -> None:
    add(here, 1, {"sort": 1.0}, revision="a" * 40)
    add(here, 2, {"sort": 9.0}, revision="a" * 40, environment=OTHER)
    add(here, 3, {"sort": 1.0}, revision="b" * 40)
    assert verdicts(compared(here, "aaaa", "bbbb"))["sort", "wall_s"] == "same"


def test_revisions_branches_and_tags(here: Here) -> None:
    names = make_repository(here.path / "code", 3)
    git(here.path / "code", "tag", "v1", names[0])
    for number, (name, level) in enumerate(((names[0], 1.0), (names[0], 1.0), (names[0], 1.0)), start=1):
        add(here, number, {"sort": level}, revision=name, branch="main")
    for number in range(4, 7):
        add(here, number, {"sort": 1.3}, revision=names[2], branch="slow")
    for sides in ((names[0][:8], names[2][:12]), ("v1", "main"), ("main", "slow")):
        code = 1 if sides != ("main", "slow") else 0
        found = compared(here, *sides, "--repo", "code", "--metric", "wall_s", code=code)
        (one,) = found["comparisons"]
        # In the repository, main is the newest commit; only there `slow` is unknown.
        assert one["verdict"] == ("worse" if code else "same") and one["samples"] == [24, 24]
    assert verdicts(compared(here, "main", "slow", code=1))["sort", "wall_s"] == "worse"


def test_files_of_ours_and_of_other_tools(here: Here) -> None:
    suite = 'entries: [{name: sort, command: ["true"], repeat: 3}]\n'
    (here.path / "paceline.yaml").write_text(suite)
    for name in ("one", "two"):
        assert here.run("run", "-q", "--no-history", "--session-name", name).returncode == 0
    for sides in (
        ("results/one/sort/record.json", "results/two/sort/record.json"),
        ("results/one/report.json", "results/two/report.json"),
        ("one", "results/two"),
    ):
        done = here.run("compare", "--json", "--metric", "exec_time_s", *sides)
        (one,) = json.loads(done.stdout)["comparisons"]
        assert done.returncode in (0, 1) and (one["case"], one["samples"]) == ("sort", [3, 3])
    for name, factor in (("old.json", 1.0), ("new.json", 2.0)):
        times = [factor * time for time in samples(1.0, 1)]
        result = {
            "command": "sleep 1",
            "mean": 1.0,
            "stddev": 0.01,
            "median": 1.0,
            "user": 0.1,
            "system": 0.1,
        }
        result |= {"min": 1.0, "max": 1.0, "times": times, "exit_codes": [0] * len(times)}
        (here.path / name).write_text(json.dumps({"results": [result]}))
    found = compared(here, "old.json", "new.json", "--anyway", code=1)
    assert "worse" in set(verdicts(found).values())


def test_names_that_mean_nothing(here: Here) -> None:
    add(here, 1, {"sort": 1.0}, revision="ab" * 20)
    add(here, 2, {"sort": 1.0}, revision="ac" + "b" * 38)
    add(here, 3, {"sort": 1.0}, revision="acb1" + "b" * 36)
    for words, told in (
        (("nope", "night-1"), "'nope' is no session, revision, branch or file here"),
        (("acb", "night-1"), "'acb' is no session"),
        (("env:zzz", "night-1"), "environment zzz"),
        (("results/benchmark.db", "night-1"), "is a whole history"),
        (("night-1", "night-2", "--case", "other"), "nothing was compared"),
    ):
        done = here.run("compare", *words)
        assert done.returncode == 2 and told in done.stderr, (words, done.stderr)
    done = here.run("compare", "acbb", "acb1")
    assert done.returncode == 0


def test_one_sample_says_nothing_about_noise(here: Here) -> None:
    with open_store(here.path / "results/benchmark.db") as store:
        for number in (1, 2):
            store.add(session(number), ENVIRONMENT, [record(value=float(number), number=number)])
    done = here.run("compare", "night-1", "night-2")
    assert done.returncode == 0 and "one sample on a side says nothing about noise" in done.stdout
    assert "inconclusive" in done.stdout and "+100 %" in done.stdout

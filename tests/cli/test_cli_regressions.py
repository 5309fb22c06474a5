"""`paceline regressions` and `paceline verdict`, by their real command lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from findings_nights import add_nights, make_repository, noisy
from in_process import Here, make_here
from paceline.history import open_store
from workplace import Workplace


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


@pytest.fixture
def nights(here: Here) -> Here:
    """Forty nights: one case gets slower, one faster, one stays."""
    cases = {
        "sort": noisy(40, (25, 1.3)),
        "join[n=1]": noisy(40, (10, 0.7), seed=2),
        "sum": noisy(40, seed=3),
    }
    with open_store(here.path / "benchmark.db") as store:
        add_nights(store, cases)
    return here


def listed(place: Here, *words: str, code: int = 1) -> list[dict[str, Any]]:
    done = place.run("regressions", "--json", *words)
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_changes_are_listed_and_filtered(nights: Here) -> None:
    worse, better = listed(nights)
    assert (worse["case"], worse["metric"], worse["verdict"], worse["state"]) == (
        "sort",
        "wall_s",
        "worse",
        "new",
    )
    assert (better["case"], better["verdict"]) == ("join[n=1]", "better")
    assert worse["low"] <= worse["effect"] <= worse["high"] and 0 <= worse["p_value"] < 0.01
    assert worse["last_good"] == {
        "revision": f"{25:040x}",
        "session": "night-25",
        "time": "2026-01-26T00:00:00.000Z",
    }
    assert worse["first_bad"]["session"] == "night-26" and worse["incident"] != better["incident"]
    assert [one["case"] for one in listed(nights, "--case", "join", code=0)] == ["join[n=1]"]
    assert [one["case"] for one in listed(nights, "--case", "s*")] == ["sort"]
    assert listed(nights, "--metric", "rows", code=0) == []
    assert [one["case"] for one in listed(nights, "--since", "2026-01-20")] == ["sort"]
    assert listed(nights, "--state", "false", code=0) == []
    done = nights.run("regressions", "--since", "yesterdayish")
    assert done.returncode == 2 and "is no time" in done.stderr


def test_a_case_that_is_not_there_is_not_said_to_be_unchanged(nights: Here) -> None:
    done = nights.run("regressions", "--case", "srot")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no case 'srot' in" in done.stderr
    assert "did you mean 'sort'?" in done.stderr
    assert nights.run("regressions", "--case", "sum").stdout == "nothing changed\n"


def test_the_table_is_plain_when_piped_and_coloured_when_asked(nights: Here) -> None:
    place = Workplace(nights.path)
    done = place.run("regressions", PYTHONIOENCODING="utf-8")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and "\x1b" not in done.stdout
    assert lines[0].split() == ["id", "case", "metric", "change", "p", "state"]
    assert "after night-25 (0000000000), by night-26" in lines[2] and "sort" in lines[3] and "█" in lines[3]
    assert lines[-1] == "1 worse (1 new) and 1 better in 2 incidents"
    painted = place.run("regressions", FORCE_COLOR="1", NO_COLOR="", PYTHONIOENCODING="ascii")
    assert "\x1b[31m" in painted.stdout and "\x1b[32m" in painted.stdout and painted.stdout.isascii()


def test_a_verdict_ends_the_alarm(nights: Here) -> None:
    (worse, _) = listed(nights)
    done = nights.run("verdict", worse["id"][:5], "false", "--why", "a *backup* ran", "--who", "Demo")
    assert (done.returncode, done.stdout) == (0, f"{worse['id']} sort wall_s is now false\n")
    (told,) = listed(nights, "--state", "false", code=0)
    assert (
        told["id"] == worse["id"]
        and told["said"]["why"] == "a *backup* ran"
        and told["said"]["who"] == "Demo"
    )
    assert "false by Demo on" in nights.run("regressions").stdout
    markdown = nights.run("regressions", "--markdown").stdout
    assert (
        markdown.startswith("## Changes\n")
        and "a \\*backup\\* ran" in markdown
        and "| 🔺 | sort |" in markdown
    )
    assert nights.run("verdict", worse["incident"], "new").returncode == 0
    assert listed(nights)[0]["state"] == "new"


def test_what_a_verdict_needs(nights: Here) -> None:
    (worse, _) = listed(nights)
    for words, told in (
        ((worse["id"], "false"), "say --why it is false"),
        ((worse["id"], "broken"), "is not one of 'new', 'acknowledged'"),
        (("nope", "acknowledged"), "no finding 'nope'"),
    ):
        done = nights.run("verdict", *words)
        assert done.returncode == 2 and told in done.stderr
    assert nights.run("regressions", "--json", "--markdown").returncode == 2


def test_replay_counts_by_the_verdicts(nights: Here) -> None:
    assert "nobody has said anything" in nights.run("regressions", "--replay").stdout
    worse, better = listed(nights)
    for one, state in ((worse, "acknowledged"), (better, "false")):
        assert nights.run("verdict", one["id"], state, "--why", "so").returncode == 0
    done = json.loads(nights.run("regressions", "--replay", "--json").stdout)
    assert (done["precision"], done["recall"], done["series"], done["unlabelled"]) == (0.5, 1.0, 2, 0)
    assert "recall     100 % (1 of 1)" in nights.run("regressions", "--replay").stdout


def test_commits_of_the_repository_are_suspects(here: Here) -> None:
    names = make_repository(here.path / "code", 30)
    with open_store(here.path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(30, (15, 1.4))}, revisions=names)
    (found,) = listed(here, "--repo", "code")
    assert [(one["kind"], one["revision"]) for one in found["suspects"]] == [("commit", names[15])]
    assert "Change number 15" in here.run("regressions").stdout, "kept for whoever has no repository"
    done = here.run("regressions", "--repo", str(Path("/")))
    assert done.returncode == 2 and "is in no git repository" in done.stderr


def test_a_quiet_history_says_so(here: Here) -> None:
    with open_store(here.path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(20)})
    done = here.run("regressions")
    assert (done.returncode, done.stdout) == (0, "nothing changed\n")
    assert "Nothing changed." in here.run("regressions", "--markdown").stdout
    done = here.run("regressions", "--db", "missing.db")
    assert done.returncode == 2 and "no history at" in done.stderr


@pytest.mark.parametrize("name", ["regressions", "verdict", "compare"])
def test_help_has_examples(name: str, here: Here) -> None:
    done = here.run(name, "--help")
    assert done.returncode == 0 and f"paceline {name} " in done.stdout.split("Examples:")[1]


CULPRIT = {"kind": "commit", "revision": "c" * 40, "subject": "Sort twice", "author": "Ann"}


def test_a_culprit_stands_first_and_no_suspect_beside_it(nights: Here) -> None:
    before, _ = listed(nights)
    with open_store(nights.path / "benchmark.db") as store:
        assert store.finding(before["id"]).suspects
        store.settle(store.finding(before["id"]), "bisected", {**CULPRIT, "probability": 0.97, "runs": 12})
    worse, _ = listed(nights)
    assert (worse["stage"], worse["culprit"]["probability"]) == ("bisected", 0.97)
    assert [one["revision"] for one in worse["suspects"]] == ["c" * 40]
    names = list(worse)
    assert names.index("culprit") < names.index("suspects")
    lines = nights.run("regressions", "--case", "sort").stdout.splitlines()
    assert lines[3] == "    culprit cccccccccc 'Sort twice' by Ann (97 % sure, 12 runs)"
    assert "new, bisected" in lines[4] and not any("suspect:" in line for line in lines)
    markdown = nights.run("regressions", "--case", "sort", "--markdown").stdout
    assert "culprit cccccccccc 'Sort twice' by Ann (97 % sure, 12 runs)" in markdown


def test_what_did_not_reproduce_fails_nothing_and_is_listed_as_such(nights: Here) -> None:
    before, _ = listed(nights)
    with open_store(nights.path / "benchmark.db") as store:
        store.settle(store.finding(before["id"]), "not_reproduced")
    worse, _ = listed(nights, code=0)
    assert (worse["stage"], worse["verdict"], worse["culprit"]) == ("not_reproduced", "inconclusive", None)
    done = nights.run("regressions", "--case", "sort")
    assert done.returncode == 0 and "not reproduced" in done.stdout and "suspect" not in done.stdout
    assert done.stdout.splitlines()[-1] == "0 worse (0 new) and 0 better and 1 not reproduced in 1 incident"
    assert listed(nights, "--case", "sort", "--state", "new", code=0) == []
    # A word of a human counts as before.
    assert nights.run("verdict", before["id"], "acknowledged", "--why", "seen too").returncode == 0
    assert "acknowledged by" in nights.run("regressions", "--case", "sort").stdout

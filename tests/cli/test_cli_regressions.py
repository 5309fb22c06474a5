"""`paceline regressions` and `paceline verdict`, by their real command lines."""

import json
import re
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
    with open_store(here.path / "results/benchmark.db") as store:
        add_nights(store, cases)
    return here


def listed(place: Here, *words: str, code: int = 1) -> list[dict[str, Any]]:
    done = place.run("regressions", "--json", *words)
    # The nights are of last winter.
    notes = [line for line in done.stderr.splitlines() if not line.startswith("no session since 2026-")]
    assert (done.returncode, notes) == (code, []), done.stderr
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


def test_the_list_is_plain_when_piped_and_coloured_when_asked(nights: Here) -> None:
    place = Workplace(nights.path)
    done = place.run("regressions", PYTHONIOENCODING="utf-8")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and "\x1b" not in done.stdout
    assert lines[0] == "1 open regression in 1 series, 1 of the last 30 days"
    assert lines[2].split() == ["incident", "change", "verdict", "case", "metric", "age"]
    assert re.fullmatch(r"i\w+  \+3\d\.\d %  worse    sort  wall_s  17 days  [▁-█]{16}", lines[3])
    assert re.fullmatch(r"    suspect: commits 0{10}\.\.0{10} · \+[\d.]+ % to \+[\d.]+ %", lines[4])
    ident = lines[3].split()[0]
    assert lines[6:] == [
        "not listed: 1 better (--all)",
        "the open ones were there when the history was first searched: they fail no session",
        f"Next: paceline regressions {ident}",
    ]
    whole = place.run("regressions", ident, PYTHONIOENCODING="utf-8").stdout
    assert "    after night-25 (0000000000), by night-26 (0000000000)\n" in whole
    painted = place.run("regressions", "--all", FORCE_COLOR="1", NO_COLOR="", PYTHONIOENCODING="ascii")
    assert "\x1b[31m" in painted.stdout and "\x1b[32m" in painted.stdout and painted.stdout.isascii()


def test_the_list_is_cut_and_its_rest_counted(here: Here) -> None:
    """A first look at a long past is a summary: the largest first, the others by number."""
    steps = {f"case-{at:02}": noisy(60, (4 * at + 4, 1.05 + 0.05 * at), seed=at) for at in range(13)}
    with open_store(here.path / "results/benchmark.db") as store:
        add_nights(store, steps)
    found = listed(here)
    incidents = list(dict.fromkeys(one["incident"] for one in found))
    printed = here.run("regressions").stdout.splitlines()
    assert [line.split()[0] for line in printed if line.startswith("i")] == ["incident", *incidents[:10]]
    assert f"… {len(incidents) - 10} more: --top {len(incidents)} lists all" in printed[-3]
    assert here.run("regressions", "--top", "2").stdout.count("\ni") == 3, "and the line of titles"
    large = listed(here, "--above", "40%")
    assert 0 < len(large) < len(found) and all(one["effect"] >= 0.4 for one in large)
    whole = here.run("regressions", incidents[-1]).stdout
    assert whole.startswith(f"1 incident: 1 open\n\n{incidents[-1]}  +")
    assert f"\n\n{found[0]['incident']}  +" in here.run("regressions", found[0]["id"][:6]).stdout
    for words in (("--above", "large"), ("nope",)):
        assert here.run("regressions", *words).returncode == 2


def test_a_series_that_ended_is_not_open(here: Here) -> None:
    """A machine that is gone cannot show that anybody fixed anything."""
    other = {"id": "env-2", "class_id": "class-2", "hostname": "new", "python": {"version": "3.13.1"}}
    with open_store(here.path / "results/benchmark.db") as store:
        add_nights(store, {"sort": noisy(40, (25, 1.3))})
        add_nights(store, {"sort": noisy(30, seed=5)}, first=110, environment=other)
    (found,) = listed(here, code=0)
    assert (found["state"], found["ended"][:10], found["series_name"]) == ("new", "2026-02-13", "Python 3.11")
    done = here.run("regressions")
    assert (done.returncode, done.stdout) == (
        0,
        "no open regressions\nnot listed: 1 in series that ended (--all)\n",
    )
    printed = here.run("regressions", "--all").stdout
    assert "  worse, ended  sort " in printed and " · ended 2026-02-13 · " in printed
    assert "worse, ended 2026-02-13  " in here.run("regressions", found["incident"]).stdout


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
    assert "false by Demo on" in nights.run("regressions", "--all").stdout
    markdown = nights.run("regressions", "--markdown", "--all").stdout
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
    with open_store(here.path / "results/benchmark.db") as store:
        add_nights(store, {"sort": noisy(30, (15, 1.4))}, revisions=names)
    (found,) = listed(here, "--repo", "code")
    assert [(one["kind"], one["revision"]) for one in found["suspects"]] == [("commit", names[15])]
    assert "Change number 15" in here.run("regressions").stdout, "kept for whoever has no repository"
    done = here.run("regressions", "--repo", str(Path("/")))
    assert done.returncode == 2 and "is in no git repository" in done.stderr


def test_a_quiet_history_says_so(here: Here) -> None:
    with open_store(here.path / "results/benchmark.db") as store:
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
    with open_store(nights.path / "results/benchmark.db") as store:
        assert store.finding(before["id"]).suspects
        store.settle(store.finding(before["id"]), "bisected", {**CULPRIT, "probability": 0.97, "runs": 12})
    worse, _ = listed(nights)
    assert (worse["stage"], worse["culprit"]["probability"]) == ("bisected", 0.97)
    assert [one["revision"] for one in worse["suspects"]] == ["c" * 40]
    names = list(worse)
    assert names.index("culprit") < names.index("suspects")
    lines = nights.run("regressions", "--case", "sort").stdout.splitlines()
    assert lines[4].startswith("    culprit cccccccccc 'Sort twice' by Ann (97 % sure, 12 runs) · +")
    assert "worse, bisected" in lines[3] and not any("suspect:" in line for line in lines)
    markdown = nights.run("regressions", "--case", "sort", "--markdown").stdout
    assert "culprit cccccccccc 'Sort twice' by Ann (97 % sure, 12 runs)" in markdown


def test_what_did_not_reproduce_fails_nothing_and_is_listed_as_such(nights: Here) -> None:
    before, _ = listed(nights)
    with open_store(nights.path / "results/benchmark.db") as store:
        store.settle(store.finding(before["id"]), "not_reproduced")
    _, worse = listed(nights, code=0)
    assert (worse["stage"], worse["verdict"], worse["culprit"]) == ("not_reproduced", "inconclusive", None)
    done = nights.run("regressions", "--case", "sort", "--all")
    assert done.returncode == 0 and "not reproduced" in done.stdout and "suspect" not in done.stdout
    assert done.stdout.splitlines()[0] == "1 incident: 1 closed"
    assert listed(nights, "--case", "sort", "--state", "new", code=0) == []
    # A word of a human counts as before.
    assert nights.run("verdict", before["id"], "acknowledged", "--why", "seen too").returncode == 0
    assert "acknowledged by" in nights.run("regressions", "--case", "sort", "--all").stdout

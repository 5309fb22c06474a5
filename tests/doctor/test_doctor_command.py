"""`paceline doctor` as it is typed: text, JSON, exit codes, nothing changed."""

import json
import re
from pathlib import Path

import pytest

from in_process import Here, make_here
from paceline.cli.doctor import TITLES, lines_of
from paceline.doctor.examine import Diagnosis
from paceline.doctor.machine import remark
from workplace import Workplace

ENTRIES = "entries:\n  - {name: a, command: ['true']}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    return make_here(tmp_path, monkeypatch, capsys)


def test_the_whole_examination_as_a_user_runs_it(place: Workplace) -> None:
    done = place.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    titles = re.findall(r"^(\w+)$", done.stdout, re.MULTILINE)
    assert titles == list(TITLES.values())
    assert re.search(r"^  \w+ +spread +±", done.stdout, re.MULTILINE)
    assert re.search(r"^usable: ", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    assert list(place.path.iterdir()) == []


def test_json_keeps_its_shape(here: Here) -> None:
    done = here.run("doctor", "--quick", "--json")
    found = json.loads(done.stdout)
    assert list(found) == ["schema", "usable", "counts", "noise", "remarks"]
    assert (found["schema"], found["usable"], found["noise"]) == (1, True, None)
    assert list(found["counts"]) == ["ok", "note", "warn", "fail"]
    assert sum(found["counts"].values()) == len(found["remarks"])
    for one in found["remarks"]:
        assert list(one) == ["section", "name", "level", "value", "meaning", "fix"]
        assert all(isinstance(text, str) for text in one.values())
        assert one["value"] and one["meaning"]
    names = [(one["section"], one["name"]) for one in found["remarks"]]
    assert len(names) == len(set(names))
    assert ("places", "results") in names and ("history", "database") in names


def test_a_history_that_cannot_be_opened_is_exit_1(here: Here) -> None:
    (here.path / "benchmark.db").write_text("something else altogether")
    done = here.run("doctor", "--quick")
    assert done.returncode == 1
    assert re.search(r"^  fail  database  .*file is not a database", done.stdout, re.MULTILINE)
    assert "not usable as it is: 1 failure" in done.stdout


def test_the_database_and_results_asked_for(here: Here) -> None:
    done = here.run("doctor", "--quick", "--db", "other/x.db", "--results-dir", "far", "--json")
    values = {(one["section"], one["name"]): one["value"] for one in json.loads(done.stdout)["remarks"]}
    assert values["history", "database"] == f"{here.path}/other/x.db is not there yet"
    assert values["places", "results"].startswith("far (")
    assert values["places", "history"].startswith(f"{here.path}/other (")
    assert values["places", "cache"].startswith(f"{here.path}/cache (")


def test_those_of_the_suite_here(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(f"results_dir: mine\nhistory: {{url: mine.db}}\n{ENTRIES}")
    done = here.run("doctor", "--quick", "--json")
    values = {(one["section"], one["name"]): one["value"] for one in json.loads(done.stdout)["remarks"]}
    assert "mine (" in values["places", "results"]
    assert "mine.db" in values["history", "database"]


def test_a_suite_with_mistakes_is_a_failure_among_the_rest(here: Here) -> None:
    (here.path / "paceline.yaml").write_text(f"timeout: 5\n{ENTRIES}")
    done = here.run("doctor", "--quick", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    (fault,) = [one for one in found["remarks"] if one["level"] == "fail"]
    assert (fault["name"], fault["fix"]) == ("paceline.yaml", "paceline plan")
    assert "timeout" in fault["value"]
    assert any(one["section"] == "machine" for one in found["remarks"])


DIAGNOSIS = Diagnosis(
    sections={
        "tools": (
            remark("git", "ok", "2.0 (/usr/bin/git)", "revisions"),
            remark("uv", "note", "not found", "environments " * 12 + "in seconds", "pip install uv"),
        ),
        "history": (remark("database", "fail", "h.db: \x1b[31mbroken", "nothing is remembered"),),
    }
)


def test_text_without_a_terminal() -> None:
    assert list(lines_of(DIAGNOSIS)) == [
        "Tools",
        "  ok    git  2.0 (/usr/bin/git)",
        f"  note  uv   not found: {'environments ' * 12}in seconds",
        "             → pip install uv",
        "",
        "History",
        "  fail  database  h.db: broken: nothing is remembered",
        "",
        "not usable as it is: 1 failure, 1 note",
    ]


def test_text_on_a_terminal_is_folded_and_coloured() -> None:
    lines = list(lines_of(DIAGNOSIS, colour=True, width=60))
    bare = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert all(len(line) <= 60 for line in bare)
    assert "\x1b[31mfail\x1b[0m" in "\n".join(lines)
    folded = [line for line in bare if "environments" in line]
    assert len(folded) > 1
    assert all(line.startswith(" " * 13) for line in folded[1:])

"""A session's directory that an older version left: listed, shown, compared, imported and drawn as it was then."""

import json
import shutil
from pathlib import Path

import pytest

from frozen import Answer, answers, called, check, contents, difference
from workplace import Workplace

ANSWERS = answers("session")
CASES = {
    *(
        "make_rows",
        "whole",
        "failing",
        "out_of_bounds",
        "too_slow",
        "after_failing",
        "repeated",
        "grid[n=1,kind=plain]",
    ),
    *("grid[n=1,kind=a/b]", "grid[n=2,kind=plain]", 'odd/näme ☃ <&> "quoted"', "flaky", "lost_once"),
    *("leaves_a_child", "bad_files", "no_program"),
}


@pytest.mark.parametrize("answer", ANSWERS, ids=called)
def test_it_is_read_as_it_was(session: Workplace, answer: Answer) -> None:
    before = contents(session.path / "results/monday")
    check(session, answer)
    assert contents(session.path / "results/monday") == before


def test_imported_it_has_the_ids_and_numbers_of_then(session: Workplace) -> None:
    for answer in answers("session_imported"):
        check(session, answer)


def test_every_record_is_shown_as_it_is_in_its_file(session: Workplace) -> None:
    shown = json.loads(session.run("show", "monday", "--json").stdout)["records"]
    assert {record["case"]["name"] for record in shown} == CASES
    files = [json.loads(path.read_text()) for path in (session.path / "results/monday").glob("*/record.json")]
    (setup,) = (session.path / "results/monday/data_setup").glob("*/record.json")
    in_files = {record["case"]["name"]: record for record in (*files, json.loads(setup.read_text()))}
    assert {record["case"]["name"]: record for record in shown} == in_files


def test_it_may_lie_elsewhere(session: Workplace, tmp_path: Path) -> None:
    """Nothing but the paths of the commands that ran tells where it was made."""
    shutil.copytree(session.path / "results", tmp_path / "results", symlinks=True)
    elsewhere = Workplace(tmp_path)
    for words in (("list",), ("show", "monday"), ("show", "killed")):
        (known,) = [answer["json"] for answer in ANSWERS if answer["words"] == [*words, "--json"]]
        done = elsewhere.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        assert difference(known, json.loads(done.stdout)) == ""


def check_site(place: Workplace) -> None:
    """What the session tells is in the pages, and what its scripts left beside them."""
    pages = "".join(path.read_text() for path in sorted((place.path / "site/data").rglob("*.js")))
    for told in (
        "docs_per_sec",
        "work_s is 9.5 but must be at most 5",
        "*** was not enough",
        "grid[kind=a/b,n=1]",
    ):
        assert told in pages, told
    copied = {path.read_bytes() for path in (place.path / "site/artifacts").rglob("*.*")}
    results = place.path / "results/monday/whole/benchmark_results"
    for name in ("metrics.json", "tasks.pkl", "plots/a b.txt"):
        assert (results / name).read_bytes() in copied


def test_the_dashboard_is_built_from_it_and_its_history(session: Workplace) -> None:
    done = session.run("dashboard", "build", "site", "--results", "results")
    assert done.returncode == 0 and "wrote 15 cases and 1 session " in done.stdout, done.stdout + done.stderr
    check_site(session)


def test_the_dashboard_is_built_from_it_alone(session: Workplace) -> None:
    (session.path / "benchmark.db").unlink()
    done = session.run("dashboard", "build", "site", "--results", "results")
    assert done.returncode == 0 and "wrote 18 cases and 2 sessions " in done.stdout, done.stdout + done.stderr
    check_site(session)

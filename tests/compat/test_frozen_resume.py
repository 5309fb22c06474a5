"""Sessions that an older version left are gone on with: what finished then is not run again, and stays as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from frozen import contents
from paceline.model import one_spelling
from workplace import Workplace

# How these ended is no result to keep: one could not be started, the other was left out.
TRIED_AGAIN = {"after_failing", "no_program"}
FAILED = {"failing", "out_of_bounds", "too_slow", *TRIED_AGAIN}


def records(place: Workplace, session: str) -> dict[str, tuple[bytes, int]]:
    """The record of each entry and data set-up, by its directory."""
    found = contents(place.path / "results" / session, "**/record.json")
    return {str(Path(name).parent): record for name, record in found.items() if "attempts" not in name}


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def fingerprints(place: Workplace, session: str) -> dict[str, str]:
    """The fingerprints of then, from the records, whether or not they are of cases that run again."""
    read = [json.loads(data) for data, _ in records(place, session).values()]
    return {record["case"]["name"]: record["case"]["fingerprint"] for record in read}


def resumed(place: Workplace, *words: str) -> str:
    done = place.run("run", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("suite", "session_name"), [("paceline.yaml", "monday"), ("killed.yaml", "killed")])
def test_fingerprints_are_those_of_then(session: Workplace, suite: str, session_name: str) -> None:
    planned = json.loads(session.run("plan", suite, "--json").stdout)
    now = {case["name"]: case["former_fingerprint"] for case in (*planned["setups"], *planned["cases"])}
    then = fingerprints(session, session_name)
    # A plan spells the parameters of a case in one order, a session of then in that of the matrix.
    assert len(then) >= 4 and {name: now.get(one_spelling(name)) for name in then} == then


def test_of_a_session_that_is_over_nothing_runs_again(session: Workplace) -> None:
    before, ran = records(session, "monday"), session.ran()
    said = resumed(session, "--resume", "monday")
    assert "Keeping 14 of 16 cases that finished before" in said
    assert session.ran() == ran
    after = records(session, "monday")
    assert len(after) == 16 and changed(before, after) == TRIED_AGAIN
    report = json.loads((session.path / "results/monday/report.json").read_text())
    assert {one["case"]["name"]: one["attempt"] for one in report["records"] if one["attempt"] != 1} == {
        **dict.fromkeys(("failing", "out_of_bounds", "too_slow", "flaky", "lost_once"), 2),
        **dict.fromkeys(TRIED_AGAIN, 3),
    }


def test_only_what_failed_runs_again_on_request(session: Workplace) -> None:
    before, ran = records(session, "monday"), session.ran()
    aside = contents(session.path / "results/monday", "*/attempts/attempt-1/**/*")
    said = resumed(session, "--resume", "monday", "--rerun-failed")
    assert "Keeping 11 of 16 cases that finished before" in said
    assert session.ran() == [*ran, "out_of_bounds"]
    after = records(session, "monday")
    assert changed(before, after) == FAILED
    assert {json.loads(after[name][0])["attempt"] for name in FAILED} == {3}
    # What ran then lies beside it, and what ran before that where it was.
    monday = session.path / "results/monday"
    assert {name: (monday / name / "attempts/attempt-2/record.json").read_bytes() for name in FAILED} == {
        name: before[name][0] for name in FAILED
    }
    assert len(aside) > 15 and contents(monday, "*/attempts/attempt-1/**/*") == aside


def test_its_sink_gets_what_is_new_and_nothing_twice(session: Workplace) -> None:
    copies = session.path / "copies"
    rows, lines = (copies / "monday.csv").read_text(), (copies / "monday.jsonl").read_text()
    resumed(session, "--resume", "monday", "--rerun-failed")
    sent = session.run("send", "monday")
    assert sent.returncode == 0 and "nothing waits" in sent.stdout, sent.stdout + sent.stderr
    assert (copies / "monday.csv").read_text().startswith(rows)
    now = (copies / "monday.jsonl").read_text()
    assert now.startswith(lines)
    added = [json.loads(line) for line in now.removeprefix(lines).splitlines()]
    assert sorted((one["case"]["name"], one["attempt"]) for one in added) == sorted(
        (name, 3) for name in FAILED
    )


def test_of_a_session_whose_runner_was_killed_the_rest_runs(session: Workplace) -> None:
    before, ran = records(session, "killed"), session.ran()
    assert set(before) == {"data_setup/make_rows", "first", "second", "failed"}
    (session.path / "go").touch()
    said = resumed(session, "killed.yaml", "--resume", "killed", "--no-history")
    assert "Keeping 4 of 6 cases that finished before" in said
    assert "5 passed, 1 failed of 6 cases" in said
    assert session.ran() == [*ran, "held", "last"]
    after = records(session, "killed")
    assert changed(before, after) == {"held", "last"}
    killed = session.path / "results/killed"
    assert json.loads(after["held"][0])["attempt"] == 2 and (killed / "held/attempts/attempt-1/logs").is_dir()
    assert (killed / ".lock").read_bytes() == b"" and not (killed / ".reserve").exists()


def test_a_case_that_was_edited_since_runs_again(session: Workplace) -> None:
    """Else the tests above would say nothing: a version that keeps everything would pass them."""
    script = session.path / "scripts/number.sh"
    script.write_text(script.read_text() + "# edited\n")
    before, ran = records(session, "killed"), session.ran()
    (session.path / "go").touch()
    resumed(session, "killed.yaml", "--resume", "killed", "--no-history")
    assert session.ran() == [*ran, "first", "second", "second", "held", "last"]
    assert changed(before, records(session, "killed")) == {"first", "second", "held", "last"}

"""What was found is read back from databases of the schema that first had it."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from findings_nights import make_repository
from paceline.findings.commits import Repository, find_repository, open_repository
from paceline.findings.telling import message, suspect_text, suspects_text
from paceline.history import open_store
from paceline.model import Finding
from paceline.record.codec import finding_json, read_finding
from paceline.record.masking import mask_finding
from paceline.record.redact import Redactor

DUMP = Path(__file__).parents[1] / "history" / "schemas" / "0003.sql"


def stored(tmp_path: Path) -> Finding:
    path = tmp_path / "stored.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    with open_store(path) as store:
        return store.finding("f00d")


def test_a_stored_finding_reads_the_same(tmp_path: Path) -> None:
    found = stored(tmp_path)
    assert (found.id, found.incident, found.case, found.verdict) == (
        *("f00df00df0", "i00000001", "sort", "worse"),
    )
    assert (found.effect, found.low, found.high, found.p_value) == (0.5, 0.25, 0.75, 0.001)
    assert (found.last_good.session, found.first_bad.revision) == ("night-2", "b" * 40)
    assert found.state == "false" and found.said and found.said.why == "a backup ran"


def test_a_finding_in_a_sentence(tmp_path: Path) -> None:
    found = stored(tmp_path)
    assert message(found) == (
        "+50 % (+25 % to +75 %) between night-2 (aaaaaaaaaa) and night-3 (bbbbbbbbbb); "
        "suspects: dask 2026.8.0 → 2026.9.0 [f00df00df0]"
    )


def test_a_finding_in_a_report_has_no_secrets(tmp_path: Path) -> None:
    found = stored(tmp_path)
    found = replace(found, message=message(found), values=(1.0, 2.5), index=1)
    masked = mask_finding(found, Redactor(["2026.9.0"]))
    assert "2026.9.0" in found.message and "2026.9.0" not in f"{masked.message}{masked.evidence}"
    assert read_finding(finding_json(found)) == found


def test_suspects_in_words() -> None:
    commit = {"kind": "commit", "revision": "c" * 40, "subject": "Sort twice", "author": "Demo"}
    assert suspect_text(commit) == "cccccccccc 'Sort twice' by Demo"
    fact = {"kind": "environment", "name": "kernel", "before": None, "after": "6.1"}
    assert suspects_text([commit] * 5 + [fact]).endswith("by Demo, kernel nothing → 6.1, and 2 more")


def test_a_repository_knows_order_and_what_lies_between(tmp_path: Path) -> None:
    names = make_repository(tmp_path / "repo", 5)
    repository = Repository(tmp_path / "repo")
    places = repository.order([names[3], names[1], "f" * 40, "main", "--all", "", names[4][:12]])
    assert sorted(places, key=lambda name: places[name].place) == [names[1], names[3], names[4][:12]]
    between = repository.between(names[1], names[3])
    assert [commit.subject for commit in between.listed] == ["Change number 3", "Change number 2"]
    assert (between.count, repository.between(names[1], "f" * 40).count) == (2, 0)
    assert (repository.resolve("main"), repository.resolve("nope"), repository.resolve("-x")) == (
        names[4],
        "",
        "",
    )
    inside = tmp_path / "repo" / "deep"
    inside.mkdir()
    assert open_repository(inside).root == tmp_path / "repo" and find_repository(tmp_path / "nowhere") is None

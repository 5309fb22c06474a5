"""Who is asked first about a change."""

from pathlib import Path

import pytest

from findings_nights import make_repository
from git_commands import git
from paceline.finding import Finding
from paceline.findings.commits import Repository
from paceline.findings.owners import Owners, owner_of, read_owners
from paceline.findings.ranking import Incident

RULES = """
# the last that fits counts
*            @all
/benchmarks/ @speed
*.rs         @rust @core
docs/**/*.py @writers   # with a remark
tests/io/*   @io
/vendor/
[Section] @section
"""


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("README", "@all"),
        ("benchmarks/sort.py", "@speed"),
        ("./benchmarks/deep/sort.py", "@speed"),
        ("old/benchmarks/sort.py", "@all"),
        ("benchmarks/sort.rs", "@rust @core"),
        ("docs/a/b.py", "@writers"),
        ("docs/b.py", "@writers"),
        ("tests/io/read.py", "@io"),
        ("tests/io/deep/read.py", "@all"),
        ("vendor/x", ""),
    ],
)
def test_the_last_rule_that_fits_counts(path: str, owner: str) -> None:
    assert Owners(RULES).of(path) == owner


def test_a_case_has_the_owner_of_its_file() -> None:
    owners = Owners("benchmarks/ @speed\ntests/test_io.py @io")
    assert owners.of_case("tests/test_io.py::test_read[n=1]", ()) == "@io"
    assert owners.of_case("sort", ("sort.csv", "benchmarks/sort.py")) == "@speed"
    assert owners.of_case("sort", ()) == "" and Owners("").of_case("a/b.py", ()) == ""


def incident(**fields: object) -> Incident:
    found = Finding(id="f", case="sort", metric="wall_s", verdict="worse", **fields)  # type: ignore[arg-type]
    return Incident(id="i", kind="worse", findings=(found,), weight=1.0, age_days=0.0)


def test_an_author_is_asked_if_the_cause_is_theirs() -> None:
    ann, bob = ({"kind": "commit", "revision": name, "author": name} for name in ("Ann", "Bob"))
    assert owner_of(incident(culprit=ann, suspects=(bob,)), "@speed") == "Ann"
    assert owner_of(incident(suspects=(ann, bob)), "@speed") == "@speed"
    assert owner_of(incident(suspects=(ann, ann)), "") == "Ann"
    assert owner_of(incident(suspects=(ann, bob)), "") == ""
    assert owner_of(incident(suspects=({"kind": "package", "name": "numpy"},)), "") == ""


def test_they_are_read_from_the_repository(tmp_path: Path) -> None:
    make_repository(tmp_path / "code", 1)
    (tmp_path / "code/.github").mkdir()
    (tmp_path / "code/.github/CODEOWNERS").write_text("* @team\n")
    assert read_owners(Repository(tmp_path / "code")).of("x") == ""
    git(tmp_path / "code", "add", ".")
    git(tmp_path / "code", "commit", "-qm", "Own it")
    assert read_owners(Repository(tmp_path / "code")).of("x") == "@team"
    assert read_owners(None).of("x") == ""


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@forge.example:team/code.git", "https://forge.example/team/code"),
        ("https://user:secret@forge.example/team/code.git", "https://forge.example/team/code"),
        ("ssh://git@forge.example:22/team/code", "https://forge.example/team/code"),
        ("../elsewhere", ""),
        ("/srv/git/code.git", ""),
        ("https://forge.example/team/co de'\"<x>", ""),
    ],
)
def test_where_it_is_looked_at_has_no_login(tmp_path: Path, remote: str, address: str) -> None:
    make_repository(tmp_path / "code", 1)
    git(tmp_path / "code", "remote", "add", "origin", remote)
    assert Repository(tmp_path / "code").web_address() == address

"""The versions of a package: found by pip, and taken from good to bad."""

from pathlib import Path

import pytest

from demo_repo import make_wheel
from paceline.errors import BuildError
from paceline.experiments.bisect.steps import versions_between
from paceline.experiments.builds.environments import available_versions

VERSIONS = ("1.9", "2026.1.0", "2026.1.1", "2026.2.0", "2026.8.0", "2026.8.1", "2027.1")


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("2026.1", "2026.2", ("2026.1.0", ("2026.1.1", "2026.2.0"))),
        ("2026.1.1", "2026.8.1", ("2026.1.1", ("2026.2.0", "2026.8.0", "2026.8.1"))),
        ("1.9.0", "2026", ("1.9", VERSIONS[1:6])),
        ("2026", "2027.1.0", ("2026.1.0", VERSIONS[2:])),
    ],
)
def test_versions_may_be_named_by_their_beginning(
    good: str, bad: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    assert versions_between(VERSIONS, good, bad) == expected


@pytest.mark.parametrize(
    ("good", "bad"), [("2026.2", "2026.1.0"), ("2026.2", "2026.2"), ("3", "2027.1"), ("1.9", "4")]
)
def test_ends_that_make_no_sense_are_refused(good: str, bad: str) -> None:
    with pytest.raises(BuildError, match=r"does not come before|there is no version"):
        versions_between(VERSIONS, good, bad)


def test_pip_finds_the_wheels_of_a_directory_in_order(tmp_path: Path) -> None:
    for version in ("1.10", "1.2", "1.9"):
        make_wheel(tmp_path, version, 1.0)
    where = ("--no-index", "--find-links", str(tmp_path))
    assert available_versions("demo-dep", where) == ("1.2", "1.9", "1.10")
    with pytest.raises(BuildError, match=r"no versions of no-such-thing: .*--versions"):
        available_versions("no-such-thing", where)

"""Which revisions are meant, and in which order they are measured."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo_repo import make_repo
from git_commands import git
from paceline.errors import PacelineError
from paceline.experiments.backfill.revisions import Wanted, choose, spread


@given(st.integers(0, 300))
def test_every_beginning_is_spread_and_none_is_left_out(count: int) -> None:
    order = spread(range(count))
    assert sorted(order) == list(range(count))
    if count > 1:
        assert order[:2] == [count - 1, 0]
    for taken in range(2, count + 1):
        places = sorted(order[:taken])
        gaps = [after - before for before, after in pairwise(places)]
        # Halving the widest gap first never leaves one more than twice as wide as another, but for rounding.
        assert max(gaps) <= 2 * min(gaps) + 1


def test_ranges_tags_and_thinning(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commits=10)

    def numbers(**wanted: object) -> list[int]:
        found = choose(repo.path, Wanted(**wanted))  # type: ignore[arg-type]
        return sorted(repo.revisions.index(one) + 1 for one in found)

    first = repo.revision(3)
    assert numbers(revisions=f"{first}..main") == [3, 4, 5, 6, 7, 8, 9, 10]
    assert numbers(revisions=f"{first}..{repo.revision(5)},main") == [3, 4, 5, 10]
    assert numbers(revisions=f"{first}..main", every=3) == [4, 7, 10]
    assert numbers(revisions=f"{first}..main", every=3, last=5) == [7, 10]
    assert numbers(last=4) == [7, 8, 9, 10]
    assert numbers(last=9, most=3) == [2, 6, 10]
    for number in (2, 5, 9):
        git(repo.path, "tag", f"v{number}", repo.revision(number))
    git(repo.path, "tag", "-a", "-m", "x", "w1", repo.revision(1))
    assert numbers(tags="v*") == [2, 5, 9]
    assert numbers(tags="*", last=2) == [5, 9]
    assert numbers(tags="w?") == [1]
    with pytest.raises(PacelineError, match="is no ancestor of"):
        numbers(revisions=f"main..{first}")


def test_merges_are_one_step(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commits=2)
    git(repo.path, "checkout", "--quiet", "-b", "side", repo.revision(1))
    git(repo.path, "commit", "--quiet", "--allow-empty", "-m", "Aside")
    aside = git(repo.path, "rev-parse", "HEAD")
    git(repo.path, "checkout", "--quiet", "main")
    git(repo.path, "merge", "--quiet", "--no-ff", "-m", "Merge", "side")
    found = choose(repo.path, Wanted(revisions=f"{repo.revision(1)}..main"))
    assert len(found) == 3
    assert aside not in found

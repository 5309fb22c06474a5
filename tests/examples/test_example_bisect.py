"""The commit that made the demo library slow is found by counting comparisons."""

import json
import shutil
import subprocess
from pathlib import Path

from git_commands import git
from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/bisect"


def test_the_slow_commit_is_found(place: Workplace) -> None:
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    subprocess.run(["sh", "make_library.sh"], cwd=place.path, check=True, timeout=60)
    library = place.path / "library"
    assert len(git(library, "rev-list", "main").split()) == 10
    question = (
        "bisect --repo library --good first --bad main --case unique --metric comparisons --direction lower"
    )
    done = place.run(*question.split(), "--json", PACELINE_CACHE=str(place.path / "cache"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (
        git(library, "log", "-1", "--format=%s", result["culprit"]).strip()
        == "Do without a second collection"
    )
    assert result["runs"] < 20

"""A repository with a regression in it, a suite that measures it, and wheels of a package that got slower too.

The numbers are told, not timed: a script writes what its revision says, times noise that follows from how many runs
there were before. So tests are fast, and the same every time.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from git_commands import git

SCRIPT = """
import os, pathlib, random
from paceline import emit

try:
    from demo_dep import FACTOR
except ImportError:
    FACTOR = 1.0
repo = pathlib.Path(os.environ.get("PACELINE_REPO") or pathlib.Path(__file__).parent / "repo")
ledger = pathlib.Path(os.environ["DEMO_LEDGER"])
with ledger.open("a") as file:
    print((repo / "step.txt").read_text().strip(), file=file)
run = len(ledger.read_text().splitlines())
noise = random.Random(f"1 {run}").gauss(1, float(os.environ.get("DEMO_NOISE", "0.05")))
emit.metrics({"work_s": float((repo / "seconds.txt").read_text()) * FACTOR * noise})
"""

SUITE = """
entries:
  - name: work
    script: work.py
"""


@dataclass(frozen=True)
class DemoRepo:
    """A repository whose commits are numbered from 1."""

    path: Path
    revisions: tuple[str, ...]

    def revision(self, number: int) -> str:
        return self.revisions[number - 1]

    def checkout(self, number: int) -> None:
        git(self.path, "checkout", "--quiet", "--force", self.revision(number))


def make_repo(
    path: Path,
    *,
    commits: int = 40,
    culprit: int = 0,
    factor: float = 1.15,
    broken: frozenset[int] = frozenset(),
) -> DemoRepo:
    """A repository of so many commits, slower by the factor from the culprit on; `broken` ones do not build."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    git(
        path,
        "fast-import",
        "--quiet",
        feed="".join(_commit(n, culprit, factor, broken) for n in range(1, commits + 1)),
    )
    git(path, "checkout", "--quiet", "main")
    revisions = git(path, "rev-list", "--reverse", "main").split()
    return DemoRepo(path=path, revisions=tuple(revisions))


def _commit(number: int, culprit: int, factor: float, broken: frozenset[int]) -> str:
    seconds = 2.0 * factor if culprit and number >= culprit else 2.0
    files = {
        "step.txt": f"{number}\n",
        "seconds.txt": f"{seconds}\n",
        "build.sh": f"exit {1 if number in broken else 0}\n",
    }
    message = f"Step {number}: {'walk the long way' if number == culprit else 'tidy up'}"
    head = (
        f"commit refs/heads/main\ncommitter Demo <demo@example.invalid> {1760000000 + number * 3600} +0000\n"
    )
    told = f"{head}{_data(message)}"
    return told + "".join(f"M 100644 inline {name}\n{_data(text)}" for name, text in files.items()) + "\n"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def make_wheel(directory: Path, version: str, factor: float) -> Path:
    """A wheel of the package `demo-dep`, which makes the work slower by the factor."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"demo_dep-{version}-py3-none-any.whl"
    info = f"demo_dep-{version}.dist-info"
    files = {
        "demo_dep.py": f"FACTOR = {factor}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: demo-dep\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: demo\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path

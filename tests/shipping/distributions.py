"""The wheel and the sdist of this tree, and an environment with the wheel, what it needs, and nothing else."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.experiments.builds.environments import build_venv

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Distributions:
    """What was built, and where it was installed."""

    directory: Path

    @property
    def wheel(self) -> Path:
        return next((self.directory / "dist").glob("*.whl"))

    @property
    def sdist(self) -> Path:
        return next((self.directory / "dist").glob("*.tar.gz"))

    @property
    def bin(self) -> Path:
        return next((self.directory / "cache" / "venvs").glob("*/bin"))

    def run(self, cwd: Path, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment that sees no other one."""
        return subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=cwd,
            env=self.environ(variables),
            capture_output=True,
            text=True,
            timeout=170,
            stdin=subprocess.DEVNULL,
        )

    def environ(self, variables: Mapping[str, str]) -> dict[str, str]:
        ours = Path(sys.executable).parent
        path = [entry for entry in os.environ["PATH"].split(os.pathsep) if Path(entry) != ours]
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "PATH": os.pathsep.join([str(self.bin), *path]), "NO_COLOR": "1", **variables}


def build_all(directory: Path) -> Mapping[str, str]:
    """Build both and install the wheel; all but the wheel comes from the installer's cache, or the index."""
    directory.mkdir(parents=True)
    hatch(REPOSITORY, directory / "dist")
    made = Distributions(directory)
    build_venv(
        [str(made.wheel)],
        cache_dir=directory / "cache",
        log=directory / "log",
        options=("--constraint", str(REPOSITORY / "requirements.lock")),
    )
    return {}


def hatch(source: Path, into: Path, *words: str) -> None:
    """Build with the backend that pyproject.toml names, as an installer would."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(into), *words]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def unpack(sdist: Path, into: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    (top,) = into.iterdir()
    return top

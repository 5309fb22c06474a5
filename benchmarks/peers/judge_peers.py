"""The peers' environment, and their answers to our series."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from make_series import Floats

RECIPE = ("apache-otava==0.8.0", "asv==0.6.6", "ruptures==1.1.10", "numpy==2.2.0")
NAMES = ("otava", "asv", "pelt")
_SCRIPT = Path(__file__).with_name("detectors.py")


def set_up(venv: Path) -> None:
    """Make an environment of their own: what they need conflicts with what we need."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "-q", *RECIPE], check=True)


@dataclass(frozen=True, slots=True)
class Peers:
    """The detectors of an environment made by `set_up`."""

    venv: Path

    def find(self, name: str, series: Sequence[Floats]) -> list[list[int]]:
        return [answer["indices"] for answer in self._ask(name, series, 1)]

    def seconds(self, name: str, series: Sequence[Floats], repeats: int) -> list[float]:
        """The fastest of several runs of each."""
        return [answer["seconds"] for answer in self._ask(name, series, repeats)]

    def _ask(self, name: str, series: Sequence[Floats], repeats: int) -> list[dict]:
        said = subprocess.run(
            [self.venv / "bin/python", _SCRIPT, name, str(repeats)],
            input=json.dumps([values.tolist() for values in series]),
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode:
            sys.exit(f"{name} failed:\n{said.stderr[-2000:]}")
        return json.loads(said.stdout)

"""Whether packages can be installed here: examples that need releases from an index are skipped where there is none."""

import subprocess
import sys
import tempfile
from functools import cache

import pytest

PATIENCE_S = 100


@cache
def is_reachable(requirement: str) -> bool:
    """Whether uv can install the release; it then has it in its cache, so that a test need not wait for it."""
    with tempfile.TemporaryDirectory() as directory:
        words = ["-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", directory, requirement]
        try:
            done = subprocess.run(
                [sys.executable, *words],
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def need(*requirements: str) -> None:
    """Skip the test unless all of them can be installed."""
    for requirement in requirements:
        if not is_reachable(requirement):
            pytest.skip(f"no package index offers {requirement} here")

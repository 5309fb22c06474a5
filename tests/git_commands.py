"""git as tests need it: whatever the developer has configured, and with a name for commits."""

import os
import subprocess
from pathlib import Path

_IDENTITY = ("-c", "user.name=Demo", "-c", "user.email=demo@example.invalid")


def git(directory: Path, *words: str, feed: str = "") -> str:
    """What git prints, without the line break at its end."""
    done = subprocess.run(
        ["git", *_IDENTITY, "-C", str(directory), *words],
        input=feed,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
    )
    return done.stdout.strip()

"""A run of pytest as a session of the history, and where it ran."""

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.history.session_files import ci_run_url
from paceline.history.session_info import SessionInfo
from paceline.record.environment import Environment, capture
from paceline.record.redact import Redactor, secret_values


def look_around(directory: Path) -> Environment:
    """The machine, the packages and the repository, without secrets."""
    return capture(cwd=directory, redactor=Redactor(secret_values(os.environ)), command_line=sys.argv)


def session_of(
    session_id: str, environment: Environment, environ: Mapping[str, str], directory: Path
) -> SessionInfo:
    now = datetime.now(UTC)
    git = environment.data.get("git", {})
    return SessionInfo(
        id=session_id,
        name=f"pytest-{now:%Y%m%d-%H%M%S}",
        kind="pytest",
        started_at=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        revision=environment.revision,
        branch=git.get("branch")
        or environ.get("GITHUB_REF_NAME", "")
        or environ.get("CI_COMMIT_REF_NAME", ""),
        directory=str(directory),
        ci_run_url=ci_run_url(environ),
        tool="pytest",
    )


def to_header(session: SessionInfo, environment: Environment, database: str) -> dict[str, Any]:
    """What a journal begins with."""
    packages = {"packages": list(environment.packages)}
    return {
        "database": database,
        "session": asdict(session),
        "environment": {**environment.data, **packages},
    }


def from_header(header: Mapping[str, Any]) -> tuple[SessionInfo, Mapping[str, Any]]:
    """Session and environment of a journal; raises `TypeError` or `KeyError` if it is none of this version's."""
    return SessionInfo(**header["session"]), header["environment"]

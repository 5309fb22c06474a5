"""A session's files, which are the truth, as what the history takes."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from paceline.errors import SessionError
from paceline.history.session_info import SessionInfo, session_id
from paceline.history.store.entries import utc
from paceline.model import Record
from paceline.record import below, codec, layout
from paceline.record.directory import SessionDir, sessions
from paceline.record.environment import Environment, without_others
from paceline.record.events import first_start
from paceline.record.packages import PACKAGES
from paceline.record.repository import git_of_suite

_KEPT_FACTS = ("run_reason", "viewer_url", "command_line")
_OTHER = re.compile(r"environment-([\w-]{1,64})\.json")
_CI_ADDRESSES = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")


class SessionFiles(NamedTuple):
    """A session as `Store.add` takes it; the records are read one by one."""

    session: SessionInfo
    environment: Mapping[str, Any]
    records: Iterator[Record]
    others: tuple[Mapping[str, Any], ...] = ()
    """The other machines that records name: nodes of a pool, and those that the session was resumed from."""


def find_sessions(path: Path) -> list[Path]:
    """The session at a path, or all sessions of the results directory at it, oldest first; a link is none."""
    return [path] if layout.is_session(path) else sessions(path)[::-1]


def read_session(path: Path, place: str = "") -> SessionFiles:
    """What a session has written so far: its name and start make its id, so reading it again gives the same.

    `place` is where it is kept, if that is not where its files are now.
    """
    if not layout.is_session(path):
        raise SessionError(f"no session at {path}: 'paceline list' shows those of a results directory")
    environment, others = read_environments(path)
    return SessionFiles(_session_info(path, environment, place), environment, _records(path), others)


def read_environments(path: Path) -> tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]:
    """The environment of a session's runner, and the others that its records may name."""
    names = [found[1] for name in below.names(path) if (found := _OTHER.fullmatch(name))]
    others = ((ident, _environment(path, *layout.other_environment(ident))) for ident in sorted(names))
    # A file whose content is not what its name says is nobody's.
    known = tuple(one for ident, one in others if one.get("id") == ident)
    return _environment(path, "environment.json", PACKAGES), known


def _session_info(path: Path, environment: Mapping[str, Any], place: str) -> SessionInfo:
    name, started_at = _started(path)
    git = git_of_suite(environment)
    return SessionInfo(
        id=session_id(name, started_at),
        name=name,
        started_at=started_at,
        revision=str(git.get("revision", "")),
        branch=str(git.get("branch", "")),
        commit_time=utc(str(git.get("commit_time", ""))),
        merge_base=str(git.get("merge_base", "")),
        directory=place or str(path.absolute()),
        ci_run_url=ci_run_url(_section(environment, "variables")),
        meta={name: environment[name] for name in _KEPT_FACTS if name in environment} | read_selection(path),
    )


def session_here(
    environment: Environment, *, prefix: str, kind: str, directory: Path, ident: str = ""
) -> SessionInfo:
    """A session that begins now and has no files: of pytest, or of what is timed by itself."""
    now = datetime.now(UTC)
    name, started_at = f"{prefix}-{now:%Y%m%d-%H%M%S}", now.isoformat(timespec="milliseconds")
    started_at = started_at.replace("+00:00", "Z")
    git = environment.data.get("git", {})
    return SessionInfo(
        id=ident or session_id(name, started_at),
        name=name,
        kind=kind,
        started_at=started_at,
        revision=environment.revision,
        branch=git.get("branch", ""),
        commit_time=utc(git.get("commit_time", "")),
        merge_base=git.get("merge_base", ""),
        directory=str(directory),
        ci_run_url=ci_run_url(os.environ),
    )


def read_selection(path: Path) -> dict[str, Any]:
    """What was asked for of the suite's cases, under `selection`; nothing if that was all of them."""
    try:
        plan = codec.load(below.read(path, "plan.json", codec.MAX_RECORD_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    found = plan.get("selection") if isinstance(plan, dict) else None
    return {"selection": found} if isinstance(found, dict) else {}


def _started(path: Path) -> tuple[str, str]:
    """Name and start by the first event; a directory may have been renamed since."""
    if start := first_start(path / layout.EVENTS):
        return str(start.get("session", path.name)), str(start.get("time", ""))
    starts = (record.started_at for record in _records(path))
    return path.name, min((start for start in starts if start), default="")


def _records(path: Path) -> Iterator[Record]:
    """The record of each case, and those of earlier attempts, which were moved aside."""
    for entry, record in SessionDir.open(path).stored_records():
        attempts = f"{str(entry).removeprefix(f'{path}/')}/{layout.ATTEMPTS}"
        for name in below.names(path, attempts):
            file = f"{attempts}/{name}/{layout.RECORD}"
            earlier = codec.read_record_below(path, file) if name.startswith("attempt-") else None
            if earlier is not None and earlier.attempt != record.attempt:
                yield earlier
        yield record


def _environment(path: Path, described: str, listed: str) -> dict[str, Any]:
    try:
        data = codec.load(below.read(path, described))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    try:
        packages = below.read(path, listed).decode("utf-8", "replace").splitlines()
    except OSError:
        packages = []
    return without_others({**data, "packages": packages})


def _section(environment: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of the file, which anybody may have edited."""
    found = environment.get(name)
    return found if isinstance(found, dict) else {}


def ci_run_url(variables: Mapping[str, Any]) -> str:
    """The page of the CI job, by the variables that it was given."""
    parts = [variables.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    if all(parts):
        server, repository, run = parts
        return f"{server}/{repository}/actions/runs/{run}"
    return next((str(variables[name]) for name in _CI_ADDRESSES if variables.get(name)), "")

"""Where a session's files go, the names of those directories in texts, and the link under which they are seen."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from paceline.config.load import Loaded
from paceline.config.nodes import at
from paceline.config.paths import expand_home, normalise
from paceline.config.templates import fill, parse
from paceline.errors import ConfigError, Problem
from paceline.model import RUN_DIR
from paceline.plan.commands import RESULTS_PATH
from paceline.plan.expansion import Expansion, Notes, Scope
from paceline.record.remote.address import Location, parse_location, working_dir

SESSION_DIR = "\x00session_dir\x00"
"""Stands for the session's directory until the fingerprint, which must not depend on it, is made."""

_SESSION_NAME = "\x00session_name\x00"
_RESULTS_DIR = "\x00results_dir\x00"
_ARTIFACTS_DIR = "\x00artifacts_dir\x00"
NAMES = {
    "session": RUN_DIR,
    "session_entry_dir": RUN_DIR,
    "benchmark_results_path": RESULTS_PATH,
    "scratch_dir": f"{RUN_DIR}/scratch",
    "session_dir": SESSION_DIR,
    "session_name": _SESSION_NAME,
    "results_dir": _RESULTS_DIR,
    "artifacts_dir": _ARTIFACTS_DIR,
    "python": sys.executable,
}
"""Placeholders that mean the same in every file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directories:
    """Where a session's files go."""

    session: str
    results_dir: Path
    artifacts_dir: Path | None
    results_url: str = ""
    """The object store that keeps the results, if one does; `results_dir` is then where they are made."""

    @property
    def session_dir(self) -> Path:
        return self.results_dir / self.session

    @property
    def sentinels(self) -> dict[str, str]:
        """What the placeholders of the session stand for."""
        return {
            SESSION_DIR: str(self.session_dir),
            _SESSION_NAME: self.session,
            _RESULTS_DIR: str(self.results_dir),
            _ARTIFACTS_DIR: str(self.artifacts_dir or self.results_dir / "artifacts"),
        }


def find_directories(
    expansion: Expansion, session: str, results: Location, problems: list[Problem]
) -> Directories:
    """The directories of a session whose results are kept in a directory or an object store."""
    results_dir = working_dir(results)
    artifacts: Location | None = expansion.loaded.config.artifacts_dir
    if isinstance(artifacts, str):
        text = _text(expansion, "artifacts_dir", artifacts, str(results_dir), problems)
        artifacts = _read_place(text, expansion.environ)
    if isinstance(artifacts, str):
        message = f"{artifacts} is not a directory of this machine"
        problems.append(expansion.loaded.problem(("artifacts_dir",), message))
        artifacts = None
    url = results if isinstance(results, str) else ""
    return Directories(session=session, results_dir=results_dir, artifacts_dir=artifacts, results_url=url)


def find_results(expansion: Expansion, given: Location | None, problems: list[Problem]) -> Location:
    """Where sessions are kept, a directory or the URL of an object store; what a user gives wins."""
    configured = expansion.loaded.config.results_dir
    text = str(given) if given else _text(expansion, "results_dir", configured, _RESULTS_DIR, problems)
    return _read_place(text, expansion.environ)


def _read_place(text: str, environ: Mapping[str, str]) -> Location:
    place = parse_location(text)
    return place if isinstance(place, str) else Path(normalise(expand_home(str(place), environ)))


def find_results_place(loaded: Loaded, environ: Mapping[str, str] | None = None) -> Location:
    """Where the configuration has sessions kept: a directory, or the URL of an object store."""
    problems: list[Problem] = []
    place = find_results(Expansion(loaded, os.environ if environ is None else environ, {}), None, problems)
    if problems:
        raise ConfigError([*loaded.problems, *problems])
    return place


def find_results_dir(loaded: Loaded, environ: Mapping[str, str] | None = None) -> Path:
    """The directory of this machine in which the configuration has sessions run."""
    return working_dir(find_results_place(loaded, environ))


def find_artifacts_dir(loaded: Loaded, environ: Mapping[str, str] | None = None) -> Path | None:
    """The directory in which the configuration has logs and scratch data kept, if it names one that is known."""
    problems: list[Problem] = []
    expansion = Expansion(loaded, os.environ if environ is None else environ, {})
    results = find_results(expansion, None, problems)
    return find_directories(expansion, "", results, problems).artifacts_dir if not problems else None


def _text(expansion: Expansion, key: str, value: str, results_dir: str, problems: list[Problem]) -> str:
    """A directory given at the top; placeholders are filled in, in one pass with its variables."""
    if "{" not in value:
        return value
    notes = Notes()
    written = at(expansion.loaded.tree, (key,)).raw
    text = expansion.expand(value if written is None else written, Scope((key,)), notes)
    text = text.replace(_RESULTS_DIR, results_dir)
    problems += notes.problems
    problems += [expansion.loaded.problem(one.path, str(one)) for one in notes.unset]
    if "\x00" in text:
        message = f"{value!r} names what is only known in a session; name a fixed directory"
        problems.append(expansion.loaded.problem((key,), message))
    return text


def viewer_url(expansion: Expansion, directories: Directories, problems: list[Problem]) -> str | None:
    """The link to the session; the machine that serves it knows the host's paths."""
    config = expansion.loaded.config
    if config.viewer_url_template is None:
        return config.viewer_url
    if directories.results_url:
        results, session = directories.results_url, f"{directories.results_url}/{directories.session}"
    else:
        results = _on_host(expansion, str(directories.results_dir))
        session = _on_host(expansion, str(directories.session_dir))
    known = {"results_path": results, "session_name": directories.session, "session_path": session}
    known |= {f"{name}_url": quote(value, safe="") for name, value in known.items()}
    template = parse(config.viewer_url_template, variables=False)
    unknown = [part for part in template if not isinstance(part, str) and part.name not in known]
    if unknown:
        message = f"{unknown[0].text}: unknown placeholder; known are {', '.join(known)}"
        problems.append(expansion.loaded.problem(("viewer_url_template",), message))
        return None
    return fill(template, lambda atom: known[atom.name])


def _on_host(expansion: Expansion, path: str) -> str:
    """A path inside the container as the host sees it; the longest mount wins."""
    if not expansion.inside:
        return path
    mounts = [
        [expansion.path(item.name, inside=inside, notes=Notes()) for inside in (True, False)]
        for item in expansion.loaded.config.paths
    ]
    for inside, host in sorted(mounts, key=lambda mount: -len(mount[0])):
        if path == inside or path.startswith(f"{inside.rstrip('/')}/"):
            return host + path[len(inside.rstrip("/")) :]
    return path

"""The arguments of one entry of a suite file, for running a benchmark script by hand as the suite would."""

import shlex
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from paceline.errors import PacelineError


def entry_arguments(config: Path, name: str) -> list[str]:
    """The entry's arguments with its placeholders filled in; results go to `results/<entry>` here."""
    entry = _find(config, name)
    args = entry.get("args", "")
    words = shlex.split(args) if isinstance(args, str) else [str(word) for word in args]
    repo = str(_repo_dir(config))
    known = {"session_entry_dir": str(Path("results") / name), "repo_dir": repo, "curator_repo_dir": repo}
    return [_fill(word, known, f"{config}: entry {name}") for word in words]


def _find(config: Path, name: str) -> dict[str, Any]:
    try:
        suite = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PacelineError(f"{config}: cannot be read: {error}") from error
    entries = suite.get("entries") if isinstance(suite, dict) else None
    named = {entry.get("name"): entry for entry in entries or [] if isinstance(entry, dict)}
    if name not in named:
        raise PacelineError(f"{config}: no entry {name!r}; there are {', '.join(map(str, named)) or 'none'}")
    found: dict[str, Any] = named[name]
    return found


def _fill(word: str, known: dict[str, str], where: str) -> str:
    try:
        fields = [field for _, field, _, _ in Formatter().parse(word) if field is not None]
    except ValueError as error:
        raise PacelineError(f"{where}: {word}: {error}") from error
    unknown = [field for field in fields if field not in known]
    if unknown:
        raise PacelineError(
            f"{where}: {{{unknown[0]}}} is only known to `paceline run`; give that argument here"
        )
    return word.format_map(known)


def _repo_dir(config: Path) -> Path:
    """The git top level of the config file, else its directory."""
    here = config.resolve().parent
    return next((parent for parent in (here, *here.parents) if (parent / ".git").exists()), here)

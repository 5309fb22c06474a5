"""Who is asked first about a change: the author of its cause, else who owns the benchmark's file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.findings.commits import Repository
from paceline.findings.ranking import Incident

_PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_FILE = re.compile(r"[\w./-]+\.\w+(?=::|$)|[\w.-]+(?:/[\w.-]+)+")


class Owners:
    """The rules of a CODEOWNERS file: the last that fits a path says whose it is."""

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[re.Pattern[str], str]] = []
        for line in text.splitlines():
            pattern, *names = line.partition("#")[0].split() or [""]
            if pattern and not pattern.startswith(("[", "^[")):  # a section of GitLab's
                self._rules.append((_matcher(pattern), " ".join(names)))

    def of(self, path: str) -> str:
        """The owners of a file; empty if nobody owns it."""
        found = [names for pattern, names in self._rules if pattern.fullmatch(path.removeprefix("./"))]
        return found[-1] if found else ""

    def of_case(self, case: str, paths: Sequence[str]) -> str:
        """The owners of the file that a case's name begins with, or of the first of its files that has any."""
        named = _FILE.findall(case.partition("[")[0])[:1]
        return next(filter(None, map(self.of, (*named, *paths))), "")


def read_owners(repository: Repository | None) -> Owners:
    """Those that the repository names, in one of the places where forges look."""
    texts = (repository.read(place) for place in _PLACES) if repository else iter(())
    return Owners(next(filter(None, texts), ""))


def owner_of(incident: Incident, of_file: str) -> str:
    """Who is asked first; `of_file` owns the benchmark."""
    commits = [one for one in incident.suspects if one.get("kind") in ("commit", "commits")]
    authors = {_author(one) for one in commits}
    return _author(incident.culprit) or of_file or (authors.pop() if len(authors) == 1 else "")


def _author(cause: Mapping[str, Any] | None) -> str:
    return str((cause or {}).get("author") or "")


def _matcher(pattern: str) -> re.Pattern[str]:
    """A pattern as in .gitignore: `*` stays in a directory, a name alone fits anywhere, a directory all below it."""
    anchored = "/" in pattern.rstrip("/")
    parts = re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", pattern.strip("/"))
    signs = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    text = "".join(signs.get(part, re.escape(part)) for part in parts)
    below = "" if anchored and pattern.endswith("/*") else "(?:/.*)?"
    return re.compile(f"{'' if anchored else '(?:.*/)?'}{text}{below}")

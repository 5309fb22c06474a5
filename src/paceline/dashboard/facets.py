"""What lists can be narrowed down by: the suite that a case belongs to, its tags, and who is asked about it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.findings.owners import Owners

_SUITE = re.compile(r"(.+?)::|([^.\[/]+)\.[^.\[]+\.|([^\[/]+/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """The tags of each case, the files that its command names, and the owners of files."""

    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    paths: Mapping[str, Sequence[str]] = field(default_factory=dict)
    owners: Owners = field(default_factory=lambda: Owners(""))

    def of_case(self, case: str) -> dict[str, Any]:
        """What is known of a case; what is not is left out."""
        told = {"suite": suite_of(case), "tags": self.tags.get(case), "owner": self.owner(case)}
        return {name: fact for name, fact in told.items() if fact}

    def owner(self, case: str) -> str:
        """Who owns the files of a case."""
        return self.owners.of_case(case, self.paths.get(case, ()))


def suite_of(case: str) -> str:
    """The file, module or directory that a case's name begins with; empty if it is a name alone."""
    found = _SUITE.match(case)
    return next(filter(None, found.groups()), "") if found else ""

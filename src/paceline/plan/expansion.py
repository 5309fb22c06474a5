"""What every placeholder and variable stands for in one plan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from paceline.config.load import Loaded
from paceline.config.nodes import Location
from paceline.config.paths import expand_home, in_container, mounted, normalise
from paceline.config.templates import Atom, Template, Unset, fill, look_up, parse
from paceline.errors import Problem, did_you_mean
from paceline.model import Scalar, Setting, one_spelling, write_scalar
from paceline.record.repository import find_top

FILE_NAMES = ("config_dir", "repo_dir", "curator_repo_dir")
"""Placeholders that depend on the file they are written in."""

_DEEPEST = 50
_parse = lru_cache(parse)  # all cases of a matrix have the same texts
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What came up while texts were filled in."""

    problems: list[Problem] = field(default_factory=list)
    unset: list[Unset] = field(default_factory=list)
    data_paths: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Notes") -> None:
        self.problems.extend(other.problems)
        self.unset.extend(other.unset)
        self.data_paths.update(other.data_paths)
        self.variables.update(other.variables)


class Scope(NamedTuple):
    """Where a text stands in the configuration, and what only texts of that case may name."""

    location: Location
    params: Mapping[str, Scalar] | None = None
    needs: Mapping[str, str] | None = None


class Expansion:
    """Fills templates; data sets and paths are filled where they are defined, once."""

    def __init__(
        self,
        loaded: Loaded,
        environ: Mapping[str, str],
        names: Mapping[str, str],
        setting: Setting | None = None,
    ) -> None:
        config = loaded.config
        self.loaded = loaded
        self.setting = setting or Setting()
        self.inside = in_container(environ)
        self.environ = environ
        self._names = names
        self._paths = {item.name: i for i, item in enumerate(config.paths)}
        self._datasets = {
            (dataset.name, one.type): (i, j)
            for i, dataset in enumerate(config.datasets)
            for j, one in enumerate(dataset.formats)
        }
        self._directories: dict[str, str] = {}
        self._repositories: dict[str, str] = {}
        self.warnings: list[str] = []
        self._defined: dict[Location, tuple[str, Notes]] = {}
        self._open: list[Location] = []

    def expand(self, text: str, scope: Scope, notes: Notes) -> str:
        """The text with values put in; what has none is left as it was written, and noted."""
        return text if "{" not in text and "$" not in text else self.fill(_parse(text), scope, notes)

    def fill(self, template: Template, scope: Scope, notes: Notes) -> str:
        return fill(template, lambda atom: self._resolve(atom, scope, notes))

    def config_dir(self, location: Location) -> str:
        """The directory of the file that wrote what is at a location."""
        file = self.loaded.mark(location).file
        if file not in self._directories:
            self._directories[file] = str(Path(normalise(file)).parent)
        return self._directories[file]

    def repo_dir(self, location: Location, placeholder: str = "{repo_dir}") -> str:
        """The top of the git working tree around that directory, or the directory itself, with a warning."""
        if self.setting.repo_dir is not None:
            return self.setting.repo_dir
        directory = self.config_dir(location)
        if directory not in self._repositories:
            top = find_top(Path(directory))
            self._repositories[directory] = str(top or directory)
            if top is None:
                message = f"{placeholder} is {directory}, as no git working tree is around it"
                self.warnings.append(str(self.loaded.problem(location, message)))
        return self._repositories[directory]

    def is_left_out(self, name: str) -> bool:
        """Whether a case or data set-up of this name may be among those that were left out for their faults."""
        out = self.loaded.left_out
        names = out.get("entries", frozenset()) | out.get("data_setups", frozenset())
        return "" in names or any(name == one or name.startswith(f"{one}[") for one in names)

    def path(self, name: str, *, inside: bool, notes: Notes) -> str:
        """A configured path by its name, as seen from inside a container or from the host."""
        index = self._paths[name]
        item = self.loaded.config.paths[index]
        if inside and item.container_path is not None:
            return self._define(("paths", index, "container_path"), item.container_path, notes)
        host = self._define(("paths", index, "host_path"), item.host_path, notes)
        return mounted(host) if inside else host

    def check_path_names(self) -> list[Problem]:
        """Names of paths that no placeholder can reach."""
        problems = []
        for name, index in self._paths.items():
            if name in self._names or name in FILE_NAMES:
                message = f"{{{name}}} is a placeholder already; rename the path"
            elif not _IDENTIFIER.fullmatch(name):
                message = f"{name!r} cannot be a placeholder; use letters, digits and '_'"
            else:
                continue
            problems.append(self.loaded.problem(("paths", index, "name"), message))
        return problems

    def _resolve(self, atom: Atom, scope: Scope, notes: Notes) -> str:
        match atom.kind:
            case "variable":
                return self._variable(atom, scope, notes)
            case "name":
                return self._name(atom, scope, notes)
            case "dataset":
                return self._dataset(atom, scope, notes)
            case "matrix":
                return self._matrix(atom, scope, notes)
            case "needs":
                return self._needs(atom, scope, notes)

    def _variable(self, atom: Atom, scope: Scope, notes: Notes) -> str:
        value = look_up(atom, self.environ)
        if isinstance(value, tuple):
            return self.fill(value, scope, notes)
        if isinstance(value, Unset):
            notes.unset.append(replace(value, path=scope.location, mark=self.loaded.mark(scope.location)))
            return atom.text
        notes.variables[atom.name] = value
        return value

    def _name(self, atom: Atom, scope: Scope, notes: Notes) -> str:
        name = atom.name
        if (value := self._names.get(name)) is not None:
            return value
        if name in self._paths:
            # A path's own `host_path` is made of host paths, wherever we run.
            inside = self.inside and scope.location[-1:] != ("host_path",)
            return self.path(name, inside=inside, notes=notes)
        if name in FILE_NAMES:
            if name == "config_dir":
                return self.config_dir(scope.location)
            return self.repo_dir(scope.location, atom.text)
        if "paths" in self.loaded.left_out:
            return atom.text
        close = get_close_matches(name, [*self._names, *FILE_NAMES, *self._paths], 1)
        hint = f"did you mean {{{close[0]}}}? " if close else ""
        message = f"unknown placeholder; {hint}{{{atom.text}}} is the literal text"
        return self._complain(atom, scope, notes, message)

    def _dataset(self, atom: Atom, scope: Scope, notes: Notes) -> str:
        key = (atom.name, atom.detail)
        if key in self._datasets:
            i, j = self._datasets[key]
            text = self.loaded.config.datasets[i].formats[j].path
            value = self._define(("datasets", i, "formats", j, "path"), text, notes)
            notes.data_paths[value] = ",".join(key)
            return value
        if "datasets" in self.loaded.left_out:
            return atom.text
        formats = [format_ for name, format_ in self._datasets if name == atom.name]
        if formats:
            message = f"data set {atom.name!r} has no format {atom.detail!r}; it has {', '.join(formats)}"
        else:
            known = list(dict.fromkeys(name for name, _ in self._datasets))
            hint = did_you_mean(atom.name, known, f"known: {', '.join(known) or 'none'}")
            message = f"unknown data set {atom.name!r}; {hint}"
        return self._complain(atom, scope, notes, message)

    def _matrix(self, atom: Atom, scope: Scope, notes: Notes) -> str:
        params = scope.params
        if params is None:
            return self._complain(atom, scope, notes, "there is no matrix here")
        if atom.name in params:
            return write_scalar(params[atom.name])
        close = get_close_matches(atom.name, params, 1)
        hint = f"it has {', '.join(params) or 'no matrix'}"
        hint = f"did you mean {{matrix.{close[0]}}}?" if close else hint
        return self._complain(atom, scope, notes, f"the case has no such parameter; {hint}")

    def _needs(self, atom: Atom, scope: Scope, notes: Notes) -> str:
        name = self.fill(atom.inner or (), scope, notes)
        directories = scope.needs or {}
        name = name if name in directories else one_spelling(name)
        if name in directories:
            return directories[name]
        if self.is_left_out(name):
            return atom.text
        cells = [case for case in directories if case.startswith(f"{name}[")]
        if len(cells) == 1:
            return directories[cells[0]]
        message = f"{name!r} is not a case that this one needs; add it to 'needs'"
        if cells:
            message = f"{name!r} has several cases; name one of {', '.join(cells[:5])}"
        return self._complain(atom, scope, notes, message)

    def _define(self, location: Location, text: str, notes: Notes) -> str:
        """The text of a data set or path, filled in once."""
        if location in self._open or len(self._open) == _DEEPEST:
            message = f"{text!r} comes back to {self.loaded.label(location)}; break the circle"
            if location not in self._open:
                message = f"more than {_DEEPEST} definitions refer to one another; name the directory itself"
            notes.problems.append(self.loaded.problem(location, message))
            return text
        if location not in self._defined:
            own = Notes()
            self._open.append(location)
            value = expand_home(self.expand(text, Scope(location), own), self.environ)
            self._defined[location] = (value, own)
            self._open.pop()
        value, known = self._defined[location]
        notes.add(known)
        return value

    def _complain(self, atom: Atom, scope: Scope, notes: Notes, message: str) -> str:
        notes.problems.append(self.loaded.problem(scope.location, f"{atom.text}: {message}"))
        return atom.text

"""An entry's program, arguments, environment and directory: read once, filled in for each of its cases."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from paceline.config.nodes import Location
from paceline.config.paths import expand_home, normalise
from paceline.config.schema import Config, DataSetup, Entry
from paceline.config.templates import Template, parse, split
from paceline.model import RUN_DIR, Scalar
from paceline.plan.expansion import Expansion, Notes, Place

RESULTS_FLAG = "--benchmark-results-path"
RESULTS_PATH = "\x00results_path\x00"
"""Stands for the directory of a run's results until the arguments say which it is."""
SEARCH_PATH = "\x00search_path\x00"
"""Stands for the user's PATH, which may be another one when a session goes on."""
DEFAULT_RESULTS_PATH = f"{RUN_DIR}/benchmark_results"


class Text(NamedTuple):
    """A template and where it was written."""

    template: Template
    location: Location


Word = Text | str
"""A word with something to fill in, or one that is as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The texts of an entry or a data set-up; `program` is its command, or what interprets its script."""

    location: Location
    script: Text | None
    program: tuple[Word, ...]
    args: tuple[Word, ...]
    env: Mapping[str, Word]
    cwd: Text | None
    bases: tuple[Text, ...]


class Command(NamedTuple):
    """What one case runs; `script` is the file that decides its result, if there is one."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    results_path: str
    script: str | None


def read_recipe(work: Entry | DataSetup, location: Location, expansion: Expansion, notes: Notes) -> Recipe:
    """The texts of an entry or data set-up as templates; an open quote is noted as a problem."""
    words = partial(_words, expansion=expansion, notes=notes)
    config = expansion.loaded.config
    program = work.interpreter if work.script is not None else work.command
    return Recipe(
        location=location,
        script=_text(work.script, (*location, "script")),
        program=words(program, (*location, "interpreter" if work.script is not None else "command")),
        args=words(work.args, (*location, "args")),
        env=_environment(work, location, config),
        cwd=_text(work.cwd, (*location, "cwd")),
        bases=tuple(
            text
            for text in (
                _text(work.script_base_dir, (*location, "script_base_dir")),
                _text(config.script_base_dir, ("script_base_dir",)),
            )
            if text is not None
        ),
    )


class Scripts:
    """Looks scripts up, each once for the same directories."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, tuple[str, ...]], str | None] = {}

    def find(self, name: str, directories: tuple[str, ...]) -> str | None:
        key = (name, directories)
        if key not in self._found:
            candidates = (normalise(str(Path(directory, name))) for directory in directories)
            # Unlike Path's, it says no to a name that is too long or a directory we may not enter.
            self._found[key] = next((path for path in candidates if os.path.isfile(path)), None)  # noqa: PTH113
        return self._found[key]


class Filling:
    """Fills in the recipe for one case; what comes up is in `notes`."""

    def __init__(
        self,
        expansion: Expansion,
        recipe: Recipe,
        *,
        params: Mapping[str, Scalar] | None = None,
        needs: Mapping[str, str] | None = None,
    ) -> None:
        self.recipe = recipe
        self.notes = Notes()
        self._expansion = expansion
        self._params = params
        self._needs = needs

    def command(self, scripts: Scripts, *, takes_results_flag: bool) -> Command:
        """The whole command."""
        script = self._script(scripts)
        program = self._program(script)
        args = self._args()
        env = self._env()
        cwd = self._directory(self.recipe.cwd) if self.recipe.cwd else self._expansion.setting.repo_dir
        results_path = DEFAULT_RESULTS_PATH
        if takes_results_flag:
            results_path = self._results_path(args, cwd)
        return Command(argv=(*program, *args), env=env, cwd=cwd, results_path=results_path, script=script)

    def _args(self) -> list[str]:
        """The arguments; those of a setting follow if they begin with a flag, since the last of a flag counts."""
        args = self._words(self.recipe.args)
        location = self.recipe.location
        entries = self._expansion.loaded.config.entries
        name = entries[int(location[1])].name if location[0] == "entries" else ""
        others = self._expansion.setting.args.get(name)
        if others is None:
            return args
        return [*args, *others] if others[:1] and others[0].startswith("-") else [*others]

    def _env(self) -> dict[str, str]:
        setting = self._expansion.setting
        env = dict(zip(self.recipe.env, self._words(self.recipe.env.values()), strict=True))
        env |= setting.env
        if setting.repo_dir is not None:
            env["PACELINE_REPO"] = setting.repo_dir
        if setting.path:
            env["PATH"] = os.pathsep.join((*setting.path, env.get("PATH", SEARCH_PATH)))
        return env

    def _words(self, words: Iterable[Word]) -> list[str]:
        return [word if isinstance(word, str) else self._fill(word) for word in words]

    def _fill(self, text: Text) -> str:
        place = Place(text.location, self._params, self._needs)
        return self._expansion.fill(text.template, place, self.notes)

    def _directory(self, text: Text) -> str:
        """A directory, relative to the file that names it."""
        return _below(self._expansion.config_dir(text.location), expand_home(self._fill(text)))

    def _program(self, script: str | None) -> list[str]:
        program = self._words(self.recipe.program)
        if script is None:
            return program
        if not program and script.endswith(".py"):
            return [self._expansion.setting.python or sys.executable, script]
        is_file = os.path.isfile(script)  # noqa: PTH113
        if not program and is_file and not os.access(script, os.X_OK):
            self._complain("script", f"{script} is not executable; chmod +x it, or give an 'interpreter'")
        return [*program, script]

    def _script(self, scripts: Scripts) -> str | None:
        text = self.recipe.script
        if text is None:
            return None
        name = self._fill(text)
        directories = self._script_directories(text.location)
        if self.notes.unset or self.notes.problems or "script_base_dir" in self._expansion.loaded.left_out:
            return name
        found = scripts.find(name, directories)
        if found is None:
            places = "there" if name.startswith("/") else "in " + ", ".join(directories)
            self._complain("script", f"{name!r} is not {places}; create it, or set 'script_base_dir'")
        return found or name

    def _script_directories(self, location: Location) -> tuple[str, ...]:
        directories = [self._directory(base) for base in self.recipe.bases]
        beside = self._expansion.config_dir(location)
        if location[0] == "data_setups":
            directories.append(f"{beside}/data_prep")
        return tuple(dict.fromkeys((*directories, f"{beside}/scripts", beside)))

    def _results_path(self, args: list[str], cwd: str | None) -> str:
        """Where the arguments send the results; the flag is added to them unless they have it."""
        given = _flag_value(args)
        if given is None:
            args += (RESULTS_FLAG, DEFAULT_RESULTS_PATH)
            return DEFAULT_RESULTS_PATH
        if not given:
            self._complain("args", f"{RESULTS_FLAG} has no value; give one, or leave the flag out")
        path = given.replace(RESULTS_PATH, DEFAULT_RESULTS_PATH)
        return _below(cwd or str(Path.cwd()), path)

    def _complain(self, key: str, message: str) -> None:
        location = (*self.recipe.location, key)
        self.notes.problems.append(self._expansion.problem(location, message))


def _words(
    value: str | Sequence[str] | None, location: Location, expansion: Expansion, notes: Notes
) -> tuple[Word, ...]:
    if value is None:
        return ()
    if not isinstance(value, str):
        return tuple(_word(parse(item), (*location, i)) for i, item in enumerate(value))
    try:
        return tuple([_word(template, location) for template in split(value)])
    except ValueError as error:
        notes.problems.append(expansion.problem(location, f"{error}; mend it, or write a list of arguments"))
        return ()


def _below(directory: str, path: str) -> str:
    # A mark stands for an absolute path, though it does not look like one.
    return path if path.startswith("\x00") else normalise(str(Path(directory, path)))


def _word(template: Template, location: Location) -> Word:
    first = template[0] if len(template) == 1 else None
    return first if isinstance(first, str) else Text(template, location)


def _text(value: str | None, location: Location) -> Text | None:
    return None if value is None else Text(parse(value), location)


def _environment(work: Entry | DataSetup, location: Location, config: Config) -> dict[str, Word]:
    shared = {name: _word(parse(value), ("env", name)) for name, value in config.env.items()}
    own = {name: _word(parse(value), (*location, "env", name)) for name, value in work.env.items()}
    return {**shared, **own}


def _flag_value(args: Sequence[str]) -> str | None:
    """What the results flag is given; the last one counts, as for most parsers, and "" is none at all."""
    value = None
    for i, word in enumerate(args):
        if word == RESULTS_FLAG:
            value = args[i + 1] if i + 1 < len(args) else ""
        elif word.startswith(f"{RESULTS_FLAG}="):
            value = word.removeprefix(f"{RESULTS_FLAG}=")
    return value

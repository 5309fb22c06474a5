"""What a case runs: the program, arguments, environment and directory of an entry or a data set-up, filled in."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from paceline.config.nodes import Location
from paceline.config.paths import expand_home, normalise
from paceline.config.schema import DataSetup, Entry
from paceline.config.templates import split
from paceline.errors import did_you_mean
from paceline.model import RUN_DIR, Scalar
from paceline.plan.expansion import Expansion, Notes, Scope
from paceline.record import below

RESULTS_FLAG = "--benchmark-results-path"
RESULTS_PATH = "\x00results_path\x00"
"""Stands for the directory of a run's results until the arguments say which it is."""
SEARCH_PATH = "\x00search_path\x00"
"""Stands for the user's PATH, which may be another one when a session goes on."""
DEFAULT_RESULTS_PATH = f"{RUN_DIR}/benchmark_results"

_LONGEST_SCRIPT = 100_000
_MOST_SCRIPTS = 1000

Scripts = dict[tuple[str, tuple[str, ...]], str | None]
"""Where a plan found its scripts, by name and directories, so that each is looked up once."""

_split = lru_cache(split)  # all cases of a matrix have the same texts


def _scripts_in(directories: Sequence[str]) -> list[str]:
    """The names of what could be meant by a script that is not there; directories of others are not searched."""
    found: list[str] = []
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            found += [entry.name for entry in islice(entries, _MOST_SCRIPTS) if entry.is_file()]
    return found


class Command(NamedTuple):
    """Those fields of a case that say what it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    results_path: str
    script: str | None


class SuiteCall(NamedTuple):
    """How the suite of another tool is asked what it has, and run."""

    kind: str
    python: tuple[str, ...]
    paths: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Fills in the texts of an entry or a data set-up for one case; what comes up is in `notes`."""

    expansion: Expansion
    work: Entry | DataSetup
    location: Location
    params: Mapping[str, Scalar] | None = None
    needs: Mapping[str, str] | None = None
    notes: Notes = field(default_factory=Notes)

    def command(self, scripts: Scripts, *, takes_results_flag: bool) -> Command:
        """The whole command."""
        work, setting = self.work, self.expansion.setting
        script = self._script(scripts)
        if script is None:
            program = self._words(work.command, "command")
        else:
            program = self._interpreted(self._words(work.interpreter, "interpreter"), script)
        args = self._args()
        env = self._env()
        cwd = setting.repo_dir if work.cwd is None else self._directory(work.cwd, (*self.location, "cwd"))
        if setting.repo_top and not self._names_revision((*program, *args), env, script):
            program, args = ([self._in_revision(word, script) for word in words] for words in (program, args))
            script, cwd = (path and self._in_revision(path, script) for path in (script, cwd))
        results_path = self._results_path(args, cwd) if takes_results_flag else DEFAULT_RESULTS_PATH
        return Command((*program, *args), env, cwd, results_path, script)

    def suite(self) -> SuiteCall:
        """The suite of an entry `pytest` or `asv`.

        Tests are those of the revision that is measured, where it has them; asv's benchmarks stay those of today, as
        asv has it. A revision that was not installed is imported from its tree.
        """
        entry, setting = self.work, self.expansion.setting
        assert isinstance(entry, Entry)
        kind = "asv" if entry.asv is not None else "pytest"
        given = entry.asv if entry.pytest is None else entry.pytest
        location = (*self.location, kind)
        paths = [
            self._suite_path(text, location) for text in ([given] if isinstance(given, str) else given or ())
        ]
        env, args = self._env(), self._args()
        if setting.repo_top and kind == "pytest":
            paths = [self._in_revision(path, None) for path in paths]
        if setting.python is not None and kind == "pytest":
            args += ("--import-mode=append",)  # what is installed comes before what lies beside the tests
        elif setting.repo_dir is not None:
            tree = setting.repo_dir
            found = [path for path in (f"{tree}/src", tree) if os.path.isdir(path)]  # noqa: PTH112
            others = env.get("PYTHONPATH") or self.expansion.environ.get("PYTHONPATH")
            env["PYTHONPATH"] = os.pathsep.join([*found, *filter(None, [others])])
        cwd = None if entry.cwd is None else self._directory(entry.cwd, (*self.location, "cwd"))
        python = self._words(entry.interpreter, "interpreter") or [setting.python or sys.executable]
        return SuiteCall(kind, tuple(python), tuple(paths), tuple(args), env, cwd)

    def _suite_path(self, text: str, location: Location) -> str:
        """A path of tests or benchmarks, which must be there; behind `::` is the name of a test."""
        path, colons, rest = self._directory(text, location).partition("::")
        if not self.notes.unset and not os.path.exists(path):  # noqa: PTH110
            message = f"{path} is not there; name a file or a directory"
            self.notes.problems.append(self.expansion.loaded.problem(location, message))
        return f"{path}{colons}{rest}"

    def _args(self) -> list[str]:
        args = self._words(self.work.args, "args")
        others = self.expansion.setting.args.get(self.work.name) if isinstance(self.work, Entry) else None
        if others is None:
            return args
        # Those of a setting follow if they begin with a flag, since the last of a flag counts.
        return [*args, *others] if others[:1] and others[0].startswith("-") else [*others]

    def _names_revision(self, argv: Sequence[str], env: Mapping[str, str], script: str | None) -> bool:
        """Whether a command says by itself where the revision lies that it measures."""
        directory = self.expansion.setting.repo_dir or ""
        texts = (*argv, *(text for name, text in env.items() if name != "PACELINE_REPO"))
        return any(directory in text for text in texts) or b"PACELINE_REPO" in _read_start(script)

    def _in_revision(self, word: str, script: str | None) -> str:
        """A path of the user's own tree as that of the same file in the revision, if it is the script or is there.

        What git does not keep, such as data or the Python of an environment, is nowhere but in the user's tree.
        """
        setting = self.expansion.setting
        inside = f"{setting.repo_top}/"
        moved = f"{setting.repo_dir}/{word.removeprefix(inside)}"
        is_there = word.startswith(inside) and (word == script or os.path.exists(moved))  # noqa: PTH110
        return moved if is_there else word

    def _text(self, text: str, location: Location) -> str:
        return self.expansion.expand(text, Scope(location, self.params, self.needs), self.notes)

    def _words(self, value: str | Sequence[str] | None, key: str) -> list[str]:
        location = (*self.location, key)
        if value is None:
            return []
        if not isinstance(value, str):
            return [self._text(item, (*location, i)) for i, item in enumerate(value)]
        try:
            templates = _split(value)
        except ValueError as error:
            self._complain(key, f"{error}; correct it, or write a list of arguments")
            return []
        scope = Scope(location, self.params, self.needs)
        return [self.expansion.fill(template, scope, self.notes) for template in templates]

    def _env(self) -> dict[str, str]:
        setting = self.expansion.setting
        texts: dict[str, tuple[str, Location]] = {}
        for location, given in ((), self.expansion.loaded.config.env), (self.location, self.work.env):
            texts |= {name: (text, (*location, "env", name)) for name, text in given.items()}
        env = {name: self._text(*text) for name, text in texts.items()}
        env |= setting.env
        if setting.repo_dir is not None:
            env["PACELINE_REPO"] = setting.repo_dir
        if setting.path:
            env["PATH"] = os.pathsep.join((*setting.path, env.get("PATH", SEARCH_PATH)))
        return env

    def _directory(self, text: str, location: Location) -> str:
        """A directory, relative to the file that names it."""
        return _below(self.expansion.config_dir(location), expand_home(self._text(text, location)))

    def _base_dir(self, text: str, location: Location) -> str:
        """A directory of scripts, which must be there."""
        directory = self._directory(text, location)
        is_session = "\x00" in directory
        if not self.notes.unset and (is_session or not os.path.isdir(directory)):  # noqa: PTH112
            why = (
                "known only in a session; name a fixed directory" if is_session else "no directory; create it"
            )
            what = text if is_session else directory
            self.notes.problems.append(self.expansion.loaded.problem(location, f"{what!r} is {why}"))
        return directory

    def _script(self, scripts: Scripts) -> str | None:
        """The file of the script, looked up in the directories where it may be."""
        if self.work.script is None:
            return None
        loaded = self.expansion.loaded
        location = (*self.location, "script")
        name = self._text(self.work.script, location)
        bases = (
            (self.work.script_base_dir, (*self.location, "script_base_dir")),
            (loaded.config.script_base_dir, ("script_base_dir",)),
        )
        directories = [self._base_dir(base, at) for base, at in bases if base is not None]
        beside = self.expansion.config_dir(location)
        if location[0] == "data_setups":
            directories.append(f"{beside}/data_prep")
        if self.notes.unset or self.notes.problems or "script_base_dir" in loaded.left_out:
            return name
        if "\x00" in name:
            self._complain("script", f"{self.work.script!r} is known only in a session; name a fixed file")
            return name
        searched = tuple(dict.fromkeys((*directories, f"{beside}/scripts", beside)))
        if (name, searched) not in scripts:
            files = (normalise(str(Path(directory, name))) for directory in searched)
            # Unlike Path's, it says no to a name that is too long or a directory we may not enter.
            scripts[name, searched] = next((file for file in files if os.path.isfile(file)), None)  # noqa: PTH113
        found = scripts[name, searched]
        if found is None:
            where = "there" if name.startswith("/") else "in " + ", ".join(searched)
            hint = did_you_mean(name, _scripts_in(searched), "create it, or set 'script_base_dir'")
            self._complain("script", f"{name!r} is not {where}; {hint}")
        return found or name

    def _interpreted(self, interpreter: list[str], script: str) -> list[str]:
        if interpreter:
            return [*interpreter, script]
        if script.endswith(".py"):
            return [self.expansion.setting.python or sys.executable, script]
        if os.path.isfile(script) and not os.access(script, os.X_OK):  # noqa: PTH113
            self._complain("script", f"{script} is not executable; chmod +x it, or give an 'interpreter'")
        return [script]

    def _results_path(self, args: list[str], cwd: str | None) -> str:
        """Where the arguments send the results; the flag is added to them unless they have it."""
        given = None
        for i, word in enumerate(args):  # the last one counts, as for most parsers
            if word == RESULTS_FLAG:
                given = args[i + 1] if i + 1 < len(args) else ""
            elif word.startswith(f"{RESULTS_FLAG}="):
                given = word.removeprefix(f"{RESULTS_FLAG}=")
        if given is None:
            args += (RESULTS_FLAG, DEFAULT_RESULTS_PATH)
            return DEFAULT_RESULTS_PATH
        if not given:
            self._complain("args", f"{RESULTS_FLAG} has no value; give one, or leave the flag out")
        return _below(cwd or str(Path.cwd()), given.replace(RESULTS_PATH, DEFAULT_RESULTS_PATH))

    def _complain(self, key: str, message: str) -> None:
        self.notes.problems.append(self.expansion.loaded.problem((*self.location, key), message))


def _read_start(script: str | None) -> bytes:
    with suppress(OSError, ValueError), below.open_given(Path(script or "")) as file:
        return file.read(_LONGEST_SCRIPT)
    return b""


def _below(directory: str, path: str) -> str:
    # A sentinel stands for an absolute path, though it does not look like one.
    return path if path.startswith("\x00") else normalise(str(Path(directory, path)))

"""What a user can act on. Anything else is a bug and keeps its traceback.

PacelineError           one line: what, where, what to do; exit code 2
├── ConfigError         one or more `Problem`s in the configuration files
├── SelectionError      --only, --exclude or --shard chose nothing or made no sense
├── SessionError        a session's directory: exists, missing, locked, unwritable
├── BuildError          an environment or a working tree for an experiment could not be made
├── HistoryError        the database, or a file to be imported into it
└── MissingExtra        a feature whose optional packages are not installed
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class PacelineError(Exception):
    """An error that the user can act on; `str()` is what is printed."""

    exit_code = 2
    secret_names: tuple[str, ...] = ()
    """What the suite marks as secret or takes out; the values of secrets are masked where the error is printed."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing wrong in a configuration file; on line 0 if it is the file itself."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class ConfigError(PacelineError):
    """All that is wrong in the configuration, a line each, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SelectionError(PacelineError):
    """A selection that matches nothing or cannot be read."""


class SessionError(PacelineError):
    """A session's directory is not usable as asked."""


class BuildError(PacelineError):
    """An environment or a working tree that an experiment needs could not be made."""


class HistoryError(PacelineError):
    """The history's database, or a file to be imported into it, is not usable as asked."""


class MissingExtra(PacelineError):
    """An optional feature is asked for and its packages are not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra} extra: pip install 'paceline[{extra}]'")


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Around the import of optional packages: without them, say which extra has them."""
    try:
        yield
    except ModuleNotFoundError:
        raise MissingExtra(what, extra) from None


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", *, most: int = 1) -> str:
    """The hint for a word that is none of those known: what looks like it, else `otherwise`."""
    from difflib import get_close_matches  # only who made a mistake needs it

    close = get_close_matches(word, list(known), most)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise

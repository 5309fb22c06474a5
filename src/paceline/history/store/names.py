"""What a case is called now: aliases lead from old names to new ones, resets begin new epochs."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from paceline.history.store.database import Database
from paceline.model import is_case, one_spelling


class CaseNames:
    """The renames of cases. One of `old` also holds for each `old[param=value]`."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases

    def current(self, key: str) -> str:
        """The name that a case goes by; renames in a circle lead to the first of them in the alphabet."""
        seen = [key]
        while (step := self._step(seen[-1])) is not None:
            if step in seen:
                return min(seen[seen.index(step) :])
            seen.append(step)
        return seen[-1]

    def _step(self, key: str) -> str | None:
        if key in self._aliases:
            return self._aliases[key]
        name, bracket, params = key.partition("[")
        new = self._aliases.get(name) if bracket else None
        # One case with parameters is no new name for all of them; and names would grow without end.
        return None if new is None or "[" in new else f"{new}[{params}"

    def patterns(self, pattern: str) -> list[str]:
        """A name or glob as somebody gave it, and what it leads to by renames, in the spelling of the history."""
        spelled = one_spelling(pattern)
        return list(dict.fromkeys([pattern, spelled, self.current(pattern), self.current(spelled)]))

    def all_of(self, key: str) -> list[str]:
        """Every name that the case had or has."""
        current = self.current(key)
        _, bracket, params = current.partition("[")
        found = {current, key}
        for old in self._aliases:
            candidates = (old, f"{old}[{params}") if bracket else (old,)
            found.update(one for one in candidates if self.current(one) == current)
        return sorted(found)

    def spellings(self, key: str) -> list[str]:
        """Every name that a case had or has, which somebody may have given in another order."""
        return sorted({*self.all_of(key), *self.all_of(one_spelling(key))})


def read_names(database: Database) -> CaseNames:
    return CaseNames(dict(database.rows("SELECT old_key, new_key FROM case_alias")))


def keep_names(database: Database) -> None:
    """Let cases and resets have the names they go by now, for who reads them by SQL."""
    names = read_names(database)
    for table, ident, key in (("case", "id", "key"), ("epoch", "ident", "case_key")):
        rows = database.rows(f'SELECT {ident}, {key}, current_key FROM "{table}"')
        changed = [(now, one) for one, name, known in rows if (now := names.current(name)) != known]
        database.many(f'UPDATE "{table}" SET current_key = ? WHERE {ident} = ?', changed)


class Epochs:
    """When each case was reset; points before a reset are not held against those after it."""

    def __init__(self, resets: Iterable[tuple[str, str]], names: CaseNames) -> None:
        times: defaultdict[str, set[str]] = defaultdict(set)
        for key, at in resets:
            times[names.current(key)].add(at)
        self._times = times

    def of(self, key: str) -> list[str]:
        """The resets of a case, oldest first; one of `name` is one of each `name[param=value]`."""
        own, of_all = self._times.get(key, set()), self._times.get(key.partition("[")[0], set())
        return sorted(own | of_all)


def read_epochs(database: Database, names: CaseNames) -> Epochs:
    rows = database.rows("SELECT case_key, at FROM epoch")
    return Epochs(((key, at) for key, at in rows), names)


class Matcher:
    """Names or globs; only `*` and `?` are special, and the parameters of a case may come in any order."""

    def __init__(self, patterns: Iterable[str] | None) -> None:
        given = list(patterns or ("*",))
        self._names = frozenset(text for text in given if not {"*", "?"} & set(text))
        globs = [text for text in given if text not in self._names]
        texts = [re.escape(text).replace(r"\*", ".*").replace(r"\?", ".") for text in globs]
        self._any = re.compile("|".join(f"(?:{text})" for text in texts), re.DOTALL) if texts else None
        self._cases = [text for text in given if text.endswith("]")]

    def fullmatch(self, text: str) -> bool:
        return (
            text in self._names
            or (self._any is not None and bool(self._any.fullmatch(text)))
            or any(is_case(one, text) for one in self._cases)
        )


def matcher(patterns: Iterable[str] | None) -> Matcher:
    return Matcher(patterns)

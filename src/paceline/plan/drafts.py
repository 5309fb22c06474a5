"""Entries → drafts: one for each cell of their matrix, with its name and what it needs; nothing filled in yet."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.config.rules import Cell, expand_matrix
from paceline.config.schema import Entry
from paceline.config.templates import parse_filled
from paceline.errors import Problem, did_you_mean
from paceline.model import Scalar, key_case, name_case
from paceline.plan.expansion import Expansion, Notes, Place
from paceline.plan.selection import Candidate, Cycle, arrange

_TOLD_CIRCLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A case before its texts are filled in; `position` is that of its entry."""

    name: str
    key: str
    entry: Entry
    position: int
    params: Mapping[str, Scalar]
    needs: tuple[str, ...] = ()
    setups: tuple[str, ...] = ()

    @property
    def candidate(self) -> Candidate:
        return Candidate(name=self.name, entry=self.entry.name, tags=tuple(self.entry.tags), needs=self.needs)


def draft_cases(expansion: Expansion) -> tuple[list[Draft], list[Problem]]:
    """All drafts, needs first, and what is wrong with matrices, names and needs."""
    problems: list[Problem] = []
    drafts: list[Draft] = []
    for position, entry in enumerate(expansion.loaded.config.entries):
        drafts.extend(_draft_entry(entry, position, expansion.setting.params))
    problems += _same_names(drafts, expansion)
    if any(draft.entry.needs for draft in drafts):
        drafts, found = _Needs(drafts, expansion).resolve()
        problems += found
    return drafts, problems


def _draft_entry(entry: Entry, position: int, others: Mapping[str, Scalar]) -> Iterator[Draft]:
    """A draft for each cell; the parameters of a setting change what runs, never what it is called."""
    cells: Sequence[Cell] = [{}]
    if entry.matrix is not None:
        cells = expand_matrix(entry.matrix.axes, entry.matrix.include, entry.matrix.exclude)
    others = {name: value for name, value in others.items() if _takes(entry, name, cells)}
    for params in cells:
        name, key = name_case(entry.name, params), key_case(entry.name, params)
        yield Draft(name=name, key=key, entry=entry, position=position, params={**params, **others})


def _takes(entry: Entry, name: str, cells: Sequence[Cell]) -> bool:
    """Whether an entry has the parameter: as an axis, or because its texts ask for it."""
    texts = (entry.script, entry.command, entry.args, entry.interpreter, entry.cwd, entry.env)
    return any(name in cell for cell in cells) or any(f"{{matrix.{name}}}" in str(text) for text in texts)


def _same_names(drafts: Sequence[Draft], expansion: Expansion) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for draft in drafts:
        # The key too must be unique: history knows a case by it.
        names = {draft.name, draft.key}
        if names & seen:
            message = f"two cases have the name {draft.name!r}; rename an entry or change the matrix"
            problems.append(expansion.problem(("entries", draft.position), message))
        seen |= names
    return problems


class _Needs:
    """Names in `needs` → cases."""

    def __init__(self, drafts: Sequence[Draft], expansion: Expansion) -> None:
        self._drafts = drafts
        self._expansion = expansion
        self._problems: list[Problem] = []
        self._setups = {setup.name for setup in expansion.loaded.config.data_setups}
        self._cases = {name: draft.name for draft in drafts for name in (draft.key, draft.name)}
        self._entries: defaultdict[str, list[str]] = defaultdict(list)
        for draft in drafts:
            self._entries[draft.entry.name].append(draft.name)

    def resolve(self) -> tuple[list[Draft], list[Problem]]:
        """The drafts with their needs, in an order that heeds them."""
        resolved = [self._with_needs(draft) if draft.entry.needs else draft for draft in self._drafts]
        by_name = {draft.name: draft for draft in resolved}
        candidates = [draft.candidate for draft in by_name.values()]
        for _ in range(_TOLD_CIRCLES):
            try:
                return [by_name[candidate.name] for candidate in arrange(candidates)], self._problems
            except Cycle as cycle:
                circle = {by_name[name].entry.name for name in cycle.names}
                location = ("entries", by_name[cycle.names[0]].position, "needs")
                self._problems.append(self._expansion.problem(location, f"a circle: {cycle}"))
            # Without the needs of its entries, the search goes on for other circles.
            candidates = [replace(one, needs=()) if one.entry in circle else one for one in candidates]
        return resolved, self._problems

    def _with_needs(self, draft: Draft) -> Draft:
        needs: dict[str, None] = {}
        setups: dict[str, None] = {}
        for i, text in enumerate(draft.entry.needs):
            place = Place(location=("entries", draft.position, "needs", i), params=draft.params)
            notes = Notes()
            name = self._expansion.fill(parse_filled(text), place, notes) if "{matrix." in text else text
            self._problems += notes.problems
            if found := self._find(name):
                needs.update(dict.fromkeys(found))
            elif name in self._setups:
                setups[name] = None
            elif not notes.problems and not self._expansion.is_left_out(name):
                self._problems.append(self._unknown(name, place))
        return replace(draft, needs=tuple(needs), setups=tuple(setups))

    def _find(self, name: str) -> list[str]:
        if name in self._cases:
            return [self._cases[name]]
        return self._entries.get(name, [])

    def _unknown(self, name: str, place: Place) -> Problem:
        known = [*self._entries, *self._cases, *self._setups]
        hint = did_you_mean(name, known, f"entries are {', '.join(list(self._entries)[:20])}")
        return self._expansion.problem(place.location, f"there is no entry or case {name!r}; {hint}")

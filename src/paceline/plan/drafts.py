"""Entries → drafts: one for each cell of their matrix, with its name and what it needs; nothing filled in yet."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.config.rules import Cell, expand_matrix
from paceline.config.schema import Entry
from paceline.config.templates import parse
from paceline.errors import Problem, did_you_mean
from paceline.model import Scalar, key_case, name_case
from paceline.plan.expansion import Expansion, Notes, Scope
from paceline.plan.selection import Candidate, Cycle, arrange

_MOST_CIRCLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Candidate):
    """A case before its texts are filled in; `position` is that of its entry, `setups` are those that it needs."""

    key: str
    work: Entry
    position: int
    params: Mapping[str, Scalar]
    setups: tuple[str, ...] = ()


def draft_cases(expansion: Expansion) -> tuple[list[Draft], list[Problem]]:
    """All drafts, needs first, and what is wrong with names and needs."""
    drafts: list[Draft] = []
    for position, entry in enumerate(expansion.loaded.config.entries):
        drafts.extend(_draft_entry(entry, position, expansion.setting.params))
    problems = []
    seen: set[str] = set()
    for draft in drafts:
        # The key too must be unique: history knows a case by it.
        if draft.name in seen or draft.key in seen:
            message = f"two cases have the name {draft.name!r}; rename an entry or change the matrix"
            problems.append(expansion.loaded.problem(("entries", draft.position), message))
        seen |= {draft.name, draft.key}
    if any(draft.work.needs for draft in drafts):
        drafts, found = _Needs(drafts, expansion).resolve()
        problems += found
    return drafts, problems


def _draft_entry(entry: Entry, position: int, others: Mapping[str, Scalar]) -> Iterator[Draft]:
    """A draft for each cell; the parameters of a setting change what runs, never what it is called."""
    cells: Sequence[Cell] = [{}]
    if entry.matrix is not None:
        cells = expand_matrix(entry.matrix.axes, entry.matrix.include, entry.matrix.exclude)
    others = {name: value for name, value in others.items() if _takes(entry, name, cells)}
    tags = tuple(entry.tags)
    for params in cells:
        yield Draft(
            name=name_case(entry.name, params),
            key=key_case(entry.name, params),
            entry=entry.name,
            tags=tags,
            work=entry,
            position=position,
            params={**params, **others},
        )


def _takes(entry: Entry, name: str, cells: Sequence[Cell]) -> bool:
    """Whether an entry has the parameter: as an axis, or because its texts ask for it."""
    texts = (entry.script, entry.command, entry.args, entry.interpreter, entry.cwd, entry.env)
    return any(name in cell for cell in cells) or any(f"{{matrix.{name}}}" in str(text) for text in texts)


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
            self._entries[draft.entry].append(draft.name)

    def resolve(self) -> tuple[list[Draft], list[Problem]]:
        """The drafts with their needs, in an order that heeds them."""
        resolved = [self._with_needs(draft) if draft.work.needs else draft for draft in self._drafts]
        by_name = {draft.name: draft for draft in resolved}
        candidates: list[Candidate] = list(by_name.values())
        for _ in range(_MOST_CIRCLES):
            try:
                return [by_name[candidate.name] for candidate in arrange(candidates)], self._problems
            except Cycle as cycle:
                circle = {by_name[name].entry for name in cycle.names}
                location = ("entries", by_name[cycle.names[0]].position, "needs")
                self._problems.append(self._expansion.loaded.problem(location, f"a circle: {cycle}"))
            # Without the needs of its entries, the search goes on for other circles.
            candidates = [replace(one, needs=()) if one.entry in circle else one for one in candidates]
        return resolved, self._problems

    def _with_needs(self, draft: Draft) -> Draft:
        needs: dict[str, None] = {}
        setups: dict[str, None] = {}
        for i, text in enumerate(draft.work.needs):
            scope = Scope(("entries", draft.position, "needs", i), draft.params)
            notes = Notes()
            name = (
                self._expansion.fill(parse(text, variables=False), scope, notes)
                if "{matrix." in text
                else text
            )
            self._problems += notes.problems
            if name in self._cases:
                needs[self._cases[name]] = None
            elif name in self._entries:
                needs |= dict.fromkeys(self._entries[name])
            elif name in self._setups:
                setups[name] = None
            elif not notes.problems and not self._expansion.is_left_out(name):
                known = [*self._entries, *self._cases, *self._setups]
                hint = did_you_mean(name, known, f"entries are {', '.join(list(self._entries)[:20])}")
                message = f"there is no entry or case {name!r}; {hint}"
                self._problems.append(self._expansion.loaded.problem(scope.location, message))
        return replace(draft, needs=tuple(needs), setups=tuple(setups))

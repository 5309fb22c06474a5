"""Which cases there are, one for each cell of a matrix, and which of them run: those selected, and what they need."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import translate
from functools import partial
from heapq import heapify, heappop, heappush

from paceline.config.rules import Cell, expand_matrix
from paceline.config.schema import Entry
from paceline.config.templates import parse
from paceline.errors import Problem, SelectionError, did_you_mean
from paceline.model import Scalar, is_case, name_case, one_spelling
from paceline.plan.commands import Filling
from paceline.plan.expansion import Expansion, Notes, Scope
from paceline.plan.suites import Answer, Found, ask

_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a selection looks at in a case; `needs` are the names of other candidates, `test` is all of a test."""

    name: str
    entry: str
    test: str = ""
    tags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


class Cycle(ValueError):
    """Cases that need each other; `names` goes once around."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(" needs ".join([*names, names[0]]))
        self.names = tuple(names)


def arrange(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with needs before those who need them, otherwise in the order given; raises Cycle."""
    position = {candidate.name: i for i, candidate in enumerate(candidates)}
    waiting = [len(set(candidate.needs)) for candidate in candidates]
    needed_by: defaultdict[int, list[int]] = defaultdict(list)
    for i, candidate in enumerate(candidates):
        for name in set(candidate.needs):
            needed_by[position[name]].append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    heapify(ready)
    done: list[int] = []
    while ready:
        done.append(i := heappop(ready))
        for follower in needed_by[i]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heappush(ready, follower)
    if len(done) < len(candidates):
        raise Cycle(_find_cycle(candidates, set(done), position))
    return [candidates[i] for i in done]


def select(
    candidates: Sequence[Candidate], only: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[list[Candidate], list[str]]:
    """The chosen candidates and what they need, in the order given, with warnings; raises SelectionError."""
    if not only and not exclude:
        return list(candidates), []
    index = _Index(candidates)
    chosen = index.match_all(only, "--only") if only else {candidate.name for candidate in candidates}
    chosen -= index.match_all(exclude, "--exclude") if exclude else set()
    if not chosen:
        raise SelectionError(f"--only and --exclude leave no case to run; {index.listing()}")
    wanted, warnings = _with_needs(candidates, chosen)
    return [candidate for candidate in candidates if candidate.name in wanted], warnings


def take_shard(candidates: Sequence[Candidate], shard: tuple[int, int]) -> list[Candidate]:
    """Part `i` of `n`: about the same number of cases each, and those that need each other stay together."""
    part, parts = shard
    if not 1 <= part <= parts:
        raise SelectionError(f"--shard {part}/{parts}: write i/n with 1 ≤ i ≤ n, such as 1/4")
    groups = sorted(_connected(candidates), key=lambda group: (-len(group), group[0]))
    loads = [(0, i) for i in range(parts)]
    mine: set[int] = set()
    for group in groups:
        load, lightest = heappop(loads)
        heappush(loads, (load + len(group), lightest))
        if lightest == part - 1:
            mine.update(group)
    return [candidate for i, candidate in enumerate(candidates) if i in mine]


def split_terms(expression: str) -> list[str]:
    """The terms between commas; a comma inside square brackets is part of a case's name."""
    terms = [""]
    depth = 0
    for char in expression:
        depth += (char == "[") - (char == "]" and depth > 0)
        if char == "," and depth == 0:
            terms.append("")
        else:
            terms[-1] += char
    return [term.strip() for term in terms if term.strip()]


class _Index:
    """Finds the candidates a term means."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates
        self._names = {candidate.name for candidate in candidates}
        self._entries: defaultdict[str, set[str]] = defaultdict(set)
        self._tags: defaultdict[str, set[str]] = defaultdict(set)
        for candidate in candidates:
            self._entries[candidate.entry].add(candidate.name)
            if candidate.test:
                self._entries[candidate.test].add(candidate.name)
            for tag in candidate.tags:
                self._tags[tag].add(candidate.name)

    def match_all(self, expressions: Sequence[str], option: str) -> set[str]:
        terms = [term for expression in expressions for term in split_terms(expression)]
        if not terms:
            raise SelectionError(f"{option} is empty; {self.listing()}")
        return {name for term in terms for name in self._match(term, option)}

    def listing(self) -> str:
        """What there is to choose from, cut to a readable length."""
        names = [candidate.name for candidate in self._candidates]
        more = f", … and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return f"there is: {', '.join(names[:_LISTED]) or 'no case at all'}{more}"

    def _match(self, term: str, option: str) -> set[str]:
        if term in self._names:
            return {term}
        found = self._entries.get(term) or self._match_tag(term) or self._match_glob(term)
        if not found:
            known = self.listing()
            if term.startswith("tag:"):
                known = f"tags are {', '.join(sorted(self._tags))}" if self._tags else "no entry has tags"
            raise SelectionError(f"{option} {term!r} matches no case{self._suggest(term)}; {known}")
        return found

    def _match_tag(self, term: str) -> set[str]:
        if not term.startswith("tag:"):
            return set()
        fits = _glob(term[4:].strip())
        return {name for tag, names in self._tags.items() if fits(tag) for name in names}

    def _match_glob(self, term: str) -> set[str]:
        # Brackets are those of case names, as in `entry[size=*]`; a class only if that finds nothing.
        for fits in (partial(is_case, term), _glob(term.replace("[", "[[]")), _glob(term)):
            found = {
                c.name for c in self._candidates if fits(c.name) or fits(c.entry) or (c.test and fits(c.test))
            }
            if found:
                return found
        return set()

    def _suggest(self, term: str) -> str:
        if term.startswith("tag:"):
            # By the tags alone: with what they all begin with, every one looks like every other.
            known = [f"tag:{tag}" for tag in get_close_matches(term[4:].strip(), self._tags)]
        else:
            known = list(dict.fromkeys([*self._entries, *self._names]))
            if term in self._tags:
                return f"; did you mean 'tag:{term}'?"
        hint = did_you_mean(term, known, most=3)
        return f"; {hint}" if hint else ""


def _glob(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


def _with_needs(candidates: Iterable[Candidate], chosen: set[str]) -> tuple[set[str], list[str]]:
    by_name = {candidate.name: candidate for candidate in candidates}
    wanted = set(chosen)
    warnings = []
    queue = [candidate for candidate in by_name.values() if candidate.name in chosen]
    for candidate in queue:
        for name in candidate.needs:
            if name not in wanted:
                wanted.add(name)
                queue.append(by_name[name])
                warnings.append(f"{name} was not selected and runs because {candidate.name} needs it")
    return wanted, warnings


def _connected(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Groups of candidates linked by needs, as positions in rising order."""
    position = {candidate.name: i for i, candidate in enumerate(candidates)}
    parent = list(range(len(candidates)))

    def find_root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, candidate in enumerate(candidates):
        for name in candidate.needs:
            if name in position:
                first, second = sorted((find_root(i), find_root(position[name])))
                parent[second] = first
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for i in range(len(candidates)):
        groups[find_root(i)].append(i)
    return list(groups.values())


def _find_cycle(candidates: Sequence[Candidate], done: set[int], position: Mapping[str, int]) -> list[str]:
    # Everything not done waits for something else not done, so walking along needs must come around.
    i = next(i for i in range(len(candidates)) if i not in done)
    path: list[int] = []
    while i not in path:
        path.append(i)
        i = next(position[name] for name in candidates[i].needs if position[name] not in done)
    return [candidates[j].name for j in path[path.index(i) :]]


_MOST_CIRCLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Candidate):
    """A case before its texts are filled in; `position` is that of its entry, `setups` are those that it needs.

    `found` is what a suite of another tool says of it, `group` names all that came of the same answer; `faults` are why
    there is no more to be said.
    """

    key: str
    work: Entry
    position: int
    params: Mapping[str, Scalar]
    setups: tuple[str, ...] = ()
    found: Found | None = None
    group: str = ""
    faults: tuple[Problem, ...] = ()


def draft_cases(expansion: Expansion) -> tuple[list[Draft], list[Problem]]:
    """All drafts, needs first, and what is wrong with names and needs."""
    drafts: list[Draft] = []
    for position, entry in enumerate(expansion.loaded.config.entries):
        if entry.pytest is None and entry.asv is None:
            drafts.extend(_draft_entry(entry, position, expansion.setting.params))
        else:
            drafts.extend(_draft_suite(entry, position, expansion))
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
    cells = _cells(entry)
    others = {name: value for name, value in others.items() if _takes(entry, name, cells)}
    tags = tuple(entry.tags)
    for params in cells:
        yield Draft(
            name=name_case(entry.name, params),
            key=name_case(entry.name, params),
            entry=entry.name,
            tags=tags,
            work=entry,
            position=position,
            params={**params, **others},
        )


def _cells(entry: Entry) -> Sequence[Cell]:
    matrix = entry.matrix
    return [{}] if matrix is None else expand_matrix(matrix.axes, matrix.include, matrix.exclude)


def _draft_suite(entry: Entry, position: int, expansion: Expansion) -> Iterator[Draft]:
    """A draft for each test or benchmark; one for the entry itself, which cannot run, if something is wrong with it."""
    location = ("entries", position)
    is_unset = location in expansion.loaded.unset
    for own, cell in zip(_cells(entry), _draft_entry(entry, position, expansion.setting.params), strict=True):
        filling = Filling(expansion=expansion, work=entry, location=location, params=cell.params)
        answer = Answer() if is_unset else ask(filling)
        expansion.warnings += [text for text in answer.warnings if text not in expansion.warnings]
        faults, is_asked = answer.faults, not (is_unset or filling.notes.unset or filling.notes.problems)
        if is_asked and not answer.found and not faults:
            kind = "tests" if entry.asv is None else "benchmarks"
            faults = (expansion.loaded.problem(location, f"there are no {kind} in it"),)
        if faults or not answer.found:
            yield replace(cell, faults=faults)
        for found in answer.found:
            name = name_case(found.base, {**found.params, **own})
            yield replace(
                cell,
                name=name,
                key=name,
                test=found.base,
                group=cell.name,
                params={**found.params, **cell.params},
                tags=tuple(dict.fromkeys((*cell.tags, *found.tags))),
                found=found,
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
            name = name if name in self._cases else one_spelling(name)
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

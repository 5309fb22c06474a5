"""Which cases run: `--only`, `--exclude`, `--shard`, and what they need; needs come first."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import translate
from heapq import heapify, heappop, heappush

from paceline.errors import SelectionError, did_you_mean

_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a selection looks at in a case; `needs` are the names of other candidates."""

    name: str
    entry: str
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

    def _listing_of_tags(self) -> str:
        return f"tags are {', '.join(sorted(self._tags))}" if self._tags else "no entry has tags"

    def _match(self, term: str, option: str) -> set[str]:
        if term in self._names:
            return {term}
        found = self._entries.get(term) or self._match_tag(term) or self._match_glob(term)
        if not found:
            known = self._listing_of_tags() if term.startswith("tag:") else self.listing()
            raise SelectionError(f"{option} {term!r} matches no case{self._suggest(term)}; {known}")
        return found

    def _match_tag(self, term: str) -> set[str]:
        if not term.startswith("tag:"):
            return set()
        fits = _glob(term[4:].strip())
        return {name for tag, names in self._tags.items() if fits(tag) for name in names}

    def _match_glob(self, term: str) -> set[str]:
        # Brackets are those of case names, as in `entry[size=*]`; a class only if that finds nothing.
        for fits in (_glob(term.replace("[", "[[]")), _glob(term)):
            found = {c.name for c in self._candidates if fits(c.name) or fits(c.entry)}
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

"""The names of series in words: as little as it takes to tell one from the others of its case, and never a hash."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from paceline.history.store.database import Database, Row
from paceline.record.codec import load

SeriesId = tuple[str, str, str, str]
"""Case, variant, version and class of machines; all metrics of a case share them."""

_MOST_WORDS = 3
_HASH = re.compile(r"(?i)(?:sha256:)?[0-9a-f]{12,}(?:-[0-9a-f]{4,})*")
_SELECT = """
SELECT r.case_id, e.class_id, min(r.started_at), max(r.started_at)
FROM record r JOIN environment e ON e.id = r.environment_id"""
_NOISE = re.compile(r"\((?:R|TM|C)\)|\bCPU\b|\bProcessor\b|@.*$|\bIntel\b|\bAMD\b", re.IGNORECASE)
_FACTS = (
    ("python", "Python {}"),
    ("machine_name", "{}"),
    ("cpu", "{}"),
    ("cpus", "{} CPUs"),
    ("usable_cpus", "{} usable CPUs"),
    ("memory_gib", "{} GiB"),
    ("gpus", "{}"),
    ("gpu_driver", "driver {}"),
    ("os", "{}"),
    ("kernel", "kernel {}"),
    ("machine", "{}"),
    ("implementation", "{}"),
)
"""What makes a class of machines, in the order in which it tells most to a reader."""


class Named(NamedTuple):
    """A series in words, empty where a case has but one; and when its last record began."""

    name: str
    newest: str


def read_series_names(database: Database, cases: Iterable[str] | None = None) -> dict[SeriesId, Named]:
    """The name of each series of these cases, or of all."""
    wanted = None if cases is None else frozenset(cases)
    select = "SELECT id, current_key, variant, version FROM \"case\" WHERE kind = 'entry' ORDER BY id"
    known = {number: (key, variant, version) for number, key, variant, version in database.rows(select)}
    chosen = [number for number, (key, *_) in known.items() if wanted is None or key in wanted]
    by_case: defaultdict[str, dict[SeriesId, str]] = defaultdict(dict)
    for number, class_id, _, last in _parts(database, chosen, len(known)):
        if number in known:
            series, one = by_case[known[number][0]], (*known[number], class_id)
            series[one] = max(last, series.get(one, ""))  # under several names it is one
    machines = _machines(database)
    return {
        one: Named(name, series[one])
        for series in by_case.values()
        for one, name in zip(series, shortest(_words_of(list(series), machines)), strict=True)
    }


def read_machine_names(database: Database) -> dict[str, str]:
    """Each class of machines in words: what tells it from the others, or all there is to say of the only one."""
    machines = _machines(database)
    names = shortest(tuple(machines.values()))
    return {
        class_id: name or ", ".join(words[:2])
        for (class_id, words), name in zip(machines.items(), names, strict=True)
    }


def _parts(database: Database, chosen: Sequence[int], every: int) -> list[Row]:
    """Rows of cases and their classes of machines, by when they were first seen; one look at all records if most are
    wanted."""
    group = "GROUP BY r.case_id, e.class_id"
    if len(chosen) > every // 4:
        rows = database.rows(f"{_SELECT} {group}")
    else:
        rows = [
            row
            for number in chosen
            for row in database.rows(f"{_SELECT} WHERE r.case_id = ? {group}", (number,))
        ]
    return sorted(rows, key=lambda row: (row[2], row[0], row[1]))


def _words_of(
    series: Sequence[SeriesId], machines: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """All that could be said of each series, what tells most first."""
    versions = {version: at for at, version in enumerate(dict.fromkeys(one[2] for one in series), 1)}
    return tuple(
        (
            *machines.get(class_id, ())[:2],
            *_variant_words(variant),
            f"version {versions[version] if _HASH.fullmatch(version) else version}",
            *machines.get(class_id, ())[2:],
        )
        for _, variant, version, class_id in series
    )


def _variant_words(variant: str) -> Iterator[str]:
    """A variant is an arm's name, or settings such as `numpy=2.1,scipy=`."""
    if not variant:
        yield "no variant"
    elif "=" not in variant:
        yield variant
    else:
        for part in variant.split(","):
            name, _, value = part.partition("=")
            yield f"{name} {value}".strip()


def _machines(database: Database) -> dict[str, tuple[str, ...]]:
    """For each class of machines what is known of it; two of which the same is known are numbered."""
    facts: dict[str, dict[str, Any]] = {}
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for class_id, python, host, data in database.rows(
        "SELECT class_id, python_version, hostname, data FROM environment ORDER BY id"
    ):
        told = load(data.encode()) if data else {}
        comparable = told.get("comparable")
        known = comparable if isinstance(comparable, Mapping) else {}
        known = {"python": ".".join(re.findall(r"\d+", python)[:2]), **known}
        facts.setdefault(class_id, {name: fact for name, fact in known.items() if fact})
        hosts[class_id].add(host)
    for class_id, several in hosts.items():
        if len(several) == 1:
            facts[class_id].setdefault("machine_name", next(iter(several)))
    words = {class_id: tuple(_fact_words(told)) for class_id, told in facts.items()}
    same = Counter(words.values())
    return {
        class_id: told if same[told] == 1 else (*told, _numbered(class_id, at))
        for at, (class_id, told) in enumerate(words.items(), 1)
    }


def _numbered(class_id: str, at: int) -> str:
    return f"machines {at if not class_id or _HASH.fullmatch(class_id) else class_id}"


def _fact_words(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, form in _FACTS:
        fact = facts.get(name)
        text = ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact or "")
        text = " ".join(_NOISE.sub(" ", text).split()) if name == "cpu" else text
        if text and not _HASH.fullmatch(text):
            yield form.format(text)
    if facts.get("in_container"):
        yield "in a container"


@lru_cache(maxsize=1024)
def shortest(described: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """For each of some things the fewest of its words that no other has all of; empty if there is but one thing.

    Words that come first are preferred. Where the words of a thing are all another's, too, the ones that it lacks are
    named.
    """
    if len(described) < 2:
        return ("",) * len(described)
    common = frozenset.intersection(*map(frozenset, described))
    telling = [tuple(dict.fromkeys(word for word in words if word not in common)) for words in described]
    sets = [frozenset(words) for words in telling]
    found = [
        _tell(words, [other for place, other in enumerate(sets) if place != at])
        for at, words in enumerate(telling)
    ]
    several = Counter(found)
    return tuple(
        name if several[name] == 1 else f"{name}, {at}".lstrip(", ") for at, name in enumerate(found, 1)
    )


def _tell(words: Sequence[str], others: Sequence[frozenset[str]]) -> str:
    def is_own(chosen: Iterable[str]) -> bool:
        told = frozenset(chosen)
        return not any(told <= other for other in others)

    own = frozenset(words)
    lacking = [
        word for word in dict.fromkeys(word for other in others for word in sorted(other)) if word not in own
    ]
    for count in range(1, _MOST_WORDS + 1):
        if name := next((chosen for chosen in combinations(words, count) if is_own(chosen)), None):
            return ", ".join(name)
        for chosen in combinations(words, count - 1):
            rivals = [other for other in others if other.issuperset(chosen)]
            if missing := next((word for word in lacking if all(word in rival for rival in rivals)), None):
                return ", ".join([*chosen, f"without {missing}"])
    if words or not lacking:
        return ", ".join(words)
    return f"without {', '.join(lacking[:_MOST_WORDS])}"

"""What a comparison has no numbers of: cases that are gone, that fail now, that were left out on purpose."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paceline.errors import SelectionError
from paceline.findings.sides import Side
from paceline.metrics import KNOWN
from paceline.model import Record, Status

MEASURED = frozenset({Status.PASSED, Status.REQUIREMENT_FAILED})
_FAILS = frozenset(Status) - {Status.PASSED, Status.SKIPPED, Status.INTERRUPTED}
CaseKey = tuple[str, str, str]
"""Key, variant and version of a case."""
OTHER_MACHINES = "ran on machines of another class; --force compares them"
Lack = Literal["new", "gone", "failing", "left_out", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What only one side has; all of a case if `metric` is None."""

    case: str
    metric: str | None
    side: str
    """The side that lacks it."""
    why: str = ""
    kind: Lack = "other"
    """`gone` and `failing` fail a gate; `left_out` is what the candidate was not asked to run."""
    reason: str = ""
    """Of a case that fails, what its record says."""


def case_key(record: Record) -> CaseKey:
    return record.case.key, record.case.variant or "", record.case.version


def find_missing(
    a: Side,
    b: Side,
    metrics: tuple[Mapping[CaseKey, Collection[str]], Mapping[CaseKey, Collection[str]]],
    wanted: Callable[[str], object] | None,
    *,
    compared: Side,
) -> Iterator[Missing]:
    """What one side lacks; `metrics` are those that each side has numbers of.

    `compared` is `b` with what ran on machines like those of `a`.
    """
    old, new = _newest(a, wanted), _newest(b, wanted)
    has, lacks = metrics
    elsewhere = new.keys() - {case_key(one.record) for one in compared.measured}
    for key, before in sorted(old.items()):
        after = new.get(key)
        if before.status.ok and after is not None and after.status in _FAILS:
            why = after.status.value.replace("_", " ")
            yield Missing(case=key[0], metric=None, side=b.name, why=why, kind="failing", reason=after.reason)
        elif key in elsewhere:
            if key in has:
                yield Missing(case=key[0], metric=None, side=b.name, why=OTHER_MACHINES)
        elif key not in lacks and (key in has or (after is None and before.status in MEASURED)):
            yield _lacking(key, before, after, b, {one[:2]: one[2] for one in new})
    for key in sorted(has.keys() & lacks.keys()):
        for metric in sorted(set(has[key]) - set(lacks[key])):
            kind: Lack = "other" if metric in KNOWN else "gone"
            yield Missing(case=key[0], metric=metric, side=b.name, kind=kind)
        for metric in sorted(set(lacks[key]) - set(has[key])):
            yield Missing(case=key[0], metric=metric, side=a.name, kind="new")
    for key in sorted(lacks.keys() - has.keys()):
        why = old[key].status.value.replace("_", " ") if key in old else ""
        yield Missing(case=key[0], metric=None, side=a.name, why=why, kind="new")


def _newest(side: Side, wanted: Callable[[str], object] | None) -> dict[CaseKey, Record]:
    """The last record of each case that is asked about."""
    found: dict[CaseKey, Record] = {}
    for one in side.measured:
        record, key = one.record, case_key(one.record)
        if wanted is None or wanted(key[0]):
            found[key] = max((found.get(key, record), record), key=lambda told: told.started_at)
    return found


def _lacking(
    key: CaseKey, before: Record, after: Record | None, b: Side, versions: Mapping[tuple[str, ...], str]
) -> Missing:
    """A case of which the candidate has no numbers, and why."""
    kind: Lack = "gone" if before.case.kind == "entry" else "other"
    why = ""
    if after is not None:
        is_silent = after.status in MEASURED
        kind = "gone" if is_silent else "other"
        why = "tells no number with a direction" if is_silent else after.status.value.replace("_", " ")
    elif key[:2] in versions:
        kind, why = "other", f"is now version {versions[key[:2]]}, which means something else"
    elif b.selections and all(_leaves_out(one, before) for one in b.selections):
        kind, why = "left_out", " and ".join(dict.fromkeys(map(_asked, b.selections)))
    return Missing(case=key[0], metric=None, side=b.name, why=why, kind=kind)


def _leaves_out(selection: Mapping[str, Any], record: Record) -> bool:
    """Whether a session that was asked for these cases was not asked for this one."""
    if selection.get("shard"):
        return True  # which part a case is in depends on all the others
    only, exclude = (_terms(selection.get(name)) for name in ("only", "exclude"))
    return (bool(only) and not _is_meant(only, record)) or _is_meant(exclude, record)


def _terms(given: object) -> list[str]:
    return [str(one) for one in given] if isinstance(given, list) else []


def _is_meant(expressions: Sequence[str], record: Record) -> bool:
    # Brings the configuration, for the few that need it.
    from paceline.plan.selection import Candidate, select, split_terms

    case = record.case
    candidate = Candidate(name=case.name, entry=case.entry, tags=case.tags)
    for term in (term for expression in expressions for term in split_terms(expression)):
        try:
            select([candidate], [term])
        except SelectionError:
            continue
        return True
    return False


def _asked(selection: Mapping[str, Any]) -> str:
    words = [
        f"--{name} {' '.join(_terms(value)) if isinstance(value, list) else value}"
        for name, value in selection.items()
    ]
    return " ".join(words)

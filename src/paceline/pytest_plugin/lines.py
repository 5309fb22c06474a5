"""Lines of a journal become records: numbered by attempt, with what they lacked while the tests ran."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from paceline.model import Case, Record, Status
from paceline.pytest_plugin.recording import names_of
from paceline.record.codec import dump, from_json, load

LOST = "the process ended while the test was running"


def ended(start: str, status: Status, reason: str, error: str) -> str:
    """The line for a test that started with that line, and of which no record will come."""
    name = _parsed(start)[1]["name"]
    fields = {"name": name, "status": status.value, "reason": reason, "error": error}
    return dump({"ended": fields}).decode()


def records(lines: Iterable[str | Record]) -> Iterator[Record]:
    """The records of a journal; a test that was begun and never heard of again was interrupted.

    They name no session, environment or revision: those are their session's, and the history has them from it.
    """
    attempts: Counter[str] = Counter()
    for record in _unnumbered(lines):
        key = record.case.key
        attempts[key] += 1
        yield record if attempts[key] == 1 else replace(record, attempt=attempts[key])


def _unnumbered(lines: Iterable[str | Record]) -> Iterator[Record]:
    started: dict[str, str] = {}
    for line in lines:
        record = line if isinstance(line, Record) else _heard(line, started)
        if record is not None:
            started.pop(record.case.name, None)
            yield record
    for line in started.values():
        yield _unfinished(_parsed(line)[1], Status.INTERRUPTED, LOST)


def _heard(line: str, started: dict[str, str]) -> Record | None:
    """The record that a line brings, if it is one or the word that none will come; a start is put down."""
    kind, data = _parsed(line)
    if kind == "started":
        started[data["name"]] = line
    elif kind == "record":
        return from_json(data)
    elif kind == "ended" and data["name"] in started:
        _, start = _parsed(started[data["name"]])
        return _unfinished(start, Status(data["status"]), data["reason"], data["error"])
    return None


def _parsed(line: str) -> tuple[str, Any]:
    """What a line is and holds; a torn one is nothing."""
    try:
        ((kind, data),) = load(line.encode()).items()
    except (ValueError, AttributeError):
        return "", None
    return kind, data


def _unfinished(data: Mapping[str, Any], status: Status, reason: str, error: str = "") -> Record:
    case = Case(name=data["name"], entry=data["entry"], key=data["key"], params=data["params"])
    details = {**names_of(case, data["test_name"]), "setup_outcome": data["setup_outcome"], "error": error}
    return Record(
        session="",
        case=case,
        attempt=1,
        status=status,
        reason=reason,
        started_at=data["started_at"],
        details={name: value for name, value in details.items() if value},
    )

"""What an importer gives: sessions with their environments and records, the same however often they are read."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid5

from paceline.errors import HistoryError
from paceline.history.session_info import NAMESPACE, Batch, SessionInfo
from paceline.model import Case, Direction, Measurement, Record, Scalar, Status, name_case
from paceline.record import codec

OnProblem = Callable[[HistoryError], None]
"""Is told what was left out of a directory, and why."""


def make_session(
    tool: str,
    identity: Sequence[str],
    *,
    started_at: str,
    revision: str = "",
    branch: str = "",
    commit_time: str = "",
    directory: str = "",
    ci_run_url: str = "",
    meta: Mapping[str, Any] | None = None,
) -> SessionInfo:
    """A session of another tool. `identity` is what tells it from all others wherever its file lies."""
    number = uuid5(NAMESPACE, codec.dump(["import", tool, *identity]).decode()).hex
    day = "".join(character for character in started_at[:19] if character.isdecimal())
    return SessionInfo(
        id=number,
        name="-".join(filter(None, (tool, day[:8], day[8:], number[:6]))),
        kind="import",
        started_at=started_at,
        revision=revision,
        branch=branch,
        commit_time=commit_time,
        directory=directory,
        ci_run_url=ci_run_url,
        tool=tool,
        meta=dict(meta or {}),
    )


def make_batch(session: SessionInfo, environment: Mapping[str, Any], records: Iterable[Record]) -> Batch:
    """The records with all they have from their session; one whose case was there before is its next attempt."""
    return Batch(
        session=session, environment=environment, records=tuple(_stamped(session, environment, records))
    )


def _stamped(
    session: SessionInfo, environment: Mapping[str, Any], records: Iterable[Record]
) -> Iterator[Record]:
    seen: Counter[tuple[str, str | None, str]] = Counter()
    for record in records:
        identity = (record.case.key, record.case.variant, record.case.version)
        attempt = seen[identity] = seen[identity] + 1
        if record.session and record.attempt == attempt:
            yield record  # made with its session in hand
            continue
        yield replace(
            record,
            session=session.name,
            attempt=attempt,
            environment=str(environment.get("id") or ""),
            revision=record.revision or session.revision,
            started_at=record.started_at or session.started_at,
        )


def make_case(
    entry: str,
    params: Mapping[str, Scalar] | None = None,
    *,
    version: str = "1",
    variant: str | None = None,
) -> Case:
    """A case as a plan would name it: `entry[a=1,b=x]`, with its parameters as data."""
    params = dict(params or {})
    name = name_case(entry, params)
    return Case(
        name=name,
        entry=entry,
        key=name,
        params=params,
        version=version,
        variant=variant,
    )


def make_record(
    case: Case,
    metrics: Mapping[str, Measurement],
    *,
    status: Status = Status.PASSED,
    reason: str = "",
    started_at: str = "",
    exec_time_s: float = 0.0,
    params: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
    of: tuple[SessionInfo, Mapping[str, Any]] | None = None,
) -> Record:
    """A record; one that does not know its session and environment (`of`) is completed by `make_batch`."""
    known: dict[str, Any] = {"session": ""}
    if of is not None:
        session, environment = of
        known = {"session": session.name, "revision": session.revision, "environment": str(environment["id"])}
    return Record(
        **known,
        case=case,
        attempt=1,
        status=status,
        reason=reason,
        started_at=started_at,
        exec_time_s=exec_time_s,
        metrics=metrics,
        params=dict(params or {}),
        details={
            name: detail for name, detail in (details or {}).items() if detail not in (None, "", [], {})
        },
    )


def measure(samples: Sequence[float], unit: str | None, direction: Direction | None) -> Measurement:
    """A measurement of these samples; its value is their median, as in records of our own."""
    if any(sample != sample for sample in samples):
        value = float("nan")
    else:
        value = samples[0] if len(samples) == 1 else statistics.median(samples)
    return Measurement(value=value, unit=unit, direction=direction, samples=tuple(samples))


def single(value: Scalar, unit: str | None, direction: Direction | None) -> Measurement:
    """A measurement of which only the summary was kept."""
    return Measurement(value=value, unit=unit, direction=direction)


def once(value: Scalar, unit: str | None, direction: Direction | None) -> Measurement:
    """A measurement that was taken one time."""
    return Measurement(value=value, unit=unit, direction=direction, samples=(value,))

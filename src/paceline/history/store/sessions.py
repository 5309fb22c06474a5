"""Sessions and their records, read back."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from paceline.history.session_info import SessionInfo
from paceline.history.store.database import Database, Row
from paceline.history.store.entries import Entry, StoredCase, StoredMetric, json_text
from paceline.history.store.environments import StoredEnvironment
from paceline.record.codec import load, revive
from paceline.record.environment import without_others
from paceline.record.redact import mask_urls

_SESSION = """
SELECT ident, name, kind, started_at, revision, branch, commit_time, directory, ci_run_url, tool, meta,
  merge_base
FROM session"""

_RECORDS = """
SELECT r.id, r.case_id, r.ident, c.key, c.variant, c.version, c.kind, c.name, c.entry, c.params, e.ident,
  r.attempt, r.status, r.started_at, r.exec_time_s, r.revision, r.reason, t.data, r.outcome, r.disturbed,
  o.hash, o.text, r.digest
FROM record r
JOIN session s ON s.id = r.session_id
JOIN "case" c ON c.id = r.case_id
JOIN environment e ON e.id = r.environment_id
JOIN setting t ON t.id = r.setting_id
LEFT JOIN source o ON o.id = r.source_id
WHERE s.ident = ? ORDER BY r.id"""

_METRICS = """
SELECT d.id, d.name, d.unit, d.direction, m.value, m.text, m.sample_count
FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = ?
WHERE d.case_id = ? ORDER BY d.id"""

_SAMPLES = """
SELECT p.series_id, p.value, p.text FROM series d
JOIN repeated_sample p ON p.series_id = d.id AND p.record_id = ?
WHERE d.case_id = ? ORDER BY p.series_id, p.position"""


def read_sessions(database: Database, *, limit: int | None = None, since: str = "") -> list[SessionInfo]:
    """Sessions, newest first."""
    rows = database.rows(f"{_SESSION} WHERE started_at >= ? ORDER BY started_at DESC, id DESC", (since,))
    return [_session_info(row) for row in (rows if limit is None else rows[:limit])]


def find_session(database: Database, wanted: str) -> SessionInfo | None:
    """The session of that id, or the newest of that name."""
    try:
        by_id = database.rows(f"{_SESSION} WHERE ident = ?", (UUID(wanted).bytes,))
    except ValueError:
        by_id = []
    rows = by_id or database.rows(f"{_SESSION} WHERE name = ? ORDER BY started_at DESC, id DESC", (wanted,))
    return _session_info(rows[0]) if rows else None


def _session_info(row: Row) -> SessionInfo:
    ident, name, kind, started_at, revision, branch, commit_time, directory, ci_run_url, tool, *rest = row
    meta, merge_base = rest
    return SessionInfo(
        id=ident.hex(),
        name=name,
        kind=kind,
        started_at=started_at,
        revision=revision,
        branch=branch,
        commit_time=commit_time,
        directory=directory,
        ci_run_url=ci_run_url,
        tool=tool,
        merge_base=merge_base,
        meta=revive(load(meta.encode())) if meta else {},
    )


def read_entries(database: Database, session_id: str) -> Iterator[Entry]:
    """The records of a session as they are stored."""
    for row in database.rows(_RECORDS, (UUID(session_id).bytes,)):
        number, case_id, ident, *middle = row
        case, rest = StoredCase(*middle[:7]), middle[7:]
        environment, *told, hash_, text, digest = rest
        metrics = _metrics(database, number, case_id)
        source = None if hash_ is None else (hash_, text)
        yield Entry._make((ident, case, environment, *told, source, metrics, digest))


def _metrics(database: Database, record_id: int, case_id: int) -> tuple[StoredMetric, ...]:
    samples: dict[int, list[tuple[float | None, str | None]]] = {}
    for series_id, value, text in database.rows(_SAMPLES, (record_id, case_id)):
        samples.setdefault(series_id, []).append((value, text))
    return tuple(
        StoredMetric._make((*told, tuple(samples.get(series_id, ()))))
        for series_id, *told in database.rows(_METRICS, (record_id, case_id))
    )


def read_environments(database: Database, session_id: str) -> dict[str, StoredEnvironment]:
    """The environments of a session's records."""
    select = """
SELECT DISTINCT e.id, e.ident, e.class_id, e.python_version, e.platform, e.hostname, e.data
FROM record r JOIN session s ON s.id = r.session_id JOIN environment e ON e.id = r.environment_id
WHERE s.ident = ? ORDER BY e.id"""
    rows = database.rows(select, (UUID(session_id).bytes,))
    return {row[1]: _environment(database, row) for row in rows}


def read_environment(database: Database, ident: str) -> StoredEnvironment | None:
    """The environment of that id."""
    select = "SELECT id, ident, class_id, python_version, platform, hostname, data FROM environment WHERE ident = ?"
    rows = database.rows(select, (ident,))
    return _environment(database, rows[0]) if rows else None


def _environment(database: Database, row: Row) -> StoredEnvironment:
    """Without the variables that older versions stored, which go neither into another database nor onto a page."""
    number, *told, data = row
    select = "SELECT name, version FROM package WHERE environment_id = ? ORDER BY name"
    packages = tuple((name, mask_urls(version)) for name, version in database.rows(select, (number,)))
    return StoredEnvironment._make((*told, data and json_text(without_others(load(data.encode()))), packages))


def environment_data(environment: StoredEnvironment) -> Mapping[str, Any]:
    """What is known of an environment, its packages by name included."""
    data = load(environment.data.encode()) if environment.data else {}
    known = {"id": environment.ident, "class_id": environment.class_id}
    return {**known, **data, "packages": dict(environment.packages)}


def read_digests(database: Database, session_id: str) -> dict[bytes, tuple[int, str]]:
    """Digest and start of each record of a session, by its id."""
    select = "SELECT r.ident, r.digest, r.started_at FROM record r JOIN session s ON s.id = r.session_id"
    rows = database.rows(f"{select} WHERE s.ident = ?", (UUID(session_id).bytes,))
    return {memoryview(ident).tobytes(): (digest, started_at) for ident, digest, started_at in rows}

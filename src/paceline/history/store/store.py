"""The history: every record of every session, in one database."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from paceline.errors import HistoryError
from paceline.finding import Finding, Stage, State
from paceline.history.export import columns_of, export_rows, format_of, write_export
from paceline.history.findings import add_verdict, find_finding, read_findings, settle
from paceline.history.session_info import Added, Batch, Epoch, SessionInfo
from paceline.history.store import changes
from paceline.history.store.database import Database, Row, connect
from paceline.history.store.entries import Entry, since_text, to_entry, to_record
from paceline.history.store.environments import to_stored, unknown_node
from paceline.history.store.foreign import explain
from paceline.history.store.merge import merge_into, opened_source
from paceline.history.store.migrate import ensure_schema
from paceline.history.store.names import matcher, read_names
from paceline.history.store.prune import Pruned, prune, remove, vacuum
from paceline.history.store.query import TIMEOUT_S, Answer, query
from paceline.history.store.sessions import (
    environment_data,
    find_session,
    read_entries,
    read_environment,
    read_environments,
    read_sessions,
)
from paceline.history.store.writer import Part, Rule, Writer
from paceline.history.urls import parse_target
from paceline.model import Record

if TYPE_CHECKING:
    from paceline.history.series import Series
    from paceline.history.store.reader import Reader

AS_FILES_SAY = Rule(replaces=lambda entry, stored: True, chosen=lambda new, old: new)
"""A session's files are the truth: what they say now replaces what they said."""


def open_store(url: str | Path, *, create: bool = True, read_only: bool = False) -> "Store":
    """The history at a file or URL, created or brought to the newest schema if need be."""
    database = connect(parse_target(url), create=create, read_only=read_only)
    try:
        ensure_schema(database)
    except BaseException:
        database.close()
        raise
    return Store(database)


class Store:
    """A history that is open; used by one thread, closed by `with`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._reader: Reader | None = None
        self._writer = Writer(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if error:
                explain(self.database, error)
        finally:
            self.close()

    def close(self) -> None:
        self.database.close()

    def add(
        self,
        session: SessionInfo,
        environment: Mapping[str, Any],
        records: Iterable[Record],
        others: Iterable[Mapping[str, Any]] = (),
    ) -> Added:
        """Add a session's records; one that is there already stays, one that has changed since is replaced.

        A record was made in the environment that it names: the session's own, or one of the `others`.
        """
        return self.add_all(
            [Batch(session=session, environment=environment, records=records, others=tuple(others))]
        )

    def add_all(self, batches: Iterable[Batch]) -> Added:
        """Add the records of many sessions, as `add` does."""
        return self._writer.write(map(_part, batches), AS_FILES_SAY)

    def iter_columns(
        self,
        *,
        cases: Iterable[str] | None = None,
        metrics: Sequence[str] | None = None,
        since: str | None = None,
        environment_class: str | None = None,
        all_epochs: bool = False,
        judged_only: bool = False,
        samples: bool = False,
    ) -> "Iterator[Series]":
        """All series whose case and metric match one of the names or globs, in the order of the names.

        There is one for each version, variant, class of machines and, with `all_epochs`, each epoch of a case.
        `judged_only`: of metrics that have a direction. Samples are read if they are asked for.
        """
        from paceline.history.store.reader import Reader, Wanted  # numpy, once somebody reads

        if self._reader is None:
            self._reader = Reader(self.database)
        bounds = (since_text(since), environment_class, all_epochs, judged_only, samples)
        return self._reader.iter_columns(Wanted(cases, metrics, *bounds))

    def cases(self, pattern: str | None = None) -> list[str]:
        """The names that the cases with records go by, sorted; those that a name or glob means, also a former one."""
        select = """
SELECT current_key, key FROM "case" c WHERE kind = 'entry' AND EXISTS (SELECT 1 FROM record r WHERE r.case_id = c.id)"""
        with self.database.reading():
            names, rows = read_names(self.database), self.database.rows(select)
        matches = matcher(None if pattern is None else names.patterns(pattern)).fullmatch
        return sorted({key for key, former in rows if matches(key) or matches(former)})

    def case_counts(self) -> list[tuple[str, int, int, str]]:
        """Each case that has records: its name, how many it has, how many metrics, and when the last began."""
        select = """
SELECT c.current_key, count(*), (SELECT count(*) FROM series d WHERE d.case_id = c.id), max(r.started_at)
FROM "case" c JOIN record r ON r.case_id = c.id WHERE c.kind = 'entry' GROUP BY c.id, c.current_key"""
        with self.database.reading():
            rows = self.database.rows(select)
        counts: dict[str, tuple[int, int, str]] = {}
        for key, records, metrics, last in rows:
            known = counts.get(key, (0, 0, ""))
            counts[key] = known[0] + int(records), max(known[1], int(metrics)), max(known[2], last)
        return [(key, *counts[key]) for key in sorted(counts)]

    def record_counts(self) -> dict[str, int]:
        """How many records each session has, by its id."""
        select = "SELECT s.ident, count(*) FROM session s JOIN record r ON r.session_id = s.id GROUP BY s.id, s.ident"
        with self.database.reading():
            return {memoryview(ident).hex(): int(count) for ident, count in self.database.rows(select)}

    def metrics(self, case: str) -> list[str]:
        """The names of a case's metrics, sorted."""
        with self.database.reading():
            keys = read_names(self.database).spellings(case)
            marks = ", ".join("?" * len(keys))
            select = f'SELECT DISTINCT d.name FROM series d JOIN "case" c ON c.id = d.case_id WHERE c.key IN ({marks})'
            return sorted(name for (name,) in self.database.rows(select, keys))

    def sessions(self, limit: int | None = None, since: str | None = None) -> list[SessionInfo]:
        """Sessions, newest first."""
        with self.database.reading():
            return read_sessions(self.database, limit=limit, since=since_text(since))

    def session(self, wanted: str) -> SessionInfo | None:
        """The session of that id, or the newest of that name."""
        with self.database.reading():
            return find_session(self.database, wanted)

    def records(self, session: SessionInfo | str) -> list[Record]:
        """All records of a session, every attempt, as far as the history keeps them."""
        info = self._known(session)
        with self.database.reading():
            return [to_record(entry, info) for entry in read_entries(self.database, info.id)]

    def environments(self, session: SessionInfo | str) -> list[Mapping[str, Any]]:
        """Where a session's records were made."""
        info = self._known(session)
        with self.database.reading():
            return list(map(environment_data, read_environments(self.database, info.id).values()))

    def environment(self, ident: str) -> Mapping[str, Any] | None:
        """What is known of an environment, its packages included; None if nothing is."""
        with self.database.reading():
            found = read_environment(self.database, ident)
        return None if found is None or found.data is None else environment_data(found)

    def findings(self, *, withdrawn: bool = False) -> list[Finding]:
        """All that was found in the series, oldest change first; also what the detector does not see any more."""
        with self.database.reading():
            return read_findings(self.database, withdrawn=withdrawn)

    def finding(self, wanted: str) -> Finding:
        """The finding of that id, or of the only id that begins so."""
        with self.database.reading():
            return find_finding(self.database, wanted)

    def say(self, finding: str, state: State, *, why: str, who: str) -> Finding:
        """Store a human's word about a finding."""
        return add_verdict(self.database, finding, state, why, who)

    def settle(
        self, finding: Finding, stage: Stage, culprit: Mapping[str, Any] | None = None, runs: int = 0
    ) -> Finding:
        """Keep what runs made for a finding have shown; one that is not known yet is added."""
        return settle(self.database, finding, stage, culprit, runs)

    def size(self) -> Added:
        """How many records and samples there are in all."""
        with self.database.reading():
            ((records,),) = self.database.rows("SELECT count(*) FROM record")
            ((samples,),) = self.database.rows("SELECT sum(sample_count) FROM metric")
        return Added(records=int(records), samples=int(samples or 0))

    def alias(self, old: str, new: str) -> None:
        """Let what was recorded under the old name of a case, or of all cases of an entry, belong to the new one."""
        changes.add_alias(self.database, old, new)

    def remove_alias(self, old: str) -> bool:
        """Take a rename back; whether there was one."""
        return changes.remove_alias(self.database, old)

    def aliases(self) -> dict[str, str]:
        """All renames: old name → new name."""
        with self.database.reading():
            return {old: new for old, new, _ in changes.read_aliases(self.database)}

    def reset(self, case: str, why: str, at: str | None = None) -> str:
        """Begin a new epoch of a case, now or at a time: older points stay and are not compared any more."""
        return changes.add_reset(self.database, case, why, at)

    def epochs(self, case: str | None = None) -> list[Epoch]:
        """The resets of a case under any of its names, or of all cases, oldest first."""
        with self.database.reading():
            names = read_names(self.database)
            resets = changes.read_resets(self.database)
        wanted = None if case is None else {names.current(case), names.current(case).partition("[")[0]}
        found = (Epoch(case_key=names.current(key), at=at, why=why) for _, key, at, why, _ in resets)
        return [epoch for epoch in found if wanted is None or epoch.case_key in wanted]

    def prune(
        self,
        *,
        older_than: str | None = None,
        keep: int | None = None,
        sessions: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Pruned:
        """Remove sessions: those begun before a time, all but the newest `keep`, or those named."""
        return prune(self.database, older_than=older_than, keep=keep, sessions=sessions, dry_run=dry_run)

    def remove(self, cases: Sequence[str], *, before: str | None = None, dry_run: bool = False) -> Pruned:
        """Remove all records of cases, or those begun before a time, with what was found in them."""
        return remove(self.database, cases, before=before, dry_run=dry_run)

    def vacuum(self) -> None:
        """Give the room of removed rows back to the disk."""
        vacuum(self.database)

    def merge_from(self, url: str | Path) -> Added:
        """Add all that another history has; it is left as it is."""
        with opened_source(url) as source:
            return merge_into(self.database, self._writer, source)

    def export(
        self,
        path: Path,
        format: str | None = None,
        *,
        cases: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        since: str | None = None,
        samples: bool = False,
    ) -> int:
        """Write measurements, or every sample, to a CSV, JSON or Parquet file; how many rows."""
        rows = self.export_rows(cases=cases, metrics=metrics, since=since, samples=samples)
        return write_export(rows, columns_of(samples=samples), path, format_of(path, format))

    def export_rows(
        self,
        *,
        cases: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        since: str | None = None,
        samples: bool = False,
    ) -> Iterator[Row]:
        """The rows of an export, whose columns `export.columns_of` names."""
        return export_rows(
            self.database, cases=cases, metrics=metrics, since=since_text(since), samples=samples
        )

    def query(self, sql: str, *, timeout_s: float = TIMEOUT_S, limit: int | None = None) -> Answer:
        """The columns and rows of one SQL statement that can only read."""
        return query(self.database.target, sql, timeout_s=timeout_s, limit=limit)

    def _known(self, session: SessionInfo | str) -> SessionInfo:
        if isinstance(session, SessionInfo):
            return session
        found = self.session(session)
        if found is None:
            raise HistoryError(
                f"no session {session!r} in {self.database.target}: 'paceline history list' shows those there are"
            )
        return found


def _part(batch: Batch) -> Part:
    """A batch as it is written; a node of a pool that nobody describes is a machine of its own, not the runner's."""
    described = {one.ident: one for one in map(to_stored, (batch.environment, *batch.others))}

    def entries() -> Iterator[Entry]:
        for record in batch.records:
            ident = record.environment
            if ident and ident not in described and "node" in record.details:
                described[ident] = unknown_node(ident, str(record.details["node"]))
            yield to_entry(record, batch.session)

    return Part(batch.session, described, entries())

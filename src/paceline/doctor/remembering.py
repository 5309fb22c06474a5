"""The history's database: whether it opens, its schema, what is in it. It is only read."""

from collections.abc import Iterator

from paceline.doctor.remarks import Remark, remark
from paceline.errors import PacelineError


def look(url: str) -> Iterator[Remark]:
    """A history that is not there yet is no fault: the first run makes it."""
    from paceline.history.urls import parse_target

    try:
        target = parse_target(url)
        if target.path is not None and not target.path.exists():
            yield remark(
                "database", "note", f"{target} is not there yet", "the first run makes it", "paceline run"
            )
            return
        yield from _contents(url)
    except PacelineError as error:
        what, _, fix = str(error).splitlines()[0].rpartition(": ")
        meaning = "the history cannot be used, so nothing is remembered"
        yield remark("database", "fail", what or fix, meaning, fix if what else "")


def _contents(url: str) -> Iterator[Remark]:
    # SQLAlchemy takes a quarter of a second to import.
    from paceline.history.store.database import connect
    from paceline.history.store.migrate import is_current, stored_revision
    from paceline.history.store.schema import HEAD
    from paceline.history.urls import parse_target

    target = parse_target(url)
    database = connect(target, create=False, read_only=True)
    try:
        stored = stored_revision(database)
        current = is_current(database)
        yield remark("database", "ok", str(target), "opens")
        if stored is None:
            yield remark("schema", "note", "no tables yet", "the first run makes them", "paceline run")
            return
        meaning = "the newest" if current else f"brought to {HEAD} by the next command that writes"
        yield remark("schema", "ok" if current else "note", stored, meaning)
        with database.reading():
            sessions, records = (
                database.rows(f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 - names of our own
                for table in ("session", "record")
            )
        yield remark("contents", "ok", f"{sessions:,} sessions, {records:,} records", "what is remembered")
    finally:
        database.close()

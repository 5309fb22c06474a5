"""The tables. Inside, rows refer to each other by small integers; what is known outside has an id of its own.

A change here needs a migration beside the others in `migrations/versions`, and a stored database of the schema before
it in `tests/history/schemas`. A test holds the migrated schema against this one.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from paceline.history.store.views import VIEWS, drop_view

HEAD = "0006"
"""The newest revision in `migrations/versions`; a database that has it needs no migration."""

VERSION_TABLE = "history_version"

metadata = MetaData()


def _text(name: str) -> Column[Any]:
    """Text that is empty where it is unknown, so that it can be part of a key."""
    return Column(name, Text, nullable=False, server_default="")


def _reference(name: str) -> Column[Any]:
    return Column(name, Integer, nullable=False)


def _id() -> Column[Any]:
    # Given out by the writer, under the lock of its transaction, so that rows can be made before they are inserted.
    return Column("id", Integer, primary_key=True, autoincrement=False)


session = Table(
    "session",
    metadata,
    _id(),
    Column("ident", LargeBinary(16), nullable=False, unique=True),
    *map(_text, ("name", "kind", "started_at", "revision", "branch", "commit_time")),
    *map(_text, ("directory", "ci_run_url", "tool")),
    Column("meta", Text),
    _text("merge_base"),
)

environment = Table(
    "environment",
    metadata,
    _id(),
    Column("ident", Text, nullable=False, unique=True),
    *map(_text, ("class_id", "python_version", "platform", "hostname")),
    Column("data", Text),
)

package = Table(
    "package",
    metadata,
    Column("environment_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    _text("version"),
    sqlite_with_rowid=False,
)

case = Table(
    "case",
    metadata,
    _id(),
    *map(_text, ("key", "variant", "version", "kind", "name", "entry")),
    Column("params", Text),
    UniqueConstraint("key", "variant", "version", "kind"),
)

case_alias = Table(
    "case_alias",
    metadata,
    Column("old_key", Text, primary_key=True),
    *map(_text, ("new_key", "created_at")),
)

epoch = Table(
    "epoch",
    metadata,
    Column("ident", LargeBinary(16), primary_key=True),
    *map(_text, ("case_key", "at", "why", "created_at")),
)

series = Table(
    "series",
    metadata,
    _id(),
    _reference("case_id"),
    *map(_text, ("name", "unit", "direction")),
    UniqueConstraint("case_id", "name", "unit"),
)

setting = Table(
    "setting",
    metadata,
    _id(),
    Column("digest", LargeBinary(16), nullable=False, unique=True),
    _text("data"),
)

source = Table(
    "source",
    metadata,
    _id(),
    Column("hash", Text, nullable=False, unique=True),
    Column("text", Text),
)

record = Table(
    "record",
    metadata,
    _id(),
    Column("ident", LargeBinary(16), nullable=False),
    *map(_reference, ("session_id", "case_id", "environment_id", "setting_id", "attempt")),
    *map(_text, ("status", "started_at")),
    Column("exec_time_s", Double),
    Column("revision", Text),
    Column("reason", Text),
    Column("outcome", Text),
    Column("digest", BigInteger, nullable=False),
    Column("source_id", Integer),
    Column("disturbed", Text),
    UniqueConstraint("case_id", "session_id", "attempt"),
    Index("record_of_session", "session_id"),
)

metric = Table(
    "metric",
    metadata,
    Column("series_id", Integer, primary_key=True, autoincrement=False),
    Column("record_id", Integer, primary_key=True, autoincrement=False),
    Column("value", Double),
    Column("text", Text),
    Column("sample_count", Integer, nullable=False),
    sqlite_with_rowid=False,
)

repeated_sample = Table(
    "repeated_sample",
    metadata,
    Column("series_id", Integer, primary_key=True, autoincrement=False),
    Column("record_id", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("value", Double),
    Column("text", Text),
    sqlite_with_rowid=False,
)

finding = Table(
    "finding",
    metadata,
    Column("ident", Text, primary_key=True),
    *map(_text, ("incident", "case_key", "variant", "version", "metric", "unit", "environment_class")),
    _reference("epoch"),
    _text("verdict"),
    *(Column(name, Double) for name in ("effect", "low", "high", "p_value")),
    *map(_text, ("last_good", "first_bad", "at_record", "at_time", "found_at", "found_in")),
    Column("suspects", Text),
    *map(_text, ("state", "fixed_at")),
    *map(_reference, ("stands", "found_after")),
    Column("kind", Text, nullable=False, server_default="step"),
    Column("stage", Text, nullable=False, server_default="suspected"),
    Column("culprit", Text),
    Index("finding_of_case", "case_key"),
)

human_verdict = Table(
    "human_verdict",
    metadata,
    Column("ident", LargeBinary(16), primary_key=True),
    *map(_text, ("finding_ident", "state", "why", "who", "at")),
)

detection = Table(
    "detection",
    metadata,
    Column("case_key", Text, primary_key=True),
    _text("mark"),
)

commit_place = Table(
    "commit_place",
    metadata,
    Column("revision", Text, primary_key=True),
    _text("repository"),
    *map(_reference, ("place", "is_main")),
)

search_state = Table(
    "search_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Double, nullable=False),
)

revision = Table(VERSION_TABLE, metadata, Column("version_num", String(32), primary_key=True))


def create(connection: Connection) -> None:
    """All tables and views of the newest schema in an empty database; a tenth of the time its migrations take."""
    metadata.create_all(connection)
    create_views(connection)
    connection.execute(revision.insert().values(version_num=HEAD))


def create_views(connection: Connection) -> None:
    for name, make in VIEWS.items():
        connection.exec_driver_sql(drop_view(name))
        connection.exec_driver_sql(make(connection.dialect.name))

"""The tables. Inside, rows refer to each other by small integers; what is known outside has an id of its own.

A change here needs a step in `migrations`, and a stored database of the new schema in `tests/history/schemas`. A test
holds the migrated schema against this one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

HEAD = "0009"
"""The newest schema; a database that has it needs no migration."""

VERSION_TABLE = "history_version"

Kind = Literal["INTEGER", "BIGINT", "DOUBLE", "BLOB", "TEXT", "VARCHAR(32)"]
_POSTGRES = {"DOUBLE": "DOUBLE PRECISION", "BLOB": "BYTEA"}


class Column(NamedTuple):
    """A column; `told` is its default, as SQL has it, and `to` the table whose `id` it names."""

    name: str
    kind: Kind = "TEXT"
    is_null: bool = True
    told: str = ""
    to: str = ""

    def ddl(self, dialect: str) -> str:
        kind = _POSTGRES.get(self.kind, self.kind) if dialect == "postgresql" else self.kind
        told = f" DEFAULT {self.told}" if self.told else ""
        return f"{self.name} {kind}{told}{'' if self.is_null else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, those of its primary key, and those that are unique together."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    """By their names: what is in brackets, and after them."""
    in_order_of_key: bool = False
    """Kept by SQLite in the order of its key, so that what belongs together is read in one go."""
    is_huge: bool = False
    """Its references are declared in SQLite, which checks none, and not on a server, which checks each."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def ddl(self, dialect: str) -> Iterator[str]:
        """The statements that make it."""
        parts = [column.ddl(dialect) for column in self.columns]
        parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        parts += [f"UNIQUE ({', '.join(names)})" for names in self.unique]
        parts += self.references(dialect)
        end = " WITHOUT ROWID" if self.in_order_of_key and dialect == "sqlite" else ""
        columns = ",\n  ".join(parts)
        yield f'CREATE TABLE "{self.name}" (\n  {columns}\n){end}'
        for name, on in self.indexes.items():
            yield f'CREATE INDEX {name} ON "{self.name}" {on}'

    def references(self, dialect: str) -> list[str]:
        """The foreign keys; on a server they are looked at when a transaction ends."""
        if self.is_huge and dialect == "postgresql":
            return []
        end = " DEFERRABLE INITIALLY DEFERRED" if dialect == "postgresql" else ""
        named = [(column.name, column.to) for column in self.columns if column.to]
        return [f'FOREIGN KEY ({name}) REFERENCES "{table}" (id){end}' for name, table in named]


def _text(*names: str) -> tuple[Column, ...]:
    """Texts that are empty where they are unknown, so that they can be part of a key."""
    return tuple(Column(name, "TEXT", is_null=False, told="''") for name in names)


def _count(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "INTEGER", is_null=False) for name in names)


def _of(*tables: str) -> tuple[Column, ...]:
    return tuple(Column(f"{table}_id", "INTEGER", is_null=False, to=table) for table in tables)


# Given out by the writer, under the lock of its transaction, so that rows can be made before they are inserted.
_ID = _count("id")
_IDENT = Column("ident", "BLOB", is_null=False)

session = Table(
    "session",
    (
        *_ID,
        _IDENT,
        *_text("name", "kind", "started_at", "revision", "branch", "commit_time"),
        *_text("directory", "ci_run_url", "tool"),
        Column("meta"),
        *_text("merge_base"),
    ),
    key=("id",),
    unique=(("ident",),),
)

environment = Table(
    "environment",
    (
        *_ID,
        Column("ident", is_null=False),
        *_text("class_id", "python_version", "platform", "hostname"),
        Column("data"),
    ),
    key=("id",),
    unique=(("ident",),),
)

package = Table(
    "package",
    (*_of("environment"), Column("name", is_null=False), *_text("version")),
    key=("environment_id", "name"),
    in_order_of_key=True,
)

case = Table(
    "case",
    (
        *_ID,
        *_text("key", "variant", "version", "kind", "name", "entry"),
        Column("params"),
        *_text("current_key"),
    ),
    key=("id",),
    unique=(("key", "variant", "version", "kind"),),
    indexes={"case_by_name": "(current_key)"},
)

case_alias = Table(
    "case_alias",
    (Column("old_key", is_null=False), *_text("new_key", "created_at")),
    key=("old_key",),
)

epoch = Table(
    "epoch",
    (_IDENT, *_text("case_key", "at", "why", "created_at", "current_key")),
    key=("ident",),
    indexes={"epoch_by_name": "(current_key)"},
)

series = Table(
    "series",
    (
        *(*_ID, *_of("case"), *_text("name", "unit", "direction")),
        Column("is_steady", "INTEGER", is_null=False, told="'0'"),
    ),
    key=("id",),
    unique=(("case_id", "name", "unit"),),
)

setting = Table(
    "setting",
    (*_ID, Column("digest", "BLOB", is_null=False), *_text("data")),
    key=("id",),
    unique=(("digest",),),
)

source = Table(
    "source",
    (*_ID, Column("hash", is_null=False), Column("text")),
    key=("id",),
    unique=(("hash",),),
)

record = Table(
    "record",
    (
        *_ID,
        _IDENT,
        *_of("session", "case", "environment", "setting"),
        *_count("attempt"),
        *_text("status", "started_at"),
        Column("exec_time_s", "DOUBLE"),
        *map(Column, ("revision", "reason", "outcome")),
        Column("digest", "BIGINT", is_null=False),
        Column("source_id", "INTEGER", to="source"),
        Column("disturbed"),
    ),
    key=("id",),
    unique=(("case_id", "session_id", "attempt"),),
    indexes={
        "record_of_session": "(session_id)",
        "record_of_revision": "(revision) WHERE revision IS NOT NULL",
    },
)

metric = Table(
    "metric",
    (*_of("series", "record"), Column("value", "DOUBLE"), Column("text"), *_count("sample_count")),
    key=("series_id", "record_id"),
    in_order_of_key=True,
    is_huge=True,
)

repeated_sample = Table(
    "repeated_sample",
    (*_of("series", "record"), *_count("position"), Column("value", "DOUBLE"), Column("text")),
    key=("series_id", "record_id", "position"),
    in_order_of_key=True,
    is_huge=True,
)

finding = Table(
    "finding",
    (
        Column("ident", is_null=False),
        *_text("incident", "case_key", "variant", "version", "metric", "unit", "environment_class"),
        *_count("epoch"),
        *_text("verdict"),
        *(Column(name, "DOUBLE") for name in ("effect", "low", "high", "p_value")),
        *_text("last_good", "first_bad", "at_record", "at_time", "found_at", "found_in"),
        Column("suspects"),
        *_text("state", "fixed_at"),
        *_count("stands", "found_after"),
        Column("kind", is_null=False, told="'step'"),
        Column("stage", is_null=False, told="'suspected'"),
        Column("culprit"),
        Column("runs", "INTEGER", is_null=False, told="'0'"),
    ),
    key=("ident",),
    indexes={"finding_of_case": "(case_key)"},
)

human_verdict = Table(
    "human_verdict", (_IDENT, *_text("finding_ident", "state", "why", "who", "at")), key=("ident",)
)

detection = Table("detection", (Column("case_key", is_null=False), *_text("mark")), key=("case_key",))

commit_place = Table(
    "commit_place",
    (
        Column("revision", is_null=False),
        *_text("repository"),
        *_count("place", "is_main"),
        *map(Column, ("commit_time", "tags", "order_time")),
    ),
    key=("revision",),
)

search_state = Table(
    "search_state",
    (Column("name", is_null=False), Column("value", "DOUBLE", is_null=False)),
    key=("name",),
)

version = Table(VERSION_TABLE, (Column("version_num", "VARCHAR(32)", is_null=False),), key=("version_num",))

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        *(session, environment, package, case, case_alias, epoch, series, setting, source, record, metric),
        *(repeated_sample, finding, human_verdict, detection, commit_place, search_state, version),
    )
}

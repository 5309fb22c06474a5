"""The first schema: sessions, environments, cases, records, metrics, samples."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_places()
    _create_cases()
    _create_records()
    _create_numbers()


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False, server_default="")


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=False)


def _key(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def _create_places() -> None:
    op.create_table(
        "session",
        _key("id"),
        sa.Column("ident", sa.LargeBinary(16), nullable=False, unique=True),
        *map(_text, ("name", "kind", "started_at", "revision", "branch", "commit_time")),
        *map(_text, ("directory", "ci_run_url", "tool")),
        sa.Column("meta", sa.Text),
    )
    op.create_table(
        "environment",
        _key("id"),
        sa.Column("ident", sa.Text, nullable=False, unique=True),
        *map(_text, ("class_id", "python_version", "platform", "hostname")),
        sa.Column("data", sa.Text),
    )
    op.create_table(
        "package",
        _key("environment_id"),
        sa.Column("name", sa.Text, primary_key=True),
        _text("version"),
        sqlite_with_rowid=False,
    )


def _create_cases() -> None:
    op.create_table(
        "case",
        _key("id"),
        *map(_text, ("key", "variant", "version", "kind", "name", "entry")),
        sa.Column("params", sa.Text),
        sa.UniqueConstraint("key", "variant", "version", "kind"),
    )
    op.create_table(
        "case_alias", sa.Column("old_key", sa.Text, primary_key=True), *map(_text, ("new_key", "created_at"))
    )
    op.create_table(
        "epoch",
        sa.Column("ident", sa.LargeBinary(16), primary_key=True),
        *map(_text, ("case_key", "at", "why", "created_at")),
    )
    op.create_table(
        "series",
        _key("id"),
        _number("case_id"),
        *map(_text, ("name", "unit", "direction")),
        sa.UniqueConstraint("case_id", "name", "unit"),
    )


def _create_records() -> None:
    op.create_table(
        "setting",
        _key("id"),
        sa.Column("digest", sa.LargeBinary(16), nullable=False, unique=True),
        _text("data"),
    )
    op.create_table(
        "record",
        _key("id"),
        sa.Column("ident", sa.LargeBinary(16), nullable=False),
        *map(_number, ("session_id", "case_id", "environment_id", "setting_id", "attempt")),
        *map(_text, ("status", "started_at")),
        sa.Column("exec_time_s", sa.Double),
        *(sa.Column(name, sa.Text) for name in ("revision", "reason", "outcome")),
        sa.Column("digest", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("case_id", "session_id", "attempt"),
    )
    op.create_index("record_of_session", "record", ["session_id"])


def _create_numbers() -> None:
    op.create_table(
        "metric",
        *map(_key, ("series_id", "record_id")),
        sa.Column("value", sa.Double),
        sa.Column("text", sa.Text),
        _number("sample_count"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "repeated_sample",
        *map(_key, ("series_id", "record_id", "position")),
        sa.Column("value", sa.Double),
        sa.Column("text", sa.Text),
        sqlite_with_rowid=False,
    )

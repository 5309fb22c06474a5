"""The text of a test is kept once, however often it ran; before, each record carried its own copy."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_AT_ONCE = 1000

_record = sa.table("record", sa.column("id"), sa.column("outcome"), sa.column("source_id"))
_source = sa.table("source", sa.column("id"), sa.column("hash"), sa.column("text"))


def upgrade() -> None:
    op.create_table(
        "source",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("text", sa.Text),
    )
    op.add_column("record", sa.Column("source_id", sa.Integer))
    _move_sources(op.get_bind())


def _move_sources(connection: sa.Connection) -> None:
    known: dict[str, tuple[int, bool]] = {}
    for number, outcome in _told_sources(connection):
        details = outcome.get("details")
        hash_, text = _take(details) if isinstance(details, dict) else (None, None)
        if hash_ is None:
            continue
        if not details:
            del outcome["details"]
        source_id = _keep(connection, known, hash_, text)
        data = json.dumps(outcome, ensure_ascii=False, separators=(",", ":")) if outcome else None
        connection.execute(
            _record.update().where(_record.c.id == number).values(outcome=data, source_id=source_id)
        )


def _told_sources(connection: sa.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records that have the word in what is told of them, some at a time, in the order of their numbers."""
    last = 0
    while True:
        rows = connection.execute(
            sa.select(_record.c.id, _record.c.outcome)
            .where(_record.c.id > last, _record.c.outcome.contains('"source'))
            .order_by(_record.c.id)
            .limit(_AT_ONCE)
        ).all()
        if not rows:
            return
        yield from ((row.id, json.loads(row.outcome)) for row in rows)
        last = rows[-1].id


def _take(details: dict[str, Any]) -> tuple[str | None, str | None]:
    """Hash and text of the source, taken out of the details."""
    text, hash_ = details.get("source"), details.get("source_hash")
    for name, value in (("source", text), ("source_hash", hash_)):
        if isinstance(value, str):
            del details[name]
    text = text if isinstance(text, str) else None
    if isinstance(hash_, str) and hash_:
        return hash_, text
    return (None, None) if text is None else (hashlib.sha256(text.encode()).hexdigest()[:16], text)


def _keep(connection: sa.Connection, known: dict[str, tuple[int, bool]], hash_: str, text: str | None) -> int:
    if hash_ not in known:
        number = len(known) + 1
        connection.execute(_source.insert().values(id=number, hash=hash_, text=text))
        known[hash_] = number, text is not None
    number, has_text = known[hash_]
    if text is not None and not has_text:
        connection.execute(_source.update().where(_source.c.id == number).values(text=text))
        known[hash_] = number, True
    return number

"""What the judges found in the series, what people said about it, and up to where each case was looked at."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NAMES = ("incident", "case_key", "variant", "version", "metric", "unit", "environment_class")
_PLACES = ("last_good", "first_bad", "at_record", "at_time", "found_at", "found_in")


def upgrade() -> None:
    op.create_table(
        "finding",
        sa.Column("ident", sa.Text, primary_key=True),
        *map(_text, _NAMES),
        sa.Column("epoch", sa.Integer, nullable=False),
        _text("verdict"),
        *(sa.Column(name, sa.Double) for name in ("effect", "low", "high", "p_value")),
        *map(_text, _PLACES),
        sa.Column("suspects", sa.Text),
        *map(_text, ("state", "fixed_at")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("stands", "found_after")),
    )
    op.create_index("finding_of_case", "finding", ["case_key"])
    op.create_table(
        "human_verdict",
        sa.Column("ident", sa.LargeBinary(16), primary_key=True),
        *map(_text, ("finding_ident", "state", "why", "who", "at")),
    )
    op.create_table("detection", sa.Column("case_key", sa.Text, primary_key=True), _text("mark"))


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, server_default="")

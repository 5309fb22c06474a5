"""Where revisions lie among the commits of their repository, and what a search for changes leaves for the next."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default="")


def upgrade() -> None:
    op.create_table(
        "commit_place",
        sa.Column("revision", sa.Text, primary_key=True),
        _text("repository"),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("is_main", sa.Integer, nullable=False),
    )
    op.create_table(
        "search_state",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
    )
    # These were of a past that was imported, so no session has reported them, nor will one.
    op.execute("UPDATE finding SET found_in = '' WHERE found_after > 30")

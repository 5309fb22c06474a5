"""What disturbed the runs of a record, and where the branch of a session left the default one."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("record", sa.Column("disturbed", sa.Text))
    op.add_column("session", sa.Column("merge_base", sa.Text, nullable=False, server_default=""))

"""Runs the migrations by alembic's own interface."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from paceline.history.store import schema
from paceline.history.store.views import VIEWS, drop_view


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the database to a revision, within the transaction that is open; views are made anew by the caller."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(drop_view(name))
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    if revision == schema.HEAD:
        schema.create_views(connection)

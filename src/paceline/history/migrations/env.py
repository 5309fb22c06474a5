"""What alembic runs: all steps that are left, on the connection and in the transaction that it is given."""

from alembic import context

from paceline.history.store.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()

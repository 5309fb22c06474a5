"""New rows of one transaction: numbered as they are made, inserted together."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections import defaultdict

from sqlalchemy import Table

from paceline.history.store import schema
from paceline.history.store.database import Database, Row

# In the order of `Table.metadata`, so that statements are the same each time.
_NUMBERED = (
    *(schema.session, schema.environment, schema.case, schema.series, schema.setting, schema.source),
    schema.record,
)
_LAST_NUMBERS = "SELECT " + ", ".join(f'(SELECT max(id) FROM "{table.name}")' for table in _NUMBERED)


class PendingRows:
    """Rows that are not in the database yet. Only a writer may ask for numbers, and only within its transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: dict[str, int] = {}
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)

    def number(self, table: Table) -> int:
        """The next number of a table; all are asked for at once, since a server may be far away."""
        if not self._last:
            (row,) = self._database.rows(_LAST_NUMBERS)
            self._last = {each.name: int(last or 0) for each, last in zip(_NUMBERED, row, strict=True)}
        self._last[table.name] += 1
        return self._last[table.name]

    def add(self, table: Table, row: Row) -> None:
        self._rows[table.name].append(row)

    def of(self, table: Table) -> list[Row]:
        """The rows of a table, to be added to."""
        return self._rows[table.name]

    def insert(self) -> None:
        for name, rows in self._rows.items():
            self._database.insert(schema.metadata.tables[name], rows)
        self._rows.clear()

"""`paceline history`: the database of all results."""

import click

from paceline.cli import LazyGroup

# Name → its module here, and one line of help.
COMMANDS = {
    "list": ("show", "List the cases in the history, or its sessions."),
    "log": ("log", "Show how a metric of a case went, with a sparkline."),
    "import": ("add", "Add sessions, databases and other tools' results."),
    "merge": ("add", "Join databases, such as those of CI jobs."),
    "alias": ("edit", "Let what was recorded under an old name belong to a new one."),
    "reset": ("edit", "Begin a new epoch of a case: its numbers mean something else from now on."),
    "prune": ("edit", "Remove old sessions."),
    "remove": ("edit", "Remove what is recorded of a case."),
    "export": ("show", "Write measurements to a CSV, JSON or Parquet file."),
    "query": ("show", "Ask in SQL; nothing can be changed."),
    "pull": ("add", "Add what a database in an object store has to the one here."),
    "push": ("add", "Add what the database here has to one in an object store."),
}

EPILOG = """\b
Examples:
  paceline history log sort exec_time_s        one metric of one case
  paceline history import results/             all sessions of a results directory
  paceline history merge all.db job-*.db       the databases of CI jobs into one
  paceline history query "SELECT * FROM measurement LIMIT 5"
  paceline history push s3://bench/benchmark.db

\b
The database is --db, else PACELINE_DB, else history.url of ./paceline.yaml, else benchmark.db beside the results:
a file of SQLite, or postgresql://USER@HOST/DATABASE. 'paceline run' records into it by itself.
"""


@click.group(
    "history",
    cls=LazyGroup,
    listing={name: (f"history.{module}.{name}_command", line) for name, (module, line) in COMMANDS.items()},
    epilog=EPILOG,
)
def command() -> None:
    """Look at the results of all sessions, and keep their database."""

"""`paceline history alias`, `reset` and `prune`: what people tell the history."""

import json

import click

from paceline.cli.completion import complete_case
from paceline.cli.database import db_option, find_cases, json_option, open_database, time_of
from paceline.cli.output import write
from paceline.errors import HistoryError
from paceline.numbers import count
from paceline.report.format import visible

_ALIAS_EPILOG = """\b
Examples:
  paceline history alias sort_numbers sort           one case, or all sort_numbers[…]
  paceline history alias 'join[n=1]' 'join[rows=1]'
  paceline history alias sort_numbers --remove
"""
_RESET_EPILOG = """\b
Examples:
  paceline history reset sort --why "sorts twice as many numbers"
  paceline history reset 'join*' --why "new data" --at 2026-11-01
"""
_PRUNE_EPILOG = """\b
Examples:
  paceline history prune --older-than 90d --dry-run
  paceline history prune --older-than 2026-01-01 --keep 100
  paceline history prune --session broken-night --vacuum

\b
The sessions' files stay; importing or merging them again brings them back.
"""


@click.command("alias", epilog=_ALIAS_EPILOG)
@click.argument("old", shell_complete=complete_case)
@click.argument("new", required=False, shell_complete=complete_case)
@click.option("--remove", is_flag=True, help="Take the rename of OLD back.")
@db_option
def alias_command(old: str, new: str | None, remove: bool, db: str | None) -> None:
    """Let what was recorded under the name OLD belong to NEW; no record is touched."""
    if remove == (new is not None):
        raise click.UsageError("give OLD and NEW, or OLD and --remove")
    with open_database(db) as store:
        if new is not None:
            store.alias(old, new)
            write(f"{visible(old)} is now {visible(new)}\n")
        elif not store.remove_alias(old):
            raise HistoryError(f"{old!r} was not renamed: its renames are {store.aliases() or 'none'}")


@click.command("reset", epilog=_RESET_EPILOG)
@click.argument("case", shell_complete=complete_case)
@click.option("--why", metavar="TEXT", required=True, help="What changed; shown on charts.")
@click.option("--at", metavar="TIME", help="From when on. [default: now]")
@db_option
def reset_command(case: str, why: str, at: str | None, db: str | None) -> None:
    """Begin a new epoch of a CASE (name or glob): older points stay, marked, and are not compared any more."""
    with open_database(db) as store:
        for key in find_cases(store, case):
            time = store.reset(key, why, at)
            write(f"{visible(key)}: a new epoch from {time} on\n")


@click.command("prune", epilog=_PRUNE_EPILOG)
@click.option(
    "--older-than", metavar="TIME", help="Sessions begun before: 2026-01-01, or 90d, 12w, 6m, 2y ago."
)
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=0), help="But always keep the newest N sessions."
)
@click.option("--session", "sessions", metavar="NAME", multiple=True, help="This session. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--vacuum", "wants_vacuum", is_flag=True, help="Give the room back to the disk.")
@db_option
@json_option
def prune_command(
    older_than: str | None,
    keep: int | None,
    sessions: tuple[str, ...],
    dry_run: bool,
    wants_vacuum: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Remove sessions with all their records. With --older-than and --keep both must allow it."""
    before = None if older_than is None else time_of(older_than)
    with open_database(db) as store:
        pruned = store.prune(older_than=before, keep=keep, sessions=sessions, dry_run=dry_run)
        if wants_vacuum and not dry_run:
            store.vacuum()
    names = [session.name for session in pruned.sessions]
    if as_json:
        data = {"sessions": names, "records": pruned.records, "samples": pruned.samples, "dry_run": dry_run}
        write(json.dumps(data) + "\n")
        return
    for name in names:
        write(f"{visible(name)}\n")
    would = "would be removed" if dry_run else "removed"
    inside = f"{count(pruned.records, 'record')} and {count(pruned.samples, 'sample')}"
    write(f"{count(len(names), 'session')} with {inside} {would}\n")

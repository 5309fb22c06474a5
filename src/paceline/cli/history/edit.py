"""`paceline history alias`, `reset`, `prune` and `remove`: what people tell the history."""

import json
from typing import TYPE_CHECKING

import click

from paceline.cli.completion import complete_case
from paceline.cli.database import db_option, find_cases, json_option, open_database, time_of
from paceline.cli.output import write
from paceline.errors import HistoryError
from paceline.numbers import count
from paceline.report.format import visible

if TYPE_CHECKING:
    from paceline.history.store.prune import Pruned

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
_REMOVE_EPILOG = """\b
Examples:
  paceline history remove --case 'join[n=1]' --dry-run
  paceline history remove --case 'sort*' --before 2026-01-01

\b
For numbers that are wrong. To stop comparing with those that meant something else, 'paceline history reset' is enough.
The sessions' files stay; importing or merging them again brings the records back.
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
    _print_removed([session.name for session in pruned.sessions], "session", pruned, dry_run, as_json)


@click.command("remove", epilog=_REMOVE_EPILOG)
@click.option(
    "--case",
    "cases",
    metavar="NAME",
    multiple=True,
    required=True,
    shell_complete=complete_case,
    help="This case, or those of a glob. Repeatable.",
)
@click.option("--before", metavar="TIME", help="Only what began before: 2026-01-01, or 90d, 12w, 6m, 2y ago.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@db_option
@json_option
def remove_command(
    cases: tuple[str, ...], before: str | None, dry_run: bool, db: str | None, as_json: bool
) -> None:
    """Remove the records of a case, with what was found in them; other cases of their sessions stay."""
    moment = None if before is None else time_of(before)
    with open_database(db) as store:
        keys = sorted({key for case in cases for key in find_cases(store, case)})
        removed = store.remove(keys, before=moment, dry_run=dry_run)
    _print_removed(keys, "case", removed, dry_run, as_json)


def _print_removed(names: list[str], kind: str, removed: "Pruned", dry_run: bool, as_json: bool) -> None:
    if as_json:
        counts = {"records": removed.records, "samples": removed.samples, "dry_run": dry_run}
        write(json.dumps({f"{kind}s": names, **counts}) + "\n")
        return
    for name in names:
        write(f"{visible(name)}\n")
    would = "would be removed" if dry_run else "removed"
    inside = f"{count(removed.records, 'record')} and {count(removed.samples, 'sample')}"
    of = (
        f"{count(len(names), kind)} with {inside}"
        if kind == "session"
        else f"{inside} of {count(len(names), kind)}"
    )
    write(f"{of} {would}\n")

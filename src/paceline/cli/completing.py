"""Names that a shell offers: sessions on disk, and cases, metrics and findings of a history in a file.

What takes long or fails offers nothing: a <Tab> must not wait, and has nowhere to complain.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from paceline.errors import PacelineError

MOST = 500
PATIENCE_S = 0.2

# `case` is a word of SQL, hence the quotes.
_CASES = "SELECT DISTINCT key FROM \"case\" WHERE kind <> 'data_setup' ORDER BY key"
_METRICS = 'SELECT DISTINCT series.name FROM series JOIN "case" ON "case".id = case_id WHERE {} ORDER BY 1'
_FINDINGS = "SELECT ident, verdict || ' ' || metric || ' of ' || case_key FROM finding ORDER BY at_time DESC"


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Sessions of the results directory, the newest first; something with a slash is a path."""
    if "/" in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="dir")]
    return _offer(incomplete, [path.name for path in _sessions(ctx)])


def complete_session_case(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The cases of the session that was named."""
    from paceline.cli.stored import find_session, read_session

    try:
        place = find_session(ctx.params.get("session"), ctx.params.get("results_dir"))
    except PacelineError:
        return []
    cases = read_session(place).cases if isinstance(place, Path) else ()
    return _offer(incomplete, [case.name for case in cases])


def complete_case(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The cases of the history."""
    return _offer(incomplete, [key for (key,) in _ask(ctx, _CASES)])


def complete_metric(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The metrics of the case that was named, else all that the history has."""
    given = ctx.params.get("case") or ctx.params.get("cases")
    cases = [given] if isinstance(given, str) else list(given or ())
    wanted = " OR ".join(["key GLOB ?"] * len(cases)) or "1"
    found = _ask(ctx, _METRICS.format(wanted), cases) or _ask(ctx, _METRICS.format("1"))
    return _offer(incomplete, [name for (name,) in found])


def complete_finding(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The findings of the history with what they say."""
    found = _ask(ctx, _FINDINGS)
    return [CompletionItem(ident, help=told) for ident, told in found if ident.startswith(incomplete)]


def complete_sink(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The sinks that are installed, and none of them."""
    from paceline import plugins

    return _offer(incomplete, [*plugins.names("sinks"), "none"])


def _offer(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:MOST]


def _sessions(ctx: click.Context) -> Sequence[Path]:
    from paceline.cli.stored import find_results_place
    from paceline.record.directory import sessions

    try:
        place = find_results_place(ctx.params.get("results_dir"))
        return sessions(place) if isinstance(place, Path) else ()
    except (PacelineError, OSError):
        return ()


def _ask(ctx: click.Context, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Rows of the history, if it is a file; a server is not asked. SQLAlchemy would take longer than the answer."""
    import sqlite3  # which no other use of a command line needs to load

    from paceline.history.urls import readable_address

    try:
        path = _history_file(ctx.params.get("db"))
        if path is None or not path.is_file():
            return []
        address = readable_address(path)
        with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE_S)) as connection:
            return connection.execute(f"{sql} LIMIT {MOST}", parameters).fetchall()
    except (PacelineError, OSError, sqlite3.Error):
        return []


def _history_file(db: str | None) -> Path | None:
    """The file that the command would open, as far as it is told without reading the whole configuration."""
    from paceline.cli.inputs import DEFAULT_CONFIG
    from paceline.cli.suite_names import history_url_in
    from paceline.history.urls import find_url, parse_target

    return parse_target(find_url(db, history_url_in([Path(DEFAULT_CONFIG)]))).path

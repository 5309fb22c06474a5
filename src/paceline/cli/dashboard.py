"""`paceline dashboard`: the history as a site, written to disk or shown live."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from paceline.cli import Respelled
from paceline.cli.database import chosen_repository, db_option, find_database, open_database, repo_option
from paceline.cli.output import flush, write
from paceline.cli.stored import find_artifacts_dir, find_results_place
from paceline.errors import PacelineError
from paceline.history.urls import parse_target
from paceline.numbers import count, size
from paceline.report.format import visible

if TYPE_CHECKING:
    from paceline.history import Store

EPILOG = """\b
Examples:
  paceline dashboard serve                    look at the history in a browser
  paceline dashboard build site               write it to site/: open site/index.html, or put it on a file host
  paceline dashboard build site --db nightly.db --results-dir results
"""
_BUILD_EPILOG = """\b
Examples:
  paceline dashboard build site
  paceline dashboard build site --db postgresql://bench@host/bench
  paceline dashboard build site --results-dir results --files-of 90

\b
A second build into the same directory writes only what has changed since. The site needs no server, loads nothing from
elsewhere, and may be copied anywhere. Badges are in badges/, an Atom feed of regressions is feed.xml.
"""
_SERVE_EPILOG = """\b
Examples:
  paceline dashboard serve
  paceline dashboard serve --port 9000 --results-dir results --db nightly.db

\b
Only this machine can reach it. A session that runs shows its cases as they end. From elsewhere, forward the port:

\b
  ssh -L 8000:localhost:8000 HOST
"""


@click.group("dashboard", epilog=EPILOG)
def command() -> None:
    """Look at the history: what changed, since when, and every run behind it."""


title_option = click.option(
    "--title", metavar="TEXT", default="Benchmarks", show_default=True, help="What stands above every page."
)
results_option = click.option(
    "--results-dir",
    "results",
    cls=Respelled,
    formerly=["--results"],
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the sessions' files are, for logs and curves; without a database, the sessions themselves. No file "
    "outside is read. [default: that of ./paceline.yaml, else ./results]",
)


@command.command("build", epilog=_BUILD_EPILOG)
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@db_option
@results_option
@repo_option
@title_option
@click.option(
    "--files-of",
    metavar="N",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Keep logs, curves and files of the N newest sessions.",
)
@click.option(
    "--largest-file",
    "largest_kib",
    metavar="KIB",
    type=click.IntRange(min=0),
    default=1024,
    show_default=True,
    help="Copy the files that runs left into the site if they are no larger than this; larger ones are only named. "
    "With 0, none.",
)
def build_command(
    out: Path,
    db: str | None,
    results: Path | None,
    repo: Path | None,
    title: str,
    files_of: int,
    largest_kib: int,
) -> None:
    """Write the site to OUT, or bring the one there up to date."""
    from paceline.dashboard.build import build
    from paceline.dashboard.frame import Options, read_verdicts
    from paceline.history.store.columns import read_marks

    largest_bytes = largest_kib * 1024 or -1  # an empty file is a file, too
    root, artifacts_dir = _roots(results)
    options = Options(
        title=title,
        results=root,
        artifacts_dir=artifacts_dir,
        files_of=files_of,
        largest_file_bytes=largest_bytes,
    )
    with opened(db, results) as store:
        with store.database.reading():
            marks = read_marks(store.database)
        verdicts = read_verdicts(store, chosen_repository(repo), marks)
        built = build(store, out, options, verdicts, marks)
    if verdicts.unsearched:
        cases = count(verdicts.unsearched, "case")
        write(f"{cases} with new records: 'paceline regressions' searches them for changes\n")
    made = f"{count(built.cases, 'case')} and {count(built.sessions, 'session')}"
    kept = built.kept_cases + built.kept_sessions
    unchanged = f", {kept:,} unchanged" if kept else ""
    write(f"wrote {made} ({size(built.size_bytes)}){unchanged}\n{visible(str(out / 'index.html'))}\n")


@command.command("serve", epilog=_SERVE_EPILOG)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Listen on this port; 0 takes a free one.",
)
@click.option(
    "--bind",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Listen on this address. In a container 0.0.0.0 is needed: publish the port on loopback only. Whatever it is, "
    "the server answers to the name localhost alone.",
)
@db_option
@results_option
@repo_option
@title_option
def serve_command(
    port: int, bind: str, db: str | None, results: Path | None, repo: Path | None, title: str
) -> None:
    """Show the history on http://localhost:8000, with running sessions live, until interrupted."""
    from paceline.dashboard.frame import Options
    from paceline.dashboard.live_site import LiveSite, Origin
    from paceline.dashboard.serve import serve

    root, artifacts_dir = _roots(results)
    options = Options(title=title, results=root, artifacts_dir=artifacts_dir)
    path = parse_target(find_database(db, results)).path
    origin = Origin(
        opened=lambda: opened(db, root),
        exists=lambda: path is None or path.exists(),
        repository=chosen_repository(repo),
    )

    def say(address: str) -> None:
        write(f"{address}\n")
        flush()

    serve(LiveSite(origin, options), port, say, bind)


def _roots(results: Path | None) -> tuple[Path | None, Path | None]:
    """Where files of sessions may be read from: the results directory, and the suite's directory for logs.

    They come from the user or the suite here, never from a database or a session.
    """
    usual = find_results_place(None) if results is None else results
    return usual if isinstance(usual, Path) else None, find_artifacts_dir()


@contextmanager
def opened(db: str | None, results: Path | None) -> Iterator["Store"]:
    """The database; where there is none, one made from the results, or an empty one unless the user named it."""
    url = find_database(db, results)
    path = parse_target(url).path
    if path is None or path.exists():
        with open_database(url) as store:
            yield store
        return
    if db is not None and results is None:
        raise PacelineError(f"no history at {path}: 'paceline run' makes one, or give --results-dir DIR")
    with TemporaryDirectory(prefix="paceline-dashboard-") as directory:
        from paceline.history import open_store
        from paceline.history.session_files import find_sessions, read_session

        with open_store(Path(directory) / "history.db") as store:
            for session in find_sessions(results) if results else ():
                files = read_session(session)
                store.add(*files)
            yield store

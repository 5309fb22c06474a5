"""`paceline send`: what sessions have left waiting for their sinks."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from paceline.cli.completion import complete_session, complete_sink
from paceline.cli.inputs import masked_errors
from paceline.cli.output import write, write_json
from paceline.cli.stored import find_results_place, find_session, results_dir_option
from paceline.errors import PacelineError, SessionError
from paceline.model import Plan
from paceline.record.masking import mask_plan
from paceline.record.redact import Redactor
from paceline.record.remote.address import Location
from paceline.sinks.dispatch import Sent, describe, send
from paceline.sinks.outbox import Outbox, read_plan, waiting_sessions
from paceline.sinks.specs import read_specs, write_spec

EPILOG = """\b
Examples:
  paceline send                          what all sessions of the suite here have left
  paceline send monday                   a session by its name
  paceline send /data/results/monday     or by its path
  paceline send monday --sink mlflow     only this sink; may be given more than once
  paceline send monday --config nightly.yaml
                                         with the sinks as they are configured now, also new ones
  paceline send monday --json

\b
Nothing is delivered twice where the service can tell: each message has a key of its own. Settings of sinks that you did
not write yourself, on this machine, are not used: such a session, or one that was moved, needs --config.
"""


@click.command("send", epilog=EPILOG)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option(
    "--sink",
    "sinks",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_sink,
    help="Send to this sink only; repeatable.",
)
@click.option(
    "--config",
    "configs",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take the sinks and their secrets from this configuration; repeatable.",
)
@results_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print what became of each sink as JSON.")
def command(
    session: str | None,
    sinks: tuple[str, ...],
    configs: tuple[Path, ...],
    results_dir: Location | None,
    as_json: bool,
) -> int:
    """Deliver what a SESSION has left waiting for its sinks; without one, what all sessions have.

    Exit code 0: nothing waits any more; 1: something does, and it is said why.
    """
    with masked_errors(configs):
        sent = [
            one for place in _places(session, results_dir) for one in _send(place, sinks, configs, as_json)
        ]
    unknown = [name for name in sinks if name not in {one.name for one in sent}]
    if unknown:
        raise SessionError(
            f"no sink {unknown[0]!r} in these sessions: name one that they were run with, or --config"
        )
    if as_json:
        write_json([asdict(one) for one in sent])
    elif not sent:
        write("nothing is waiting\n")
    return 1 if any(one.waiting for one in sent) else 0


def _places(session: str | None, results_dir: Location | None) -> list[Path]:
    """The directories of the sessions asked for, or of all in which something may be waiting."""
    from paceline.record.remote.address import split, working_dir

    if session is None:
        place = find_results_place(results_dir)
        return waiting_sessions(working_dir(place))
    found = find_session(session, results_dir)
    if isinstance(found, Path):
        return [found]
    # A queue is where its session ran: an object store has the records only.
    parent, name = split(found)
    local = working_dir(parent) / name
    if not local.is_dir():
        raise SessionError(f"{found}: what waits for its sinks is on the machine that ran it")
    return [local]


def _send(place: Path, sinks: tuple[str, ...], configs: tuple[Path, ...], as_json: bool) -> list[Sent]:
    from paceline.session.session import remove_leftovers

    remove_leftovers(place.parent)
    say = (lambda text: click.echo(text, err=True)) if as_json else (lambda text: write(f"{text}\n"))
    sent = send_session(place, say, sinks=sinks, configs=configs)
    if not as_json:
        for one in sent:
            write(f"{describe(one)}\n")
    return sent


def send_session(
    session_dir: Path,
    say: Callable[[str], None],
    *,
    sinks: Sequence[str] = (),
    configs: Sequence[Path] = (),
) -> list[Sent]:
    """Deliver what waits in a session, also to sinks that only a configuration given now names."""
    plan = _plan(session_dir, configs) if configs else _plan_again(session_dir)
    if plan is not None and configs:
        _take_up(plan)
    given = plan.sinks if plan else ()
    return send(session_dir, say, sinks=sinks, given=given, secrets=plan.secret_values if plan else ())


def _plan(session_dir: Path, configs: Sequence[Path]) -> Plan:
    from paceline.session.request import Request, prepare

    request = Request(configs=tuple(configs), session_name=session_dir.name, results_dir=session_dir.parent)
    return replace(prepare(request), directory=session_dir)


def _take_up(plan: Plan) -> None:
    """Make the sinks of a configuration those of a session; one that had none gets its journal now."""
    redactor = Redactor(plan.secret_values)
    outbox = Outbox(plan.directory)
    if not outbox.exists:
        outbox.begin(mask_plan(plan, redactor))
        outbox.close()
    session_id = read_plan(plan.directory).id
    for spec in plan.sinks:
        write_spec(plan, session_id, spec, redactor, os.environ)


def _plan_again(session_dir: Path) -> Plan | None:
    """The plan of the files that this user ran the session with, if a sink needs them and they still fit."""
    try:
        stored = read_specs(session_dir, read_plan(session_dir).id, os.environ).values()
        paths = [Path(file) for one in stored if one.needs_config for file in one.config_files]
        paths = list(dict.fromkeys(paths))
        return _plan(session_dir, paths) if paths and all(path.is_file() for path in paths) else None
    except (PacelineError, OSError, ValueError, KeyError):  # Then what was stored with it has to do.
        return None

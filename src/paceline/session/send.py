"""Sinks of a session that is over: set up again from its files, or from a configuration given again."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from paceline.errors import PacelineError
from paceline.model import Plan, SinkSpec
from paceline.record.layout import OUTBOX
from paceline.record.masking import mask_plan
from paceline.record.redact import Redactor
from paceline.sinks.outbox import Outbox, read_plan, sink_dir, sink_names
from paceline.sinks.sending import IncompleteSpec, Sent, keep_spec, read_spec, send


def send_session(
    session_dir: Path,
    say: Callable[[str], None],
    *,
    sinks: Sequence[str] = (),
    configs: Sequence[Path] = (),
) -> list[Sent]:
    """Deliver what waits in a session, also to sinks that only a configuration given now names."""
    plan = _plan(session_dir, configs) if configs else None
    if plan is not None:
        _take_up(session_dir, plan)
    elif not _is_complete(session_dir):
        plan = _plan_again(session_dir)
    fresh: Mapping[str, SinkSpec] = {spec.name: spec for spec in plan.sinks} if plan else {}
    secrets = plan.secret_values if plan else ()
    return send(session_dir, say, sinks=sinks, fresh=fresh, secrets=secrets)


def _plan(session_dir: Path, configs: Sequence[Path]) -> Plan:
    from paceline.session.request import Request, prepare

    return prepare(
        Request(configs=tuple(configs), session_name=session_dir.name, results_dir=session_dir.parent)
    )


def _take_up(session_dir: Path, plan: Plan) -> None:
    """Keep the sinks of a configuration with a session; one that had none gets its journal now."""
    redactor = Redactor(plan.secret_values)
    outbox = Outbox(session_dir)
    if not outbox.exists:
        outbox.begin(mask_plan(replace(plan, directory=session_dir), redactor))
        outbox.close()
    for spec in plan.sinks:
        keep_spec(sink_dir(session_dir, spec.name), spec, os.environ, plan.secret_names, redactor)


def _is_complete(session_dir: Path) -> bool:
    """Whether all sinks can be set up from what is on disk and in the environment."""
    try:
        for name in sink_names(session_dir):
            read_spec(sink_dir(session_dir, name), os.environ)
    except IncompleteSpec:
        return False
    return True


def _plan_again(session_dir: Path) -> Plan | None:
    """The plan of the files that the session was run with, if they are still there and fit."""
    try:
        files = read_plan(session_dir / OUTBOX).plan.settings.config_files
        paths = [Path(file) for file in files]
        return _plan(session_dir, paths) if paths and all(path.is_file() for path in paths) else None
    except (PacelineError, OSError, ValueError, KeyError):  # then what was stored with it has to do
        return None

"""Delivers what sessions that are over have left waiting, by sinks' settings that are kept on disk.

There, values of environment variables are kept as the names of the variables.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import TypeAdapter, ValidationError

from paceline.errors import PacelineError, SessionError
from paceline.model import Finding, Report, SinkSpec, Status
from paceline.record import codec
from paceline.record.directory import SessionDir
from paceline.record.events import SESSION_FINISHED, session_events
from paceline.record.files import write_atomic
from paceline.record.layout import EVENTS, OUTBOX
from paceline.record.lock import unchanged_time
from paceline.record.redact import Redactor, is_maskable, is_secret_name, secret_values
from paceline.sinks.delivery import Delivery, Post, wait_for
from paceline.sinks.ledger import Ledger, Standing, standing, wanted_calls
from paceline.sinks.outbox import (
    JOURNAL,
    SPEC,
    Outbox,
    StoredPlan,
    read_calls,
    read_plan,
    sink_dir,
    sink_names,
    waiting_sessions,
)

OLDER_WAIT_S = 15.0
"""How long the end of a session takes for what earlier ones have left, if their sinks take it."""
NO_LIMIT_S = 1e9

_SPEC = TypeAdapter(SinkSpec)
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of one sink of a session."""

    session: str
    name: str
    type: str
    delivered: int
    waiting: int
    required: bool = False
    fault: str = ""


def send(
    session_dir: Path,
    note: Callable[[str], None],
    *,
    sinks: Sequence[str] = (),
    fresh: Mapping[str, SinkSpec] | None = None,
    secrets: Sequence[str] = (),
    wait_s: float = NO_LIMIT_S,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Sent]:
    """Deliver what waits in a session; `fresh` settings, of a configuration given again, replace the kept ones."""
    with _taken(session_dir) as outbox:
        stored = read_plan(outbox.path)
        found = {
            name: spec for name, spec in _specs(session_dir, fresh or {}) if not sinks or spec.name in sinks
        }
        values = (*secrets, *secret_values(os.environ, stored.plan.secret_names))
        post = Post(session_dir=session_dir, secrets=values, note=note)
        before = {
            name: standing(sink_dir(session_dir, name), spec.only, stored) for name, spec in found.items()
        }
        usable = [spec for spec in found.values() if not spec.blocked and before[spec.name].waiting]
        wait_for([Delivery(spec, post, wait_s) for spec in usable], is_stopped)
        sent = [_sent(session_dir, spec, before[name], stored) for name, spec in found.items()]
        if not any(_is_waiting(session_dir, name, stored) for name in sink_names(session_dir)):
            outbox.forget()
        return sent


@contextmanager
def _taken(session_dir: Path) -> Iterator[Outbox]:
    """The outbox of a session that nobody runs, with all in its journal that is on disk."""
    outbox = Outbox(session_dir)
    if not outbox.exists:
        raise SessionError(f"session {session_dir.name} was run without sinks: name some with --config")
    directory = SessionDir.open(session_dir)
    with unchanged_time(session_dir):
        directory.lock()
        try:
            outbox.resume()
            outbox.catch_up()
            if not outbox.is_closed:
                outbox.add_close(_report_of(directory, read_plan(outbox.path)))
            yield outbox
        finally:
            outbox.close()
            directory.unlock()


def _report_of(directory: SessionDir, stored: StoredPlan) -> Report:
    """The report of a session that had no sinks when it ended, or whose runner was killed."""
    counts: Counter[Status] = Counter(record.status for _, record in directory.stored_records())
    planned = len(stored.cases)
    end = (session_events(directory.path / EVENTS) or [{}])[-1]
    ended = end.get("event") == SESSION_FINISHED
    missing = f"{max(0, planned - counts.total()):,} of {planned:,} cases have no record"
    return Report(
        plan=stored.plan,
        records=(),
        findings=_findings(directory.path) if ended else (),
        counts=counts,
        interrupted=bool(end.get("interrupted")),
        unfinished="" if ended else f"the runner was killed; {missing}",
    )


def _findings(session_dir: Path) -> tuple[Finding, ...]:
    try:
        found = codec.load((session_dir / "report.json").read_bytes())["findings"]
        return tuple(Finding(**one) for one in found)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _specs(session_dir: Path, fresh: Mapping[str, SinkSpec]) -> Iterator[tuple[str, SinkSpec]]:
    """The sinks of a session by the names of their directories; what cannot be set up is blocked."""
    for name in sink_names(session_dir):
        directory = sink_dir(session_dir, name)
        try:
            stored, _ = read_stored(directory)
            yield name, fresh[stored.name] if stored.name in fresh else read_spec(directory, os.environ)
        except IncompleteSpec as error:
            with suppress(IncompleteSpec):
                stored, _ = read_stored(directory)
                yield name, replace(stored, blocked=str(error))


def _sent(session_dir: Path, spec: SinkSpec, before: Standing, stored: StoredPlan) -> Sent:
    now = standing(sink_dir(session_dir, spec.name), spec.only, stored)
    return Sent(
        session=session_dir.name,
        name=spec.name,
        type=spec.type,
        delivered=now.delivered - before.delivered,
        waiting=now.waiting,
        required=spec.required,
        fault=(spec.blocked or now.fault) if now.waiting else "",
    )


def _is_waiting(session_dir: Path, name: str, stored: StoredPlan) -> bool:
    directory = sink_dir(session_dir, name)
    with suppress(IncompleteSpec):
        return bool(standing(directory, read_stored(directory)[0].only, stored).waiting)
    return False


def still_waiting(session: str, name: str, found: Standing) -> str:
    """The line that says what a sink has not got, why, and what to do."""
    total = found.delivered + found.waiting
    return (
        f"sink {name}: {found.fault or 'not delivered'}; {found.waiting:,} of {total:,} messages wait: "
        f"paceline send {session}"
    )


def deliver_older(
    session_dir: Path, failing: frozenset[str], post: Post, is_stopped: Callable[[], bool]
) -> None:
    """Deliver what earlier sessions of the same results directory left, to sinks that do not fail just now."""
    until_s = monotonic() + OLDER_WAIT_S
    broken = set(failing)
    for older in waiting_sessions(session_dir.parent):
        if older == session_dir:
            continue
        try:
            names = _worth_trying(older, broken)
            left_s = until_s - monotonic()
            if not names or left_s <= 0 or is_stopped():
                continue
            for one in send(
                older, post.note, sinks=names, secrets=post.secrets, wait_s=left_s, is_stopped=is_stopped
            ):
                broken |= {one.type} if one.waiting else set()
                post.note(describe(one))
        except SessionError:
            continue  # Somebody runs it just now, and will deliver at its end.
        except (PacelineError, OSError, ValueError) as error:
            post.note(f"session {older.name}: what waits for its sinks could not be sent: {error}")


def _worth_trying(session_dir: Path, broken: set[str]) -> list[str]:
    """The sinks for which something waits that was not refused for good, and that neither fail now nor hung."""
    stored, names = read_plan(session_dir / OUTBOX), []
    for name in sink_names(session_dir):
        with suppress(IncompleteSpec):
            spec = read_spec(sink_dir(session_dir, name), os.environ)
            ledger = Ledger(sink_dir(session_dir, name)).read()
            calls = wanted_calls(read_calls(session_dir / OUTBOX / JOURNAL), spec.only, stored)
            settled = ledger.delivered | ledger.refused
            is_able = spec.type not in broken and not ledger.is_stuck
            if is_able and any(call.key not in settled for call in calls):
                names.append(spec.name)
    return names


def describe(sent: Sent) -> str:
    """One line on what became of a sink's queue."""
    line = f"session {sent.session}: sink {sent.name}: {sent.delivered:,} delivered"
    if not sent.waiting:
        return f"{line}, nothing waits"
    return f"{line}, {sent.waiting:,} still waiting ({sent.fault or 'not delivered'})"


class IncompleteSpec(PacelineError):
    """A sink cannot be set up again from what is on disk and in the environment."""


def keep_spec(
    directory: Path, spec: SinkSpec, environ: Mapping[str, str], names: Sequence[str], redactor: Redactor
) -> None:
    """Write a sink's settings; a secret that was written out in the configuration is masked, and so is lost."""
    options = _each_text(spec.options, _Namer(environ, names).name_values)
    masked = _each_text(options, redactor.text)
    written = replace(spec, options=masked, blocked=spec.blocked and redactor.text(spec.blocked))
    data = {"spec": _SPEC.dump_python(written, mode="json"), "lost": masked != options}
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / SPEC, codec.dump(data, pretty=True), durable=False)


def read_spec(directory: Path, environ: Mapping[str, str]) -> SinkSpec:
    """A sink's settings with the variables' values of today; IncompleteSpec where that cannot be."""
    spec, is_lost = read_stored(directory)
    if is_lost or spec.blocked:
        why = spec.blocked or "a secret that was written out in its configuration is not kept on disk"
        raise IncompleteSpec(f"sink {spec.name}: {why}: give the configuration again with --config")
    missing = [name for name in _names_in(spec.options) if name not in environ]
    if missing:
        raise IncompleteSpec(f"sink {spec.name}: environment variable {missing[0]} is not set")
    return replace(spec, options=_each_text(spec.options, lambda text: _put_values(text, environ)))


def read_stored(directory: Path) -> tuple[SinkSpec, bool]:
    """A sink's settings as they are kept, and whether a secret is lost from them."""
    try:
        data = codec.load((directory / SPEC).read_bytes())
        return _SPEC.validate_python(data["spec"]), bool(data["lost"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise IncompleteSpec(f"{directory / SPEC} cannot be read: {error}") from error


class _Namer:
    """Puts names for values: the other way round than a configuration is read."""

    def __init__(self, environ: Mapping[str, str], names: Sequence[str]) -> None:
        wanted = {*names, *filter(is_secret_name, environ)}
        found = {environ[name]: name for name in sorted(wanted) if is_maskable(environ.get(name, ""))}
        self._names = found
        values = sorted(map(re.escape, found), key=len, reverse=True)
        self._pattern = re.compile("|".join([*values, r"\$"]))

    def name_values(self, text: str) -> str:
        return self._pattern.sub(self._named, text)

    def _named(self, match: re.Match[str]) -> str:
        return "$$" if match[0] not in self._names else f"${{{self._names[match[0]]}}}"


def _put_values(text: str, environ: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: environ[match[1]] if match[1] else "$", text)


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from filter(None, _VARIABLE.findall(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _names_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names_in(item)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Nested data with all its texts changed, but for the keys of mappings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(item, change) for item in value]
    return value

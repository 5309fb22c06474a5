"""What a sink is: its settings in a session's outbox, which count only where this user wrote them.

Settings name a class to import, an address, and variables whose values go there, and a session's directory may be
somebody else's work. So they are signed with a key that the user alone can read, for this session in this directory;
what is not signed so is data. On disk, values of environment variables are the variables' names.
"""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes
from typing import Any

from pydantic import TypeAdapter, ValidationError

from paceline.model import Plan, SinkSpec
from paceline.record import below, codec
from paceline.record.files import lock_fd
from paceline.record.layout import OUTBOX, safe_name
from paceline.record.redact import Redactor, is_maskable, is_secret_name
from paceline.sinks.outbox import Ledger, sink_dir

SPEC, STATE = "spec.json", "state"
FOREIGN = "written by somebody else (or elsewhere): give its configuration with --config to send it"
_KEY, _KEY_BYTES = "outbox.key", 32
_MAX_SPEC_BYTES = 1 << 20
_SPEC = TypeAdapter(SinkSpec)
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpec:
    """A sink's settings as they are on disk; a `spec` that cannot be used now says why in `blocked`."""

    spec: SinkSpec
    is_own: bool = False
    """Whether this user wrote it, for this session; of one that somebody else wrote nothing may be used."""
    needs_config: bool = False
    """Whether it is ours, but lacks what only its configuration has: a secret that was written out there."""
    cwd: str = ""
    artifacts_dir: Path | None = None
    config_files: tuple[str, ...] = ()


def write_spec(
    plan: Plan, session_id: str, spec: SinkSpec, redactor: Redactor, environ: Mapping[str, str]
) -> StoredSpec:
    """Write a sink's settings; a secret that was written out in the configuration is masked, and so is lost.

    What a sink has noted for itself leads it to its service again. It goes if somebody else may have made it, and
    the sink is opened once more.
    """
    root, directory = plan.directory, sink_dir(spec.name)
    before = read_spec(root, safe_name(spec.name), session_id, environ)
    below.make_private_dir(root, directory)
    state = f"{directory}/{STATE}"
    if not before.is_own and below.status(root, state) is not None:
        has_notes = bool(below.names(root, state))
        if not below.remove_tree(root, state):
            raise below.Refused(root, state, "somebody else may have made it, and it cannot be removed")
        if has_notes:
            Ledger(root, spec.name).note(key="open", again=True)
    names = (*plan.secret_names, *plan.sink_variables)
    options = _each_text(spec.options, _Namer(environ, names).name_values)
    masked = _each_text(options, redactor.text)
    written = replace(spec, options=masked, blocked=spec.blocked and redactor.text(spec.blocked))
    stored = StoredSpec(
        spec=spec,
        is_own=True,
        cwd=before.cwd if before.is_own else str(Path.cwd()),
        artifacts_dir=plan.artifacts_dir and plan.artifacts_dir.absolute(),
        config_files=tuple(str(Path(file).absolute()) for file in plan.settings.config_files),
    )
    content = {
        "spec": _SPEC.dump_python(written, mode="json"),
        "lost": masked != options,
        "cwd": stored.cwd,
        "artifacts_dir": stored.artifacts_dir and str(stored.artifacts_dir),
        "config_files": stored.config_files,
    }
    content = codec.load(codec.dump(content))
    data = {**content, "hmac": _sign(root, session_id, safe_name(spec.name), content)}
    below.write(root, f"{directory}/{SPEC}", codec.dump(data, pretty=True), durable=False, mode=0o600)
    return stored


def read_spec(session_dir: Path, name: str, session_id: str, environ: Mapping[str, str]) -> StoredSpec:
    """The settings in the directory `name` of an outbox, with the variables' values of today."""
    foreign = StoredSpec(spec=SinkSpec(type="", name=name, blocked=FOREIGN))
    try:
        data = codec.load(below.read(session_dir, f"{OUTBOX}/{name}/{SPEC}", _MAX_SPEC_BYTES))
        signature = str(data.pop("hmac", ""))
        spec = _SPEC.validate_python(data["spec"])
        if safe_name(spec.name) != name:
            return foreign
        foreign = replace(foreign, spec=replace(spec, blocked=FOREIGN))
        expected = _sign(session_dir, session_id, name, data)
        if not expected or not hmac.compare_digest(signature.encode(), expected.encode()):
            return foreign
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ValidationError):
        return foreign
    needs_config, missing = bool(data["lost"] or spec.blocked), _names_in(spec.options) - environ.keys()
    if needs_config:
        why = spec.blocked or "a secret that was written out in its configuration is not kept on disk"
        spec = replace(spec, blocked=f"{why}: give the configuration again with --config")
    elif missing:
        spec = replace(spec, blocked=f"environment variable {min(missing)} is not set")
    else:
        spec = replace(spec, options=_each_text(spec.options, lambda text: _put_values(text, environ)))
    return StoredSpec(
        spec=spec,
        is_own=True,
        needs_config=needs_config,
        cwd=data["cwd"],
        artifacts_dir=Path(data["artifacts_dir"]) if data["artifacts_dir"] else None,
        config_files=tuple(data["config_files"]),
    )


def read_specs(session_dir: Path, session_id: str, environ: Mapping[str, str]) -> dict[str, StoredSpec]:
    """All sinks of a session, by their names."""
    names = [
        name
        for name in below.names(session_dir, OUTBOX)
        if safe_name(name) == name and below.is_file(session_dir, f"{OUTBOX}/{name}/{SPEC}")
    ]
    found = (read_spec(session_dir, name, session_id, environ) for name in names)
    return {stored.spec.name: stored for stored in found}


def _sign(session_dir: Path, session_id: str, name: str, content: Any) -> str:
    """The signature of settings for one sink of one session in one directory; empty if there is no key."""
    key = _user_key()
    place = [os.path.realpath(session_dir), session_id, name]
    text = json.dumps([place, content], sort_keys=True).encode("utf-8", "surrogatepass")
    return hmac.new(key, text, hashlib.sha256).hexdigest() if key else ""


def _user_key() -> bytes:
    """The key of this user on this machine, made at its first use; empty where none can be kept."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        root = (Path(state) if state.startswith("/") else Path.home() / ".local/state") / "paceline"
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = below.open_below(root, _KEY, os.O_RDWR | os.O_CREAT, 0o600)
    except (OSError, RuntimeError):  # No home, or none that can be written to.
        return b""
    try:
        lock_fd(fd, wait=True, optional=True)
        status, key = os.fstat(fd), os.pread(fd, _KEY_BYTES, 0)
        if status.st_uid != os.geteuid():
            return b""
        if len(key) < _KEY_BYTES or status.st_mode & 0o077:  # New, or one that others could read.
            key = token_bytes(_KEY_BYTES)
            os.fchmod(fd, 0o600)
            os.pwrite(fd, key, 0)
            os.fsync(fd)
        return key
    except OSError:
        return b""
    finally:
        os.close(fd)


class _Namer:
    """Puts names for values: the other way round than a configuration is read."""

    def __init__(self, environ: Mapping[str, str], names: Sequence[str]) -> None:
        wanted = {*names, *filter(is_secret_name, environ)}
        self._names = {environ[name]: name for name in sorted(wanted) if is_maskable(environ.get(name, ""))}
        values = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._pattern = re.compile("|".join([*values, r"\$"]))

    def name_values(self, text: str) -> str:
        return self._pattern.sub(self._named, text)

    def _named(self, match: re.Match[str]) -> str:
        return "$$" if match[0] not in self._names else f"${{{self._names[match[0]]}}}"


def _put_values(text: str, environ: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: environ[match[1]] if match[1] else "$", text)


def _names_in(value: Any) -> set[str]:
    names: set[str] = set()

    def look_at(text: str) -> str:
        names.update(filter(None, _VARIABLE.findall(text)))
        return text

    _each_text(value, look_at)
    return names


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Nested data with all its texts changed, but for the keys of mappings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(item, change) for item in value]
    return value

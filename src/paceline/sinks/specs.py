"""A sink's settings on disk: values of environment variables are kept as the names of the variables."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from paceline.errors import PacelineError
from paceline.model import SinkSpec
from paceline.record import codec
from paceline.record.atomic import write_atomic
from paceline.record.redact import Redactor, is_maskable, is_secret_name
from paceline.sinks.outbox import SPEC

_SPEC = TypeAdapter(SinkSpec)
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")


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

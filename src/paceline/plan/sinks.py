"""The sinks of a plan: which are known, which are blocked, which are a mistake."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from pydantic import ValidationError

from paceline import plugins
from paceline.config.load import Loaded
from paceline.config.problems import problem_at
from paceline.config.schema import Sink
from paceline.errors import MissingExtra, Problem, did_you_mean
from paceline.model import SinkSpec, Source


def make_sinks(loaded: Loaded) -> Iterator[SinkSpec]:
    """The sinks of a configuration as a session opens them."""
    for i, sink in enumerate(loaded.config.sinks):
        mark = loaded.mark(("sinks", i))
        unset = loaded.unset.get(("sinks", i))
        yield SinkSpec(
            type=sink.type,
            name=sink.name,
            options=sink.options,
            required=sink.required,
            only=(sink.only,) if isinstance(sink.only, str) else tuple(sink.only),
            live=sink.live,
            timeout_s=sink.timeout_s,
            wait_s=sink.wait_s,
            memory_bytes=sink.memory,
            blocked=str(unset) if unset else None,
            source=Source(file=mark.file, line=mark.line),
        )


def unset_in_sinks(loaded: Loaded) -> Iterator[Problem]:
    """The variables that sinks lack."""
    for unset in loaded.all_unset:
        if unset.path[0] == "sinks":
            mark = unset.mark or loaded.mark(unset.path)
            yield problem_at(mark, loaded.label(unset.path), str(unset))


def check_sinks(loaded: Loaded) -> list[Problem]:
    """Sinks that can only be typing errors, that lack packages, or whose options are wrong."""
    problems: list[Problem] = []
    known = plugins.names("sinks") if loaded.config.sinks else ()
    for i, sink in enumerate(loaded.config.sinks):
        if "${" in sink.type:
            continue
        # Either stands in for the other; where they differ, `type` was written.
        path = ("sinks", i, "name" if sink.type == sink.name else "type")
        message = _find_missing(sink) if sink.type in known else _find_fault(sink, known)
        if message:
            problems.append(problem_at(loaded.mark(path), loaded.label(path), message))
        elif sink.type in known and ("sinks", i) not in loaded.unset:
            problems += _check_options(loaded, sink, i)
    return problems


def _find_missing(sink: Sink) -> str | None:
    """What to install for one of our own sinks; those of others are imported when they are used."""
    if not plugins.is_own("sinks", sink.type):
        return None
    needs = getattr(plugins.find("sinks", sink.type), "needs", None)
    if needs is None or _can_import(needs[0]):
        return None
    return str(MissingExtra(f"the sink {sink.type}", needs[1]))


def _check_options(loaded: Loaded, sink: Sink, i: int) -> Iterator[Problem]:
    """What the model of one of our own sinks finds wrong; values are not quoted, for they may be secret."""
    model = (
        getattr(plugins.find("sinks", sink.type), "Options", None)
        if plugins.is_own("sinks", sink.type)
        else None
    )
    if model is None:
        return
    try:
        model.model_validate(sink.options)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            path = ("sinks", i, *one["loc"])
            yield problem_at(loaded.mark(path), loaded.label(path), _explain(one, list(model.model_fields)))


def _explain(error: Any, known: list[str]) -> str:
    if error["type"] == "missing":
        return "this option is missing"
    if error["type"] == "extra_forbidden":
        hint = did_you_mean(str(error["loc"][-1]), known, f"known: {', '.join(known)}")
        return f"unknown option; {hint}"
    return str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ")


def _find_fault(sink: Sink, known: tuple[str, ...]) -> str | None:
    module, colon, attribute = sink.type.partition(":")
    if not colon:
        hint = did_you_mean(sink.type, known, f"give one of {', '.join(known)}, or 'module:Class'")
        return f"there is no sink {sink.type!r}; {hint}"
    top = module.partition(".")[0]
    if not module or not attribute:
        return f"{sink.type!r} is no import path; write 'module:Class'"
    if not _can_import(top):
        return f"the module {top!r} of the sink {sink.type!r} is not installed; install it, or mend the path"
    return None


def _can_import(top: str) -> bool:
    """Whether a top-level module is there; it is not imported, for a plan runs no foreign code."""
    try:
        return find_spec(top) is not None
    except ModuleNotFoundError:  # A part of a package that is not there itself.
        return False
    except (ValueError, ImportError):
        # A module without a spec, as `__main__` is, is there all the same; an empty name is not.
        return bool(top)

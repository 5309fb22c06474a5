"""The sinks of a plan: which are known, which are blocked, which are a mistake."""

from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec

from paceline import plugins
from paceline.config.load import Loaded
from paceline.config.problems import problem_at
from paceline.config.schema import Sink
from paceline.errors import Problem
from paceline.model import SinkSpec, Source

LATER_SINKS = ("mlflow", "wandb", "slack", "gdrive")
"""Names that suites use already; a version that has none of them keeps to its own files."""


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


def check_sinks(loaded: Loaded) -> tuple[list[Problem], list[str]]:
    """Sinks that can only be typing errors, and warnings for those that are yet to come."""
    problems, warnings = [], []
    known = plugins.names("sinks") if loaded.config.sinks else ()
    for i, sink in enumerate(loaded.config.sinks):
        if sink.type in known or "${" in sink.type:
            continue
        if sink.type in LATER_SINKS:
            warnings.append(
                f"sink {sink.type!r} is not part of this version; results stay in the session's files"
            )
        elif message := _find_fault(sink, known):
            # Either stands in for the other; where they differ, `type` was written.
            path = ("sinks", i, "name" if sink.type == sink.name else "type")
            problems.append(problem_at(loaded.mark(path), loaded.label(path), message))
    return problems, list(dict.fromkeys(warnings))


def _find_fault(sink: Sink, known: tuple[str, ...]) -> str | None:
    module, colon, attribute = sink.type.partition(":")
    if not colon:
        names = dict.fromkeys((*known, *LATER_SINKS))
        close = get_close_matches(sink.type, names, 1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"give one of {', '.join(names)}, or 'module:Class'"
        )
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
    except (ValueError, ImportError):
        # A module without a spec, as `__main__` is, is there all the same; an empty name is not.
        return bool(top)

"""The sinks of a suite: which are on, which are known, which are blocked or a mistake, and as sessions open them.

They come from `sinks:`, from the sections `mlflow:`, `wandb:` and `slack:`, and from `--sink`.
"""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from paceline import plugins
from paceline.config.merge import merge
from paceline.config.nodes import COMMAND_LINE, Node, items_of
from paceline.config.schema import Sink
from paceline.config.templates import names_in
from paceline.errors import MissingExtra, Problem, did_you_mean
from paceline.model import SinkSpec, Source

if TYPE_CHECKING:
    from paceline.config.load import Loaded

NONE = "none"
SECTIONS = ("mlflow", "wandb", "slack")


def choose_sinks(root: dict[str, Node], chosen: tuple[str, ...], environ: Mapping[str, str]) -> list[Problem]:
    """Make `sinks` the list of sinks to use; the sections go into it."""
    sections = {key: root.pop(key) for key in SECTIONS if key in root and isinstance(root[key].value, dict)}
    configured = root.get("sinks")
    if configured is not None and not isinstance(configured.value, list):
        return []
    items = _with_sections(items_of(configured), sections, chosen, environ)
    problems = []
    if chosen:
        if NONE in chosen and len(set(chosen)) > 1:
            message = "--sink none excludes every other --sink"
            problems.append(Problem(file="", line=0, path="", message=message))
        items = [] if NONE in chosen else _select(items, chosen)
    for i, item in enumerate(items):
        value = item.value
        # A sink has both `name` and `type`; either stands in for the other.
        if isinstance(value, dict) and ("name" in value) != ("type" in value):
            other = value["type"] if "type" in value else value["name"]
            items[i] = item._replace(value={"name": other, "type": other, **value})
    if items or configured is not None:
        root["sinks"] = Node(list(items), configured.mark if configured else items[0].mark)
    return problems


def variables_of_sinks(sinks: Node | None) -> Iterator[str]:
    """Names of the variables that sinks use, as `${VAR}` or as the value of a key such as `webhook_env`."""
    value = sinks.value if sinks is not None else None
    if isinstance(value, str):
        yield from names_in(value)
    elif isinstance(value, list):
        for item in value:
            yield from variables_of_sinks(item)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key.endswith("_env") and isinstance(child.value, str) and "$" not in child.value:
                yield child.value
            yield from variables_of_sinks(child)


def _with_sections(
    items: list[Node], sections: dict[str, Node], chosen: tuple[str, ...], environ: Mapping[str, str]
) -> list[Node]:
    """The sinks with each section laid under the sink that it describes, or added if it is on."""
    result = list(items)
    for name, section in sections.items():
        mapping = section.value
        assert isinstance(mapping, dict)
        item = section._replace(value={"name": Node(name, section.mark, text=name), **mapping}, tag=None)
        position = next((index for index, sink in enumerate(result) if _is_called(sink, name)), None)
        if position is not None:
            result[position] = merge(item, result[position])
        elif name in chosen or "enabled" in mapping:
            result.append(item)
        elif name == "slack":  # on if its webhook is known
            variable = mapping.get("webhook_env")
            if variable is None or environ.get(variable.text):
                result.append(item)
    return result


def _select(items: list[Node], chosen: tuple[str, ...]) -> list[Node]:
    selected = []
    for item in items:
        if any(_is_called(item, name) for name in chosen):
            assert isinstance(item.value, dict)
            selected.append(
                item._replace(value={key: node for key, node in item.value.items() if key != "enabled"})
            )
    for name in dict.fromkeys(chosen):
        if not any(_is_called(item, name) for item in items):
            selected.append(Node({"name": Node(name, COMMAND_LINE, text=name)}, COMMAND_LINE))
    return selected


def _is_called(item: Node, name: str) -> bool:
    value = item.value
    return isinstance(value, dict) and any(
        key in value and value[key].text == name for key in ("name", "type")
    )


def make_sinks(loaded: "Loaded") -> Iterator[SinkSpec]:
    """The sinks of a configuration as a session opens them."""
    known = plugins.names("sinks") if loaded.config.sinks else ()
    for i, sink in enumerate(loaded.config.sinks):
        mark = loaded.mark(("sinks", i))
        unset = loaded.unset.get(("sinks", i))
        yield SinkSpec(
            type=_find_curator_sink(loaded, sink.type, known) or sink.type,
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


def _find_curator_sink(loaded: "Loaded", name: str, known: tuple[str, ...]) -> str | None:
    """The file of a sink that we do not know and NeMo Curator's framework would, beside a configuration."""
    if name in known or not name.isidentifier():
        return None
    files = (file.parent / f"runner/sinks/{name}_sink.py" for file in loaded.files)
    return next((os.path.abspath(file) for file in files if file.is_file()), None)  # noqa: PTH100 - no links


def unset_in_sinks(loaded: "Loaded") -> list[Problem]:
    """The variables of sinks that are not set; a sink that is off or not chosen has none."""
    return [loaded.problem(one.path, str(one)) for one in loaded.all_unset if one.path[0] == "sinks"]


def check_sinks(loaded: "Loaded", environ: Mapping[str, str]) -> list[Problem]:
    """Sinks that can only be typing errors, lack packages, have wrong options, or are required and lack secrets."""
    problems: list[Problem] = []
    known = plugins.names("sinks") if loaded.config.sinks else ()
    for i, sink in enumerate(loaded.config.sinks):
        if "${" in sink.type:
            continue
        # Either stands in for the other; where they differ, `type` was written.
        path = ("sinks", i, "name" if sink.type == sink.name else "type")
        if _find_curator_sink(loaded, sink.type, known):
            continue
        message = _find_missing(sink) if sink.type in known else _find_fault(sink, known)
        if message:
            problems.append(loaded.problem(path, message))
        elif sink.type in known and ("sinks", i) not in loaded.unset:
            problems += _check_options(loaded, sink, i, environ)
    return problems


def _find_missing(sink: Sink) -> str | None:
    """What to install for one of our own sinks; those of others are imported when they are used."""
    if not plugins.is_own("sinks", sink.type):
        return None
    needs = getattr(plugins.find("sinks", sink.type), "needs", None)
    if needs is None or _can_import(needs[0]):
        return None
    return str(MissingExtra(f"the sink {sink.type}", needs[1]))


def _check_options(loaded: "Loaded", sink: Sink, i: int, environ: Mapping[str, str]) -> Iterator[Problem]:
    """What the model of one of our own sinks finds wrong; values are not quoted, for they may be secret."""
    if not plugins.is_own("sinks", sink.type):
        return
    model = getattr(plugins.find("sinks", sink.type), "Options", None)
    if model is None:
        return
    try:
        options = model.model_validate(sink.options)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            yield loaded.problem(("sinks", i, *one["loc"]), _explain(one, list(model.model_fields)))
        return
    needed: Mapping[str, str | None] = (
        options.secrets() if sink.required and hasattr(model, "secrets") else {}
    )
    for name, file in needed.items():
        if not environ.get(name) and not os.access(file or environ.get(f"{name}_FILE", ""), os.R_OK):
            message = (
                f"it is required: set the environment variable {name}, or {name}_FILE to a file that holds it"
            )
            yield loaded.problem(("sinks", i), message)


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
        return f"{sink.type!r} is not an import path; write 'module:Class'"
    if not _can_import(top):
        return (
            f"the module {top!r} of the sink {sink.type!r} is not installed; install it, or correct the path"
        )
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

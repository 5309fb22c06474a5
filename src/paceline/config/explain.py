"""A configuration as others see it: where each value was set, as one resolved file, and as a JSON Schema of files."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

import yaml

from paceline.config.load import Loaded
from paceline.config.nodes import COMMAND_LINE, Location, Node, resolve
from paceline.model import Severity

# What entries, sinks, formats and variables are found by; a session's other files have these unmasked, too.
_FOUND_BY = frozenset({"name", "type", "needs", "secrets", "not_secrets", "capture_env"})
_OPEN_LISTS = frozenset({"sinks", "sink_data"})
_SEVERITIES = get_args(Severity)

Redact = Callable[[Any], Any]
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]
    """Quotes what our reader would not take for a string, which is not what YAML 1.1 would quote."""


def _represent_text(dumper: Any, text: str) -> Any:
    style = None if isinstance(resolve(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def explain(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    """Path, value and origin of every value that was set, in the order of the merged files.

    A value with variables is shown as it was written: what they hold may be secret.
    """
    for path, node in _leaves(loaded.tree, ()):
        origin = "command line" if node.mark == COMMAND_LINE else str(node.mark)
        yield loaded.label(path), value_text(node), origin


def value_text(node: Node) -> str:
    """A value in the notation of YAML, on one line: text as it is where it cannot be misread, else quoted."""
    value = node.value if node.raw is None else node.raw
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    if not isinstance(value, str):
        return node.text or "null"
    simple = value and value == value.strip() and value.isprintable() and isinstance(resolve(value), str)
    return value if simple else repr(value)


def _leaves(node: Node, path: Location) -> Iterator[tuple[Location, Node]]:
    value: Any = node.value
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    empty = True
    for step, child in steps:
        empty = False
        yield from _leaves(child, (*path, step))
    if empty:
        yield path, node


def resolved_text(loaded: Loaded, redact: Redact) -> str:
    """What the files came to: one suite, with what `redact` leaves of its values and of keys that are a user's."""
    head = "".join(f"# from {path}\n" for path in loaded.files)
    data = _section(loaded.tree, redact)
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return head + text


def _section(node: Node, redact: Redact) -> Any:
    """A part of the schema. Its keys stay: a secret may have the value `name`, and the file must stay a suite."""
    if isinstance(node.value, list):
        return [_section(child, redact) for child in node.value]
    if not isinstance(node.value, dict):
        return _user_data(node, redact)
    data: dict[str, Any] = {}
    for name, child in node.value.items():
        if name in _FOUND_BY:
            data[name] = _user_data(child, _as_it_is)
        elif name == "severity" and child.value in _SEVERITIES:
            data[name] = child.value
        elif name == "matrix" and isinstance(child.value, dict):  # An axis may be called as a key of ours is.
            data[name] = {axis: _user_data(values, redact) for axis, values in child.value.items()}
        elif name in _OPEN_LISTS and isinstance(child.value, list):
            data[name] = [_open_section(item, redact) for item in child.value]
        else:
            data[name] = _user_data(child, redact) if name == "env" else _section(child, redact)
    return data


def _open_section(node: Node, redact: Redact) -> Any:
    """A sink's options: what is inside of them is no longer ours, whatever it is called."""
    if not isinstance(node.value, dict):
        return _user_data(node, redact)
    return {
        name: _user_data(child, _as_it_is if name in _FOUND_BY else redact)
        for name, child in node.value.items()
    }


def _user_data(node: Node, redact: Redact) -> Any:
    if isinstance(node.value, dict):
        return {redact(name): _user_data(child, redact) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [_user_data(child, redact) for child in node.value]
    value = redact(node.value)
    if isinstance(value, str) and node.raw is not None:
        return value.replace("$", "$$")  # already put in; a dollar in it must not be taken for a variable's
    return value


def _as_it_is(value: Any) -> Any:
    return value


Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{", "description": "A value with variables."}
_LEGACY_PATH: Schema = {"type": "string", "deprecated": True, "description": "Make it an item of `paths`."}


def as_written(schema: Schema) -> Schema:
    """The schema of the models, widened to what files may hold."""
    definitions = schema.get("$defs", {})
    for definition in (*definitions.values(), schema):
        properties = definition.get("properties", {})
        properties |= {key: _widen_value(key, value) for key, value in properties.items()}
        # Another file may have what this one lacks; what all of them lack is reported when they are loaded.
        definition.pop("required", None)
    _allow_shorthands(schema, definitions)
    schema["patternProperties"] = {"^x-": {"description": "Ignored; a place for anchors."}}
    for key in ("results_path", "datasets_path", "model_weights_path"):
        schema["properties"][key] = _LEGACY_PATH
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _widen_value(key: str, schema: Schema) -> Schema:
    """Allow null, a variable, and for texts that take any scalar those too."""
    about: Schema = {name: schema.pop(name) for name in ("description", "default", "title") if name in schema}
    choices = list(schema["anyOf"]) if set(schema) == {"anyOf"} else [schema]
    if not any(choice.get("type") == "string" for choice in choices):
        choices.append(_VARIABLE)
    if key in ("args", "command", "interpreter", "tags", "needs"):
        choices.append({"type": "array", "items": _SCALAR})
    if key in ("args", "command", "version"):
        choices.append(_SCALAR)
    if key == "env":
        choices.append({"type": "object", "additionalProperties": {"type": [*_SCALAR["type"], "null"]}})
    if _NULL not in choices:
        choices.append(_NULL)
    return {"anyOf": choices, **about}


def _allow_shorthands(schema: Schema, definitions: dict[str, Schema]) -> None:
    formats = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
    schema["properties"]["datasets"]["anyOf"].append({"type": "object", "additionalProperties": formats})
    bounds = {**definitions["Requirement"], "description": "The keys of a requirement besides `metric`."}
    schema["properties"]["pool"]["anyOf"].append({"const": "ray"})
    for name in ("models", "attentions", "benchmarks"):
        lists = definitions["Evals"]["properties"][name]["anyOf"]
        lists[0]["items"] = {"anyOf": [lists[0]["items"], {"type": "string"}]}
    for name in ("Entry", "EntryDefaults"):
        properties = definitions[name]["properties"]
        properties["requirements"]["anyOf"].append({"type": "object", "additionalProperties": bounds})
        properties["ray"]["anyOf"].append({"const": False})
        options = {"type": "object", "additionalProperties": {"type": ["object", "null"]}}
        properties["sink_data"]["anyOf"].append(options)

"""The JSON Schema of configuration files as they may be written, which is more than the models hold.

Shorthands, variables in place of values, `null` to unset a key and `x-…` keys are all turned into the models' form
before they are validated; an editor that checks a file has to know them.
"""

from typing import Any

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
        # Another file may bring what this one lacks; what they lack together is told when they are loaded.
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

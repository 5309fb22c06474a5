"""Renders docs/config.md from the schema: `python -m tools.reference.config > docs/config.md`."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from tools.reference.config_text import EXAMPLES, INTRODUCTION, PLACEHOLDERS, PLACES, SHORTHANDS

from paceline.config.evals import (
    Evals,
    EvalsAdapter,
    EvalsAttention,
    EvalsBenchmark,
    EvalsClocks,
    EvalsEarlyStop,
    EvalsModel,
    EvalsRetry,
    WholeConfig,
)
from paceline.config.schema import (
    Dataset,
    DatasetFormat,
    DataSetup,
    Entry,
    GpuStatsRecorder,
    History,
    Matrix,
    MetricMeaning,
    PathItem,
    Requirement,
    Sink,
    SinkData,
)
from paceline.config.sections import LimitsOptions, Nightly, PoolOptions, RayOptions, ResourcesOptions

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Top level", WholeConfig),
    ("Entry", Entry),
    ("Requirement", Requirement),
    ("Metric", MetricMeaning),
    ("Matrix", Matrix),
    ("Ray", RayOptions),
    ("Resources", ResourcesOptions),
    ("Pool", PoolOptions),
    ("Limits", LimitsOptions),
    ("Data set-up", DataSetup),
    ("Dataset", Dataset),
    ("Dataset format", DatasetFormat),
    ("Path", PathItem),
    ("Sink", Sink),
    ("Sink data", SinkData),
    ("GPU recorder", GpuStatsRecorder),
    ("History", History),
    ("Nightly", Nightly),
    ("Evals", Evals),
    ("Evals model", EvalsModel),
    ("Evals attention", EvalsAttention),
    ("Evals benchmark", EvalsBenchmark),
    ("Evals adapter", EvalsAdapter),
    ("Evals early stop", EvalsEarlyStop),
    ("Evals clocks", EvalsClocks),
    ("Evals retry", EvalsRetry),
)
_TITLES = {
    **{model.__name__: title for title, model in SECTIONS},
    "SinkSection": "Sink",
    "EntryDefaults": "Entry",
}


def render() -> str:
    """The whole page."""
    head = f"{INTRODUCTION}\n{_render_placeholders()}\n{PLACES}\n"
    return head + "\n".join(_render_section(title, model) for title, model in SECTIONS)


def _render_placeholders() -> str:
    rows = "".join(f"| `{{{name}}}` | {_escaped(about)} |\n" for name, about in PLACEHOLDERS.items())
    return f"| placeholder | what it stands for |\n|---|---|\n{rows}"


def _render_section(title: str, model: type[BaseModel]) -> str:
    about = " ".join((model.__doc__ or "").split())
    rows = "\n".join(_rows(model))
    example = f"```yaml\n{EXAMPLES[model.__name__].strip()}\n```"
    return f"## {title}\n\n{about}\n\n| key | type | default | what it is |\n|---|---|---|---|\n{rows}\n\n{example}\n"


def _rows(model: type[BaseModel]) -> Iterator[str]:
    # The models' own schema: what files may hold besides is told in the introduction.
    schema = BaseModel.model_json_schema.__func__(model)  # type: ignore[attr-defined]
    required = schema.get("required", [])
    for key in _ordered_keys(model):
        field = schema["properties"][key]
        default = "required" if key in required and (model, key) != (Sink, "type") else _default(field)
        type_ = SHORTHANDS.get(f"{model.__name__}.{key}") or _type(field)
        yield f"| `{key}` | {type_} | {default} | {_escaped(field['description'])} |"


def _ordered_keys(model: type[BaseModel]) -> list[str]:
    keys = list(model.model_fields)
    return sorted(keys, key=lambda key: key != "name")


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "" if default in (None, [], {}) or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        names = [_type(choice) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(names))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object":
        values = schema["additionalProperties"]
        return "mapping" if values is True else f"mapping to {_type(values)}"
    return _scalar_type(schema)


def _scalar_type(schema: dict[str, Any]) -> str:
    name = str(schema.get("type", "any value"))
    low, high, above = (schema.get(key) for key in ("minimum", "maximum", "exclusiveMinimum"))
    if low is not None and high is not None:
        return f"{name} from {low:g} to {high:g}"
    if low is not None:
        return f"{name} ≥ {low:g}"
    return f"{name} > {above:g}" if above is not None else name


def _link(reference: str) -> str:
    title = _TITLES[reference.rsplit("/", 1)[-1]]
    return f"[{title}](#{title.lower().replace(' ', '-')})"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(render())

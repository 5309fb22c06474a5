"""The page on service sinks tells every option, and its examples are taken."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline import plugins
from paceline.config.schema import Sink

PAGE = (Path(__file__).parents[2] / "docs" / "sinks-services.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
TITLES = {
    "slack": "Slack",
    "gdrive": "Google Drive",
    "github": "GitHub",
    "prometheus": "Prometheus",
    "email": "E-mail",
    "otel": "OpenTelemetry",
}


def model_of(kind: str) -> Any:
    return plugins.find("sinks", kind).Options


@pytest.mark.parametrize("kind", TITLES)
def test_every_option_is_told_and_no_other(kind: str) -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", SECTIONS[TITLES[kind]].rpartition("| option |")[2], re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert told == {
        name for key, field in model_of(kind).model_fields.items() for name in names_of(key, field)
    }


def names_of(key: str, field: Any) -> list[str]:
    """How an option may be written."""
    alias = field.validation_alias
    return [key] if alias is None else [alias] if isinstance(alias, str) else alias.choices


@pytest.mark.parametrize("kind", TITLES)
def test_the_examples_options_are_taken(kind: str) -> None:
    blocks = re.findall(r"^```yaml[^\n]*\n(.*?)^```", SECTIONS[TITLES[kind]], re.MULTILINE | re.DOTALL)
    sinks = [sink for block in blocks for sink in yaml.safe_load(block)["sinks"]]
    assert sinks
    for sink in sinks:
        options = {key: value for key, value in sink.items() if key not in Sink.model_fields}
        assert sink["name"] == kind
        model_of(kind).model_validate(options)

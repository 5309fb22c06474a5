"""docs/config.md is made from the schema, and its examples load."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from tools.reference.config import SECTIONS, render
from tools.reference.config_text import EXAMPLES, INTRODUCTION, PLACEHOLDERS, SHORTHANDS

from config.config_files import ConfigFiles
from paceline.config.templates import AtomKind
from paceline.plan.directories import NAMES
from paceline.plan.expansion import FILE_NAMES

PAGE = Path(__file__).parents[2] / "docs" / "config.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: make reference"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_load(files: ConfigFiles, name: str) -> None:
    loaded = files.load(EXAMPLES[name], environ={"HOME": "/home/me"})
    assert loaded.config.entries or loaded.config.evals
    assert not loaded.unset


def test_the_examples_of_the_introduction_load(files: ConfigFiles) -> None:
    first, second = re.findall(r"```yaml\n(.*?)```", INTRODUCTION, re.DOTALL)
    loaded = files.load(first, second)
    (entry,) = loaded.config.entries
    assert [(item.metric, item.exact_value, item.min_value) for item in entry.requirements] == [
        ("is_success", None, 1),
        ("rows_per_s", None, 50000),
    ]


def test_every_key_is_described() -> None:
    page = render()
    for title, model in SECTIONS:
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        for key, field in model.model_fields.items():
            assert f"| `{key}` |" in section
            assert field.description
            assert field.description.endswith(".")


def test_nothing_is_described_that_is_not_there() -> None:
    models = {model.__name__: model for _, model in SECTIONS}
    assert set(EXAMPLES) == set(models)
    for shorthand in SHORTHANDS:
        model, _, key = shorthand.partition(".")
        assert key in models[model].model_fields


def test_examples_use_what_they_explain() -> None:
    keys = {
        "RayOptions": "ray",
        "PathItem": "paths",
        "DataSetup": "data_setups",
        "Sink": "sinks",
        "History": "history",
    }
    for name, key in keys.items():
        assert key in yaml.safe_load(EXAMPLES[name])


def test_every_placeholder_is_described() -> None:
    plain = {name for name in PLACEHOLDERS if name.isidentifier()}
    assert plain == {*NAMES, *FILE_NAMES}
    kinds = {name.partition(":")[0].partition(".")[0] for name in PLACEHOLDERS if not name.isidentifier()}
    assert kinds >= {kind for kind in get_args(AtomKind) if kind not in ("variable", "name")}
    page = render()
    assert all(f"| `{{{name}}}` |" in page for name in PLACEHOLDERS)

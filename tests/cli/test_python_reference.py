"""docs/python-api.md is made from the sources and names all that is public."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from tools.reference.python import SECTIONS, Section, reference

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: make reference"


@pytest.mark.parametrize(
    "section", [one for one in SECTIONS if one.label], ids=lambda section: section.module
)
def test_every_public_name_is_told_and_there(section: Section) -> None:
    module = import_module(section.module)
    named = set(re.findall(rf"^### {section.label}\.(\w+)$", reference(), re.MULTILINE))
    assert named
    assert [name for name in named if not hasattr(module, name)] == []
    assert set(getattr(module, "__all__", named)) - {"__version__", "emit"} == named


def test_every_fixture_is_told() -> None:
    from paceline import pytest_plugin

    named = set(re.findall(r"^### (\w+)$", reference(), re.MULTILINE))
    assert named == set(pytest_plugin.__all__)


def test_nothing_public_is_without_a_word_about_it() -> None:
    silent = re.findall(r"^### (\S+)\n\n(?:```py\n[^`]*```\n\n)?(?=##|\Z)", reference(), re.MULTILINE)
    assert silent == []

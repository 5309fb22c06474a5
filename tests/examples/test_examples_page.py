"""The page of the examples and the READMEs: every example is listed, every file and option they name is there."""

import re
import shlex
from pathlib import Path

import pytest
from click import Command, Context, Group

from paceline.cli import cli

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
PAGE = REPOSITORY / "docs/examples.md"
READMES = sorted(EXAMPLES.glob("*/README.md"))
FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)")


def commands_of(page: Path) -> list[tuple[Path, list[str]]]:
    """The words of every `paceline` command, and the directory that it runs in."""
    found = []
    directory = REPOSITORY
    for block in FENCE.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["cd"]:
                directory = REPOSITORY / words[1]
            elif words[:1] == ["paceline"]:
                found.append((directory, words[1:]))
    return found


def command_named(words: list[str]) -> Command:
    command: Command = cli
    for word in words:
        if not isinstance(command, Group):
            break
        found = command.get_command(Context(command), word)
        assert found is not None, words
        command = found
    return command


def test_every_example_is_on_the_page() -> None:
    listed = set(re.findall(r"\(\.\./examples/(\w+)/README\.md\)", PAGE.read_text()))
    assert listed == {readme.parent.name for readme in READMES}
    assert len(listed) == 7


@pytest.mark.parametrize("page", [PAGE, *READMES], ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_a_page_names_is_there(page: Path) -> None:
    commands = commands_of(page)
    assert commands
    for directory, words in commands:
        command = command_named(words)
        known = {option for one in command.params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, words
        files = [
            word for word in words if word.endswith(".yaml") and not word.startswith(("Curator/", "my_"))
        ]
        assert all((directory / file).is_file() for file in files), words
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target

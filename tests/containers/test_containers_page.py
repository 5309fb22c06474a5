"""docs/containers.md: its commands that need an engine or a cluster are checked as far as they can be without."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from paceline import __version__
from stub_engine import REPOSITORY, Desk, following, read_back

PAGE = (REPOSITORY / "docs" / "containers.md").read_text()
FENCES = re.findall(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[list[str]]:
    for language, _, text in FENCES:
        if language == "sh":
            yield from map(shlex.split, text.splitlines())


COMMANDS = list(commands())
SCRIPTS = [words for words in COMMANDS if words[0].startswith("tools/")]


@pytest.fixture
def page_desk(desk: Desk) -> Desk:
    desk.add_engine("podman")
    (desk.path / "datasets").mkdir()
    for _, title, text in FENCES:
        if title:
            (desk.path / title).write_text(text)
    return desk


@pytest.mark.parametrize("words", SCRIPTS, ids=[" ".join(words) for words in SCRIPTS])
def test_the_scripts_take_what_is_shown(page_desk: Desk, words: list[str]) -> None:
    done = page_desk.call(words[0].removeprefix("tools/"), *words[1:])
    assert done.returncode == 0, done.stderr
    assert page_desk.was_called is ("--dry-run" not in words)


def test_the_dry_run_prints_what_is_shown(page_desk: Desk) -> None:
    (words,) = [words for words in SCRIPTS if "--dry-run" in words]
    (shown,) = [text for language, _, text in FENCES if language == "text"]
    printed = page_desk.call("run.sh", *words[1:]).stdout
    expected = [word.replace("/srv/bench", str(page_desk.path)) for word in read_back(shown)]
    mine = [word for word in read_back(printed) if not word.startswith(("--user=", "--userns="))]
    assert mine == expected
    assert f"paceline:{__version__}" in expected


def test_compose_is_called_with_what_it_has() -> None:
    services = yaml.safe_load((REPOSITORY / "docker" / "compose.yaml").read_text())["services"]
    calls = [words for words in COMMANDS if words[:2] == ["docker", "compose"]]
    assert len(calls) >= 3
    for words in calls:
        assert (REPOSITORY / following(words, "--file")[0]).is_file()
        if "run" in words:
            assert words[words.index("--rm") + 1] in services


def test_kubectl_is_called_with_what_there_is() -> None:
    calls = [words for words in COMMANDS if words[0] == "kubectl"]
    for path in (
        path
        for words in calls
        for option in ("--kustomize", "--filename")
        for path in following(words, option)
    ):
        assert (REPOSITORY / path).exists()
    made = {words[words.index("generic") + 1] for words in calls if "generic" in words}
    manifest = (REPOSITORY / "deploy/kubernetes/rayjob.yaml").read_text()
    assert set(re.findall(r"secretKeyRef: \{name: ([\w-]+)", manifest)) == made


def test_every_option_of_the_scripts_is_known_to_the_page() -> None:
    shown = PAGE + "--config --help --no-cache --dry-run --image"
    for script in ("run.sh", "build_docker.sh"):
        text = Path(REPOSITORY / "tools" / script).read_text()
        options = set(re.findall(r"^#   (--[a-z-]+)", text, re.MULTILINE))
        assert len(options) > 9
        assert not [option for option in options if option not in shown], script

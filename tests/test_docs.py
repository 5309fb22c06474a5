"""The documentation is true: its commands are run, its suites are planned, its programs are executed.

A fence that carries `title="file"` is a file that the page writes. ```console blocks hold commands after `$ ` and what
they print; numbers may differ, `…` stands for anything. A command must succeed unless `echo $?` follows it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from paceline.cli import cli
from paceline.config.nodes import parse_file, plain
from warm_command import WarmCommand
from workplace import Workplace

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]

FLAGS = re.MULTILINE | re.DOTALL
FENCE = re.compile(r"^```(\w+)(?:[ \t]+title=\"([^\"]+)\")?[ \t]*\n(.*?)^```", FLAGS)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
UNIT = r" ?(?:µs|ms|s|m|h|bytes|[KMGT]iB)\b"
NUMBER = r"\d(?:[\d.,:+-]*\d)?"
# A reader has told git who they are.
GIT_USER = {
    f"GIT_{role}_{key}": "reader@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")
}
QUANTITY = re.compile(rf"{NUMBER}(?:{UNIT})?(?: {NUMBER}{UNIT})*")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2], found[3])
        for found in FENCE.finditer(text)
    ]


def commands_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines shown under it."""
    shown: list[str] = []
    command = ""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        elif command.endswith("\\"):
            command += f"\n{line}"
        else:
            shown.append(line)
    if command:
        yield command, shown


def pattern_of(shown: str) -> re.Pattern[str]:
    """What a printed line has to look like: numbers, units of time and padding may differ."""
    text = " ".join(shown.split())
    fixed = [re.escape(part).replace("…", ".*") for part in QUANTITY.split(text)]
    return re.compile(QUANTITY.pattern.join(fixed))


@pytest.fixture(scope="module")
def warm_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    command = WarmCommand(tmp_path_factory.mktemp("warm"))
    yield command.bin
    command.close()


def run_console(block: Block, place: Workplace, tools: Path) -> None:
    commands = list(commands_of(block))
    followers = [command for command, _ in commands[1:]] + [""]
    done: subprocess.CompletedProcess[str] | None = None
    for (command, shown), follower in zip(commands, followers, strict=True):
        if command == "echo $?":
            assert done is not None
            assert str(done.returncode) == "".join(shown).strip(), f"{block}: {done.stderr}"
            continue
        done = shell(command, place, tools)
        said = f"{block}: $ {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0 or follower == "echo $?", said
        printed = [" ".join(line.split()) for line in (done.stdout + done.stderr).splitlines()]
        for line in filter(str.strip, shown):
            assert any(pattern_of(line).fullmatch(text) for text in printed), (
                f"{line!r} is not printed by {said}"
            )


def shell(command: str, place: Workplace, tools: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=place.path,
        env={**os.environ, **GIT_USER, "PATH": path, "NO_COLOR": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )


def plan_suite(block: Block, place: Workplace, tools: Path) -> None:
    """A whole suite must plan; the scripts it names are only looked for, so empty ones do."""
    suite = place.write("example.yaml", block.text)
    document = plain(parse_file(suite)[0])
    entries = document.get("entries") if isinstance(document, dict) else None
    if not entries or not all({"script", "command"} & set(entry) for entry in entries):
        return  # a part of a suite: that it can be parsed is all there is to check
    for work in [*entries, *(document.get("data_setups") or ())]:
        if "script" in work:
            place.write(f"scripts/{work['script']}", "")
    variables = {name: f"value-of-{name}" for name in re.findall(r"\$\{(\w+)\}", block.text)}
    done = shell("paceline plan example.yaml --sink none", place, tools, **variables)
    assert done.returncode == 0, f"{block}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_examples_work(page: Path, tmp_path: Path, warm_tools: Path) -> None:
    # The page that everybody starts with is run by the program as it is installed.
    tools = warm_tools if page.parent.name == "docs" else Path(sys.executable).parent
    place = Workplace(tmp_path / "page")
    place.path.mkdir()
    for position, block in enumerate(blocks_of(page)):
        apart = Workplace(tmp_path / f"block{position}")
        if block.title:
            place.write(block.title, block.text)
        elif block.language == "console":
            run_console(block, place, tools)
        elif block.language == "yaml":
            plan_suite(block, apart, tools)
        elif block.language == "python":
            run_program(block, apart)


def run_program(block: Block, place: Workplace) -> None:
    program = place.write("example.py", block.text)
    variables = {"PACELINE_RESULTS_PATH": str(place.path / "benchmark_results")}
    done = subprocess.run(
        [sys.executable, program],
        cwd=place.path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{block}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]+`", "", page.read_text(encoding="utf-8"))
    targets = [found[1] for found in LINK.finditer(text)]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_make_targets_in_the_pages_exist() -> None:
    texts = [page.read_text(encoding="utf-8") for page in [*PAGES, REPOSITORY / "CONTRIBUTING.md"]]
    commands = "\n".join(line for text in texts for line in code_of(text))
    named = set(re.findall(r"^make ([a-z]+)\b", commands, re.MULTILINE))
    known = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= named <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_that_a_page_names_exist(page: Path) -> None:
    """Those that are only named in a sentence, or shown and not run."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    shown = [
        line.strip() for found in FENCE.finditer(text) if found[1] == "sh" for line in found[3].splitlines()
    ]
    named = [
        " ".join(code.split())
        for code in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=FLAGS))
    ]
    wrong = {words: fault for words in [*shown, *named] if (fault := fault_of(words))}
    assert wrong == {}


def fault_of(words: str) -> str | None:
    """What is wrong with a call of `paceline`, as far as its command and its options go."""
    program, *rest = words.split("|")[0].split() or [""]
    context = click.Context(cli, info_name="paceline")
    command: click.Command = cli
    while program == "paceline" and isinstance(command, click.Group) and rest and rest[0].islower():
        found = command.get_command(context, rest[0])
        if found is None:
            return f"{rest[0]} is no command"
        command, rest = found, rest[1:]
    known = {name for one in command.get_params(context) for name in (*one.opts, *one.secondary_opts)}
    given = (
        [word.split("=")[0] for word in rest if re.match(r"--[a-z]", word)] if program == "paceline" else []
    )
    return next((f"{name} is no option" for name in given if name not in known), None)


def code_of(text: str) -> list[str]:
    """Inline code and blocks of commands."""
    return re.findall(r"`([^`\n]+)`", text) + [found[3] for found in FENCE.finditer(text) if found[1] == "sh"]

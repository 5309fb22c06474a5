"""Every command at 80, 100 and 200 columns of a real terminal: nothing is wider, and names are told apart."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ

import pytest

from findings_nights import add_nights, noisy
from paceline.history import open_store
from paceline.report.format import display_width
from workplace import Workplace

NAME = "sort_numbers_{0}[executor={1},size={2}]"
CASES = [
    NAME.format(word, executor, size)
    for word in ("up", "down")
    for executor in ("local_threads", "ray_data_actors")
    for size in (1000, 20_000)
]
SUITE = """\
entries:
  - name: sort_a_long_list_of_numbers_in_place_by_their_absolute_value
    command: [sh, -c, 'echo {matrix.size} of {matrix.executor}; sleep 0.01']
    matrix: {executor: [local_threads, ray_data_actors], size: [1000, 20000]}
    requirements: {exec_time_s: {max_value: 3600}}
    tags: [nightly, with_a_tag_of_its_own]
  - name: broken
    command: [sh, -c, 'echo begun; echo "ERROR: the table of customers and their addresses is not there"; exit 3']
"""


def shown(place: Workplace, columns: int, *words: str, **env: str) -> tuple[int, list[str]]:
    """What a command shows on a terminal of so many columns, without colours and what is erased again."""
    reader, writer = pty.openpty()
    ioctl(writer, TIOCSWINSZ, pack("HHHH", 2000, columns, 0, 0))
    environ = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    environ |= {"TERM": "xterm-256color", "PACELINE_DISTURBED": "ignore", "PYTHONUTF8": "1", **env}
    command = [sys.executable, "-m", "paceline", *words]
    child = subprocess.Popen(command, cwd=place.path, env=environ, stdin=writer, stdout=writer, stderr=writer)
    os.close(writer)
    text = b""
    with suppress(OSError):  # the terminal's end, once nobody has it open
        while chunk := os.read(reader, 65536):
            text += chunk
    os.close(reader)
    return child.wait(timeout=120), text.decode().replace("\r\n", "\n").splitlines()


def bare(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """Two sessions of a suite, and a history of forty nights with many changes in it."""
    place = Workplace(tmp_path_factory.mktemp("widths"))
    place.write("paceline.yaml", SUITE)
    for name in ("first", "second"):
        place.run("run", "--session-name", name, PACELINE_DISTURBED="ignore")
    nights = {
        case: noisy(40, (20 + number, 1.4 if number % 3 else 0.7), seed=number)
        for number, case in enumerate(CASES)
    }
    with open_store(place.path / "nights.db") as store:
        add_nights(store, nights)
    return place


COMMANDS = {
    "run": ("run", "--db", "nights.db"),
    "show": ("show",),
    "show a case": ("show", "last", "broken"),
    "list": ("list",),
    "plan": ("plan",),
    "compare": ("compare", "first", "second", "--all"),
    "compare nights": ("compare", "night-10", "night-40", "--db", "nights.db"),
    "by": ("compare", "second", "--by", "executor"),
    "regressions": ("regressions", "--all", "--db", "nights.db"),
    "log": ("history", "log", CASES[0], "--db", "nights.db"),
    "log a metric": ("history", "log", CASES[0], "wall_s", "--db", "nights.db"),
    "history list": ("history", "list", "--db", "nights.db"),
    "sessions": ("history", "list", "--sessions", "--db", "nights.db"),
}


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_wider_than_the_terminal(place: Workplace, name: str, columns: int) -> None:
    code, lines = shown(place, columns, *COMMANDS[name])
    assert code in (0, 1), lines
    assert len(lines) > 1
    # A path is never cut, so that it can be copied: alone it may be wider.
    wide = [line for line in map(bare, lines) if display_width(line) > columns and " " in line.strip()]
    assert wide == []


@pytest.mark.parametrize("columns", [80, 100])
def test_names_that_are_shortened_stay_apart(place: Workplace, columns: int) -> None:
    _, lines = shown(place, columns, "compare", "night-10", "night-40", "--db", "nights.db", "--all")
    rows = [
        bare(line).split() for line in lines if re.match(r"(?:\x1b\[\d+m)?(worse|better|same|incon)", line)
    ]
    names = [row[1] for row in rows]
    assert len(names) == len(CASES) == len(set(names)), names
    assert any("…" in name for name in names) or columns == 100


def test_colours_mean_something_and_can_be_turned_off(place: Workplace) -> None:
    words = ("regressions", "--all", "--db", "nights.db")
    _, coloured = shown(place, 100, *words)
    _, plain = shown(place, 100, *words, NO_COLOR="1")
    assert [bare(line) for line in coloured] == plain and not any("\x1b" in line for line in plain)
    for line in coloured:
        if re.match(r"i[0-9a-f]{8}\b", line):
            word = "\x1b[31m" if "worse" in line else "\x1b[32m"
            assert word in line


def test_what_is_long_is_paged_on_a_terminal_only(place: Workplace, tmp_path: Path) -> None:
    pager = tmp_path / "pager.sh"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n")
    pager.chmod(0o755)
    words = ("history", "log", CASES[0], "wall_s", "--last", "40", "--db", "nights.db")
    tall = shown(place, 100, *words, PAGER=str(pager), NO_COLOR="1")[1]
    short = shown(place, 100, *words, PAGER=str(pager), NO_COLOR="1", LINES="10")[1]
    piped = place.run(*words, PAGER=str(pager), LINES="10").stdout
    assert "PAGED" not in tall
    assert short[0] == "PAGED" and list(filter(None, short[1:])) == tall
    assert "PAGED" not in piped and CASES[0] in piped


def test_a_pipe_gets_whole_names(place: Workplace) -> None:
    printed = place.run("compare", "night-10", "night-40", "--db", "nights.db", "--all").stdout
    assert all(case in printed for case in CASES) and "…" not in printed


def test_a_failure_has_its_reason_and_the_last_lines_of_its_log(place: Workplace) -> None:
    _, lines = shown(place, 100, "run", "--no-history", "--only", "broken")
    text = "\n".join(map(bare, lines))
    assert "✗  broken" in text and "ERROR: the table of customers and their addresses" in text
    assert "    │ begun\n" in text
    assert re.search(
        r"(?m)^1 failed of 1 case in .*\nResults in .*\nNext: paceline show results/\S+ broken$", text
    )

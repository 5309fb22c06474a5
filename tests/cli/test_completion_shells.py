"""Completion in real shells: the line that is there after a <Tab>, word by word."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.shell_terminals import Terminal, complete_in, complete_in_fish, is_missing, start_bash, start_zsh
from workplace import Workplace

SUITE = """\
results_dir: results
entries:
  - {name: alpha, tags: [fast], command: ["true"]}
  - {name: sort, matrix: {executor: [local], size: [10]}, command: ["true"]}
"""
# A line, and its words after a <Tab>; what the shell escapes comes out as it is.
LINES = {
    "paceline doc": ["paceline", "doctor"],
    "paceline history lo": ["paceline", "history", "log"],
    "paceline run --sess": ["paceline", "run", "--session-name"],
    "paceline plan pace": ["paceline", "plan", "paceline.yaml"],
    "paceline run --config pace": ["paceline", "run", "--config", "paceline.yaml"],
    "paceline show mon": ["paceline", "show", "monday"],
    "paceline show monday so": ["paceline", "show", "monday", "sort[executor=local,size=10]"],
    "paceline history log so": ["paceline", "history", "log", "sort[executor=local,size=10]"],
    "paceline history log alpha exec": ["paceline", "history", "log", "alpha", "exec_time_s"],
    "paceline run --only tag:f": ["paceline", "run", "--only", "tag:fast"],
    "paceline run --only=al": ["paceline", "run", "--only=alpha"],
    "paceline run --resume mo": ["paceline", "run", "--resume", "monday"],
    "paceline run --sink ml": ["paceline", "run", "--sink", "mlflow"],
}

# The names come from the same place in every shell; what differs is how a shell takes a line apart.
TELLING = [line for line in LINES if any(words in line for words in ("doc", "plan", "monday so", "--only"))]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a suite, a session and a history."""
    place = Workplace(tmp_path_factory.mktemp("suite"))
    place.write("paceline.yaml", SUITE)
    done = place.run("run", "--session-name", "monday", "--quiet")
    assert done.returncode == 0, done.stderr
    return place.path


@pytest.fixture(scope="module")
def bash(suite: Path) -> Iterator[Terminal]:
    terminal = start_bash(suite)
    yield terminal
    terminal.close()


@pytest.fixture(scope="module")
def zsh(suite: Path) -> Iterator[Terminal]:
    if is_missing("zsh"):
        pytest.skip("zsh is not installed")
    terminal = start_zsh(suite)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("line", LINES)
def test_bash(bash: Terminal, line: str) -> None:
    assert complete_in(bash, line) == LINES[line]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("paceline history log 'so", ["sort[executor=local,size=10]"]),
        ("paceline history log sort\\[executor=local,si", ["sort[executor=local,size=10]"]),
        ("paceline show ./resu", ["./results/"]),
    ],
)
def test_bash_in_the_middle_of_a_name(bash: Terminal, line: str, words: list[str]) -> None:
    assert complete_in(bash, line)[-1:] == words


@pytest.mark.parametrize("line", TELLING)
def test_zsh(zsh: Terminal, line: str) -> None:
    assert complete_in(zsh, line) == LINES[line]


@pytest.mark.skipif(is_missing("fish"), reason="fish is not installed")
@pytest.mark.parametrize("line", TELLING)
def test_fish(suite: Path, line: str) -> None:
    offered = complete_in_fish(suite, line)
    assert offered == [LINES[line][-1]]


def test_nothing_is_offered_where_there_is_nothing(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    (tmp_path / "benchmark.db").write_text("no database")
    for line in ("paceline show ", "paceline history log ", "paceline verdict ", "paceline show x "):
        done = place.run(_PACELINE_COMPLETE="bash_complete", COMP_WORDS=line, COMP_BREAKS=":=")
        assert (done.stdout.strip(), done.stderr) == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["benchmark.db"]

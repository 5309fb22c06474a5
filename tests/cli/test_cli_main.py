"""The program itself: help, version, errors, exit codes, and what it costs to start."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline.cli import COMMANDS, cli
from patience import wait_until
from workplace import Workplace

REPOSITORY = Path(__file__).parents[2]


def test_version(place: Workplace) -> None:
    done = place.run("--version")
    assert (done.returncode, done.stdout) == (0, f"paceline {paceline.__version__}\n")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_command(place: Workplace, option: str) -> None:
    done = place.run(option)
    assert done.returncode == 0
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line.split()[0])}", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example(name: str, place: Workplace) -> None:
    done = place.run(name, "--help")
    assert done.returncode == 0
    assert re.search(rf"Examples:\n +\S*.*paceline {name}", done.stdout)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], ["plan", "--help"]])
def test_help_imports_no_part_of_the_runner(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from paceline.cli import _invoke\n"
        f"sys.argv[1:] = {words}\n"
        "code = _invoke()\n"
        "print('modules:', *sorted(sys.modules))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.rpartition("modules:")[2].split()
    assert not {"rich", "pydantic", "yaml", "psutil", "orjson", "paceline.session.session"} & set(modules)


def test_no_command_shows_help(place: Workplace) -> None:
    done = place.run()
    assert done.returncode == 2
    assert "Usage: paceline" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["rnu"],
        ["run", "--job", "2"],
        ["run", "--jobs", "0"],
        ["run", "--shard", "5/4"],
        ["run", "--shard", "x"],
    ],
)
def test_a_wrong_command_line_is_exit_2_and_no_traceback(place: Workplace, words: list[str]) -> None:
    done = place.run(*words)
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "No such command 'rnu'; did you mean 'run'?"),
        (["history", "lgo"], "No such command 'lgo'; did you mean 'log'?"),
        (["history", "zzz"], "No such command 'zzz'; there is: list, log, import"),
    ],
)
def test_a_mistyped_command_is_told_the_right_one(place: Workplace, words: list[str], said: str) -> None:
    done = place.run(*words)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert f"Error: {said}" in done.stderr


@pytest.mark.parametrize("name", ["run", "plan"])
def test_without_a_config_it_says_what_to_do(place: Workplace, name: str) -> None:
    done = place.run(name)
    assert done.returncode == 2
    assert done.stderr.startswith("paceline: no configuration given and no paceline.yaml here")
    assert "paceline init" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_argument_that_no_terminal_can_show(place: Workplace) -> None:
    done = subprocess.run(
        [*place.command("plan"), b"\xff\xfe.yaml"],
        cwd=place.path,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(place: Workplace) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        place.command("schema", "config"), cwd=place.path, stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert done.stderr == ""


def in_shell(place: Workplace, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams closed or led elsewhere by a shell, buffered as usual."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m paceline {words} {redirection}', sys.executable],
        cwd=place.path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=170,
    )


ONE = "results_dir: results\nentries:\n  - {name: a, command: [echo, spoken]}\n"


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        *((words, ">&-") for words in ("--version", "plan", "plan --json", "schema", "list")),
        ("run --no-history --json", ">&-"),
        ("run --no-history", ">&- <&-"),
        ("run", ">&- 2>&- <&-"),
    ],
)
def test_a_closed_output_is_no_error(place: Workplace, words: str, closed: str) -> None:
    place.write("paceline.yaml", ONE)
    done = in_shell(place, words, closed)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if words.startswith("run"):
        (log,) = place.path.glob("results/*/a/logs/stdout.log")
        assert log.read_text() == "spoken\n"


@pytest.mark.parametrize("words", ["--version", "plan", "plan --json", "plan --explain", "schema", "list"])
def test_a_full_output_is_one_line_and_exit_1(place: Workplace, words: str) -> None:
    place.write("paceline.yaml", ONE)
    done = in_shell(place, words, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr == "paceline: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("words", ["run", "run --quiet", "run --json"])
@pytest.mark.parametrize(("program", "code"), [("true", 0), ("false", 1)])
def test_a_full_output_does_not_change_how_a_session_ends(
    place: Workplace, words: str, program: str, code: int
) -> None:
    place.write("paceline.yaml", f"results_dir: results\nentries:\n  - {{name: a, command: ['{program}']}}\n")
    done = in_shell(place, f"{words} --no-history --session-name s", ">/dev/full")
    assert done.returncode == code, done.stderr
    assert done.stderr.count("paceline: cannot write to standard output: No space left on device\n") == 1
    assert set(place.records("s")) == {"a"}
    shown = in_shell(place, "show s", ">/dev/full")
    assert (shown.returncode, shown.stderr.count("\n")) == (1, 1)


class TestErrorsHideSecrets:
    SUITE = """\
results_dir: results
secrets: [PLAIN_NAME]
entries:
  - {name: a, script: "${API_TOKEN}.py"}
  - {name: b, command: ["true"], needs: ["${PLAIN_NAME}"]}
"""

    @pytest.mark.parametrize("words", [["plan"], ["plan", "--json"], ["plan", "--explain"], ["run"]])
    def test_in_the_configuration(self, place: Workplace, words: list[str]) -> None:
        place.write("paceline.yaml", self.SUITE)
        done = place.run(*words, API_TOKEN="token/secret'123", PLAIN_NAME="hidden-word")
        assert done.returncode == 2
        assert "***.py" in done.stderr
        assert "'***'" in done.stderr
        assert "secret" not in done.stdout + done.stderr.replace("paceline.yaml", "")
        assert "hidden-word" not in done.stdout + done.stderr

    @pytest.mark.parametrize("words", [["plan"], ["plan", "--json"], ["run"]])
    @pytest.mark.parametrize("variable", ["API_TOKEN", "PLAIN_NAME"])
    def test_in_a_selection(self, place: Workplace, words: list[str], variable: str) -> None:
        place.write("s.yaml", 'secrets: [PLAIN_NAME]\nentries:\n  - {name: a, command: ["true"]}\n')
        done = place.run(*words, "s.yaml", "--only", "hidden-word", **{variable: "hidden-word"})
        assert done.returncode == 2
        assert done.stderr.startswith("paceline: --only '***' matches no case")
        assert "hidden-word" not in done.stdout + done.stderr

    def test_in_the_name_of_a_session(self, place: Workplace) -> None:
        done = place.run("show", "hidden-word", API_TOKEN="hidden-word")
        assert done.stderr.startswith("paceline: no session '***' in results")


def test_an_interrupt_is_exit_130_and_no_traceback(place: Workplace) -> None:
    pipe = place.path / "never-written.yaml"
    os.mkfifo(pipe)
    process = subprocess.Popen(place.command("plan", pipe), stderr=subprocess.PIPE, text=True)
    writer = wait_until(lambda: open_if_read(pipe), by=process)
    errors = interrupt(process)
    os.close(writer)
    assert process.returncode == 130
    assert "Traceback" not in errors


def interrupt(process: "subprocess.Popen[str]") -> str:
    """Send Ctrl-C until it is heard: one that comes just before a blocking read starts is not."""
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the command does not end")


def open_if_read(pipe: Path) -> int | None:
    """Open a pipe for writing if somebody reads from it."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def test_docs_cli_is_current(tmp_path: Path) -> None:
    page = tmp_path / "cli.md"
    subprocess.run([sys.executable, "-m", "tools.reference.cli", page], cwd=REPOSITORY, check=True)
    assert (REPOSITORY / "docs" / "cli.md").read_text() == page.read_text(), "run 'make reference'"


def test_commands_are_the_modules_of_their_name() -> None:
    for name in COMMANDS:
        found = cli.get_command(cli.make_context("paceline", ["--help"], resilient_parsing=True), name)
        assert found is not None
        assert found.name == name


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_prints_the_script_of_a_shell(self, place: Workplace, shell: str) -> None:
        done = place.run("completion", shell)
        assert done.returncode == 0
        assert "_PACELINE_COMPLETE" in done.stdout

    def complete(self, place: Workplace, *words: str) -> list[str]:
        done = place.run(
            _PACELINE_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(["paceline", *words]),
            COMP_CWORD=str(len(words)),
        )
        return [line.partition(",")[2] for line in done.stdout.split()]

    def test_completes_commands(self, place: Workplace) -> None:
        assert self.complete(place, "s") == ["show", "send", "schema"]

    def test_completes_entries_and_tags_of_the_suite(self, place: Workplace) -> None:
        place.write("paceline.yaml", "entries:\n  - name: alpha\n    tags: [fast]\n  - name: beta\n")
        place.write("other.yaml", "entries:\n  - name: alpine\n")
        assert self.complete(place, "run", "--only", "a") == ["alpha"]
        assert self.complete(place, "run", "--exclude", "t") == ["tag:fast"]
        assert self.complete(place, "plan", "other.yaml", "--only", "a") == ["alpine"]
        assert self.complete(
            place, "run", "--config", "other.yaml", "--config", "paceline.yaml", "--only", "al"
        ) == [
            "alpine",
            "alpha",
        ]

    def test_offers_nothing_for_a_broken_suite(self, place: Workplace) -> None:
        place.write("paceline.yaml", "entries: [\n")
        assert self.complete(place, "run", "--only", "a") == []

"""Small things that everybody meets: names of sessions, the place of the history, spellings, commands to paste."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from paceline.cli import COMMANDS, Respelled, cli
from workplace import Workplace

TRUE = "entries: [{name: a, command: 'true'}]\n"
SAY = """\
import json, os, sys
factor = 2 if "new" in sys.argv else 1
with open(os.environ["PACELINE_RESULTS_PATH"] + "/metrics.json", "w") as file:
    json.dump({"work_s": [factor * one for one in (1.001, 1.0, 1.002, 1.001, 1.0)]}, file)
"""
PARAMETERS = """\
entries:
  - {name: sort, script: say.py, args: '{matrix.engine}', matrix: {engine: [old, new, odd], n: [1, 2]}}
  - {name: other, command: 'true'}
"""


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["paceline.yaml"], "{directory}"),
        ([], "{directory}"),
        (["suites/my suite.v2.yaml"], "my-suite.v2"),
        (["suites/../paceline.yaml"], "{directory}"),
        (["suites/paceline.yaml"], "suites"),
        (["--config", "suites/my suite.v2.yaml", "paceline.yaml"], "my-suite.v2"),
        (["--matrix", "paceline.yaml"], "nightly-run"),
        (["--matrix=paceline.yaml"], "nightly-run"),
    ],
)
def test_sessions_are_called_after_their_suite(place: Workplace, words: list[str], name: str) -> None:
    for path in ("paceline.yaml", "suites/paceline.yaml", "suites/my suite.v2.yaml"):
        place.write(path, TRUE)
    done = place.run("plan", *words, "--json")
    assert done.returncode == 0, done.stderr
    expected = re.escape(name.format(directory=place.path.name))
    assert re.fullmatch(rf"{expected}-\d{{8}}-\d{{6}}", json.loads(done.stdout)["session"])


def test_the_history_is_beside_the_results_and_every_command_finds_it(place: Workplace) -> None:
    place.write("paceline.yaml", f"results_dir: out/here\n{TRUE}")
    done = place.run("run")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in place.path.glob("*.db")] == []
    assert (place.path / "out/here/benchmark.db").is_file()
    for words in (["history", "list"], ["history", "log", "a", "exec_time_s"], ["regressions"]):
        found = place.run(*words)
        assert (found.returncode, found.stderr) == (0, ""), words
    assert place.run("dashboard", "build", "site", "--results-dir", "out/here").stderr == ""


def test_one_of_before_in_the_current_directory_goes_on_and_that_is_said(place: Workplace) -> None:
    place.write("paceline.yaml", TRUE)
    assert place.run("run", "--db", "benchmark.db").returncode == 0
    done = place.run("run")
    line = (
        r"the history is \./benchmark\.db, not \S+/results/benchmark\.db: --db or PACELINE_DB names another"
    )
    assert done.returncode == 0 and len(re.findall(rf"(?m)^{line}$", done.stdout)) == 1
    assert not (place.path / "results/benchmark.db").exists()
    listed = place.run("history", "list", "--sessions", "--json")
    assert len(json.loads(listed.stdout)) == 2 and re.fullmatch(f"{line}\n", listed.stderr)
    asked = place.run("history", "list", "--json", "--db", "benchmark.db")
    assert (asked.returncode, asked.stderr) == (0, "")
    (place.path / "benchmark.db").rename(place.path / "results/benchmark.db")
    moved = place.run("history", "list", "--json")
    assert (len(json.loads(moved.stdout)), moved.stderr) == (1, "")


def commands(width: int = 80) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command, and what its help is made in."""

    def walk(command: click.Command, name: str, parent: click.Context | None) -> Iterator[Any]:
        options = {"terminal_width": width, **(cli.context_settings if parent is None else {})}
        context = command.context_class(command, info_name=name, parent=parent, **options)
        yield context.command_path.removeprefix("paceline "), command, context
        for inner in command.list_commands(context) if isinstance(command, click.Group) else ():
            found = command.get_command(context, inner)
            assert found is not None
            yield from walk(found, inner, context)

    return walk(cli, "paceline", None)


@pytest.mark.parametrize("width", [80, 100])
def test_help_fits_the_terminal(width: int) -> None:
    for name, command, context in commands(width):
        lines = command.get_help(context).splitlines()
        assert [line for line in lines if len(line) > width] == [], name


def test_commands_are_listed_in_groups_a_line_each() -> None:
    _, command, context = next(commands())
    shown = command.get_help(context)
    titles = re.findall(r"(?m)^(\w[\w ]*):$", shown)
    assert titles == ["Options", "Measure", "Look", "Find out", "Keep", "Extend"]
    listed = re.findall(r"(?m)^  (\w+)  ", shown.partition("Measure:")[2].partition("Examples:")[0])
    assert sorted(listed) == sorted(COMMANDS)


def test_an_option_is_spelled_one_way_on_all_commands() -> None:
    """What means the same has one name, and one letter is one option."""
    letters: dict[str, set[str]] = defaultdict(set)
    for name, command, _ in commands():
        options = [one for one in command.params if isinstance(one, click.Option)]
        listed = {spelling for one in options for spelling in one.opts}
        assert not listed & {"--results", "--budget", "--fresh", "--anyway"}, name
        if not name.startswith("time"):  # which takes the options of hyperfine
            assert "--max-runs" not in listed, name
            for option in options:
                longs = [one for one in option.opts if one.startswith("--")]
                for letter in set(option.opts) - set(longs):
                    letters[letter] |= set(longs)
    assert letters == {
        "-j": {"--jobs"},
        "-k": {"--only"},
        "-q": {"--quiet"},
        "-v": {"--verbose"},
    }


def test_former_spellings_work_and_are_not_listed() -> None:
    formerly = {
        name: {old for one in command.params if isinstance(one, Respelled) for old in one.formerly}
        for name, command, _ in commands()
    }
    assert {name: old for name, old in formerly.items() if old} == {
        "compare": {"--anyway"},
        "bisect": {"--max-runs", "--budget", "--fresh"},
        "dashboard build": {"--results"},
        "dashboard serve": {"--results"},
    }
    for name, command, _ in commands():
        shown = command.get_help(click.Context(command, info_name=name))
        assert not [old for old in formerly[name] if re.search(rf"{old}(?![\w-])", shown)], name


def test_a_former_spelling_takes_its_value(place: Workplace) -> None:
    place.write("paceline.yaml", TRUE)
    said = "bisect needs --case, or a --regression that tells it"
    for words in (
        ["--max-runs", "9", "--budget", "2h", "--fresh"],
        ["--runs", "9", "--time", "2h", "--force"],
    ):
        done = place.run("bisect", "--package", "x", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    wrong = place.run("bisect", "--package", "x", "--budget", "soon")
    assert wrong.returncode == 2 and "Invalid value for '--time'" in wrong.stderr


def test_letters(place: Workplace) -> None:
    place.write("paceline.yaml", "entries: [{name: a, command: 'true'}, {name: b, command: 'true'}]\n")
    done = place.run("run", "--no-history", "-j2", "-k", "a", "-v")
    assert done.returncode == 0 and "1 passed of 1 case" in done.stdout and "    $ true" in done.stdout


def test_a_command_that_runs_as_it_is(place: Workplace) -> None:
    place.write(
        "scripts/say.py",
        "import json, os, sys\n"
        "out = os.environ['PACELINE_RESULTS_PATH']\n"
        "assert out == sys.argv[sys.argv.index('--benchmark-results-path') + 1]\n"
        "open(out + '/metrics.json', 'w').write('{}')\n"
        "print(os.getcwd(), sys.argv[1], os.environ['WORD'], os.environ['MY_TOKEN'], os.environ['PACELINE_CASE'])\n",
    )
    place.write(
        "paceline.yaml",
        "entries:\n"
        "  - name: say\n"
        "    script: say.py\n"
        "    matrix: {n: [1, 2]}\n"
        '    args: ["it\'s {matrix.n}"]\n'
        "    cwd: scripts\n"
        "    env: {WORD: 'a $b', MY_TOKEN: '${MY_TOKEN}'}\n",
    )
    secret = {"MY_TOKEN": "hidden-0123456789"}
    done = place.run("plan", "--command", "say[n=2]", **secret)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert secret["MY_TOKEN"] not in done.stdout
    ran = subprocess.run(
        ["sh", "-c", done.stdout],
        cwd="/",
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **secret},
    )
    said = f"{place.path}/scripts it's 2 a $b {secret['MY_TOKEN']} say[n=2]\n"
    assert (ran.returncode, ran.stdout) == (0, said), ran.stderr
    both = place.run("plan", "--command", "say", **secret)
    assert both.stdout.count("PACELINE_CASE=") == 2
    missing = place.run("plan", "--command", "sya[n=2]", **secret)
    assert missing.returncode == 2 and "did you mean 'say[n=2]'?" in missing.stderr
    assert not (place.path / "results").exists()


def test_a_script_that_is_not_there_is_looked_for(place: Workplace) -> None:
    place.write("scripts/sort.py", "")
    place.write("paceline.yaml", "entries: [{name: a, script: srot.py}]\n")
    done = place.run("plan")
    assert (
        done.returncode == 2
        and "'srot.py' is not in" in done.stderr
        and "did you mean 'sort.py'?" in done.stderr
    )


@pytest.mark.parametrize(
    "words", [["run"], ["plan"], ["nightly"], ["bisect", "--case", "a", "--good", "x", "--bad", "y"]]
)
def test_an_ab_file_is_known_as_one(place: Workplace, words: list[str]) -> None:
    place.write("ab.yaml", "config: suite.yaml\narms: {old: {env: {A: '1'}}, new: {env: {A: '2'}}}\n")
    done = place.run(words[0], "ab.yaml", *words[1:])
    assert done.returncode == 2, done.stdout
    assert "ab.yaml is an A/B file: 'paceline ab ab.yaml' runs it" in done.stderr


def test_why_a_case_failed_is_the_line_that_says_so(place: Workplace) -> None:
    text = "echo begun; echo 'ERROR: no rows in x'; echo closing; exit 4"
    place.write("paceline.yaml", f'entries: [{{name: a, command: [sh, -c, "{text}"]}}]\n')
    done = place.run("run", "--no-history", "--session-name", "s")
    assert place.record("s", "a")["reason"] == "exit code 4: ERROR: no rows in x"
    assert ": exit code 4: ERROR: no rows in x\n    │ begun\n" in done.stdout


def test_values_of_a_parameter_are_compared(place: Workplace) -> None:
    place.write("scripts/say.py", SAY)
    place.write("paceline.yaml", PARAMETERS)
    assert place.run("run", "--session-name", "s", PACELINE_DISTURBED="ignore").returncode == 0
    done = place.run("compare", "--by", "engine", "--metric", "work_s", "--json")
    assert done.returncode == 0, done.stderr
    new, odd = json.loads(done.stdout)
    assert (new["baseline"]["name"], new["candidate"]["name"]) == ("engine=old", "engine=new")
    told = {(one["case"], one["verdict"], round(one["ratio"], 1)) for one in new["comparisons"]}
    assert told == {("sort[n=1]", "worse", 2.0), ("sort[n=2]", "worse", 2.0)}
    assert {one["verdict"] for one in odd["comparisons"]} == {"same"}
    printed = place.run("compare", "s", "--by", "engine").stdout
    assert printed.count("\nA  engine=old of session s\n") == 2
    for words, said in (
        (["--by", "enigne"], "did you mean 'engine'?"),
        (["--by", "n", "a", "b"], "within one session"),
        (["--by", "kind"], "has no parameter 'kind'; it has engine, n"),
    ):
        refused = place.run("compare", *words)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


def test_two_cases_of_a_session_are_compared(place: Workplace) -> None:
    place.write("scripts/say.py", SAY)
    place.write("paceline.yaml", PARAMETERS)
    assert place.run("run", "--session-name", "s", PACELINE_DISTURBED="ignore").returncode == 0
    names = ("last:sort[engine=new,n=1]", "s:sort[n=1,engine=old]")
    done = place.run("compare", *names, "--metric", "work_s", "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["comparisons"]
    assert (one["verdict"], round(one["ratio"], 1)) == ("better", 0.5)
    assert one["case"] == "sort[engine=old,n=1] beside sort[engine=new,n=1]"
    several = place.run("compare", ":sort*", ":other")
    assert several.returncode == 2 and "/results/s: it may be any of" in several.stderr


def test_without_names_sessions_of_the_same_suite_are_compared(place: Workplace) -> None:
    place.write("one.yaml", TRUE)
    place.write("two.yaml", TRUE.replace("name: a", "name: b"))
    for name, suite in (("first", "one"), ("second", "two"), ("third", "one")):
        assert place.run("run", f"{suite}.yaml", "--no-history", "--session-name", name).returncode == 0
    done = place.run("compare", "--json")
    found = json.loads(done.stdout)
    names = [Path(found[side]["name"]).name for side in ("baseline", "candidate")]
    assert names == ["first", "third"]


ODD = """\
import json, os
with open(os.environ["PACELINE_RESULTS_PATH"] + "/metrics.json", "w") as file:
    json.dump({"frobs": 3.5}, file)
"""


def test_a_metric_that_nobody_knows_is_named_once_with_how_to_say_it(place: Workplace) -> None:
    place.write("scripts/odd.py", ODD)
    entries = "entries: [{name: a, script: odd.py}, {name: b, script: odd.py}]\n"
    place.write("paceline.yaml", entries)
    done = place.run("run", "--session-name", "s")
    assert done.stdout.count("nobody says which way is better for frobs") == 1
    assert 'emit.metric(name, value, direction="lower") says it' in done.stdout
    place.write(
        "paceline.yaml", f"metrics: {{frobs: {{unit: frobs, direction: higher, label: Frobs}}}}\n{entries}"
    )
    said = place.run("run", "--session-name", "t")
    assert "nobody says" not in said.stdout and re.search(r"✓  a +Frobs +3\.5 frobs", said.stdout)
    assert place.record("t", "a")["metrics"]["frobs"]["direction"] == "higher"


def test_a_quiet_night_says_one_line(place: Workplace) -> None:
    place.write("scripts/odd.py", ODD)
    place.write("paceline.yaml", "entries: [{name: a, script: odd.py}]\n")
    for number in range(2):
        done = place.run("nightly", "--quiet", "--session-name", f"night-{number}")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert re.fullmatch(r"1 passed of 1 case in \S+ m?s; results in \S+/night-\d\n", done.stdout), (
            done.stdout
        )

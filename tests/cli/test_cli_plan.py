"""`paceline plan`, `schema` and `init`, as a user runs them."""

import json

import pytest
from jsonschema import Draft202012Validator

from workplace import Workplace

SUITE = """\
results_dir: results
entries:
  - name: hello
    command: [echo, "it's on", "{session_entry_dir}/x"]
    env: {API_TOKEN: "${MY_API_TOKEN}"}
    tags: [fast]
    repeat: 3
    timeout_s: 90
    requirements:
      - {metric: exec_time_s, max_value: 5}
  - name: later
    command: [echo, done]
    needs: [hello]
    resources: {cpus: 2, exclusive: true}
"""


def test_lists_each_case_with_all_that_decides_how_it_runs(place: Workplace) -> None:
    place.write("suite.yaml", SUITE)
    done = place.run("plan", "suite.yaml", "-v", "--session-name", "s", MY_API_TOKEN="very-secret-value")
    assert done.returncode == 0, done.stderr
    for expected in (
        f"Session s in {place.path}/results/s",
        "2 cases, 0 data setups, sinks: none",
        "hello  (suite.yaml:3)",
        """command       echo 'it'"'"'s on' '{session_entry_dir}/x'""",
        "env           API_TOKEN",
        "timeout       90 s",
        "runs          3 measured",
        "requirements  exec_time_s ≤ 5",
        "resources     2 CPUs, alone on the machine",
        "needs         hello",
        "tags          fast",
    ):
        assert expected in done.stdout
    assert "very-secret-value" not in done.stdout + done.stderr


def test_a_case_takes_two_lines(place: Workplace) -> None:
    place.write("suite.yaml", SUITE)
    done = place.run("plan", "suite.yaml", "--session-name", "s", MY_API_TOKEN="very-secret-value")
    assert done.stdout.splitlines()[2:] == [
        "hello  timeout 90 s · 3 measured · 1 CPU · requirements exec_time_s ≤ 5 s · tags fast · suite.yaml:3",
        """    echo 'it'"'"'s on' '{session_entry_dir}/x'""",
        "later  timeout 2h 00m · 2 CPUs, alone on the machine · needs hello · suite.yaml:11",
        "    echo done",
    ]


def test_has_no_side_effect(place: Workplace) -> None:
    place.write("suite.yaml", SUITE)
    place.run("plan", "suite.yaml", MY_API_TOKEN="very-secret-value")
    assert [path.name for path in place.path.rglob("*")] == ["suite.yaml"]


def test_a_suite_here_needs_no_name(place: Workplace) -> None:
    place.write("paceline.yaml", SUITE)
    assert place.run("plan", MY_API_TOKEN="very-secret-value").returncode == 0


def test_each_mistake_is_a_line_and_exit_2(place: Workplace) -> None:
    place.write("suite.yaml", "entries:\n  - name: a\n    comand: [x]\n    timeout_s: soon\n")
    done = place.run("plan", "suite.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert any(
        line.startswith("suite.yaml:3: entries[0]") and "did you mean 'command'?" in line for line in lines
    )
    assert any(line.startswith("suite.yaml:4: entries[0].timeout_s: ") for line in lines)
    assert "Traceback" not in done.stderr


def test_an_unset_variable_blocks_its_entry_and_shows_the_rest(place: Workplace) -> None:
    place.write("suite.yaml", SUITE)
    done = place.run("plan", "suite.yaml")
    assert done.returncode == 2
    assert "MY_API_TOKEN" in done.stderr
    assert done.stderr.startswith("suite.yaml:")
    assert "cannot run: " in done.stdout
    assert "later" in done.stdout


def test_a_selection_that_matches_nothing_is_an_error(place: Workplace) -> None:
    place.write("suite.yaml", SUITE)
    done = place.run("plan", "suite.yaml", "--only", "helo", MY_API_TOKEN="very-secret-value")
    assert done.returncode == 2
    assert done.stderr.startswith("paceline: --only 'helo' matches no case; did you mean 'hello'")


def test_json_follows_its_schema(place: Workplace) -> None:
    place.write("suite.yaml", SUITE)
    schema = json.loads(place.run("schema", "plan").stdout)
    done = place.run("plan", "suite.yaml", "--json", "--session-name", "s", MY_API_TOKEN="very-secret-value")
    plan = json.loads(done.stdout)
    Draft202012Validator(schema).validate(plan)
    assert (plan["session"], plan["errors"]) == ("s", [])
    assert [case["name"] for case in plan["cases"]] == ["hello", "later"]
    assert "very-secret-value" not in done.stdout


def test_json_tells_errors_too(place: Workplace) -> None:
    place.write("suite.yaml", "entries:\n  - name: a\n    comand: [x]\n")
    done = place.run("plan", "suite.yaml", "--json")
    assert done.returncode == 2
    plan = json.loads(done.stdout)
    assert plan["cases"] == []
    assert plan["errors"] == done.stderr.splitlines()
    assert plan["errors"][0].startswith("suite.yaml:")
    blocked = place.write("suite.yaml", SUITE)
    done = place.run("plan", blocked, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"] == done.stderr.splitlines()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["suite.yaml", "--only", "helo"], "--only 'helo' matches no case"),
        (["--session-name", "n"], "no configuration given"),
    ],
)
def test_json_tells_every_kind_of_error(place: Workplace, words: list[str], complaint: str) -> None:
    place.write("suite.yaml", SUITE)
    schema = json.loads(place.run("schema", "plan").stdout)
    done = place.run("plan", "--json", *words, MY_API_TOKEN="very-secret-value")
    assert done.returncode == 2
    assert done.stdout.endswith("}\n")
    plan = json.loads(done.stdout)
    Draft202012Validator(schema).validate(plan)
    assert plan["session"] == ("n" if "n" in words else "")
    (error,) = plan["errors"]
    assert error.startswith(complaint)
    assert done.stderr == f"paceline: {error}\n"


def test_explain_names_the_file_and_line_of_each_value(place: Workplace) -> None:
    place.write("base.yaml", SUITE)
    place.write("over.yaml", "entries:\n  - name: hello\n    timeout_s: 7\n")
    done = place.run(
        "plan", "base.yaml", "--config", "over.yaml", "--explain", MY_API_TOKEN="very-secret-value"
    )
    assert done.returncode == 0, done.stderr
    assert "entries[0].timeout_s = 7  (over.yaml:3)\n" in done.stdout
    assert "entries[0].repeat = 3  (base.yaml:7)\n" in done.stdout
    assert "very-secret-value" not in done.stdout
    assert "entries[0].env.API_TOKEN = ${MY_API_TOKEN}  (base.yaml:5)\n" in done.stdout


@pytest.mark.parametrize("name", ["config", "plan", "record", "report"])
def test_schemas_are_valid(place: Workplace, name: str) -> None:
    schema = json.loads(place.run("schema", name).stdout)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]


def test_the_schema_of_the_configuration_is_the_default(place: Workplace) -> None:
    assert place.run("schema").stdout == place.run("schema", "config").stdout


def test_init_writes_a_suite_that_plans(place: Workplace) -> None:
    done = place.run("init", "new dir")
    assert done.returncode == 0
    assert "wrote new dir/paceline.yaml" in done.stdout
    assert place.run("plan", "new dir/paceline.yaml").returncode == 0
    again = place.run("init", "new dir")
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_a_results_directory_whose_name_is_too_long_is_said_in_one_line(place: Workplace) -> None:
    place.write("suite.yaml", f"results_dir: {'x' * 300}\nentries:\n  - {{name: a, command: ['true']}}\n")
    done = place.run("plan", "suite.yaml")
    assert (done.returncode, done.stderr) == (2, "paceline: results_dir cannot be used: File name too long\n")

"""From configuration text to a plan: names, commands, needs, blocked cases, secrets, settings."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import ConfigError, SelectionError, SessionError
from paceline.model import RUN_DIR, Plan, Requirement
from paceline.plan import find_results_dir, plan_errors, plan_json
from paceline.record.redact import Redactor

Planner = Callable[..., Plan]

ONE = """
entries:
  - name: one
    script: bench.py
"""


def entry(*lines: str) -> str:
    return ONE + "".join(f"    {line}\n" for line in lines)


def problem_of(plan: Planner, text: str, **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(text, **options)
    return str(caught.value)


def args_of(plan: Plan, index: int = 0) -> list[str]:
    """What follows the script, without the flag that is added."""
    return list(plan.cases[index].argv[2:-2])


def test_a_script_gets_python_and_the_results_flag(plan: Planner, suite: Path) -> None:
    (case,) = plan(ONE).cases
    assert case.name == case.key == case.entry == "one"
    assert case.argv == (
        sys.executable,
        str(suite / "scripts" / "bench.py"),
        "--benchmark-results-path",
        f"{RUN_DIR}/benchmark_results",
    )
    assert case.results_path == f"{RUN_DIR}/benchmark_results"
    assert case.metrics_required
    assert (case.timeout_s, case.grace_s, case.cluster, case.blocked) == (7200, 5, None, None)
    assert (case.source.file, case.source.line) == (str(suite / "suite.yaml"), 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--benchmark-results-path {session}/out", f"{RUN_DIR}/out"),
        ("--benchmark-results-path={session_entry_dir}", RUN_DIR),
        ("--benchmark-results-path /abs/x", "/abs/x"),
        ("--benchmark-results-path={benchmark_results_path}/sub", f"{RUN_DIR}/benchmark_results/sub"),
    ],
)
def test_a_results_path_of_the_entry_is_kept(plan: Planner, given: str, expected: str) -> None:
    (case,) = plan(entry(f"args: {given} --log {{benchmark_results_path}}/log")).cases
    assert case.results_path == expected
    assert case.argv[-1] == f"{expected}/log"
    assert sum("--benchmark-results-path" in word for word in case.argv) == 1


def test_a_relative_results_path_is_one_in_the_working_directory(plan: Planner, suite: Path) -> None:
    (suite / "work").mkdir()
    (case,) = plan(entry("cwd: work", "args: --benchmark-results-path out")).cases
    assert case.cwd == str(suite / "work")
    assert case.results_path == str(suite / "work" / "out")
    assert case.argv[-1] == "out"


def test_a_results_flag_without_value(plan: Planner) -> None:
    assert "has no value" in problem_of(plan, entry("args: --benchmark-results-path"))


def test_a_command_is_taken_as_it_is(plan: Planner) -> None:
    found = plan("entries:\n  - {name: a, command: ['no-such-program', 1.10, true, 'a b', '']}\n")
    (case,) = found.cases
    assert case.argv == ("no-such-program", "1.10", "true", "a b", "")
    assert not case.metrics_required


def test_a_command_with_arguments_apart(plan: Planner) -> None:
    (case,) = plan("entries:\n  - {name: a, command: \"echo 'a b'\", args: [c d]}\n").cases
    assert case.argv == ("echo", "a b", "c d")


def test_a_data_setup_has_no_flag_and_needs_no_metrics(plan: Planner, suite: Path) -> None:
    (suite / "data_prep").mkdir()
    (suite / "data_prep" / "fetch.py").write_text("")
    found = plan(f"data_setups:\n  - {{name: fetch, script: fetch.py, args: '{{session}}/x'}}\n{ONE}")
    (setup,) = found.setups
    assert setup.kind == "data_setup"
    assert setup.argv == (sys.executable, str(suite / "data_prep" / "fetch.py"), f"{RUN_DIR}/x")
    assert not setup.metrics_required


def test_every_placeholder(plan: Planner, suite: Path) -> None:
    (suite / ".git").mkdir()
    names = [
        "session",
        "session_entry_dir",
        "scratch_dir",
        "session_dir",
        "session_name",
        "results_dir",
        "artifacts_dir",
        "config_dir",
        "repo_dir",
        "curator_repo_dir",
        "python",
        "models",
    ]
    text = "paths: [{name: models, host_path: /m, container_path: /c}]\n"
    found = plan(text + entry("args: [" + ", ".join(f"'{{{name}}}'" for name in names) + "]"))
    results = str(suite / "results")
    assert args_of(found) == [
        RUN_DIR,
        RUN_DIR,
        f"{RUN_DIR}/scratch",
        f"{results}/night",
        "night",
        results,
        f"{results}/artifacts",
        str(suite),
        str(suite),
        str(suite),
        sys.executable,
        "/m",
    ]


def test_the_repository_is_that_of_the_file(plan: Planner, suite: Path) -> None:
    (suite.parent / ".git").write_text("gitdir: elsewhere\n")
    assert args_of(plan(entry("args: '{repo_dir}'"))) == [str(suite.parent)]


@pytest.mark.parametrize(
    ("path", "outside", "inside"),
    [
        ("{name: p, host_path: /h}", "/h", "/MOUNT/h"),
        ("{name: p, host_path: /h, container_path: /c}", "/h", "/c"),
        (
            "{name: p, host_path: '{q}/h'}, {name: q, host_path: /q, container_path: /cq}",
            "/q/h",
            "/MOUNT/q/h",
        ),
        ("{name: p, host_path: /h, container_path: '{q}/c'}, {name: q, host_path: /q}", "/h", "/MOUNT/q/c"),
        ("{name: p, host_path: '${ROOT:-/r}/h'}", "/r/h", "/MOUNT/r/h"),
    ],
)
def test_paths_on_the_host_and_in_a_container(plan: Planner, path: str, outside: str, inside: str) -> None:
    text = f"paths: [{path}]\n" + entry("args: '{p}'")
    assert args_of(plan(text)) == [outside]
    assert args_of(plan(text, environ={"container": "podman"})) == [inside]


def test_data_sets(plan: Planner, suite: Path) -> None:
    text = f"""
paths: [{{name: data, host_path: "{suite}/my data"}}]
datasets:
  - name: cc
    formats: [{{type: jsonl, path: "{{data}}/cc.jsonl"}}, {{type: parquet, path: "${{P:-/p q}}/x"}}]
entries:
  - {{name: a, script: bench.py, args: "--in {{dataset:cc,jsonl}} --in2={{ dataset: cc , parquet }}"}}
"""
    found = plan(text)
    assert args_of(found) == ["--in", f"{suite}/my data/cc.jsonl", "--in2=/p q/x"]
    assert found.warnings == (
        f"data set cc,jsonl: {suite}/my data/cc.jsonl does not exist (used by a)",
        "data set cc,parquet: /p q/x does not exist (used by a)",
    )


def test_data_that_is_there_or_far_away_gives_no_warning(plan: Planner, suite: Path) -> None:
    data = f'{{here: {{d: "{suite}"}}, far: {{d: "s3://bucket/x"}}, unused: {{d: /nowhere}}}}'
    text = f"datasets: {data}\n" + entry("args: '{dataset:here,d} {dataset:far,d}'")
    assert plan(text).warnings == ()


def test_nested_json_survives(plan: Planner) -> None:
    data = '{"a": {"b": [{}, {"c": "{session}"}]}}'
    expected = data.replace("{session}", RUN_DIR)
    assert args_of(plan(entry(f"args: >-\n      --j '{data}' {{{{session}}}}"))) == ["--j", expected, "{session}"]
    assert args_of(plan(entry(f"args: ['{data}', '{{{{session}}}}']"))) == [expected, "{session}"]


def test_values_are_neither_split_nor_read_again(plan: Planner) -> None:
    nasty = "a b 'c\" {session} ${HOME} $$"
    found = plan(entry("args: --x ${NASTY} --y={matrix.m}", "matrix: {m: ['{session} z']}"), {"NASTY": nasty})
    assert args_of(found) == ["--x", nasty, "--y={session} z"]


def test_a_default_may_hold_a_placeholder(plan: Planner) -> None:
    found = plan(entry("args: '${OUT:-{session}/a b} ${SET:-{session}}'"), {"SET": "{session}"})
    assert args_of(found) == [f"{RUN_DIR}/a b", "{session}"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["args: '{sesion}'"], ":5: entries[0].args: {sesion}: unknown placeholder; did you mean {session}?"),
        (["args: ['x', '{dataset:cc,jsonl}']"], "unknown data set 'cc'; did you mean 'ccc'?"),
        (["args: '{dataset:ccc,json}'"], "data set 'ccc' has no format 'json'; it has jsonl"),
        (["args: '{dataset:ccc}'"], "data set 'ccc' has no format ''"),
        (["args: '{matrix.a}'"], "{matrix.a}: the case has no such parameter; it has no matrix"),
        (["args: '{matrix.sise}'", "matrix: {size: [1]}"], "did you mean {matrix.size}?"),
        (["env: {A: '{nope_nope}'}"], "entries[0].env.A: {nope_nope}: unknown placeholder"),
        (["cwd: '{nope_nope}'"], "entries[0].cwd: {nope_nope}"),
        (['args: "--a \'b"'], ":5: entries[0].args: a quote is not closed"),
        (["args: 'b\\'"], "nothing follows the last backslash"),
        (["args: '{needs:other}'"], "'other' is no case that this one needs; add it to 'needs'"),
    ],
)
def test_problems_name_file_line_and_remedy(plan: Planner, suite: Path, lines: list[str], words: str) -> None:
    message = problem_of(plan, entry(*lines) + "datasets: {ccc: {jsonl: /x}}\n")
    assert message.startswith(f"{suite}/suite.yaml:")
    assert words in message
    assert "\n" not in message


def test_all_problems_at_once(plan: Planner) -> None:
    text = """
entries:
  - {name: a, script: missing.py, args: "{nope1}"}
  - {name: b, script: bench.py, args: "{nope2}", matrix: {x: [1, 1.0]}}
  - {name: c, script: bench.py, args: "{nope3}", matrix: {x: [1, 2], exclude: [{x: 1}, {x: 2}]}}
  - {name: d, script: bench.py, args: "{nope4}", matrix: {x: [1, 2]}}
data_setups:
  - {name: s, script: bench.py, args: "{nope5}"}
"""
    lines = problem_of(plan, text).splitlines()
    assert [line.split(": ", 2)[1] for line in lines] == [
        "entries[0].args",
        "entries[0].script",
        "entries[1].args",
        "entries[2].matrix",
        "entries[3].args",
        "data_setups[0].args",
    ]


def test_circles_in_definitions(plan: Planner) -> None:
    paths = "paths: [{name: p, host_path: '{q}'}, {name: q, host_path: 'x{p}'}]\n"
    assert "break the circle" in problem_of(plan, paths + entry("args: '{p}'"))
    data = "datasets: {a: {x: '{dataset:b,x}'}, b: {x: '{dataset:a,x}'}}\n"
    assert "break the circle" in problem_of(plan, data + entry("args: '{dataset:a,x}'"))
    assert plan(paths + data + ONE).cases


@pytest.mark.parametrize("name", ["session", "repo_dir", "my-path"])
def test_path_names_that_cannot_be_used(plan: Planner, name: str) -> None:
    assert "paths[0].name" in problem_of(plan, f"paths: [{{name: {name}, host_path: /x}}]\n{ONE}")


def test_script_lookup_order(plan: Planner, suite: Path) -> None:
    places = [suite / "own", suite / "top", suite / "scripts", suite]
    for place in places:
        place.mkdir(exist_ok=True)
        (place / "x.py").write_text("")
    text = (
        "script_base_dir: top\nentries:\n  - {name: a, script: x.py, script_base_dir: '{config_dir}/own'}\n"
    )
    for place in places:
        assert plan(text).cases[0].argv[1] == str(place / "x.py")
        (place / "x.py").unlink()
    message = problem_of(plan, text)
    assert "entries[0].script: 'x.py' is not in " + ", ".join(map(str, places)) in message


def test_an_absolute_script(plan: Planner, suite: Path) -> None:
    script = suite / "scripts" / "bench.py"
    assert plan(f"entries: [{{name: a, script: '{script}'}}]\n").cases[0].argv[1] == str(script)
    assert "is not there" in problem_of(plan, "entries: [{name: a, script: /no/where.py}]\n")


def test_other_languages(plan: Planner, suite: Path) -> None:
    script = suite / "bench.sh"
    script.write_text("#!/bin/sh\n")
    text = "entries: [{name: a, script: bench.sh}]\n"
    assert "chmod +x" in problem_of(plan, text)
    script.chmod(0o755)
    assert plan(text).cases[0].argv[0] == str(script)
    script.chmod(0o644)
    (case,) = plan("entries: [{name: a, script: bench.sh, interpreter: sh -e}]\n").cases
    assert case.argv[:3] == ("sh", "-e", str(script))


def test_matrix_cases(plan: Planner) -> None:
    found = plan(
        entry(
            "args: --n {matrix.size} --e={matrix.executor}",
            "env: {E: 'x{matrix.executor}'}",
            "matrix: {size: [1, 2], executor: [local, ray], exclude: [{size: 2, executor: ray}]}",
        )
    )
    assert [case.name for case in found.cases] == [
        "one[size=1,executor=local]",
        "one[size=1,executor=ray]",
        "one[size=2,executor=local]",
    ]
    last = found.cases[-1]
    assert last.key == "one[executor=local,size=2]"
    assert dict(last.params) == {"size": 2, "executor": "local"}
    assert args_of(found, 2) == ["--n", "2", "--e=local"]
    assert last.env == {"E": "xlocal"}
    assert len({case.fingerprint for case in found.cases}) == 3


def test_two_cases_of_one_name(plan: Planner) -> None:
    text = """
entries:
  - {name: a, script: bench.py, matrix: {x: [1]}}
  - {name: "a[x=1]", script: bench.py}
"""
    assert "suite.yaml:4: entries[1]: two cases have the name 'a[x=1]'" in problem_of(plan, text)


NEEDS = """
data_setups:
  - {name: fetch, command: [fetch]}
entries:
  - name: train
    command: [run, "{needs:prepare[size={matrix.size}]}/out", "{needs:fetch}", "{needs:one}"]
    matrix: {size: [1, 2]}
    needs: ["prepare[size={matrix.size}]", fetch, one]
  - {name: report, command: [x], needs: [train]}
  - {name: prepare, command: [x], matrix: {size: [1, 2]}}
  - {name: one, command: [x], matrix: {only: [1]}}
  - {name: free, command: [x]}
"""


def test_needs(plan: Planner, suite: Path) -> None:
    found = plan(NEEDS)
    assert [case.name for case in found.cases] == [
        "prepare[size=1]",
        "prepare[size=2]",
        "one[only=1]",
        "train[size=1]",
        "train[size=2]",
        "report",
        "free",
    ]
    by_name = {case.name: case for case in found.cases}
    assert by_name["train[size=2]"].needs == ("prepare[size=2]", "one[only=1]")
    assert by_name["report"].needs == ("train[size=1]", "train[size=2]")
    night = suite / "results" / "night"
    assert by_name["train[size=2]"].argv[1:] == (
        f"{night}/prepare[size=2]/out",
        f"{night}/data_setup/fetch",
        f"{night}/one[only=1]",
    )


def test_a_selection_brings_needs_along(plan: Planner) -> None:
    found = plan(NEEDS, only=["train[size=2]"])
    assert [case.name for case in found.cases] == ["prepare[size=2]", "one[only=1]", "train[size=2]"]
    assert "prepare[size=2] was not selected and runs because train[size=2] needs it" in found.warnings


def test_shards_of_a_plan(plan: Planner) -> None:
    shards = [plan(NEEDS, shard=(i, 2)) for i in (1, 2)]
    assert [[case.name for case in shard.cases] for shard in shards][1] == ["free"]
    assert len(shards[0].cases) == 6
    assert plan(NEEDS, shard=(3, 3)).cases == ()


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (
            "[twoo]",
            "suite.yaml:3: entries[0].needs[0]: there is no entry or case 'twoo'; did you mean 'two'?",
        ),
        ("[one]", "a circle: one needs one"),
        ("[two]", "a circle: one needs two needs one"),
        ("['two[x={matrix.x}]']", "{matrix.x}: the case has no such parameter"),
    ],
)
def test_needs_that_cannot_be(plan: Planner, needs: str, words: str) -> None:
    text = f"""entries:
  - name: one
    needs: {needs}
    command: [x]
  - {{name: two, command: [x], needs: [one]}}
"""
    assert words in problem_of(plan, text)


def test_problems_of_cases_that_are_not_selected_do_not_count(plan: Planner) -> None:
    text = ONE + "  - {name: other, script: missing.py}\n"
    assert plan(text, only=["one"]).cases
    with pytest.raises(SelectionError):
        plan(text, only=["three"])


def test_an_unset_variable_blocks_only_its_users(plan: Planner, suite: Path) -> None:
    text = """
datasets: {cc: {jsonl: "${DATA}/x"}}
entries:
  - {name: plain, script: bench.py}
  - name: direct
    script: bench.py
    args: --x ${NOPE:?ask Bob}
  - {name: by_data, script: bench.py, args: "{dataset:cc,jsonl}"}
  - {name: by_timeout, script: bench.py, timeout_s: "${T}"}
  - {name: by_script, script: "${S}.py"}
  - {name: default, script: bench.py, args: "${NOPE:-fine}"}
sinks:
  - {name: slack, webhook_url: "${HOOK}"}
"""
    found = plan(text)
    assert [(case.name, case.blocked) for case in found.cases] == [
        ("plain", None),
        ("direct", "environment variable NOPE is not set: ask Bob"),
        ("by_data", "environment variable DATA is not set"),
        ("by_timeout", "environment variable T is not set"),
        ("by_script", "environment variable S is not set"),
        ("default", None),
    ]
    (sink,) = found.sinks
    assert sink.blocked == "environment variable HOOK is not set"
    file = suite / "suite.yaml"
    assert plan_errors(found) == (
        f"{file}:7: entries[1] (direct): environment variable NOPE is not set: ask Bob",
        f"{file}:2: entries[2] (by_data): environment variable DATA is not set",
        f"{file}:9: entries[3] (by_timeout): environment variable T is not set",
        f"{file}:10: entries[4] (by_script): environment variable S is not set",
        f"{file}:13: sinks[0] (slack): environment variable HOOK is not set",
    )
    assert plan_errors(plan(text, only=["plain", "default"])) == plan_errors(found)[-1:]


def test_requirements_resources_limits_and_the_rest(plan: Planner) -> None:
    found = plan(
        entry(
            "timeout_s: 60",
            "grace_s: 2",
            "version: 3",
            "repeat: 4",
            "warmup: 1",
            "retries: 2",
            "delete_scratch: false",
            "tags: [x, y]",
            "resources: {cpus: 0.5, gpus: 2, memory: 1GiB, exclusive: true}",
            "limits: {processes: 9, memory: 2000}",
            "sink_data: [{name: slack, ping_on_failure: [U1]}]",
            "requirements:",
            "  - {metric: t, min_value: 1, max_value: 2, tolerance: 5%}",
            "  - {metric: ok, exact_value: true, severity: warn}",
        )
    )
    (case,) = found.cases
    assert (case.timeout_s, case.grace_s, case.version) == (60, 2, "3")
    assert (case.repeat, case.warmup, case.runs, case.retries, case.delete_scratch) == (4, 1, 5, 2, False)
    assert case.tags == ("x", "y")
    resources = case.resources
    assert (resources.cpus, resources.gpus, resources.memory_bytes, resources.exclusive) == (
        0.5,
        2,
        2**30,
        True,
    )
    assert (case.limits.processes, case.limits.memory_bytes) == (9, 2000)
    assert case.sink_data == {"slack": {"ping_on_failure": ["U1"]}}
    assert case.requirements == (
        Requirement(metric="t", kind="min_value", bound=1, tolerance=0.05),
        Requirement(metric="t", kind="max_value", bound=2, tolerance=0.05),
        Requirement(metric="ok", kind="exact_value", bound=True, severity="warn"),
    )


@pytest.mark.parametrize(
    ("top", "own", "expected"),
    [
        ("", "", None),
        ("", "ray: {}", {}),
        ("ray: {}", "", {}),
        ("ray: {num_cpus: 8, num_gpus: 1}", "ray: {num_gpus: 0}", {"num_cpus": 8, "num_gpus": 0}),
        ("object_store_size: 0.5", "ray: {}", {"object_store_memory": 0.5}),
        ("object_store_size: 0.5", "", None),
        (
            "object_store_size: 2GiB\nray: {}",
            "object_store_size: default",
            {"object_store_memory": "default"},
        ),
    ],
)
def test_clusters(plan: Planner, top: str, own: str, expected: object) -> None:
    (case,) = plan(f"{top}\n" + entry(*([own] if own else []))).cases
    assert case.cluster == expected


def test_a_timeout_above_the_longest(plan: Planner) -> None:
    assert "above max_timeout_s" in problem_of(plan, "max_timeout_s: 10\n" + entry("timeout_s: 11"))


def test_the_environment_of_a_case(plan: Planner) -> None:
    found = plan(
        "env: {A: '1', B: '{session_dir}', C: top}\n" + entry("env: {C: own, D: '${X} y'}"),
        {"X": "{session}"},
    )
    (case,) = found.cases
    directory = str(found.directory)
    assert case.env == {"A": "1", "B": directory, "C": "own", "D": "{session} y"}


def test_a_working_directory(plan: Planner, suite: Path) -> None:
    assert plan(entry("cwd: '{scratch_dir}'")).cases[0].cwd == f"{RUN_DIR}/scratch"
    found = plan(entry("cwd: nowhere"))
    assert found.cases[0].cwd == str(suite / "nowhere")
    assert "does not exist" in found.warnings[0]


def test_directories(plan: Planner, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite)
    assert plan(ONE, results_dir=None).directory == suite / "results" / "night"
    assert plan("results_dir: ./out\n" + ONE, results_dir=None).directory == suite / "out" / "night"
    found = plan(
        "results_dir: '${R}/{session_x}'\n".replace("{session_x}", "x") + ONE, {"R": "/r"}, results_dir=None
    )
    assert found.directory == Path("/r/x/night")
    found = plan("results_dir: '{config_dir}/r'\nartifacts_dir: /a\n" + ONE, results_dir=None)
    assert (found.directory, found.artifacts_dir) == (suite / "r" / "night", Path("/a"))
    found = plan("paths: [{name: results_path, host_path: /h/r}]\n" + ONE, results_dir=None)
    assert found.directory == Path("/h/r/night")


def test_the_results_directory_alone(suite: Path, outside_container: None) -> None:
    from paceline.config.load import load

    (suite / "suite.yaml").write_text("results_dir: '{config_dir}/r'\n" + ONE)
    assert find_results_dir(load([suite / "suite.yaml"])) == suite / "r"


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b", "a\nb"])
def test_session_names_that_are_no_directory(plan: Planner, name: str) -> None:
    with pytest.raises(SessionError):
        plan(ONE, session=name)


def test_secrets(plan: Planner) -> None:
    text = """
secrets: [PLAIN]
sinks:
  - {name: mlflow, tracking_uri: "http://${HOST_NAME}", experiment: "${EXP:-nightly-exp}"}
  - {name: slack, webhook_env: HOOK_NAME, api_token: written-token}
entries:
  - {name: one, script: bench.py, args: "${MY_TOKEN}", env: {DB_PASSWORD: "${USER_NAME}-pw", OTHER: visible}}
"""
    environ = {
        "HOST_NAME": "host-value",
        "PLAIN": "plain-value",
        "MY_TOKEN": "token-value",
        "USER_NAME": "user-value",
        "HOOK_NAME": "hook-value",
        "AWS_SECRET_ACCESS_KEY": "aws-value",
        "HARMLESS": "harmless-value",
    }
    found = plan(text, environ)
    assert set(found.secret_names) >= {"HOST_NAME", "PLAIN", "HOOK_NAME"}
    hidden = {
        "host-value",
        "plain-value",
        "token-value",
        "hook-value",
        "aws-value",
        "user-value-pw",
        "written-token",
    }
    assert hidden <= set(found.secret_values)
    assert not {"harmless-value", "visible", "HOOK_NAME", "user-value"} & set(found.secret_values)
    assert "token-value" in found.cases[0].argv
    shown = json.dumps(plan_json(found, Redactor(found.secret_values)))
    assert not [value for value in hidden if value in shown]
    assert "token-value" not in repr(found.secret_names)


def test_settings(plan: Planner, suite: Path) -> None:
    text = """
delete_scratch: false
gpu_stats_recorder: {interval_s: 0}
run_reason: because
viewer_url_template: "http://v/?p={results_path_url}&s={session_name}&f={session_path}"
gpu_mem_use_warning_threshold: 0.25
grace_s: 3
history: {url: history.db}
entries:
  - {name: one, script: bench.py, gpu_mem_use_warning_threshold: 0.5}
"""
    found = plan(text, session="night 1")
    results = str(suite / "results")
    quoted = results.replace("/", "%2F")
    assert found.settings == {
        "delete_scratch": False,
        "gpu_stats_interval_s": 0,
        "run_reason": "because",
        "viewer_url": f"http://v/?p={quoted}&s=night 1&f={results}/night 1",
        "gpu_mem_use_warning_threshold": 0.25,
        "gpu_mem_use_warning_threshold_by_entry": {"one": 0.5},
        "grace_s": 3,
        "history_url": "history.db",
        "config_files": (str(suite / "suite.yaml"),),
        "errors": (),
    }


def test_the_viewer_knows_paths_of_the_host(plan: Planner) -> None:
    text = (
        """
paths:
  - {name: outer, host_path: /h, container_path: /c}
  - {name: results_path, host_path: /fast/results, container_path: /c/results}
viewer_url_template: "{session_path}"
"""
        + ONE
    )
    found = plan(text, {"container": "docker"}, results_dir=None)
    assert found.directory == Path("/c/results/night")
    assert found.settings["viewer_url"] == "/fast/results/night"
    assert "unknown placeholder" in problem_of(plan, "viewer_url_template: '{nope}'\n" + ONE)


def test_plan_json(plan: Planner, suite: Path) -> None:
    found = plan(
        "sinks: [{name: mlflow, tracking_uri: x, experiment: y}]\n"
        + entry("env: {B: '1', A: '2'}", "ray: {num_cpus: 2}", "requirements: [{metric: m, max_value: 1}]")
    )
    shown = plan_json(found, Redactor())
    assert json.loads(json.dumps(shown)) == shown
    assert shown["session"] == "night"
    assert shown["directory"] == str(suite / "results" / "night")
    assert shown["errors"] == shown["warnings"] == []
    assert shown["sinks"][0]["name"] == "mlflow"
    (case,) = shown["cases"]
    assert case["argv"][-1] == str(suite / "results" / "night" / "one" / "benchmark_results")
    assert case["env"] == ["A", "B"]
    assert case["ray"] == {"num_cpus": 2}
    assert case["resources"] == {"cpus": 1, "gpus": 0, "memory_bytes": 0, "exclusive": False}
    assert case["requirements"][0]["metric"] == "m"


def test_planning_leaves_no_trace(plan: Planner, suite: Path) -> None:
    text = (
        "results_dir: r\nartifacts_dir: a\nsinks: [{name: slack, webhook_url: 'http://127.0.0.1:9/'}]\n"
        + NEEDS
    )
    (suite / "suite.yaml").write_text(text)
    before = sorted(suite.rglob("*"))
    environ = dict(os.environ)
    plan_json(plan(text), Redactor())
    assert sorted(suite.rglob("*")) == before
    assert dict(os.environ) == environ


def test_files_merge_and_each_value_knows_its_file(suite: Path, outside_container: None) -> None:
    from paceline.config.load import load
    from paceline.plan import make_plan

    other = suite / "other"
    other.mkdir()
    (other / "base.yaml").write_text("entries: [{name: a, command: ['{config_dir}'], cwd: w}]\n")
    (suite / "over.yaml").write_text("entries: [{name: a, env: {D: '{config_dir}'}, timeout_s: 5}]\n")
    loaded = load([other / "base.yaml", suite / "over.yaml"])
    (case,) = make_plan(loaded, session="s", results_dir=suite).cases
    assert case.argv == (str(other),)
    assert case.cwd == str(other / "w")
    assert case.env == {"D": str(suite)}
    assert case.timeout_s == 5

"""From configuration text to a plan: cases, blocked ones, secrets, settings, JSON."""

import json
import os
from pathlib import Path

import pytest

from paceline.config.load import load
from paceline.errors import SelectionError, SessionError
from paceline.model import Requirement, Settings
from paceline.plan import find_results_dir, plan_errors, plan_json
from paceline.record.masking import mask_plan
from paceline.record.redact import Redactor
from plan.suites import ONE, Planner, args_of, entry, problem_of


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


def test_matrix_cases(plan: Planner) -> None:
    found = plan(
        entry(
            "args: --n {matrix.size} --e={matrix.executor}",
            "env: {E: 'x{matrix.executor}'}",
            "matrix: {size: [1, 2], executor: [local, ray], exclude: [{size: 2, executor: ray}]}",
        )
    )
    assert [case.name for case in found.cases] == [
        "one[executor=local,size=1]",
        "one[executor=ray,size=1]",
        "one[executor=local,size=2]",
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
    args: --x ${NOPE:?ask the maintainers}
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
        ("direct", "environment variable NOPE is not set: ask the maintainers"),
        ("by_data", "environment variable DATA is not set"),
        ("by_timeout", "environment variable T is not set"),
        ("by_script", "environment variable S is not set"),
        ("default", None),
    ]
    (sink,) = found.sinks
    assert sink.blocked == "environment variable HOOK is not set"
    file = suite / "suite.yaml"
    assert plan_errors(found) == (
        f"{file}:7: entries[1].args: environment variable NOPE is not set: ask the maintainers",
        f"{file}:2: entries[2] (by_data): datasets[0].formats[0].path: environment variable DATA is not set",
        f"{file}:9: entries[3].timeout_s: environment variable T is not set",
        f"{file}:10: entries[4].script: environment variable S is not set",
        f"{file}:13: sinks[0].webhook_url: environment variable HOOK is not set",
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


def test_directories(plan: Planner, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite)
    assert plan(ONE, results_dir=None).directory == suite / "results" / "night"
    assert plan("results_dir: ./out\n" + ONE, results_dir=None).directory == suite / "out" / "night"
    found = plan("results_dir: '${R}/x'\n" + ONE, {"R": "/r"}, results_dir=None)
    assert found.directory == Path("/r/x/night")
    found = plan("results_dir: '{config_dir}/r'\nartifacts_dir: /a\n" + ONE, results_dir=None)
    assert (found.directory, found.artifacts_dir) == (suite / "r" / "night", Path("/a"))
    found = plan("paths: [{name: results_path, host_path: /h/r}]\n" + ONE, results_dir=None)
    assert found.directory == Path("/h/r/night")


def test_the_results_directory_alone(suite: Path, outside_container: None) -> None:

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
  - {name: hook, type: "json:Hook", webhook_env: HOOK_NAME, api_token: written-token}
entries:
  - name: one
    script: bench.py
    args: "${MY_TOKEN} redis://:redis-value@h"
    env: {DB_PASSWORD: "${USER_NAME}-pw", OTHER: visible}
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
    assert found.secret_names == ("PLAIN", "HOOK_NAME")
    assert found.sink_variables == ("HOST_NAME", "EXP", "HOOK_NAME")
    hidden = {
        "plain-value",
        "token-value",
        "hook-value",
        "aws-value",
        "user-value-pw",
        "redis-value",
        "written-token",
    }
    assert hidden <= set(found.secret_values)
    assert not {"host-value", "harmless-value", "visible", "HOOK_NAME", "user-value"} & set(
        found.secret_values
    )
    assert "token-value" in found.cases[0].argv
    shown = json.dumps(plan_json(mask_plan(found, Redactor(found.secret_values))))
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
    assert found.settings == Settings(
        gpu_stats_interval_s=0,
        run_reason="because",
        viewer_url=f"http://v/?p={quoted}&s=night 1&f={results}/night 1",
        config_files=(str(suite / "suite.yaml"),),
    )
    (case,) = found.cases
    assert (case.delete_scratch, case.grace_s) == (False, 3)


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
    assert found.settings.viewer_url == "/fast/results/night"
    assert "unknown placeholder" in problem_of(plan, "viewer_url_template: '{nope}'\n" + ONE)


def test_plan_json(plan: Planner, suite: Path) -> None:
    found = plan(
        "sinks: [{name: mlflow, tracking_uri: x, experiment: y}]\n"
        + entry("env: {B: '1', A: '2'}", "ray: {num_cpus: 2}", "requirements: [{metric: m, max_value: 1}]")
    )
    shown = plan_json(found)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["session"] == "night"
    assert shown["directory"] == str(suite / "results" / "night")
    assert shown["errors"] == []
    assert shown["sinks"][0]["name"] == "mlflow"
    (case,) = shown["cases"]
    assert case["argv"][-1] == str(suite / "results" / "night" / "one" / "benchmark_results")
    assert case["env"] == ["A", "B"]
    assert case["ray"] == {"num_cpus": 2}
    assert case["resources"] == {"cpus": 1, "gpus": 0, "memory_bytes": 0, "exclusive": False}
    assert case["requirements"][0]["metric"] == "m"


def test_planning_leaves_no_trace(plan: Planner, suite: Path) -> None:
    sinks = "sinks: [{name: slack, webhook_url: 'http://127.0.0.1:9/'}]\n"
    text = f"results_dir: r\nartifacts_dir: a\n{sinks}data_setups: [{{name: s, command: [touch, x]}}]\n{ONE}"
    (suite / "suite.yaml").write_text(text)
    before = sorted(suite.rglob("*"))
    environ = dict(os.environ)
    plan_json(plan(text))
    assert sorted(suite.rglob("*")) == before
    assert dict(os.environ) == environ

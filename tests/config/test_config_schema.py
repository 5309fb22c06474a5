"""What each key may hold, and what it may not."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic_core import PydanticCustomError

from config.config_files import ENTRY, ConfigFiles
from paceline.config.evals import WholeConfig
from paceline.config.load import load
from paceline.config.schema import Config, Entry
from paceline.config.sections import RayOptions
from paceline.config.values import SIZE_UNITS, parse_size_bytes


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("timeout_s", "0", "a number of seconds greater than 0, got 0"),
        ("timeout_s", "-5", "a number of seconds greater than 0, got -5"),
        ("timeout_s", "true", "a number of seconds greater than 0, got true"),
        ("timeout_s", ".inf", "a number of seconds greater than 0, got .inf"),
        ("timeout_s", ".nan", "a number of seconds greater than 0, got .nan"),
        ("timeout_s", "[5]", "a number of seconds greater than 0, got a list"),
        ("grace_s", "-1", "a number of seconds, 0 or more, got -1"),
        ("repeat", "1.0", "a whole number, 1 or more, got 1.0"),
        ("repeat", "true", "a whole number, 1 or more, got true"),
        ("warmup", "-1", "a whole number, 0 or more, got -1"),
        ("retries", "'1'", "a whole number, 0 or more, got '1'"),
        ("enabled", "1", "true or false, got 1"),
        ("enabled", "yes", "true or false, got 'yes'"),
        ("delete_scratch", "{}", "true or false, got a mapping"),
        ("name", "5", "a string, got 5"),
        ("name", "''", "must not be empty, got ''"),
        ("script", "5", "a string, got 5"),
        ("args", "{a: 1}", "a string or a list of strings, got a mapping"),
        ("args", "[[1]]", "a list of strings, got a list"),
        ("args", "[null]", "a list of strings, got null"),
        ("tags", "x", "a list, got 'x'"),
        ("env", "[1]", "a mapping, got a list"),
        ("env", "{A: [1]}", "a string, got a list"),
        ("env", "{'A=B': x}", "names of environment variables, got 'A=B'"),
        ("ray", "5", "a mapping, got 5"),
        ("ray", "{num_gpus: -1}", "a whole number, 0 or more, got -1"),
        ("ray", "{object_store_memory: 4 GiBs}", "a number of bytes or a size"),
        ("resources", "{memory: 4X}", "a number of bytes or a size"),
        ("resources", "{cpus: -1}", "greater than or equal to 0, got -1"),
        ("limits", "{processes: 0}", "a whole number, 1 or more, got 0"),
        ("object_store_size", "1", "at least 1MiB"),
        ("object_store_size", "1.5", "a fraction of the memory"),
        ("object_store_size", "lots", "a number of bytes or a size"),
        ("gpu_mem_use_warning_threshold", "2", "a fraction from 0 to 1, got 2"),
        ("requirements", "[5]", "a mapping, got 5"),
        ("requirements", "7", "a list, got 7"),
        ("requirements", "[{metric: m, min_value: '5'}]", "a number, got '5'"),
        ("requirements", "[{metric: m, min_value: true}]", "a number, got true"),
        ("requirements", "[{metric: m, max_value: .nan}]", "a number, got .nan"),
        ("requirements", "[{metric: m, exact_value: .nan}]", "a number, a boolean or a string, got .nan"),
        ("requirements", "[{metric: m, exact_value: [1]}]", "a number, a boolean or a string, got a list"),
        ("requirements", "[{metric: m, min_value: 1, tolerance: 5 percent}]", "a fraction such as 0.05 or"),
        ("requirements", "[{metric: m, min_value: 1, tolerance: -0.1}]", "a fraction such as 0.05 or"),
        ("requirements", "[{metric: m, min_value: 1, severity: bad}]", "'fail' or 'warn', got 'bad'"),
        ("matrix", "{size: 5}", "a list, got 5"),
        ("matrix", "{size: [[1]]}", "a string, a number or a boolean, got a list"),
    ],
)
def test_values_that_do_not_fit(files: ConfigFiles, key: str, value: str, expected: str) -> None:
    base = {"name": "e", "script": "e.py"}
    base.pop(key, None)
    text = "entries:\n  - " + "\n    ".join(f"{name}: {text}" for name, text in {**base, key: value}.items())
    problems = files.problems(text + "\n")
    line = text.splitlines().index(f"    {key}: {value}") + 1
    (problem,) = [one for one in problems if one.startswith(f"a.yaml:{line}: entries[0].{key}")]
    assert expected in problem


def test_missing_keys(files: ConfigFiles) -> None:
    assert files.problems("entries: [{script: x}]\n") == ["a.yaml:1: entries[0]: the key 'name' is missing"]
    text = ENTRY + "paths: [{name: p}]\ndatasets: [{name: d}]\nhistory: {}\n"
    assert files.problems(text) == [
        "a.yaml:2: paths[0]: the key 'host_path' is missing",
        "a.yaml:3: datasets[0]: the key 'formats' is missing",
    ]


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (5, 5),
        ("5B", 5),
        ("4GiB", 4 * 1024**3),
        ("500 MB", 500_000_000),
        ("1.5KiB", 1536),
        ("2kb", 2000),
        ("1tib", 1024**4),
    ],
)
def test_sizes(text: object, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "5", "G", "-5GiB", "5 Gb it", "5G", True, 1.5, None, -1, "1" * 400 + "GiB"]
)
def test_sizes_that_make_no_sense(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_size_bytes(text)


@given(st.integers(0, 10**6), st.sampled_from(sorted(SIZE_UNITS)))
def test_whole_sizes_are_exact(number: int, unit: str) -> None:
    assert parse_size_bytes(f"{number}{unit}") == number * SIZE_UNITS[unit]


def test_values_that_fit(files: ConfigFiles) -> None:
    entry = files.load(
        """
        entries:
          - name: e
            command: run
            grace_s: 0
            resources: {cpus: 0.5, gpus: 1, memory: 4GiB, exclusive: true}
            limits: {memory: 1MB}
            object_store_size: 0.25
            requirements:
              - {metric: a, exact_value: done}
              - {metric: b, min_value: 1, max_value: 2.5, tolerance: 0.05}
              - {metric: c, max_value: 3, tolerance: 12.5%}
            matrix:
              size: [1, 2.5, big, true]
              include: [{size: 9}]
              exclude: [{size: big}]
        """
    ).config.entries[0]
    assert (entry.grace_s, entry.object_store_size) == (0, 0.25)
    assert (entry.resources.cpus, entry.resources.memory, entry.limits.memory) == (
        0.5,
        4 * 1024**3,
        1_000_000,
    )
    assert [item.tolerance for item in entry.requirements] == [0, 0.05, 0.125]
    assert type(entry.requirements[1].min_value) is int
    assert entry.matrix is not None
    assert entry.matrix.axes == {"size": [1, 2.5, "big", True]}
    assert (entry.matrix.include, entry.matrix.exclude) == ([{"size": 9}], [{"size": "big"}])


def test_the_cluster_of_an_entry() -> None:
    bare, own = Entry(name="a"), Entry(name="b", ray=RayOptions(num_gpus=0, dashboard=False))
    none = Config(entries=[bare, own])
    assert none.ray_for(bare) is None
    assert none.ray_for(own) == own.ray
    shared = Config(entries=[bare, own], ray=RayOptions(num_cpus=4, num_gpus=2, dashboard=True))
    assert shared.ray_for(bare) == shared.ray
    assert shared.ray_for(own) == RayOptions(num_cpus=4, num_gpus=0, dashboard=False)
    assert Config(entries=[bare], ray=RayOptions()).ray_for(bare) == RayOptions()


def test_nothing_can_be_changed(files: ConfigFiles) -> None:
    config = files.load(ENTRY).config
    with pytest.raises(ValueError, match="frozen"):
        config.entries[0].name = "other"


WRITTEN = """
x-ray: &ray {num_cpus: 2}
results_path: /r
datasets: {cc: {jsonl: "/x", csv: null}}
default_timeout_s: ${T}
object_store_size: null
sinks: [{name: mlflow, tracking_uri: "${U}", enabled: true}, {type: webhook}]
gpu_stats_recorder: {enabled: "${G}"}
entries:
  - name: a
    script: a.py
    args: [--n, 5, true]
    env: {A: 1, B: null}
    ray: *ray
    requirements: {ok: {exact_value: true}, fast: {min_value: 1, tolerance: 5%}}
    sink_data: {slack: {x: 1}}
    version: 2
    matrix: {size: [1, two], include: [{size: 3}]}
"""


def test_the_json_schema_takes_what_files_may_hold(tmp_path: Path) -> None:
    schema = json.loads(json.dumps(WholeConfig.model_json_schema()))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    (tmp_path / "a.yaml").write_text(WRITTEN)
    (tmp_path / "b.yaml").write_text("gpu_stats_recorder: {enabled: true}\n")
    load([tmp_path / "a.yaml", tmp_path / "b.yaml"], environ={"T": "5", "U": "u", "G": "true"})
    assert [error.message for error in validator.iter_errors(yaml.safe_load(WRITTEN))] == []


@pytest.mark.parametrize(
    "data",
    [
        {"entires": []},
        {"entries": [{"name": "a", "requirments": []}]},
        {"entries": [{"name": "a", "timeout_s": "5"}]},
        {"entries": [{"name": "a", "timeout_s": 0}]},
        {"entries": [{"name": "a", "enabled": 1}]},
        {"entries": [{"name": "a", "requirements": {"m": {"min": 1}}}]},
        {"ray": {"num_cpus": -1}},
        {"entries": {}},
    ],
)
def test_the_json_schema_refuses_mistakes(data: Any) -> None:
    assert list(Draft202012Validator(WholeConfig.model_json_schema()).iter_errors(data))

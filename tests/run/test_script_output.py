"""A results directory as scripts leave it: good, odd and hostile."""

import json
import math
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.run import script_output
from paceline.run.script_output import ScriptOutput, read
from workplace import Workplace


def read_metrics(tmp_path: Path, content: str | bytes) -> ScriptOutput:
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "metrics.json").write_bytes(raw)
    return read(tmp_path)


def test_the_files_of_the_script_contract(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"executor": "xenna", "nested": {"a": [1]}}')
    (tmp_path / "metrics.json").write_text('{"is_success": true, "time_taken": 45.2, "num_removed": 87932}')
    (tmp_path / "units.json").write_text('{"time_taken": "s", "odd": 3}')
    (tmp_path / "directions.json").write_text('{"num_removed": "higher", "odd": "up"}')
    stage = {"stage_name": "read", "process_time": 2.0}
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps([{"task_id": "0", "_stage_perf": [stage]}]))
    output = read(tmp_path)
    assert output.params == {"executor": "xenna", "nested": {"a": [1]}}
    assert output.metrics["is_success"] is True
    assert output.metrics["time_taken"] == 45.2
    assert output.metrics["num_removed"] == 87932
    assert output.metrics["task_read_process_time_sum"] == 2.0
    assert output.units == {"time_taken": "s"}
    assert output.tasks[0]["task_id"] == "0"
    assert output.has_metrics
    assert output.directions == {"num_removed": "higher"}
    assert output.problems == ("directions.json: odd: a direction is lower or higher, not 'up'",)


@pytest.mark.parametrize("where", ["", "missing", "metrics.json/inside"])
def test_nothing_written_is_no_problem_but_no_metrics_either(tmp_path: Path, where: str) -> None:
    if "inside" in where:
        (tmp_path / "metrics.json").write_text("{}")
    output = read(tmp_path / where)
    assert output == ScriptOutput()
    assert not output.has_metrics


def test_task_metrics_win_over_metrics_of_the_same_name(tmp_path: Path) -> None:
    stage = {"stage_name": "a", "process_time": 2.0}
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps([{"_stage_perf": [stage]}]))
    assert read_metrics(tmp_path, '{"task_a_process_time_sum": 1}').metrics["task_a_process_time_sum"] == 2.0


def test_tasks_alone_are_no_metrics(tmp_path: Path) -> None:
    (tmp_path / "tasks.pkl").write_bytes(
        pickle.dumps([{"_stage_perf": [{"stage_name": "a", "process_time": 1}]}])
    )
    assert not read(tmp_path).has_metrics


def test_lines_and_pickle_of_tasks_add_up(tmp_path: Path) -> None:
    task = {"task_id": "1", "_stage_perf": [{"stage_name": "a", "process_time": 2.0}]}
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps([task]))
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    output = read(tmp_path)
    assert output.metrics["task_a_process_time_sum"] == 4.0
    assert len(output.tasks) == 2


def test_lines_of_a_pipeline_repeat_its_pickle(tmp_path: Path) -> None:
    stage = {"stage_name": "a", "process_time": 2.0}
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps([{"task_id": "1", "_stage_perf": [stage]}]))
    (tmp_path / "tasks.jsonl").write_text(
        json.dumps({"task_id": "1", "stage_perf": [{"id": 0, **stage}]}) + "\n"
    )
    output = read(tmp_path)
    assert output.metrics["task_a_process_time_sum"] == 2.0
    assert len(output.tasks) == 1


def test_mappings_are_joined_with_dots_and_lists_are_samples(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, '{"a": {"b": {"c": 1}, "d": "x"}, "e": [1, 2.5, "NaN"], "f": null}')
    assert set(output.metrics) == {"a.b.c", "a.d", "e", "f"}
    assert output.metrics["a.b.c"] == 1
    assert output.metrics["a.d"] == "x"
    assert output.metrics["f"] is None
    samples = output.metrics["e"]
    assert isinstance(samples, tuple)
    assert samples[:2] == (1, 2.5)
    assert isinstance(samples[2], float) and math.isnan(samples[2])


def test_non_finite_numbers_in_both_forms(tmp_path: Path) -> None:
    text = (
        '{"a": NaN, "b": Infinity, "c": -Infinity, "d": "NaN", "e": "Infinity", "f": "-Infinity", "g": 1e999}'
    )
    metrics = read_metrics(tmp_path, text).metrics
    assert all(isinstance(value, float) and not math.isfinite(value) for value in metrics.values())
    assert metrics["f"] == -math.inf


def test_huge_integers(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, f'{{"a": {10**30}, "b": {"9" * 10_000}}}')
    assert output.metrics == {"a": 10**30, "b": math.inf}


def test_a_name_given_twice_counts_last_and_is_noted(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, '{"a": 1, "b": {"c": 1}, "a": 2, "b.c": 3}')
    assert output.metrics == {"a": 2, "b.c": 3}
    assert output.problems == (
        "metrics.json: a is given twice; the last value counts",
        "metrics.json: b.c is given twice; the last value counts",
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{\n"a": 1,\n"b": }', "metrics.json:3: not JSON: Expecting value"),
        ("", "metrics.json: empty"),
        (" \n", "metrics.json: empty"),
        ("[1]", "metrics.json:1: a mapping of names to values is needed, not a list"),
        ("null", "metrics.json:1: a mapping of names to values is needed, not null"),
        ("3", "metrics.json:1: a mapping of names to values is needed, not a single value"),
        ('"x"', "metrics.json:1: a mapping of names to values is needed, not a string"),
        (b'{"a": 1,\n"\xff": 2}', "metrics.json:2: not UTF-8 (byte 0xff)"),
        ('{"a": 1} x', "metrics.json:1: not JSON: Extra data"),
        ("{'a': 1}", "metrics.json:1: not JSON: Expecting property name enclosed in double quotes"),
        ('{"a":' * 100 + "1" + "}" * 100, "metrics.json: nested more than 64 levels deep"),
        ('{"a":' * 100_000, "metrics.json: nested more than 64 levels deep"),
        ("{}", "metrics.json: holds no metric"),
    ],
)
def test_what_cannot_be_used_is_a_line_with_the_place(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    output = read_metrics(tmp_path, content)
    assert output.problems == (problem,)
    assert output.metrics == {}
    assert not output.has_metrics


def test_lists_that_are_no_samples_are_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, '{"ok": 1, "empty": [], "text": ["a"], "flags": [true], "deep": [[1]]}')
    assert output.metrics == {"ok": 1}
    assert output.has_metrics
    assert [problem.partition(":")[2].strip().partition(":")[0] for problem in output.problems] == [
        "empty",
        "text",
        "flags",
        "deep",
    ]


def test_many_problems_are_summed_up(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, json.dumps({f"m{number}": [] for number in range(50)}))
    assert len(output.problems) == 11
    assert output.problems[-1] == "metrics.json: 40 more problems"


def test_too_many_metrics_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_output, "MAX_METRICS", 3)
    monkeypatch.setattr(script_output, "MAX_SAMPLES", 2)
    output = read_metrics(tmp_path, '{"a": [1, 2], "b": [1, 2, 3], "c": 1, "d": 2, "e": 3, "f": 4}')
    assert output.metrics == {"a": (1, 2), "c": 1, "d": 2}
    assert "more than 2 samples" in output.problems[0]
    assert "more than 3 metrics" in output.problems[1]


def test_names_are_bounded(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, json.dumps({"ok": 1, "x" * 501: 2}))
    assert output.metrics == {"ok": 1}
    assert "more than 500 characters" in output.problems[0]
    assert len(output.problems[0]) < 300


def test_a_byte_order_mark_is_taken(tmp_path: Path) -> None:
    assert read_metrics(tmp_path, b'\xef\xbb\xbf{"a": 1}').metrics == {"a": 1}


def test_half_characters_become_text_that_can_be_written(tmp_path: Path) -> None:
    output = read_metrics(tmp_path, '{"a\\ud800": "x\\udfff", "ok": "\\ud83d\\ude00"}')
    assert output.metrics == {"a?": "x?", "ok": "😀"}


def test_a_directory_a_pipe_and_a_device_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").mkdir()
    os.mkfifo(tmp_path / "params.json")
    (tmp_path / "units.json").symlink_to("/dev/zero")
    (tmp_path / "tasks.pkl").symlink_to("tasks.pkl")
    output = read(tmp_path)
    assert output.problems[:3] == (
        "params.json: is not a file",
        "metrics.json: is not a file",
        "units.json: is not a file",
    )
    assert output.problems[3].startswith("tasks.pkl: cannot be read: ")


def test_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("{}")
    (tmp_path / "metrics.json").chmod(0)
    user = os.geteuid()
    if user == 0:
        # The superuser reads everything; nobody does not.
        os.seteuid(65534)
    try:
        problems = read(tmp_path).problems
    finally:
        os.seteuid(user)
    assert "metrics.json: cannot be read: Permission denied" in problems


def test_files_past_their_bound_are_not_read(tmp_path: Path) -> None:
    for name in ("metrics.json", "tasks.pkl", "tasks.jsonl"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(300 << 20)
    problems = read(tmp_path).problems
    assert [problem.partition(":")[0] for problem in problems] == ["metrics.json", "tasks.pkl", "tasks.jsonl"]
    assert all("314,572,800 bytes are more than" in problem for problem in problems)


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([Evil()]),
        pickle.dumps([Evil(), "x" * 100_000]),
        b"\x80\x04\x8e\x00\x00\x00\x40\x00\x00\x00\x00.",
        b"\x80\x04" + b"(" * 1_000_000 + b".",
        b"\x80\x04" + b"]" * 1_000_000,
        os.urandom(100_000),
        b"",
    ],
    ids=["reducer", "large reducer", "1 GB claim", "deep", "truncated", "random", "empty"],
)
def test_a_hostile_pickle_is_one_line_and_the_metrics_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.pkl").write_bytes(content)
    output = read_metrics(tmp_path, '{"a": 1}')
    assert output.metrics == {"a": 1}
    assert output.has_metrics
    [problem] = output.problems
    assert problem.startswith("tasks.pkl: refused: ")
    assert "\n" not in problem
    assert not (tmp_path / "executed").exists()


HOSTILE_SCRIPT = """
import os, pickle, sys
where = sys.argv[sys.argv.index("--benchmark-results-path") + 1]
class Evil:
    def __reduce__(self):
        return os.system, ("touch " + sys.argv[2],)
contents = {
    "reducer": pickle.dumps([Evil()]),
    "nesting": b"\\x80\\x04" + b"(" * 1_000_000 + b".",
    "claim": b"\\x80\\x04\\x8e\\x00\\x00\\x00\\x40\\x00\\x00\\x00\\x00.",
}
open(where + "/tasks.pkl", "wb").write(contents[sys.argv[1]])
open(where + "/metrics.json", "w").write('{"is_success": true}')
"""

HOSTILE_SUITE = """
results_dir: results
entries:
  - name: hostile
    script: hostile.py
    args: "{matrix.kind} executed"
    matrix: {kind: [reducer, nesting, claim]}
"""


def test_a_session_with_hostile_pickles_goes_on(place: Workplace) -> None:
    place.write("scripts/hostile.py", HOSTILE_SCRIPT)
    place.write("paceline.yaml", HOSTILE_SUITE)
    done = place.run("run", "paceline.yaml", "--session-name", "s", "--json")
    assert done.returncode == 0, done.stderr
    for record in json.loads(done.stdout)["records"]:
        assert record["status"] == "passed"
        [line] = [warning for warning in record["warnings"] if warning.startswith("tasks.pkl")]
        assert line.startswith("tasks.pkl: refused: ")
    assert not (place.path / "executed").exists()


def test_a_hostile_pickle_does_not_take_the_runners_memory(tmp_path: Path) -> None:
    """What takes hundreds of megabytes is read elsewhere."""
    (tmp_path / "tasks.pkl").write_bytes(b"\x80\x04](" + b"}" * 1_500_000 + b"e.")
    text = f"""
import resource
from pathlib import Path
from paceline.run.script_output import read
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert "no task" in read(Path({str(tmp_path)!r})).problems[0]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=120
    )
    own_kib, reader_kib = map(int, done.stdout.split())
    assert own_kib < 50_000
    assert reader_kib > 100_000


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_random_content_is_never_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("results")
    for name in ("params.json", "metrics.json", "units.json", "directions.json", "tasks.pkl", "tasks.jsonl"):
        (path / name).write_bytes(content)
    output = read(path)
    assert output.problems
    assert all("\n" not in problem for problem in output.problems)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_json_gives_scalars_and_samples(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("results")
    output = read_metrics(path, json.dumps(value))
    for metric in output.metrics.values():
        for item in metric if isinstance(metric, tuple) else (metric,):
            assert item is None or isinstance(item, str | int | float)
    assert output.has_metrics == bool(output.metrics)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    read_metrics(tmp_path, '{"a": 1}')
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]
    assert stat.S_ISREG((tmp_path / "metrics.json").stat().st_mode)

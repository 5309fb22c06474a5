"""Scripts that use `emit`, run as scripts."""

import json
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import emit
from paceline.errors import PacelineError


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results directory that this process writes to, as a script under the runner would."""
    path = tmp_path / "benchmark_results"
    monkeypatch.setattr(sys, "argv", ["script.py"])
    monkeypatch.setenv("PACELINE_RESULTS_PATH", str(path))
    monkeypatch.setenv("PACELINE_RUN_ID", "this-run")
    return path


def load(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def run_script(tmp_path: Path, text: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(text)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    return subprocess.run(
        [sys.executable, str(script), *words],
        cwd=tmp_path,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def tasks_of(path: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = pickle.loads((path / "tasks.pkl").read_bytes())
    return loaded


def stages_of(path: Path) -> list[str]:
    return [stage["stage_name"] for task in tasks_of(path) for stage in task["_stage_perf"]]


@pytest.mark.parametrize("words", [("--benchmark-results-path", "out"), ("--benchmark-results-path=out",)])
def test_three_lines_of_a_script_write_all_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    text = """
from paceline import emit
emit.params({"rows": 10})
with emit.task("data_loading"):
    sum(range(1000))
emit.metrics({"is_success": True, "time_taken_s": 0.5})
"""
    done = run_script(tmp_path, text, *words)
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "out/params.json") == {"rows": 10}
    assert load(tmp_path / "out/metrics.json") == {"is_success": True, "time_taken_s": 0.5}
    [task] = tasks_of(tmp_path / "out")
    [stage] = task["_stage_perf"]
    assert stage["stage_name"] == "data_loading"
    assert stage["process_time"] > 0
    assert set(stage) == {
        "stage_name",
        "process_time",
        "actor_idle_time",
        "input_data_size_mb",
        "num_items_processed",
        "custom_metrics",
    }


def test_the_option_wins_over_the_variable_and_the_last_option_over_the_first(tmp_path: Path) -> None:
    text = "from paceline import emit\nemit.metric('a', 1)\n"
    words = ("--benchmark-results-path", "first", "--benchmark-results-path=second")
    assert run_script(tmp_path, text, *words, PACELINE_RESULTS_PATH=str(tmp_path / "third")).returncode == 0
    assert load(tmp_path / "second/metrics.json") == {"a": 1}
    assert not (tmp_path / "first").exists()
    assert not (tmp_path / "third").exists()


def test_a_relative_path_counts_from_where_the_script_was_started(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    text = "import os\nfrom paceline import emit\nos.chdir('elsewhere')\nemit.metric('a', 1)\n"
    assert run_script(tmp_path, text, "--benchmark-results-path", "out").returncode == 0
    assert load(tmp_path / "out/metrics.json") == {"a": 1}


@pytest.mark.parametrize("words", [(), ("--benchmark-results-path",), ("--benchmark-results-path=",)])
def test_no_results_path_is_one_line_that_names_both_ways(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_script(tmp_path, "from paceline import emit\nemit.params({})\n", *words)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "--benchmark-results-path" in last
    assert "PACELINE_RESULTS_PATH" in last


def test_only_light_modules_are_imported() -> None:
    heavy = {
        "json",
        "pickle",
        "dataclasses",
        "pathlib",
        "argparse",
        "contextlib",
        "inspect",
        "fcntl",
        "typing",
    }
    text = f"""
import sys
sys.path.append({str(Path(emit.__file__).parents[1])!r})
import paceline
before = set(sys.modules)
import paceline.emit
print(sorted({heavy} & (set(sys.modules) - before)))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_calls_add_up_and_the_last_value_of_a_name_wins(results: Path) -> None:
    emit.metrics({"a": 1, "b": 2})
    emit.metric("b", 3)
    emit.metric("c", 1.5, unit="docs/s")
    emit.metric("d", 1, unit="s")
    emit.metric("e", 1, direction="higher")
    with pytest.raises(ValueError, match='is "lower" or "higher", not \'up\''):
        emit.metric("f", 1, direction="up")
    emit.params({"x": 1})
    emit.params({"y": [1, 2]})
    assert load(results / "metrics.json") == {"a": 1, "b": 3, "c": 1.5, "d": 1, "e": 1}
    assert load(results / "units.json") == {"c": "docs/s", "d": "s"}
    assert load(results / "directions.json") == {"e": "higher"}
    assert load(results / "params.json") == {"x": 1, "y": [1, 2]}
    assert [path.name for path in results.iterdir() if path.name.endswith(".tmp")] == []


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True, slots=True)
class Settings:
    path: Path
    ratio: float


class Number:
    """What a library's scalar looks like."""

    def item(self) -> float:
        return 2.5


class Array:
    def tolist(self) -> list[float]:
        return [1.0, float("nan")]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Path("/data/x"), "/data/x"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (Settings(Path("p"), 0.5), {"path": "p", "ratio": 0.5}),
        (Point(1, 2.0), {"x": 1, "y": 2.0}),
        (Colour.RED, "red"),
        (Number(), 2.5),
        (Array(), [1.0, "NaN"]),
        (Decimal("1.5"), 1.5),
        (Fraction(1, 4), 0.25),
        (timedelta(minutes=1), 60.0),
        (datetime(2025, 1, 2, tzinfo=UTC), "2025-01-02T00:00:00+00:00"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        (b"bytes", "bytes"),
        (deque([1, 2]), [1, 2]),
        (range(2), [0, 1]),
        (OrderedDict([(1, "a"), (None, "b"), (Path("p"), "c")]), {"1": "a", "None": "b", "p": "c"}),
        ((1, (2, 3)), [1, [2, 3]]),
        (10**30, 10**30),
        (complex(1, 2), "(1+2j)"),
        (object, "<class 'object'>"),
    ],
)
def test_values_json_has_no_form_for(results: Path, value: object, written: object) -> None:
    emit.params({"value": value})
    assert load(results / "params.json") == {"value": written}


def test_numpy_scalars_and_arrays(results: Path) -> None:
    numpy = pytest.importorskip("numpy")
    emit.metrics({"a": numpy.float32(0.5), "b": numpy.int64(3), "c": numpy.bool_(True), "d": numpy.arange(3)})
    assert load(results / "metrics.json") == {"a": 0.5, "b": 3, "c": True, "d": [0, 1, 2]}


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
            max_leaves=10,
        ),
    )
)
def test_whatever_is_emitted_the_file_is_valid_json(
    tmp_path_factory: pytest.TempPathFactory, values: Any
) -> None:
    path = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["script.py", f"--benchmark-results-path={path}"])
        emit.metrics(values)
    assert set(load(path / "metrics.json")) == set(values)


def test_a_value_that_holds_itself_is_refused_and_nothing_is_written(results: Path) -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="holds itself"):
        emit.params({"loop": loop})
    assert not (results / "params.json").exists()


@pytest.mark.parametrize("wrong", [3, "text", [1], None])
def test_only_mappings_are_taken(results: Path, wrong: Any) -> None:
    with pytest.raises(TypeError, match="mapping"):
        emit.metrics(wrong)


def test_arguments_of_argparse_are_taken_as_they_are(results: Path) -> None:
    import argparse

    emit.params(argparse.Namespace(size=3, path=Path("x")))  # type: ignore[arg-type]
    assert load(results / "params.json") == {"size": 3, "path": "x"}


@pytest.mark.parametrize("content", ["{broken", "[1, 2]", "\xff"])
def test_a_file_that_is_no_mapping_is_left_alone(results: Path, content: str) -> None:
    results.mkdir()
    (results / "metrics.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(PacelineError, match=r"metrics\.json"):
        emit.metric("a", 1)
    assert (results / "metrics.json").read_bytes() == content.encode("latin-1")


def test_threads_lose_nothing(results: Path) -> None:
    def work(worker: int) -> None:
        for number in range(10):
            emit.metric(f"m{worker}_{number}", number)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load(results / "metrics.json")) == 80


def test_processes_lose_nothing(tmp_path: Path) -> None:
    text = """
import os, sys
from paceline import emit
emit.params({"start": True})
children = []
for worker in range(6):
    child = os.fork()
    if child == 0:
        for number in range(5):
            emit.metric(f"m{worker}_{number}", number)
            with emit.task(f"stage{worker}"):
                pass
        sys.exit(0)
    children.append(child)
with emit.task("parent"):
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
"""
    done = run_script(tmp_path, text, "--benchmark-results-path", "out")
    assert done.returncode == 0, done.stderr
    assert len(load(tmp_path / "out/metrics.json")) == 30
    stages = stages_of(tmp_path / "out")
    assert sorted(stages) == sorted([f"stage{worker}" for worker in range(6) for _ in range(5)] + ["parent"])
    identities = {task["task_id"] for task in tasks_of(tmp_path / "out")}
    assert len(identities) == 31


def test_a_forked_child_does_not_write_its_parents_tasks_again(tmp_path: Path) -> None:
    text = """
import os, sys
from paceline import emit
for _ in range(3):
    with emit.task("parent"):
        pass
child = os.fork()
if child == 0:
    with emit.task("child"):
        pass
    sys.exit(0)
os.waitpid(child, 0)
"""
    assert run_script(tmp_path, text, "--benchmark-results-path", "out").returncode == 0
    assert sorted(stages_of(tmp_path / "out")) == ["child", "parent", "parent", "parent"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_are_counted(tmp_path: Path, method: str) -> None:
    text = f"""
import multiprocessing
from paceline import emit

def work(number):
    with emit.task("work", items=1):
        pass
    with emit.task("more"):
        pass

if __name__ == "__main__":
    emit.params({{}})
    context = multiprocessing.get_context("{method}")
    workers = [context.Process(target=work, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""
    done = run_script(tmp_path, text, "--benchmark-results-path", "out")
    assert done.returncode == 0, done.stderr
    assert sorted(stages_of(tmp_path / "out")) == ["more"] * 3 + ["work"] * 3


def test_a_task_carries_what_its_body_counted(tmp_path: Path) -> None:
    text = """
from paceline import emit
with emit.task("parse", retries=2) as part:
    part.items = 500
    part.bytes = 2_000_000
    part.custom["tokens"] = 1234
assert part.elapsed_s > 0
with emit.task("given", items=3, bytes=1_000_000):
    pass
"""
    done = run_script(tmp_path, text, "--benchmark-results-path", "out", PACELINE_CASE="my_case")
    assert done.returncode == 0, done.stderr
    first, second = tasks_of(tmp_path / "out")
    stage = first["_stage_perf"][0]
    assert first["dataset_name"] == "my_case"
    assert stage["num_items_processed"] == 500
    assert stage["input_data_size_mb"] == 2.0
    assert stage["custom_metrics"] == {"retries": 2, "tokens": 1234}
    assert second["_stage_perf"][0]["num_items_processed"] == 3


def test_a_part_that_fails_is_timed_and_its_error_goes_on(tmp_path: Path) -> None:
    text = "from paceline import emit\nwith emit.task('bad'):\n    raise KeyError('oops')\n"
    done = run_script(tmp_path, text, "--benchmark-results-path", "out")
    assert done.returncode == 1
    assert "KeyError: 'oops'" in done.stderr
    [task] = tasks_of(tmp_path / "out")
    assert task["_stage_perf"][0]["process_time"] > 0
    assert task["_metadata"]["error"] == "KeyError"


def test_tasks_are_on_disk_before_the_script_ends(tmp_path: Path) -> None:
    text = """
import os
from paceline import emit
while not os.path.exists("out/tasks.pkl"):
    with emit.task("part"):
        pass
os.kill(os.getpid(), 9)
"""
    assert run_script(tmp_path, text, "--benchmark-results-path", "out").returncode == -9
    assert set(stages_of(tmp_path / "out")) == {"part"}


def test_a_second_run_by_hand_replaces_the_tasks_of_the_first(tmp_path: Path) -> None:
    text = "from paceline import emit\nfor _ in range(3):\n    with emit.task('a'):\n        pass\n"
    for _ in range(2):
        assert run_script(tmp_path, text, "--benchmark-results-path", "out").returncode == 0
    assert stages_of(tmp_path / "out") == ["a", "a", "a"]


POOL = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
LATE
from paceline import emit

def work(number):
    with emit.task("work"):
        pass

if __name__ == "__main__":
    with ProcessPoolExecutor(2, multiprocessing.get_context(sys.argv[1])) as pool:
        list(pool.map(work, range(6)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_script_that_emits_nothing_itself_are_one_run(tmp_path: Path, method: str) -> None:
    for _ in range(2):  # the second run's replace the first's
        done = run_script(tmp_path, POOL.replace("LATE", ""), method, "--benchmark-results-path", "out")
        assert done.returncode == 0, done.stderr
        assert stages_of(tmp_path / "out") == ["work"] * 6


def test_workers_forked_after_the_path_was_set_are_one_run(tmp_path: Path) -> None:
    late = "from paceline import emit\nos.environ['PACELINE_RESULTS_PATH'] = 'out'"
    for _ in range(2):
        done = run_script(tmp_path, POOL.replace("LATE", late), "fork")
        assert done.returncode == 0, done.stderr
        assert stages_of(tmp_path / "out") == ["work"] * 6


def test_a_program_that_starts_scripts_is_no_run_itself(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from paceline import emit\nwith emit.task('a'):\n    pass\n")
    text = """
import os, subprocess, sys
from paceline import emit
for _ in range(2):
    subprocess.run([sys.executable, "one.py", "--benchmark-results-path", "out"], check=True)
"""
    done = run_script(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert stages_of(tmp_path / "out") == ["a"]


def test_a_tasks_file_the_script_wrote_itself_is_kept(tmp_path: Path) -> None:
    text = """
import collections, pickle
from paceline import emit
emit.params({})
with emit.task("ours"):
    pass
pickle.dump([collections.Counter(a=1)], open("out/tasks.pkl", "wb"))
with emit.task("later"):
    pass
"""
    done = run_script(tmp_path, text, "--benchmark-results-path", "out")
    assert done.returncode == 0, done.stderr
    assert pickle.loads((tmp_path / "out/tasks.pkl").read_bytes()) == [{"a": 1}]
    lines = (tmp_path / "out/tasks.jsonl").read_text().splitlines()
    assert [json.loads(line)["_stage_perf"][0]["stage_name"] for line in lines] == ["ours", "later"]


def test_a_full_disk_at_exit_is_one_line_not_a_traceback(tmp_path: Path) -> None:
    text = """
import os, shutil
from paceline import emit
with emit.task("a"):
    pass
emit.params({})
shutil.rmtree("out")
open("out", "w").close()
"""
    done = run_script(tmp_path, text, "--benchmark-results-path", "out")
    assert done.returncode == 0
    [line] = done.stderr.splitlines()
    assert line.startswith("paceline.emit: tasks.pkl is incomplete:")


def test_a_script_says_how_it_ended(tmp_path: Path) -> None:
    text = """
from paceline import emit
emit.warn("first")
emit.warn("second")
emit.skip("not on this machine")
"""
    done = run_script(tmp_path, text, "--benchmark-results-path", "out")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/case_outcome.json").read_text()) == {
        "status": "skipped",
        "reason": "not on this machine",
        "warnings": ["first", "second"],
    }

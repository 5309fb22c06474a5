"""`from paceline import bench` in a script of the user's."""

import json
import os
import subprocess
import sys
from pathlib import Path

from paceline.history import open_store

SCRIPT = """
import os
from paceline import bench

quick = bench.using(seconds=0.01)
print("begun", os.environ.get("PYTHONHASHSEED", "random"))
for size in (10, 1000):
    made = quick.using(params={"size": size}, processes=3, record="sorting", memory=True)(sorted, range(size))
    assert made == list(range(size))

async def wait(given):
    return given

assert quick(wait, 3) == 3
assert quick.using(name="own")(lambda: 4) == 4
open("end", "a").write("end\\n")
"""


def run(directory: Path, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        env={**variables, **env},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_script_prints_its_times_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "sorting.py").write_text(SCRIPT)
    done = run(tmp_path, "sorting.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "sorted[size=10]",
        "sorted[size=1000]",
        "wait",
        "own",
    ]
    assert "3 processes" in lines[1] and "peak of a call" in lines[1] and "processes" not in lines[3]
    assert lines[0] == "begun random" and (tmp_path / "end").read_text() == "end\n"
    with open_store(tmp_path / "results/benchmark.db", create=False) as store:
        (session,) = store.sessions()
        records = {record.case.key: record for record in store.records(session)}
    assert session.name.startswith("sorting-") and set(records) == {"sorting[size=10]", "sorting[size=1000]"}
    one = records["sorting[size=1000]"]
    assert one.case.params == {"size": 1000} and one.metrics["peak_allocated_bytes"].direction == "lower"
    assert sum(one.details["samples_of_starts"]) == len(one.metrics["duration"].samples) >= 15


def test_under_a_suite_the_times_are_metrics(tmp_path: Path) -> None:
    (tmp_path / "sorting.py").write_text(SCRIPT)
    done = run(tmp_path, "sorting.py", PACELINE_RESULTS_PATH=str(tmp_path / "out"), PACELINE_DB="other.db")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(metrics) == {
        f"{name}.duration" for name in ("sorted[size=10]", "sorted[size=1000]", "wait", "own")
    }
    assert len(metrics["own.duration"]) >= 5 and "'repeat' of the suite" in done.stderr


def test_several_processes_need_a_script(tmp_path: Path) -> None:
    code = "from paceline import bench; bench.using(seconds=0.01, processes=2)(abs, -1)"
    assert "2 processes" in run(tmp_path, "-c", code).stdout
    done = run(tmp_path, "-", stdin=code)
    assert done.returncode == 1 and "put it into a file" in done.stderr
    changing = f"import os\nif 'PACELINE_BENCH_CALL' not in os.environ:\n    {code}\n"
    (tmp_path / "changing.py").write_text(changing)
    assert "must make the same calls each time" in run(tmp_path, "changing.py").stderr

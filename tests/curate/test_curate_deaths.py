"""Documents survive what happens to those that work on them: workers and drivers that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import (
    LocalExecutor,
    Pipeline,
    RayActorExecutor,
    RayDataExecutor,
    Stage,
    Task,
    XennaExecutor,
)
from paceline.curate.errors import WorkerLost
from paceline.curate.pipeline import Executor
from paceline.curate.readers import DocumentReader
from paceline.curate.removal import RemovalStage
from paceline.curate.storage import draft
from paceline.curate.text_filters import Filter, ScoreFilterStage
from paceline.curate.writers import DocumentWriterStage
from paceline.run.ray.home import sweep_stale

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FILES = 12


class Fall(Stage):
    """Kills its own process at one file: the first time only, or each time."""

    def __init__(self, at: str, flag: Path, *, always: bool = False) -> None:
        self.at, self.flag, self.always = at, flag, always

    def process(self, task: Task) -> Task:
        if task.data.source.name == self.at and (self.always or not self.flag.exists()):
            self.flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


class FallInWriting(DocumentWriterStage):
    """Kills its own process with half a file written."""

    def __init__(self, directory: str, flag: Path) -> None:
        super().__init__(directory)
        self.flag = flag

    def process(self, task: Task) -> Task:
        if task.data.source.name == "07.jsonl" and not self.flag.exists():
            self.flag.touch()
            draft(Path(self.directory) / "07.jsonl").write_bytes(b'{"id": 70, "te')
            os.kill(os.getpid(), signal.SIGKILL)
        return super().process(task)


def write_documents(home: Path, count: int = 10) -> Path:
    docs = home / "docs"
    docs.mkdir()
    for number in range(FILES):
        lines = [
            json.dumps({"id": number * count + at, "text": "word " * (at + 1)}) + "\n" for at in range(count)
        ]
        (docs / f"{number:02d}.jsonl").write_text("".join(lines))
    (home / "ids.jsonl").write_text("".join(f'{{"id": {number}}}\n' for number in range(0, 120, 7)))
    return docs


def clean(docs: Path, *last: Stage) -> list[Stage]:
    """Every document is a unit of work with those of its file; some are removed, some filtered out."""
    few_words = [Filter(score="word_count", low=3, high=100)]
    return [
        DocumentReader(str(docs), id_field="id", text_field="text", files_per_partition=1),
        RemovalStage(str(docs.parent / "ids.jsonl"), id_field="id"),
        ScoreFilterStage(text_field="text", filters=few_words),
        *last,
    ]


def written(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if not file.name.startswith(".")}


def expected(docs: Path, home: Path) -> dict[str, bytes]:
    Pipeline("alone", clean(docs, DocumentWriterStage(str(home / "alone")))).run(LocalExecutor(workers=1))
    return written(home / "alone")


LOCAL: dict[str, Callable[[], Executor]] = {
    "fork": lambda: LocalExecutor(workers=2, start_method="fork"),
    "spawn": lambda: LocalExecutor(workers=2, start_method="spawn"),
}
ENGINES: dict[str, Callable[[], Executor]] = {
    "ray_actors": RayActorExecutor,
    "ray_data": RayDataExecutor,
    "xenna-streaming": XennaExecutor,
    "xenna-batch": lambda: XennaExecutor(mode="batch"),
}


def over(*engines: str) -> pytest.MarkDecorator:
    """For the local executor, and for those engines."""
    marked_engines = [pytest.param(name, marks=pytest.mark.ray) for name in engines]
    return pytest.mark.parametrize("executor", [*LOCAL, *marked_engines], indirect=True)


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param in ENGINES:
        request.getfixturevalue("cluster")
    return {**LOCAL, **ENGINES}[request.param]()


@over("ray_actors", "ray_data", "xenna-streaming")
def test_a_worker_that_is_killed_loses_and_doubles_no_document(executor: Executor, tmp_path: Path) -> None:
    docs = write_documents(tmp_path)
    last = [Fall("05.jsonl", tmp_path / "a"), FallInWriting(str(tmp_path / "out"), tmp_path / "b")]
    result = Pipeline("fall", clean(docs, *last)).run(executor)
    assert (tmp_path / "a").exists() and (tmp_path / "b").exists()
    assert written(tmp_path / "out") == expected(docs, tmp_path)
    assert [task.data["file"] for task in result] == [f"{number:02d}.jsonl" for number in range(FILES)]
    assert result.metrics()["task_removal_custom.removed_sum"] == 18


@over("ray_actors", "ray_data", "xenna-batch")
def test_a_file_that_kills_every_worker_ends_the_run_with_its_name(
    executor: Executor, tmp_path: Path
) -> None:
    docs = write_documents(tmp_path)
    fall = Fall("05.jsonl", tmp_path / "a", always=True)
    with pytest.raises(WorkerLost, match=r"died|killed by SIGKILL") as lost:
        Pipeline("fall", clean(docs, fall, DocumentWriterStage(str(tmp_path / "out")))).run(executor)
    assert f"worked on {docs / '05.jsonl'}" in str(lost.value)


def run_removal(home: Path, *words: object) -> subprocess.Popen[str]:
    command = [
        *(
            sys.executable,
            BENCHMARKS / "scripts" / "removal_benchmark.py",
            "--benchmark-results-path",
            home / "r",
        ),
        *("--input-path", home / "docs", "--ids-to-remove-path", home / "ids.jsonl"),
        *("--output-path", home / "out", "--files-per-partition", 1, *words),
    ]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_driver_that_is_killed_leaves_whole_files_and_a_word_that_they_are_not_all(tmp_path: Path) -> None:
    docs, out = write_documents(tmp_path, count=2000), tmp_path / "out"
    driver = run_removal(tmp_path)
    wait_for(lambda: out.is_dir() and list(out.glob("[0-9]*.jsonl")))
    driver.kill()
    driver.communicate()
    names = {file.name for file in out.iterdir()}
    if "_written.json" in names:
        pytest.skip("the run was over before it could be killed")
    assert "_unfinished.json" in names
    for file in out.glob("[0-9]*.jsonl"):
        whole = [json.loads(line)["id"] for line in file.read_text().splitlines()]
        given = [json.loads(line)["id"] for line in (docs / file.name).read_text().splitlines()]
        assert set(whole) <= set(given) and len(whole) >= 1900
    again = run_removal(tmp_path)
    assert f"error: {out}: an earlier run into it did not end" in again.communicate()[1]
    assert again.returncode == 1
    elsewhere = run_removal(tmp_path, "--output-path", tmp_path / "elsewhere")
    # A busy machine may take so long that a line or two say how far the run is.
    said = [line for line in elsewhere.communicate()[1].splitlines() if not line.startswith("removal: ")]
    assert said == [] and elsewhere.returncode == 0
    assert (
        sum(len(file.read_text().splitlines()) for file in (tmp_path / "elsewhere").glob("[0-9]*")) == 23_982
    )


def marked(home: str) -> list[str]:
    """Processes of the cluster that lives in a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if f"RAY_TMPDIR={home}".encode() in (process / "environ").read_bytes() and state != "Z":
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.ray
def test_a_private_cluster_ends_with_a_driver_that_is_killed() -> None:
    script = (
        "import os, sys\n"
        "from paceline.curate.executors.ray_session import ray_session\n"
        "with ray_session():\n"
        "    print(os.environ['RAY_TMPDIR'], flush=True)\n"
        "    sys.stdin.read()\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    driver = subprocess.Popen(
        [sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None and driver.stdin is not None
    home = driver.stdout.readline().strip()
    assert len(marked(home)) > 2
    driver.kill()
    driver.wait()
    driver.stdin.close()
    driver.stdout.close()
    # Most of it ends by itself; the next cluster takes away what is left, and the directory.
    wait_for(lambda: is_swept(home))


def is_swept(home: str) -> bool:
    sweep_stale()
    return not Path(home).exists() and not marked(home)

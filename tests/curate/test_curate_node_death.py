"""A node that dies in mid-run: every document, exactly once."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import Pipeline, RayActorExecutor, RayDataExecutor, Stage, Task, XennaExecutor
from paceline.curate.readers import DocumentReader
from paceline.curate.removal import RemovalStage
from paceline.curate.writers import DocumentWriterStage

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray

FILES = 60


class Work(Stage):
    """Takes a while, so that the node dies with work in its hands; says where it ran."""

    def process(self, task: Task) -> Task:
        total = sum(number * number for number in range(800_000))
        node = ray.get_runtime_context().get_node_id()
        documents = task.data.with_fields(
            {"total": [total] * len(task.data), "node": [node] * len(task.data)}
        )
        return task.carrying(documents)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    # Not at the top: workers import this module too, and find nothing of the tests beside it.
    from ray_nodes import simulated_nodes

    with simulated_nodes({"num_cpus": 1}) as found:
        yield found


@pytest.fixture
def doomed(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One of three nodes, at whose address pipelines run; the others stay for the tests after this one."""
    while len(cluster.nodes) < 3:
        cluster.add(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster.nodes[-1]
    ray.shutdown()


def write_documents(home: Path) -> list[int]:
    """Sixty files of four documents, one of which is to be removed; the ids of those that stay."""
    (home / "docs").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"id": 4 * file + at, "text": "words"}) for at in range(4)]
        (home / "docs" / f"{file:02d}.jsonl").write_text("\n".join(lines) + "\n")
    (home / "ids.jsonl").write_text("".join(f'{{"id": {4 * file}}}\n' for file in range(FILES)))
    return [number for number in range(4 * FILES) if number % 4]


@pytest.mark.skipif(os.environ.get("RAY_AUTH_MODE", "") == "token", reason="test clusters have no token")
@pytest.mark.parametrize("make", [RayActorExecutor, RayDataExecutor, XennaExecutor])
def test_a_node_that_dies_loses_and_doubles_nothing(
    cluster: Any, doomed: Any, make: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    expected = write_documents(tmp_path)
    stages = [
        DocumentReader(str(tmp_path / "docs"), id_field="id"),
        RemovalStage(str(tmp_path / "ids.jsonl"), id_field="id"),
        Work(),
        DocumentWriterStage(str(out)),
    ]

    def kill_in_time() -> None:
        while not out.is_dir() or len(list(out.glob("[0-9]*.jsonl"))) < 4:
            time.sleep(0.01)
        cluster.kill(doomed)

    killer = threading.Thread(target=kill_in_time, daemon=True)
    killer.start()
    files = [task.data["file"] for task in Pipeline("nodes", stages).run(make())]
    killer.join()
    assert sorted(files) == [f"{file:02d}.jsonl" for file in range(FILES)]
    lines = [json.loads(line) for name in sorted(files) for line in (out / name).open()]
    assert [line["id"] for line in lines] == expected
    assert len({line["node"] for line in lines}) >= 2


def test_a_worker_that_lost_its_node_and_could_still_say_so_counts_as_dead() -> None:
    from paceline.curate.executors.xenna import death_behind

    def told(cause: Exception) -> BaseException:
        error: BaseException = ray.exceptions.RayTaskError("f", "as it was", cause).as_instanceof_cause()
        return error

    cut_off = told(OSError("Connection reset by peer"))
    assert death_behind(ray, cut_off) is cut_off
    assert death_behind(ray, told(ZeroDivisionError())) is None
    assert death_behind(ray, OSError("of the driver itself")) is None

"""A node that dies in mid-run: every result, exactly once."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import Pipeline, RayActorExecutor, RayDataExecutor, Stage, Task

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray


class Work(Stage):
    """Takes a while, so that the node dies with work in its hands; says where it ran."""

    def process(self, task: Task) -> Task:
        total = sum(number * number for number in range(200_000))
        return task.carrying((task.data, total, ray.get_runtime_context().get_node_id()))


@pytest.fixture
def three_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    home = Path(tempfile.mkdtemp(prefix="pl-", dir="/tmp"))
    (home / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(home))
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    store = 80_000_000
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": store})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=store) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.skipif(os.environ.get("RAY_AUTH_MODE", "") == "token", reason="test clusters have no token")
@pytest.mark.parametrize("make", [RayActorExecutor, RayDataExecutor])
def test_a_node_that_dies_loses_and_doubles_nothing(three_nodes: Any, make: Any) -> None:
    cluster, nodes = three_nodes
    tasks = [Task(data=number) for number in range(240)]
    found: list[Any] = []
    for outcome in Pipeline("nodes", [Work()]).stream(make(tasks_per_unit=4), tasks):
        if len(found) < 12 <= len(found) + len(outcome.tasks):
            cluster.remove_node(nodes[0], allow_graceful=False)
        found.extend(task.data for task in outcome.tasks)
    assert sorted(number for number, _, _ in found) == list(range(240))
    assert len({node for _, _, node in found}) >= 2

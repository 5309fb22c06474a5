"""Where the executors on Ray run: one private cluster after the other, or that of RAY_ADDRESS."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.curate import (
    Pipeline,
    PipelineError,
    RayActorExecutor,
    RayDataExecutor,
    Stage,
    Task,
    XennaExecutor,
)
from paceline.curate.pipeline import Executor

CLUSTER = """
import os, sys
from paceline.curate.executors.ray_session import ray_session
with ray_session() as ray:
    node = ray.get_runtime_context().get_node_id()
    print(os.environ["RAY_ADDRESS"], os.environ.get("RAY_AUTH_TOKEN_PATH", "-"), node, flush=True)
    for line in sys.stdin:
        print(sum(found["Alive"] for found in ray.nodes()), flush=True)
"""


class Where(Stage):
    """Says on which node it runs, and by whose token."""

    def process(self, task: Task) -> Task:
        import ray

        return task.carrying((ray.get_runtime_context().get_node_id(), os.environ.get("RAY_AUTH_TOKEN_PATH")))


def places(executor: Executor) -> set[tuple[str, str]]:
    tasks = [Task(data=number) for number in range(8)]
    return {task.data for task in Pipeline("where", [Where()]).run(executor, tasks)}


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.ray
def test_one_process_may_have_one_private_cluster_after_the_other() -> None:
    found = [places(RayActorExecutor(tasks_per_unit=4)) for _ in range(2)]
    assert [len(one) for one in found] == [1, 1]
    ((first, first_token),), ((second, second_token),) = found
    assert first != second and first_token != second_token
    assert not Path(first_token).parent.exists() and not Path(second_token).parent.exists()
    assert "RAY_AUTH_MODE" not in os.environ and "RAY_ADDRESS" not in os.environ


@pytest.fixture(scope="module")
def theirs() -> Iterator["subprocess.Popen[str]"]:
    """A cluster of another process, with a token of its own."""
    environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        yield owner


@pytest.mark.ray
def test_the_address_decides_and_its_cluster_stays(
    theirs: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert theirs.stdin is not None and theirs.stdout is not None
    address, token, node = theirs.stdout.readline().split()
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", token)
    for executor in (RayActorExecutor(), RayDataExecutor(), XennaExecutor(mode="batch")):
        assert places(executor) == {(node, token)}, executor.name
    theirs.stdin.write("still there?\n")
    theirs.stdin.flush()
    assert theirs.stdout.readline() == "1\n"
    assert os.environ["RAY_ADDRESS"] == address


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from free_port import free_port  # Not at the top: workers import this module too, and find no other.

    port = free_port()
    monkeypatch.setenv("RAY_ADDRESS", f"{scheme}127.0.0.1:{port}")
    with pytest.raises(
        PipelineError, match=rf"no Ray cluster answers at {scheme}127\.0\.0\.1:{port}: .*RAY_ADDRESS"
    ):
        Pipeline("where", [Where()]).run(RayActorExecutor(), [Task(data=1)])

"""What a task costs the scheduler: futures that do next to nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.dask import workloads
from benchmarks.dask.sizes import MIB, Budget
from distributed import Client, as_completed

Note = Callable[..., None]


def test_single_future(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """One task after the other: the way to a worker and back."""
    rounds = 100
    note_size(0, tasks=rounds)
    with benchmark_all(client):
        answers = [
            client.submit(workloads.increment, number, pure=False).result() for number in range(rounds)
        ]
    assert answers == list(range(1, rounds + 1))


@pytest.mark.parametrize("graph", ["roots", "with-parent"])
def test_large_map(client: Client, budget: Budget, note_size: Note, benchmark_all: Any, graph: str) -> None:
    """Very many small tasks at once; with a common parent they take another way through the scheduler."""
    tasks = budget.tasks()
    note_size(0, tasks=tasks)
    with benchmark_all(client):
        parent = client.submit(workloads.increment, 0) if graph == "with-parent" else 1
        futures = client.map(workloads.add, range(tasks), other=parent, pure=False)
        total = sum(client.gather(futures))
    assert total == tasks * (tasks + 1) // 2


def test_first_result(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """How soon the first of very many results is there."""
    tasks = budget.tasks(2)
    note_size(0, tasks=tasks)
    with benchmark_all(client):
        futures = client.map(workloads.increment, range(tasks), pure=False)
        first = next(iter(as_completed(futures))).result()
    assert 1 <= first <= tasks
    client.cancel(futures)


def test_memory_efficient(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """Large results that are used once: a scheduler that goes deep first needs to hold few of them."""
    size_bytes = min(budget.cluster.chunk_bytes, 32 * MIB)
    number = max(4, budget.data_bytes(4) // size_bytes)
    note_size(number * size_bytes, tasks=2 * number)
    with benchmark_all(client):
        blocks = client.map(workloads.allocate, range(number), size_bytes=size_bytes, pure=False)
        means = client.map(workloads.reduce_mean, blocks)
        del blocks
        total = sum(client.gather(means))
    assert total == number * (number - 1) / 2

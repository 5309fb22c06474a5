"""Work that lies with one worker while others are idle."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from benchmarks.dask import workloads
from benchmarks.dask.clusters import ClusterSettings, open_client, size_of
from benchmarks.dask.sizes import Budget
from distributed import Client, LocalCluster

Note = Callable[..., None]


def test_trivial(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """Small tasks on one large piece of data: is it worth while to send it?"""
    tasks = budget.tasks(0.5)
    size_bytes = budget.cluster.chunk_bytes
    block = client.submit(workloads.allocate, 1, size_bytes=size_bytes)
    note_size(size_bytes, tasks=tasks)
    with benchmark_all(client):
        futures = client.map(workloads.first_value, [block] * tasks, range(tasks), pure=False)
        total = sum(client.gather(futures))
    assert total == tasks


def test_inhomogeneous(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """Tasks of one kind that last very differently, so that nobody knows how long a queue will take."""
    tasks = budget.tasks(0.1)
    seconds = np.random.default_rng(42).lognormal(mean=-4.5, sigma=1.0, size=tasks).clip(max=1.0)
    note_size(0, tasks=tasks, slept_s=float(seconds.sum()))
    with benchmark_all(client):
        futures = client.map(workloads.sleep, range(tasks), seconds.tolist(), pure=False)
        answers = client.gather(futures)
    assert answers == list(range(tasks))


def test_straggler(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """One worker is ten times as slow as the others."""
    tasks = budget.tasks(0.2)
    slow = min(client.run_on_scheduler(workloads.describe_workers))
    note_size(0, tasks=tasks)
    with benchmark_all(client):
        futures = client.map(
            workloads.sleep_longer_on, range(tasks), seconds=0.005, slow_worker=slow, slowdown=10, pure=False
        )
        answers = client.gather(futures)
    assert answers == list(range(tasks))


def test_scaling_up(
    cluster_settings: ClusterSettings,
    share: float,
    tmp_path: Path,
    test_run_benchmark: Any,
    benchmark_all: Any,
) -> None:
    """Tasks are all with the first worker when the others come: time until the last is done, start-up included."""
    if cluster_settings.scheduler_address is not None:
        pytest.skip("a cluster that is running already is not ours to scale")
    with open_client(replace(cluster_settings, workers=1), tmp_path) as client:
        budget = Budget(cluster=size_of(client), share=share)
        test_run_benchmark.tasks = tasks = budget.tasks(0.1)
        test_run_benchmark.data_bytes = 0
        test_run_benchmark.cluster_workers = cluster_settings.workers
        client.submit(workloads.sleep, -1, 0.0).result()
        with benchmark_all(client):
            futures = client.map(workloads.sleep, range(tasks), seconds=0.05, pure=False)
            cast("LocalCluster", client.cluster).scale(cluster_settings.workers)
            answers = client.gather(futures)
    assert answers == list(range(tasks))

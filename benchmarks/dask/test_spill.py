"""More data than memory: what is kept goes to disk and comes back."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dask.array as da
import pytest
from benchmarks.dask.clusters import ClusterSettings, open_client
from benchmarks.dask.sizes import MIB, Budget, solve_shape
from dask.utils import parse_bytes
from distributed import Client, wait

# A worker that has imported what it needs takes about 200 MiB; less than twice that is no room to work in.
_SMALLEST_LIMIT_BYTES = 448 * MIB
# As much data as memory, of which workers fill 60 %: two fifths and more must go to disk, whatever the machine.
_MULTIPLE_OF_MEMORY = 1.0
# A worker that pauses or is ended by its nanny would be measured as slow or fail; spilling is what is looked at.
_ONLY_SPILL = {"distributed.worker.memory.pause": False, "distributed.worker.memory.terminate": False}


@pytest.fixture(scope="module")
def module_client(
    cluster_settings: ClusterSettings, share: float, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Workers with the share of the memory that other workloads would take: here the data must not fit."""
    limit_bytes = max(
        _SMALLEST_LIMIT_BYTES, int(parse_bytes(cluster_settings.memory_limit) * min(share, 1.0))
    )
    settings = replace(cluster_settings, memory_limit=limit_bytes)
    with open_client(settings, tmp_path_factory.mktemp("dask-spill"), _ONLY_SPILL) as client:
        yield client


def random_array(budget: Budget, multiple: float) -> da.Array:
    """Incompressible values, so that as much goes to disk as was in memory."""
    target_bytes = int(budget.cluster.memory_bytes * multiple)
    rng = da.random.default_rng(7)
    return rng.random(solve_shape(target_bytes, ("x", "x")), chunks=f"{budget.cluster.chunk_bytes} B")


@pytest.mark.parametrize("fate", ["keep", "release"])
def test_spill(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any, fate: str
) -> None:
    """Write to disk all that is too much; keep: and read it back."""
    array = random_array(budget, _MULTIPLE_OF_MEMORY)
    note_size(array.nbytes, multiple_of_memory=_MULTIPLE_OF_MEMORY)
    with benchmark_all(client):
        held = array.persist()
        wait(held)
        mean = held.mean().compute() if fate == "keep" else 0.5
        del held
    assert mean == pytest.approx(0.5, abs=0.01)


def test_transpose_sum(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any
) -> None:
    """An array and its transpose: pieces are needed again long after they were made."""
    array = random_array(budget, _MULTIPLE_OF_MEMORY / 2)
    note_size(array.nbytes)
    with benchmark_all(client):
        held = array.persist()
        wait(held)
        mean = (held + held.T).mean().compute()
        del held
    assert mean == pytest.approx(1, abs=0.02)

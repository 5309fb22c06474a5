"""Arrays: reductions, slices that cross chunks, stencils, and a matrix product."""

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
from benchmarks.dask import sizes, workloads
from benchmarks.dask.sizes import Budget, solve_shape
from distributed import Client


def random_array(budget: Budget, target_bytes: int, *template: int | str, seed: int = 42) -> da.Array:
    """Normally distributed values in chunks of the cluster's usual size."""
    rng = da.random.default_rng(seed)
    return rng.normal(size=solve_shape(target_bytes, template), chunks=f"{budget.cluster.chunk_bytes} B")


@pytest.mark.parametrize("shape", ["thin", "square"])
def test_sum(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any, shape: str
) -> None:
    """More data than a worker should hold at once, none of which is needed twice."""
    template = (100, "x") if shape == "thin" else ("x", "x")
    chunk = f"{budget.cluster.chunk_bytes} B"
    array = da.ones(solve_shape(budget.data_bytes(5), template), chunks=chunk)
    note_size(array.nbytes)
    with benchmark_all(client):
        total = array.sum().compute()
    assert total == array.size


def test_double_diff(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any
) -> None:
    """Two arrays shifted against each other: every chunk of the result needs four of one and four of the other."""
    left = random_array(budget, budget.data_bytes(1), "x", "x", seed=1)
    right = random_array(budget, budget.data_bytes(1), "x", "x", seed=2)
    note_size(left.nbytes + right.nbytes)
    with benchmark_all(client):
        spread = abs(left[1:, 1:] - right[:-1, :-1]).mean().compute()
    assert spread == pytest.approx(2 / np.sqrt(np.pi), rel=0.02)


def test_vorticity(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any
) -> None:
    """Gradients of two wind fields over the globe, averaged over time."""
    east = random_array(budget, budget.data_bytes(1), "x", "4x", "8x", seed=3)
    north = random_array(budget, budget.data_bytes(1), "x", "4x", "8x", seed=4)
    note_size(east.nbytes + north.nbytes)
    with benchmark_all(client):
        curl = (da.gradient(north, axis=2) - da.gradient(east, axis=1)).mean(axis=0).compute()
    assert curl.shape == east.shape[1:]


def test_dot_product(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any
) -> None:
    """A square matrix by itself: all chunks meet."""
    matrix = random_array(budget, sizes.temper(budget.data_bytes(0.4), 1.5), "x", "x")
    note_size(matrix.nbytes)
    with benchmark_all(client):
        mean = (matrix @ matrix).mean().compute()
    assert np.isfinite(mean)


@pytest.mark.parametrize("values", ["random", "compressible"])
def test_map_overlap(
    client: Client, budget: Budget, note_size: Callable[..., None], benchmark_all: Any, values: str
) -> None:
    """Many small chunks that look at their neighbours' borders."""
    side = solve_shape(budget.data_bytes(0.3), ("x", "x"))[0]
    if values == "random":
        array = da.random.default_rng(5).random(size=(side, side), chunks=max(1, side // 7))
    else:
        array = da.zeros((side, side), chunks=max(1, side // 7)) + 0.5
    note_size(array.nbytes)
    with benchmark_all(client):
        mean = array.map_overlap(workloads.smooth, depth=1, boundary="periodic").mean().compute()
    assert mean == pytest.approx(0.5, abs=0.01)

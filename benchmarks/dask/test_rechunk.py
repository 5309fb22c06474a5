"""The same array in other chunks, by tasks and by the peer-to-peer shuffle."""

from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import pytest
from benchmarks.dask.sizes import Budget, solve_shape
from distributed import Client

METHODS: dict[str, dict[str, object]] = {
    "tasks": {"array.rechunk.method": "tasks"},
    "p2p-disk": {"array.rechunk.method": "p2p", "distributed.p2p.storage.disk": True},
    "p2p-memory": {"array.rechunk.method": "p2p", "distributed.p2p.storage.disk": False},
}

Chunks = tuple[int, ...] | dict[int, int] | str


@pytest.fixture(params=METHODS)
def rechunk_method(request: pytest.FixtureRequest) -> Iterator[str]:
    """How chunks find their new places."""
    with dask.config.set(METHODS[request.param]):
        yield request.param


@pytest.fixture
def measure(client: Client, note_size: Callable[..., None], benchmark_all: Any) -> Callable[..., None]:
    """Rechunks an array and adds it up, so that nothing has to be kept."""

    def run(array: da.Array, chunks: Chunks) -> None:
        note_size(array.nbytes, chunks=array.npartitions)
        with benchmark_all(client):
            total = array.rechunk(chunks).sum().compute()
        assert total == pytest.approx(array.size / 2, rel=0.01)

    return run


def square(budget: Budget) -> tuple[int, int]:
    side = solve_shape(budget.data_bytes(0.6), ("x", "x"))[0]
    return side, max(1, side // 6)


def uniform(side: int, chunks: Any) -> da.Array:
    return da.random.default_rng(6).random((side, side), chunks=chunks)


def test_tiles_to_rows(budget: Budget, rechunk_method: str, measure: Callable[..., None]) -> None:
    """Tiles become whole rows: each new chunk takes from one row of tiles."""
    side, edge = square(budget)
    measure(uniform(side, (edge, edge)), (edge, side))


def test_swap_axes(budget: Budget, rechunk_method: str, measure: Callable[..., None]) -> None:
    """Rows become columns: each new chunk takes from every old one."""
    side, edge = square(budget)
    measure(uniform(side, (edge, side)), (side, edge))


def test_adjacent_groups(budget: Budget, rechunk_method: str, measure: Callable[..., None]) -> None:
    """Neighbouring columns are put together: no chunk goes far."""
    side, edge = square(budget)
    measure(uniform(side, (edge, max(1, edge // 4))), (edge, edge))


def test_heal_oversplit(budget: Budget, rechunk_method: str, measure: Callable[..., None]) -> None:
    """Many tiny chunks become usual ones."""
    side, edge = square(budget)
    small = max(1, edge // 3)
    measure(uniform(side, (small, small)), (edge, edge))

"""Frames that have to meet: joins, a new index, and a bare shuffle, by tasks and peer to peer."""

from collections.abc import Callable, Iterator
from typing import Any

import dask
import pytest
from benchmarks.dask.frames import bytes_of, count_rows, make_float_frame, rows_of
from benchmarks.dask.sizes import Budget
from distributed import Client

Note = Callable[..., None]


@pytest.fixture(params=["tasks", "p2p"])
def shuffle_method(request: pytest.FixtureRequest) -> Iterator[str]:
    """How rows find their new partitions."""
    with dask.config.set({"dataframe.shuffle.method": request.param}):
        yield request.param


def frame_of(budget: Budget, multiple: float, seed: int, keys: int | None = None) -> Any:
    """Partitions of half the usual size: a shuffle has many pieces of each in flight."""
    return make_float_frame(
        budget.data_bytes(multiple), partition_bytes=budget.cluster.chunk_bytes // 2, keys=keys, seed=seed
    )


def test_join_big(
    client: Client, budget: Budget, note_size: Note, benchmark_all: Any, shuffle_method: str
) -> None:
    """Two frames of one size: both are shuffled."""
    left, right = frame_of(budget, 0.4, seed=1), frame_of(budget, 0.4, seed=2)
    note_size(bytes_of(left) + bytes_of(right), partitions=left.npartitions)
    with benchmark_all(client):
        rows = count_rows(left.merge(right, on="key", how="inner")).compute()
    assert rows == pytest.approx(rows_of(left), rel=0.1)


def test_join_big_small(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """A small frame in one partition goes to where the large one is."""
    keys = 1000
    left = frame_of(budget, 1, seed=1, keys=keys)
    right = (
        frame_of(budget, 0.01, seed=2, keys=keys).drop_duplicates("key").repartition(npartitions=1).persist()
    )
    note_size(bytes_of(left), partitions=left.npartitions)
    with benchmark_all(client):
        rows = count_rows(left.merge(right, on="key", how="inner")).compute()
    assert rows <= rows_of(left)


def test_set_index(
    client: Client, budget: Budget, note_size: Note, benchmark_all: Any, shuffle_method: str
) -> None:
    """A sorted index, whose borders must be found first."""
    frame = frame_of(budget, 0.5, seed=3)
    note_size(bytes_of(frame), partitions=frame.npartitions)
    with benchmark_all(client):
        indexed = frame.set_index("key")
        rows = count_rows(indexed).compute()
    assert rows == rows_of(frame)
    assert indexed.known_divisions


def test_shuffle(
    client: Client, budget: Budget, note_size: Note, benchmark_all: Any, shuffle_method: str
) -> None:
    """Every row to the partition of its key."""
    frame = frame_of(budget, 0.5, seed=4)
    note_size(bytes_of(frame), partitions=frame.npartitions)
    with benchmark_all(client):
        rows = count_rows(frame.shuffle("key")).compute()
    assert rows == rows_of(frame)

"""Files: written, read whole, read in part, and read out of folders named by a value."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask.dataframe as dd
import pytest
from benchmarks.dask.frames import bytes_of, make_float_frame, make_timeseries, rows_of
from benchmarks.dask.sizes import Budget
from distributed import Client

Note = Callable[..., None]


@pytest.fixture
def folder(data_dir: Path) -> Iterator[str]:
    """A place for one test's files."""
    path = data_dir / f"parquet-{uuid4().hex}"
    path.mkdir(parents=True)
    yield str(path)
    shutil.rmtree(path)


def test_write_wide(client: Client, budget: Budget, note_size: Note, benchmark_all: Any, folder: str) -> None:
    """Many columns of few rows: what a file costs besides its values."""
    frame = make_float_frame(budget.data_bytes(0.5), partition_bytes=budget.cluster.chunk_bytes, columns=500)
    note_size(bytes_of(frame), files=frame.npartitions)
    with benchmark_all(client):
        frame.to_parquet(folder, write_index=False)
    assert len(list(Path(folder).glob("*.parquet"))) == frame.npartitions


def test_read(client: Client, budget: Budget, note_size: Note, benchmark_all: Any, folder: str) -> None:
    """All rows and columns, numbers and text."""
    frame = make_timeseries(budget.data_bytes(0.5))
    note_size(bytes_of(frame), files=frame.npartitions)
    frame.to_parquet(folder)
    with benchmark_all(client):
        counts = dd.read_parquet(folder).count().compute()
    assert (counts == rows_of(frame)).all()


def test_read_columns(
    client: Client, budget: Budget, note_size: Note, benchmark_all: Any, folder: str
) -> None:
    """Two of many columns: the rest must not be read."""
    frame = make_float_frame(budget.data_bytes(1), partition_bytes=budget.cluster.chunk_bytes, columns=50)
    note_size(bytes_of(frame), files=frame.npartitions)
    frame.to_parquet(folder, write_index=False)
    with benchmark_all(client):
        read = dd.read_parquet(folder)
        total = (read.x3 + read.x30).sum().compute()
    assert total == pytest.approx(rows_of(frame), rel=0.02)


def test_read_hive(client: Client, budget: Budget, note_size: Note, benchmark_all: Any, folder: str) -> None:
    """One folder of ten by a filter on its name."""
    frame = make_timeseries(budget.data_bytes(0.1))
    note_size(bytes_of(frame), files=10 * frame.npartitions)
    frame.to_parquet(folder, partition_on=["name"])
    with benchmark_all(client):
        rows = len(dd.read_parquet(folder, filters=[("name", "==", "grace")]))
    assert rows / rows_of(frame) == pytest.approx(0.1, rel=0.2)

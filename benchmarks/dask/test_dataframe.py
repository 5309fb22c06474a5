"""Frames without a shuffle: filters, alignment, windows, chains of columns and grouped sums."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from benchmarks.dask.frames import bytes_of, make_float_frame, make_timeseries, rows_of
from benchmarks.dask.sizes import Budget
from distributed import Client

Note = Callable[..., None]


def test_filter(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """A twentieth of the rows by two conditions, one on text."""
    frame = make_timeseries(budget.data_bytes(0.5))
    note_size(bytes_of(frame), partitions=frame.npartitions)
    with benchmark_all(client):
        found = len(frame[(frame.name == "emmy") & (frame.x > 0)])
    assert found / rows_of(frame) == pytest.approx(0.05, rel=0.2)


def test_align(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """Two series whose partitions do not begin at the same times."""
    left = make_timeseries(budget.data_bytes(0.25), seed=1)
    right = make_timeseries(budget.data_bytes(0.25), seed=2)
    note_size(bytes_of(left) + bytes_of(right), partitions=left.npartitions)
    right = right.repartition(divisions=shifted(right.divisions), force=True)
    with benchmark_all(client):
        mean = (left.x - right.x).mean().compute()
    assert mean == pytest.approx(0, abs=0.05)


def shifted(divisions: tuple[pd.Timestamp, ...]) -> tuple[pd.Timestamp, ...]:
    """Borders in the middle of the days; the first and the last stay."""
    middle = [start + (end - start) / 2 for start, end in pairwise(divisions)]
    return (divisions[0], *middle, divisions[-1])


def test_rolling(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """A window of an hour, which reaches into the day before."""
    frame = make_timeseries(budget.data_bytes(0.5))
    note_size(bytes_of(frame), partitions=frame.npartitions)
    with benchmark_all(client):
        peak = frame[["x", "y"]].rolling("1h").mean().max().compute()
    assert (peak > 0).all()


def test_column_chain(client: Client, budget: Budget, note_size: Note, benchmark_all: Any) -> None:
    """One new column after another: copies that are not needed show here."""
    frame = make_float_frame(budget.data_bytes(1), partition_bytes=budget.cluster.chunk_bytes)
    note_size(bytes_of(frame), partitions=frame.npartitions)
    with benchmark_all(client):
        chained = frame.rename(columns={"x0": "start"}).reset_index(drop=True)
        for step in range(5):
            chained = chained.assign(**{f"step{step}": chained.start + step}).astype(
                {f"step{step}": "float32"}
            )
        total = chained.step4.sum().compute()
    assert total > 4 * frame.npartitions


@pytest.mark.parametrize("groups", [10, 10_000])
def test_groupby(client: Client, budget: Budget, note_size: Note, benchmark_all: Any, groups: int) -> None:
    """Sum, mean and count a group: few large groups, and many small ones."""
    frame = make_float_frame(budget.data_bytes(1), partition_bytes=budget.cluster.chunk_bytes, keys=groups)
    note_size(bytes_of(frame), partitions=frame.npartitions)
    with benchmark_all(client):
        answer = frame.groupby("key").agg({"x0": "sum", "x1": "mean", "x2": "count"}).compute()
    assert len(answer) == groups

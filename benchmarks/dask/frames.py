"""Frames of a wanted size, the same ones for the same seed."""

from functools import partial
from typing import Any

import dask.dataframe as dd
import pandas as pd
from benchmarks.dask.sizes import partition_count
from benchmarks.dask.workloads import make_float_partition, make_timeseries_partition

# Rows of a day in a timeseries. Its bytes are measured, because those of text cannot be known beforehand.
ROWS_A_DAY = 20_000


def make_timeseries(target_bytes: int, *, seed: int = 42, rows_a_day: int = ROWS_A_DAY) -> dd.DataFrame:
    """A frame indexed by time, of as many days as make up the target."""
    make = partial(make_timeseries_partition, rows=rows_a_day, seed=seed)
    sample = make(0)
    days = partition_count(target_bytes, int(sample.memory_usage(deep=True).sum()))
    divisions = [make_timeseries_partition(day, rows=1, seed=seed).index[0] for day in range(days + 1)]
    return dd.from_map(make, range(days), meta=sample.iloc[:0], divisions=divisions)


def make_float_frame(
    target_bytes: int, *, partition_bytes: int, columns: int = 10, keys: int | None = None, seed: int = 42
) -> dd.DataFrame:
    """A frame of floats with a key; as many different keys as rows unless told."""
    rows = max(1, partition_bytes // (8 * (columns + 1)))
    partitions = partition_count(target_bytes, rows * 8 * (columns + 1))
    make = partial(make_float_partition, rows=rows, width=columns, keys=keys or rows * partitions, seed=seed)
    return dd.from_map(make, range(partitions), meta=make(0).iloc[:0])


def count_rows(frame: dd.DataFrame) -> Any:
    """The number of rows, lazily, counted from whole ones.

    `len(frame)` leaves out what does not change the number of rows, such as sorting, and all columns but a key.
    """
    return frame.map_partitions(len, meta=(None, "int64")).sum()


def rows_of(frame: dd.DataFrame) -> int:
    """Rows of a frame made here, whose partitions are of one size."""
    return int(frame.npartitions * len(_first_partition(frame)))


def bytes_of(frame: dd.DataFrame) -> int:
    """Bytes that such a frame takes in memory."""
    return int(frame.npartitions * _first_partition(frame).memory_usage(deep=True).sum())


def _first_partition(frame: dd.DataFrame) -> pd.DataFrame:
    return frame.partitions[0].compute(scheduler="synchronous")

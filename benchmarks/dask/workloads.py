"""What the suite's tasks do. Workers import this module, so it needs nothing that only a client has."""

import importlib
import time

import numpy as np
import pandas as pd
from distributed import Scheduler, get_worker

START = pd.Timestamp("2000-01-01")
NAMES = np.array(["ada", "blaise", "carl", "dmitri", "emmy", "felix", "grace", "henri", "ivo", "joan"])


def import_libraries() -> None:
    """Import what tasks will need, so that the first workload of a cluster is not measured with it."""
    for name in ("dask.array", "dask.dataframe", "pyarrow.parquet", "pyarrow.compute"):
        importlib.import_module(name)


def count_tasks(dask_scheduler: Scheduler) -> int:
    """What the scheduler still knows of earlier work."""
    return len(dask_scheduler.tasks)


def describe_workers(dask_scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """Threads and bytes of memory of each worker, by address."""
    workers = dask_scheduler.workers.items()
    return {address: (state.nthreads, int(state.memory_limit or 0)) for address, state in workers}


def make_float_partition(number: int, *, rows: int, width: int, keys: int, seed: int) -> pd.DataFrame:
    """A frame of floats with a column of integer keys, drawn evenly.

    Not `columns`: Dask would take an argument of that name for the columns that it may leave out.
    """
    rng = np.random.default_rng([seed, number])
    frame = pd.DataFrame(rng.random((rows, width)), columns=[f"x{column}" for column in range(width)])
    frame.insert(0, "key", rng.integers(0, keys, rows))
    return frame


def make_timeseries_partition(number: int, *, rows: int, seed: int) -> pd.DataFrame:
    """One day of evenly spaced rows: an id, a name and two measurements."""
    rng = np.random.default_rng([seed, number])
    first = START + pd.Timedelta(days=number)
    index = pd.date_range(first, periods=rows, freq=pd.Timedelta(days=1) / rows, name="timestamp")
    values = {
        "id": rng.integers(0, 1000, rows),
        "name": pd.array(rng.choice(NAMES, rows), dtype="str"),
        "x": rng.uniform(-1, 1, rows),
        "y": rng.uniform(-1, 1, rows),
    }
    return pd.DataFrame(values, index=index.as_unit("ns"))


def increment(number: int) -> int:
    return number + 1


def add(number: int, other: int) -> int:
    return number + other


def sleep(number: int, seconds: float) -> int:
    """A task that takes its time and no processor."""
    time.sleep(seconds)
    return number


def sleep_longer_on(number: int, seconds: float, *, slow_worker: str, slowdown: float) -> int:
    """The same, on a cluster with one slow worker."""
    time.sleep(seconds * slowdown if get_worker().address == slow_worker else seconds)
    return number


def allocate(number: int, size_bytes: int) -> np.ndarray:
    """Memory that is really there: every page is written."""
    return np.full(size_bytes // 8, float(number))


def first_value(array: np.ndarray, number: int) -> float:
    """Next to nothing, but on data that has to be there."""
    return float(array[number % len(array)])


def reduce_mean(array: np.ndarray) -> float:
    return float(array.mean())


def smooth(block: np.ndarray) -> np.ndarray:
    """The mean of each cell and its four neighbours."""
    return (
        block
        + np.roll(block, 1, axis=0)
        + np.roll(block, -1, axis=0)
        + np.roll(block, 1, axis=1)
        + np.roll(block, -1, axis=1)
    ) / 5

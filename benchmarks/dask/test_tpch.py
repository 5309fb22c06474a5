"""TPC-H: 22 queries by Dask on the cluster, by DuckDB and Polars in this process, on the same files.

Every answer is checked against DuckDB's, outside of what is measured.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from benchmarks.dask.clusters import size_of
from benchmarks.dask.sizes import Budget
from benchmarks.tpch import queries_dask, queries_duckdb, queries_polars
from benchmarks.tpch.answers import differences
from benchmarks.tpch.dataset import data_bytes, ensure_dataset
from distributed import Client

QUERIES = range(1, 23)

Note = Callable[..., None]


@pytest.fixture(scope="module")
def scale(pytestconfig: pytest.Config, module_client: Client, share: float) -> float:
    """The scale factor that is asked for, or that suits the cluster."""
    given: float | None = pytestconfig.getoption("tpch_scale", None)
    return given or Budget(cluster=size_of(module_client), share=share).tpch_scale()


@pytest.fixture(scope="module")
def dataset(data_dir: Path, scale: float) -> Path:
    return ensure_dataset(data_dir, scale)


@pytest.fixture(scope="module")
def connection(dataset: Path, module_client: Client) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with as many threads as the cluster has."""
    with queries_duckdb.connect(dataset, threads=size_of(module_client).threads) as connection:
        yield connection


@pytest.fixture(scope="module")
def reference(connection: duckdb.DuckDBPyConnection, scale: float) -> Callable[[int], pa.Table]:
    """The right answer to a query."""
    return cache(lambda query: queries_duckdb.run_query(connection, query, scale))


@pytest.fixture
def check(
    dataset: Path, scale: float, note_size: Note, reference: Callable[[int], pa.Table]
) -> Callable[..., None]:
    """Compares an answer, and stores how large the tables were."""

    def compare(query: int, answer: pa.Table, **counts: int) -> None:
        note_size(data_bytes(dataset), tpch_scale=scale, answer_rows=len(answer), **counts)
        assert len(answer) > 0
        assert differences(answer, reference(query)) == []

    return compare


@pytest.mark.parametrize("query", QUERIES)
def test_dask(
    client: Client, dataset: Path, scale: float, check: Callable[..., None], benchmark_all: Any, query: int
) -> None:
    tables = queries_dask.Tables(dataset, scale)
    with benchmark_all(client):
        answer = queries_dask.run_query(tables, query)
    check(query, answer)


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb(
    connection: duckdb.DuckDBPyConnection, scale: float, check: Callable[..., None], bench: Any, query: int
) -> None:
    answer = bench(queries_duckdb.run_query, connection, query, scale)
    check(query, answer, engine_threads=queries_duckdb.thread_count(connection))


@pytest.mark.parametrize("query", QUERIES)
def test_polars(dataset: Path, scale: float, check: Callable[..., None], bench: Any, query: int) -> None:
    tables = queries_polars.Tables(dataset, scale)
    check(query, bench(queries_polars.run_query, tables, query), engine_threads=polars.thread_pool_size())

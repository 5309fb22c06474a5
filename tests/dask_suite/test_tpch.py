"""All 22 queries of TPC-H: three engines, one answer."""

from collections.abc import Iterator
from pathlib import Path

import dask
import duckdb
import pyarrow as pa
import pytest
from benchmarks.tpch import queries_dask, queries_duckdb, queries_polars
from benchmarks.tpch.answers import differences
from benchmarks.tpch.dataset import ensure_dataset

SCALE = 0.01
QUERIES = range(1, 23)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_dataset(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="module")
def connection(dataset: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with queries_duckdb.connect(dataset, threads=2) as connection:
        yield connection


@pytest.mark.parametrize("query", QUERIES)
def test_engines_agree(dataset: Path, connection: duckdb.DuckDBPyConnection, query: int) -> None:
    expected = queries_duckdb.run_query(connection, query, SCALE)
    with dask.config.set(scheduler="synchronous"):
        by_dask = queries_dask.run_query(queries_dask.Tables(dataset, SCALE), query)
    by_polars = queries_polars.run_query(queries_polars.Tables(dataset, SCALE), query)
    assert differences(by_dask, expected) == []
    assert differences(by_polars, expected) == []
    assert len(expected) > 0
    assert all(column.null_count < len(expected) for column in expected.columns)


def test_every_engine_has_every_query() -> None:
    engines = (queries_dask, queries_duckdb, queries_polars)
    assert [sorted(engine.QUERIES) for engine in engines] == [list(QUERIES)] * 3


ANSWER = pa.table(
    {"name": ["a", "b", None], "amount": [1.5, None, 3.0], "day": pa.array([1, 2, 3], pa.date32())}
)


def changed(column: str, values: pa.Array) -> pa.Table:
    return ANSWER.set_column(ANSWER.column_names.index(column), column, values)


def test_types_and_last_digits_may_differ() -> None:
    other = changed("amount", pa.array([1.5 + 1e-12, float("nan"), 3.0]))
    other = other.set_column(2, "day", other["day"].cast(pa.timestamp("us")))
    other = other.set_column(0, "name", other["name"].cast(pa.large_string()))
    assert differences(ANSWER, other) == []
    assert differences(pa.table({"n": pa.array([7], pa.int32())}), pa.table({"n": [7.0]})) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (ANSWER.slice(0, 2), "3 rows and 2"),
        (ANSWER.select(["name", "day", "amount"]), "columns"),
        (changed("amount", pa.array([1.5001, None, 3.0])), "amount: 1.5 and 1.5001 in row 0, 1 rows differ"),
        (changed("amount", pa.array([1.5, 0.0, 3.0])), "amount: None and 0.0 in row 1"),
        (changed("name", pa.array(["a", "c", ""])), "name: b and c in row 1, 2 rows differ"),
        (changed("day", pa.array([1, 2, 4], pa.date32())), "day: 1970-01-04 and 1970-01-05 in row 2"),
        (ANSWER.take([1, 0, 2]), "name: a and b in row 0"),
    ],
    ids=["rows", "columns", "number", "missing", "text", "date", "order"],
)
def test_anything_else_is_told(other: pa.Table, said: str) -> None:
    assert differences(ANSWER, other)[0].startswith(said)

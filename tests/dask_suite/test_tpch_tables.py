"""The TPC-H tables that we make: the same for the same seed, of the right sizes, with keys that lead somewhere."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.tpch import generator
from benchmarks.tpch.dataset import SEED, TABLES, data_bytes, ensure_dataset, make_files
from benchmarks.tpch.generator import Counts
from hypothesis import given, settings
from hypothesis import strategies as st

SCALE = 0.004


def tables_at(scale: float, seed: int = SEED) -> dict[str, pa.Table]:
    """Every table whole."""
    files: dict[str, list[pa.Table]] = {}
    for path, table in make_files(scale, seed):
        files.setdefault(path.split("/", maxsplit=1)[0], []).append(table)
    return {name: pa.concat_tables(parts) for name, parts in files.items()}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return tables_at(SCALE)


def values(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy()


def test_the_same_seed_makes_the_same_tables(tables: dict[str, pa.Table]) -> None:
    again = tables_at(SCALE)
    assert tuple(tables) == TABLES
    assert all(again[name].equals(tables[name]) for name in TABLES)


def test_another_seed_makes_others(tables: dict[str, pa.Table]) -> None:
    others = tables_at(SCALE, seed=SEED + 1)
    for name in TABLES[2:]:
        assert others[name].schema == tables[name].schema
        assert not others[name].equals(tables[name])


def test_sizes_are_linear_in_the_scale(tables: dict[str, pa.Table]) -> None:
    larger = tables_at(3 * SCALE)
    for name in TABLES[2:]:
        tolerance = 0.03 if name == "lineitem" else 0
        assert len(larger[name]) == pytest.approx(3 * len(tables[name]), rel=tolerance)
    assert [len(larger[name]) for name in ("region", "nation")] == [5, 25]


@given(st.floats(generator.SMALLEST_SCALE, 300))
def test_counts_and_blocks_of_any_scale(scale: float) -> None:
    counts = Counts.at(scale)
    assert counts.supplier >= 25
    assert counts.part == pytest.approx(20 * counts.supplier, abs=20)
    blocks = counts.blocks()
    assert blocks[0].start == 0 and blocks[-1].stop == counts.orders
    assert all(one.stop == other.start for one, other in pairwise(blocks))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


def test_a_scale_with_too_few_suppliers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.001 is too small: 0\.0025 is the least"):
        Counts.at(0.001)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("supplier", ["s_suppkey"]),
        ("customer", ["c_custkey"]),
        ("part", ["p_partkey"]),
        ("partsupp", ["ps_partkey", "ps_suppkey"]),
        ("orders", ["o_orderkey"]),
        ("lineitem", ["l_orderkey", "l_linenumber"]),
    ],
)
def test_keys_are_unique(tables: dict[str, pa.Table], table: str, columns: list[str]) -> None:
    keys = tables[table].select(columns)
    assert len(keys.group_by(columns).aggregate([])) == len(keys)


@pytest.mark.parametrize(
    ("child", "child_keys", "parent", "parent_keys"),
    [
        ("nation", ["n_regionkey"], "region", ["r_regionkey"]),
        ("supplier", ["s_nationkey"], "nation", ["n_nationkey"]),
        ("customer", ["c_nationkey"], "nation", ["n_nationkey"]),
        ("partsupp", ["ps_partkey"], "part", ["p_partkey"]),
        ("partsupp", ["ps_suppkey"], "supplier", ["s_suppkey"]),
        ("orders", ["o_custkey"], "customer", ["c_custkey"]),
        ("lineitem", ["l_orderkey"], "orders", ["o_orderkey"]),
        ("lineitem", ["l_partkey", "l_suppkey"], "partsupp", ["ps_partkey", "ps_suppkey"]),
    ],
)
def test_every_reference_leads_somewhere(
    tables: dict[str, pa.Table], child: str, child_keys: list[str], parent: str, parent_keys: list[str]
) -> None:
    lost = tables[child].join(tables[parent], keys=child_keys, right_keys=parent_keys, join_type="left anti")
    assert len(lost) == 0


@given(part=st.integers(1, 10**9), suppliers=st.integers(25, 10**7))
def test_a_part_has_four_suppliers(part: int, suppliers: int) -> None:
    found = generator._supplier_of(np.full(4, part), np.arange(4), suppliers)
    assert len(set(found.tolist())) == 4
    assert found.min() >= 1 and found.max() <= suppliers


def test_every_order_has_lines_that_fit_it(tables: dict[str, pa.Table]) -> None:
    lines, orders = tables["lineitem"], tables["orders"]
    net = values(lines, "l_extendedprice") * (1 - values(lines, "l_discount")) * (1 + values(lines, "l_tax"))
    flags = pc.cast(pc.equal(lines["l_linestatus"], "O"), pa.int64())
    sums = (
        pa.table({"key": lines["l_orderkey"], "net": net, "open": flags})
        .group_by("key")
        .aggregate([("net", "sum"), ("open", "sum"), ("open", "count")])
        .sort_by("key")
    )
    assert sums["key"].to_pylist() == orders["o_orderkey"].to_pylist()
    assert np.allclose(values(sums, "net_sum"), values(orders, "o_totalprice"), atol=0.006)
    opened, count = values(sums, "open_sum"), values(sums, "open_count")
    status = np.select([opened == 0, opened == count], ["F", "O"], "P")
    assert status.tolist() == orders["o_orderstatus"].to_pylist()
    assert count.min() == 1 and count.max() == 7


def test_dates_follow_each_other(tables: dict[str, pa.Table]) -> None:
    lines = tables["lineitem"].join(tables["orders"], keys="l_orderkey", right_keys="o_orderkey")
    assert pc.all(pc.less(lines["o_orderdate"], lines["l_shipdate"])).as_py()
    assert pc.all(pc.less(lines["l_shipdate"], lines["l_receiptdate"])).as_py()
    assert pc.min(lines["o_orderdate"]).as_py().year == 1992
    assert pc.max(lines["l_receiptdate"]).as_py().year == 1998


def test_columns_hold_what_the_specification_says(tables: dict[str, pa.Table]) -> None:
    lines, parts = tables["lineitem"], tables["part"]
    for column, low, high in (("l_quantity", 1, 50), ("l_discount", 0, 0.1), ("l_tax", 0, 0.08)):
        assert (values(lines, column).min(), values(lines, column).max()) == (low, high)
    assert set(values(parts, "p_size")) == set(range(1, 51))
    assert pc.all(pc.match_substring_regex(parts["p_brand"], "^Brand#[1-5][1-5]$")).as_py()
    assert pc.all(
        pc.match_substring_regex(tables["customer"]["c_phone"], r"^\d\d-\d{3}-\d{3}-\d{4}$")
    ).as_py()
    assert pc.all(pc.match_substring_regex(tables["supplier"]["s_name"], r"^Supplier#\d{9}$")).as_py()


def test_what_queries_look_for_in_comments_is_there_and_rare(tables: dict[str, pa.Table]) -> None:
    special = pc.match_like(tables["orders"]["o_comment"], "%special%requests%")
    assert 0.005 < pc.mean(pc.cast(special, pa.float64())).as_py() < 0.05
    complaints = pc.match_like(tables["supplier"]["s_comment"], "%Customer%Complaints%")
    assert pc.sum(complaints).as_py() == 1


def test_a_third_of_the_customers_never_buy(tables: dict[str, pa.Table]) -> None:
    buyers = set(values(tables["orders"], "o_custkey").tolist())
    assert not any(key % 3 == 0 for key in buyers)
    assert len(buyers) > 0.6 * len(tables["customer"])


def test_files_are_written_once(tmp_path: Path, tables: dict[str, pa.Table]) -> None:
    made = ensure_dataset(tmp_path, SCALE)
    marks = {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")}
    assert ensure_dataset(tmp_path, SCALE) == made
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")} == marks
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    assert data_bytes(made) > 100_000
    for name in TABLES:
        assert pq.read_table(made / name).equals(tables[name])


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "make_partsupp", lambda counts, seed: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ensure_dataset(tmp_path, SCALE)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_any_seed_gives_every_nation_suppliers(seed: int) -> None:
    supplier = generator.make_supplier(Counts.at(SCALE), seed)
    assert set(values(supplier, "s_nationkey")) == set(range(25))

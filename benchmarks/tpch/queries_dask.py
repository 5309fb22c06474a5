"""The 22 queries of TPC-H for Dask: joins and aggregations on the cluster, the last small sort in the client.

Subqueries that depend on the outer row are written as joins with a grouped frame.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Tables:
    """The dataset's tables by name."""

    dataset: Path
    scale: float

    def __getitem__(self, name: str) -> dd.DataFrame:
        return dd.read_parquet(str(self.dataset / name))


def within(column: dd.Series, first: str, end: str) -> dd.Series:
    """Whether a date is in the period, whose end is not a part of it."""
    return (column >= pd.Timestamp(first)) & (column < pd.Timestamp(end))


def with_net_price(frame: dd.DataFrame) -> dd.DataFrame:
    return frame.assign(revenue=frame.l_extendedprice * (1 - frame.l_discount))


def join(left: dd.DataFrame, right: dd.DataFrame, on: str, how: str = "inner") -> dd.DataFrame:
    """Joins on columns written as `left=right, …`."""
    pairs = [pair.split("=") for pair in on.split(", ")]
    keys = {"left_on": [pair[0] for pair in pairs], "right_on": [pair[-1] for pair in pairs]}
    return left.merge(right, how=how, **keys)


def without(left: dd.DataFrame, right: dd.DataFrame, on: str) -> dd.DataFrame:
    """The rows of the left whose key is not among the right's."""
    found = right[[on.split("=")[1]]].drop_duplicates().assign(is_found=1)
    joined = join(left, found, on, how="left")
    return joined[joined.is_found.isna()][list(left.columns)]


def total(frame: dd.DataFrame, by: str | list[str], column: str) -> dd.DataFrame:
    """The column's sum a group, under the column's name."""
    return frame.groupby(by)[column].sum().reset_index()


def ordered(
    frame: dd.DataFrame, by: Sequence[str], ascending: bool | list[bool] = True, limit: int | None = None
) -> pd.DataFrame:
    """The rows that are left, computed and put in order."""
    rows = frame.compute().sort_values(list(by), ascending=ascending)
    return rows if limit is None else rows.head(limit)


def q01(t: Tables) -> pd.DataFrame:
    lines = t["lineitem"]
    lines = with_net_price(lines[lines.l_shipdate <= pd.Timestamp("1998-09-02")])
    groups = lines.assign(charge=lines.revenue * (1 + lines.l_tax)).groupby(["l_returnflag", "l_linestatus"])
    answer = groups.agg(
        sum_qty=("l_quantity", "sum"),
        sum_base_price=("l_extendedprice", "sum"),
        sum_disc_price=("revenue", "sum"),
        sum_charge=("charge", "sum"),
        avg_qty=("l_quantity", "mean"),
        avg_price=("l_extendedprice", "mean"),
        avg_disc=("l_discount", "mean"),
        count_order=("l_quantity", "count"),
    )
    return ordered(answer.reset_index(), ["l_returnflag", "l_linestatus"])


def q02(t: Tables) -> pd.DataFrame:
    part, region = t["part"], t["region"]
    part = part[(part.p_size == 15) & part.p_type.str.endswith("BRASS")]
    nations = join(t["nation"], region[region.r_name == "EUROPE"], "n_regionkey=r_regionkey")
    suppliers = join(t["supplier"], nations, "s_nationkey=n_nationkey")
    offers = join(join(part, t["partsupp"], "p_partkey=ps_partkey"), suppliers, "ps_suppkey=s_suppkey")
    cheapest = offers.groupby("p_partkey").ps_supplycost.min().reset_index()
    columns = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"]
    best = offers.merge(cheapest, on=["p_partkey", "ps_supplycost"])[columns]
    return ordered(best, ["s_acctbal", "n_name", "s_name", "p_partkey"], [False, True, True, True], 100)


def q03(t: Tables) -> pd.DataFrame:
    day = pd.Timestamp("1995-03-15")
    customer, orders, lines = t["customer"], t["orders"], t["lineitem"]
    buyers = customer[customer.c_mktsegment == "BUILDING"][["c_custkey"]]
    open_orders = join(orders[orders.o_orderdate < day], buyers, "o_custkey=c_custkey", how="leftsemi")
    items = with_net_price(join(lines[lines.l_shipdate > day], open_orders, "l_orderkey=o_orderkey"))
    revenue = total(items, ["l_orderkey", "o_orderdate", "o_shippriority"], "revenue")
    answer = ordered(revenue.nlargest(10, "revenue"), ["revenue", "o_orderdate"], [False, True])
    return answer[["l_orderkey", "revenue", "o_orderdate", "o_shippriority"]]


def q04(t: Tables) -> pd.DataFrame:
    orders, lines = t["orders"], t["lineitem"]
    orders = orders[within(orders.o_orderdate, "1993-07-01", "1993-10-01")]
    late = lines[lines.l_commitdate < lines.l_receiptdate][["l_orderkey"]]
    found = join(orders, late, "o_orderkey=l_orderkey", how="leftsemi")
    counts = found.groupby("o_orderpriority").o_orderkey.count().rename("order_count")
    return ordered(counts.reset_index(), ["o_orderpriority"])


def q05(t: Tables) -> pd.DataFrame:
    region, orders = t["region"], t["orders"]
    nations = join(t["nation"], region[region.r_name == "ASIA"], "n_regionkey=r_regionkey")
    suppliers = join(t["supplier"], nations, "s_nationkey=n_nationkey")
    orders = join(
        orders[within(orders.o_orderdate, "1994-01-01", "1995-01-01")], t["customer"], "o_custkey=c_custkey"
    )
    items = join(t["lineitem"], orders, "l_orderkey=o_orderkey")
    items = join(items, suppliers, "l_suppkey=s_suppkey, c_nationkey=s_nationkey")
    return ordered(total(with_net_price(items), "n_name", "revenue"), ["revenue"], False)


def q06(t: Tables) -> pd.DataFrame:
    lines = t["lineitem"]
    wanted = lines[
        within(lines.l_shipdate, "1994-01-01", "1995-01-01")
        & lines.l_discount.between(0.05, 0.07)
        & (lines.l_quantity < 24)
    ]
    return pd.DataFrame({"revenue": [(wanted.l_extendedprice * wanted.l_discount).sum().compute()]})


def q07(t: Tables) -> pd.DataFrame:
    lines, nations = t["lineitem"], t["nation"]
    nations = nations[nations.n_name.isin(["FRANCE", "GERMANY"])][["n_nationkey", "n_name"]]
    sellers = join(
        t["supplier"], nations.rename(columns={"n_name": "supp_nation"}), "s_nationkey=n_nationkey"
    )
    buyers = join(t["customer"], nations.rename(columns={"n_name": "cust_nation"}), "c_nationkey=n_nationkey")
    orders = join(t["orders"], buyers[["c_custkey", "cust_nation"]], "o_custkey=c_custkey")
    items = join(lines[within(lines.l_shipdate, "1995-01-01", "1997-01-01")], sellers, "l_suppkey=s_suppkey")
    items = join(items, orders, "l_orderkey=o_orderkey")
    items = with_net_price(items[items.supp_nation != items.cust_nation])
    keys = ["supp_nation", "cust_nation", "l_year"]
    return ordered(total(items.assign(l_year=items.l_shipdate.dt.year), keys, "revenue"), keys)


def q08(t: Tables) -> pd.DataFrame:
    part, orders, region, nation = t["part"], t["orders"], t["region"], t["nation"]
    part = part[part.p_type == "ECONOMY ANODIZED STEEL"][["p_partkey"]]
    america = join(nation, region[region.r_name == "AMERICA"], "n_regionkey=r_regionkey")[["n_nationkey"]]
    buyers = join(t["customer"], america, "c_nationkey=n_nationkey")[["c_custkey"]]
    orders = join(
        orders[within(orders.o_orderdate, "1995-01-01", "1997-01-01")], buyers, "o_custkey=c_custkey"
    )
    sellers = join(t["supplier"], nation, "s_nationkey=n_nationkey")[["s_suppkey", "n_name"]]
    items = join(join(t["lineitem"], part, "l_partkey=p_partkey"), orders, "l_orderkey=o_orderkey")
    items = with_net_price(join(items, sellers, "l_suppkey=s_suppkey"))
    items = items.assign(
        o_year=items.o_orderdate.dt.year, brazil=items.revenue.where(items.n_name == "BRAZIL", 0.0)
    )
    sums = ordered(items.groupby("o_year")[["brazil", "revenue"]].sum().reset_index(), ["o_year"])
    return sums.assign(mkt_share=sums.brazil / sums.revenue)[["o_year", "mkt_share"]]


def q09(t: Tables) -> pd.DataFrame:
    part = t["part"]
    part = part[part.p_name.str.contains("green", regex=False)][["p_partkey"]]
    sellers = join(t["supplier"], t["nation"], "s_nationkey=n_nationkey")[["s_suppkey", "n_name"]]
    items = join(t["lineitem"], part, "l_partkey=p_partkey")
    items = join(items, t["partsupp"], "l_partkey=ps_partkey, l_suppkey=ps_suppkey")
    items = join(items, sellers, "l_suppkey=s_suppkey")
    items = with_net_price(join(items, t["orders"][["o_orderkey", "o_orderdate"]], "l_orderkey=o_orderkey"))
    items = items.assign(
        nation=items.n_name,
        o_year=items.o_orderdate.dt.year,
        sum_profit=items.revenue - items.ps_supplycost * items.l_quantity,
    )
    return ordered(total(items, ["nation", "o_year"], "sum_profit"), ["nation", "o_year"], [True, False])


def q10(t: Tables) -> pd.DataFrame:
    orders, lines = t["orders"], t["lineitem"]
    orders = orders[within(orders.o_orderdate, "1993-10-01", "1994-01-01")][["o_orderkey", "o_custkey"]]
    items = join(lines[lines.l_returnflag == "R"], orders, "l_orderkey=o_orderkey")
    revenue = total(with_net_price(items), "o_custkey", "revenue").nlargest(20, "revenue")
    buyers = join(join(revenue, t["customer"], "o_custkey=c_custkey"), t["nation"], "c_nationkey=n_nationkey")
    columns = ["c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]
    return ordered(buyers[columns], ["revenue"], False)


def q11(t: Tables) -> pd.DataFrame:
    nation, stock = t["nation"], t["partsupp"]
    germans = join(t["supplier"], nation[nation.n_name == "GERMANY"], "s_nationkey=n_nationkey")[
        ["s_suppkey"]
    ]
    stock = join(stock, germans, "ps_suppkey=s_suppkey")
    values = total(stock.assign(value=stock.ps_supplycost * stock.ps_availqty), "ps_partkey", "value")
    return ordered(values[values.value > values.value.sum() * (0.0001 / t.scale)], ["value"], False)


def q12(t: Tables) -> pd.DataFrame:
    lines = t["lineitem"]
    lines = lines[
        lines.l_shipmode.isin(["MAIL", "SHIP"])
        & (lines.l_commitdate < lines.l_receiptdate)
        & (lines.l_shipdate < lines.l_commitdate)
        & within(lines.l_receiptdate, "1994-01-01", "1995-01-01")
    ]
    items = join(lines, t["orders"][["o_orderkey", "o_orderpriority"]], "l_orderkey=o_orderkey")
    is_high = items.o_orderpriority.isin(["1-URGENT", "2-HIGH"])
    items = items.assign(high_line_count=is_high.astype(int), low_line_count=(~is_high).astype(int))
    counts = items.groupby("l_shipmode")[["high_line_count", "low_line_count"]].sum()
    return ordered(counts.reset_index(), ["l_shipmode"])


def q13(t: Tables) -> pd.DataFrame:
    orders = t["orders"]
    orders = orders[~orders.o_comment.str.contains("special.*requests")][["o_orderkey", "o_custkey"]]
    bought = join(t["customer"][["c_custkey"]], orders, "c_custkey=o_custkey", how="left")
    counts = bought.groupby("c_custkey").o_orderkey.count().rename("c_count").reset_index()
    customers = counts.groupby("c_count").c_custkey.count().rename("custdist")
    return ordered(customers.reset_index(), ["custdist", "c_count"], False)


def q14(t: Tables) -> pd.DataFrame:
    lines = t["lineitem"]
    lines = with_net_price(lines[within(lines.l_shipdate, "1995-09-01", "1995-10-01")])
    items = join(lines, t["part"][["p_partkey", "p_type"]], "l_partkey=p_partkey")
    promoted = items.revenue.where(items.p_type.str.startswith("PROMO"), 0.0)
    return pd.DataFrame({"promo_revenue": [(100 * promoted.sum() / items.revenue.sum()).compute()]})


def q15(t: Tables) -> pd.DataFrame:
    lines = t["lineitem"]
    lines = with_net_price(lines[within(lines.l_shipdate, "1996-01-01", "1996-04-01")])
    sums = total(lines, "l_suppkey", "revenue").rename(columns={"revenue": "total_revenue"})
    best = sums[sums.total_revenue == sums.total_revenue.max()]
    columns = ["s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"]
    return ordered(join(t["supplier"], best, "s_suppkey=l_suppkey")[columns], ["s_suppkey"])


def q16(t: Tables) -> pd.DataFrame:
    part, supplier = t["part"], t["supplier"]
    part = part[
        (part.p_brand != "Brand#45")
        & ~part.p_type.str.startswith("MEDIUM POLISHED")
        & part.p_size.isin([49, 14, 23, 45, 19, 3, 36, 9])
    ]
    complained = supplier[supplier.s_comment.str.contains("Customer.*Complaints")]
    keys = ["p_brand", "p_type", "p_size"]
    offers = join(part, t["partsupp"], "p_partkey=ps_partkey")[[*keys, "ps_suppkey"]]
    offers = without(offers, complained, "ps_suppkey=s_suppkey").drop_duplicates()
    counts = offers.groupby(keys).ps_suppkey.count().rename("supplier_cnt").reset_index()
    return ordered(counts, ["supplier_cnt", *keys], [False, True, True, True])[[*keys, "supplier_cnt"]]


def q17(t: Tables) -> pd.DataFrame:
    part = t["part"]
    part = part[(part.p_brand == "Brand#23") & (part.p_container == "MED BOX")][["p_partkey"]]
    items = join(t["lineitem"], part, "l_partkey=p_partkey", how="leftsemi")
    means = items.groupby("l_partkey").l_quantity.mean().rename("mean_quantity").reset_index()
    items = items.merge(means, on="l_partkey")
    few = items[items.l_quantity < 0.2 * items.mean_quantity]
    return pd.DataFrame({"avg_yearly": [few.l_extendedprice.sum().compute() / 7.0]})


def q18(t: Tables) -> pd.DataFrame:
    sums = total(t["lineitem"], "l_orderkey", "l_quantity").rename(columns={"l_quantity": "quantity"})
    orders = join(t["orders"], sums[sums.quantity > 300], "o_orderkey=l_orderkey").nlargest(
        100, "o_totalprice"
    )
    bought = join(orders, t["customer"][["c_custkey", "c_name"]], "o_custkey=c_custkey")
    columns = ["c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity"]
    return ordered(bought[columns], ["o_totalprice", "o_orderdate"], [False, True])


def q19(t: Tables) -> pd.DataFrame:
    lines = t["lineitem"]
    lines = lines[(lines.l_shipinstruct == "DELIVER IN PERSON") & lines.l_shipmode.isin(["AIR", "AIR REG"])]
    items = with_net_price(join(lines, t["part"], "l_partkey=p_partkey"))

    def fits(brand: str, containers: list[str], fewest: int, largest: int) -> Any:
        return (
            (items.p_brand == brand)
            & items.p_container.isin(containers)
            & items.l_quantity.between(fewest, fewest + 10)
            & items.p_size.between(1, largest)
        )

    wanted = items[
        fits("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
        | fits("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
        | fits("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
    ]
    return pd.DataFrame({"revenue": [wanted.revenue.sum().compute()]})


def q20(t: Tables) -> pd.DataFrame:
    lines, part, nation = t["lineitem"], t["part"], t["nation"]
    sold = lines[within(lines.l_shipdate, "1994-01-01", "1995-01-01")]
    sold = total(sold, ["l_partkey", "l_suppkey"], "l_quantity")
    wanted = part[part.p_name.str.startswith("forest")][["p_partkey"]]
    stock = join(t["partsupp"], wanted, "ps_partkey=p_partkey", how="leftsemi")
    stock = join(stock, sold, "ps_partkey=l_partkey, ps_suppkey=l_suppkey")
    plenty = stock[stock.ps_availqty > 0.5 * stock.l_quantity][["ps_suppkey"]]
    canadians = join(t["supplier"], nation[nation.n_name == "CANADA"], "s_nationkey=n_nationkey")
    answer = join(canadians, plenty, "s_suppkey=ps_suppkey", how="leftsemi")
    return ordered(answer[["s_name", "s_address"]], ["s_name"])


def q21(t: Tables) -> pd.DataFrame:
    lines, orders, nation = t["lineitem"], t["orders"], t["nation"]
    late = lines[lines.l_receiptdate > lines.l_commitdate][["l_orderkey", "l_suppkey"]]
    shared = suppliers_per_order(lines[["l_orderkey", "l_suppkey"]])
    blamed = suppliers_per_order(late)
    failed = orders[orders.o_orderstatus == "F"][["o_orderkey"]]
    saudis = join(t["supplier"], nation[nation.n_name == "SAUDI ARABIA"], "s_nationkey=n_nationkey")
    waiting = join(late, saudis[["s_suppkey", "s_name"]], "l_suppkey=s_suppkey")
    waiting = join(waiting, failed, "l_orderkey=o_orderkey")
    waiting = join(waiting, shared[shared.suppliers > 1][["l_orderkey"]], "l_orderkey")
    waiting = join(waiting, blamed[blamed.suppliers == 1][["l_orderkey"]], "l_orderkey")
    counts = waiting.groupby("s_name").l_orderkey.count().rename("numwait").reset_index()
    return ordered(counts, ["numwait", "s_name"], [False, True], 100)


def suppliers_per_order(lines: dd.DataFrame) -> dd.DataFrame:
    pairs = lines.drop_duplicates()
    return pairs.groupby("l_orderkey").l_suppkey.count().rename("suppliers").reset_index()


def q22(t: Tables) -> pd.DataFrame:
    customer = t["customer"]
    customer = customer.assign(cntrycode=customer.c_phone.str.slice(0, 2))[
        ["c_custkey", "c_acctbal", "cntrycode"]
    ]
    customer = customer[customer.cntrycode.isin(["13", "31", "23", "29", "30", "18", "17"])]
    mean = customer[customer.c_acctbal > 0].c_acctbal.mean()
    idle = without(customer[customer.c_acctbal > mean], t["orders"], "c_custkey=o_custkey")
    answer = idle.groupby("cntrycode").agg(numcust=("c_acctbal", "count"), totacctbal=("c_acctbal", "sum"))
    return ordered(answer.reset_index(), ["cntrycode"])


QUERIES: dict[int, Callable[[Tables], pd.DataFrame]] = dict(
    enumerate(
        (
            *(q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11),
            *(q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22),
        ),
        start=1,
    )
)


def run_query(tables: Tables, query: int) -> pa.Table:
    """The query's answer."""
    return pa.Table.from_pandas(QUERIES[query](tables), preserve_index=False)

"""The 22 queries of TPC-H for Polars: lazy frames all the way, collected once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
from polars import col

NET_PRICE = col("l_extendedprice") * (1 - col("l_discount"))
IS_LATE = col("l_commitdate") < col("l_receiptdate")


@dataclass(frozen=True, slots=True)
class Tables:
    """The dataset's tables by name."""

    dataset: Path
    scale: float

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return pl.scan_parquet(self.dataset / name / "*.parquet")


def within(column: str, first: tuple[int, int, int], end: tuple[int, int, int]) -> pl.Expr:
    """Whether a date is in the period, whose end is not a part of it."""
    return (col(column) >= datetime(*first)) & (col(column) < datetime(*end))


def q01(t: Tables) -> pl.LazyFrame:
    return (
        t["lineitem"]
        .filter(col("l_shipdate") <= datetime(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            sum_qty=col("l_quantity").sum(),
            sum_base_price=col("l_extendedprice").sum(),
            sum_disc_price=NET_PRICE.sum(),
            sum_charge=(NET_PRICE * (1 + col("l_tax"))).sum(),
            avg_qty=col("l_quantity").mean(),
            avg_price=col("l_extendedprice").mean(),
            avg_disc=col("l_discount").mean(),
            count_order=pl.len(),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q02(t: Tables) -> pl.LazyFrame:
    offers = (
        t["part"]
        .filter((col("p_size") == 15) & col("p_type").str.ends_with("BRASS"))
        .join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey")
        .join(t["supplier"], left_on="ps_suppkey", right_on="s_suppkey")
        .join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
        .join(t["region"].filter(col("r_name") == "EUROPE"), left_on="n_regionkey", right_on="r_regionkey")
    )
    cheapest = offers.group_by("p_partkey").agg(col("ps_supplycost").min())
    return (
        offers.join(cheapest, on=["p_partkey", "ps_supplycost"])
        .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .sort("s_acctbal", "n_name", "s_name", "p_partkey", descending=[True, False, False, False])
        .head(100)
    )


def q03(t: Tables) -> pl.LazyFrame:
    day = datetime(1995, 3, 15)
    return (
        t["customer"]
        .filter(col("c_mktsegment") == "BUILDING")
        .join(t["orders"].filter(col("o_orderdate") < day), left_on="c_custkey", right_on="o_custkey")
        .join(t["lineitem"].filter(col("l_shipdate") > day), left_on="o_orderkey", right_on="l_orderkey")
        .group_by(col("o_orderkey").alias("l_orderkey"), "o_orderdate", "o_shippriority")
        .agg(revenue=NET_PRICE.sum())
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .sort("revenue", "o_orderdate", descending=[True, False])
        .head(10)
    )


def q04(t: Tables) -> pl.LazyFrame:
    return (
        t["orders"]
        .filter(within("o_orderdate", (1993, 7, 1), (1993, 10, 1)))
        .join(t["lineitem"].filter(IS_LATE), left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .group_by("o_orderpriority")
        .agg(order_count=pl.len())
        .sort("o_orderpriority")
    )


def q05(t: Tables) -> pl.LazyFrame:
    return (
        t["region"]
        .filter(col("r_name") == "ASIA")
        .join(t["nation"], left_on="r_regionkey", right_on="n_regionkey")
        .join(t["customer"], left_on="n_nationkey", right_on="c_nationkey")
        .join(
            t["orders"].filter(within("o_orderdate", (1994, 1, 1), (1995, 1, 1))),
            left_on="c_custkey",
            right_on="o_custkey",
        )
        .join(t["lineitem"], left_on="o_orderkey", right_on="l_orderkey")
        .join(t["supplier"], left_on=["l_suppkey", "n_nationkey"], right_on=["s_suppkey", "s_nationkey"])
        .group_by("n_name")
        .agg(revenue=NET_PRICE.sum())
        .sort("revenue", descending=True)
    )


def q06(t: Tables) -> pl.LazyFrame:
    return (
        t["lineitem"]
        .filter(
            within("l_shipdate", (1994, 1, 1), (1995, 1, 1)),
            col("l_discount").is_between(0.05, 0.07),
            col("l_quantity") < 24,
        )
        .select(revenue=(col("l_extendedprice") * col("l_discount")).sum())
    )


def q07(t: Tables) -> pl.LazyFrame:
    nations = t["nation"].filter(col("n_name").is_in(["FRANCE", "GERMANY"]))
    sellers = nations.select(s_nationkey="n_nationkey", supp_nation="n_name")
    buyers = nations.select(c_nationkey="n_nationkey", cust_nation="n_name")
    return (
        t["lineitem"]
        .filter(within("l_shipdate", (1995, 1, 1), (1997, 1, 1)))
        .join(t["supplier"].join(sellers, on="s_nationkey"), left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["customer"].join(buyers, on="c_nationkey"), left_on="o_custkey", right_on="c_custkey")
        .filter(col("supp_nation") != col("cust_nation"))
        .group_by("supp_nation", "cust_nation", l_year=col("l_shipdate").dt.year())
        .agg(revenue=NET_PRICE.sum())
        .sort("supp_nation", "cust_nation", "l_year")
    )


def q08(t: Tables) -> pl.LazyFrame:
    america = t["nation"].join(
        t["region"].filter(col("r_name") == "AMERICA"),
        left_on="n_regionkey",
        right_on="r_regionkey",
        how="semi",
    )
    buyers = t["customer"].join(america, left_on="c_nationkey", right_on="n_nationkey", how="semi")
    sellers = t["supplier"].join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
    from_brazil = pl.when(col("n_name") == "BRAZIL").then(NET_PRICE).otherwise(0.0)
    return (
        t["part"]
        .filter(col("p_type") == "ECONOMY ANODIZED STEEL")
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .join(
            t["orders"].filter(within("o_orderdate", (1995, 1, 1), (1997, 1, 1))),
            left_on="l_orderkey",
            right_on="o_orderkey",
        )
        .join(buyers, left_on="o_custkey", right_on="c_custkey", how="semi")
        .join(sellers, left_on="l_suppkey", right_on="s_suppkey")
        .group_by(o_year=col("o_orderdate").dt.year())
        .agg(mkt_share=from_brazil.sum() / NET_PRICE.sum())
        .sort("o_year")
    )


def q09(t: Tables) -> pl.LazyFrame:
    profit = NET_PRICE - col("ps_supplycost") * col("l_quantity")
    return (
        t["part"]
        .filter(col("p_name").str.contains("green", literal=True))
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .join(t["partsupp"], left_on=["p_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
        .join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
        .group_by(nation="n_name", o_year=col("o_orderdate").dt.year())
        .agg(sum_profit=profit.sum())
        .sort("nation", "o_year", descending=[False, True])
    )


def q10(t: Tables) -> pl.LazyFrame:
    buyer = ["c_custkey", "c_name", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]
    return (
        t["orders"]
        .filter(within("o_orderdate", (1993, 10, 1), (1994, 1, 1)))
        .join(t["lineitem"].filter(col("l_returnflag") == "R"), left_on="o_orderkey", right_on="l_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey", coalesce=False)
        .join(t["nation"], left_on="c_nationkey", right_on="n_nationkey")
        .group_by(buyer)
        .agg(revenue=NET_PRICE.sum())
        .select(*buyer[:2], "revenue", *buyer[2:])
        .sort("revenue", descending=True)
        .head(20)
    )


def q11(t: Tables) -> pl.LazyFrame:
    value = col("ps_supplycost") * col("ps_availqty")
    germans = t["supplier"].join(
        t["nation"].filter(col("n_name") == "GERMANY"), left_on="s_nationkey", right_on="n_nationkey"
    )
    return (
        t["partsupp"]
        .join(germans, left_on="ps_suppkey", right_on="s_suppkey")
        .group_by("ps_partkey")
        .agg(value=value.sum())
        .filter(col("value") > col("value").sum() * (0.0001 / t.scale))
        .sort("value", descending=True)
    )


def q12(t: Tables) -> pl.LazyFrame:
    is_high = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t["lineitem"]
        .filter(
            col("l_shipmode").is_in(["MAIL", "SHIP"]),
            IS_LATE,
            col("l_shipdate") < col("l_commitdate"),
            within("l_receiptdate", (1994, 1, 1), (1995, 1, 1)),
        )
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .group_by("l_shipmode")
        .agg(high_line_count=is_high.sum(), low_line_count=is_high.not_().sum())
        .sort("l_shipmode")
    )


def q13(t: Tables) -> pl.LazyFrame:
    orders = t["orders"].filter(~col("o_comment").str.contains("special.*requests"))
    return (
        t["customer"]
        .join(orders, left_on="c_custkey", right_on="o_custkey", how="left")
        .group_by("c_custkey")
        .agg(c_count=col("o_orderkey").count())
        .group_by("c_count")
        .agg(custdist=pl.len())
        .sort("custdist", "c_count", descending=True)
    )


def q14(t: Tables) -> pl.LazyFrame:
    promoted = pl.when(col("p_type").str.starts_with("PROMO")).then(NET_PRICE).otherwise(0.0)
    return (
        t["lineitem"]
        .filter(within("l_shipdate", (1995, 9, 1), (1995, 10, 1)))
        .join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .select(promo_revenue=100 * promoted.sum() / NET_PRICE.sum())
    )


def q15(t: Tables) -> pl.LazyFrame:
    return (
        t["lineitem"]
        .filter(within("l_shipdate", (1996, 1, 1), (1996, 4, 1)))
        .group_by(s_suppkey="l_suppkey")
        .agg(total_revenue=NET_PRICE.sum())
        .filter(col("total_revenue") == col("total_revenue").max())
        .join(t["supplier"], on="s_suppkey")
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t: Tables) -> pl.LazyFrame:
    complained = t["supplier"].filter(col("s_comment").str.contains("Customer.*Complaints"))
    return (
        t["part"]
        .filter(
            col("p_brand") != "Brand#45",
            ~col("p_type").str.starts_with("MEDIUM POLISHED"),
            col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
        )
        .join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey")
        .join(complained, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .group_by("p_brand", "p_type", "p_size")
        .agg(supplier_cnt=col("ps_suppkey").n_unique())
        .sort("supplier_cnt", "p_brand", "p_type", "p_size", descending=[True, False, False, False])
    )


def q17(t: Tables) -> pl.LazyFrame:
    wanted = t["part"].filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
    lines = t["lineitem"].join(wanted, left_on="l_partkey", right_on="p_partkey", how="semi")
    limits = lines.group_by("l_partkey").agg(limit=0.2 * col("l_quantity").mean())
    return (
        lines.join(limits, on="l_partkey")
        .filter(col("l_quantity") < col("limit"))
        .select(avg_yearly=col("l_extendedprice").sum() / 7.0)
    )


def q18(t: Tables) -> pl.LazyFrame:
    large = (
        t["lineitem"]
        .group_by("l_orderkey")
        .agg(quantity=col("l_quantity").sum())
        .filter(col("quantity") > 300)
    )
    return (
        t["orders"]
        .join(large, left_on="o_orderkey", right_on="l_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey", coalesce=False)
        .select("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity")
        .sort("o_totalprice", "o_orderdate", descending=[True, False])
        .head(100)
    )


def q19(t: Tables) -> pl.LazyFrame:
    def fits(brand: str, containers: list[str], fewest: int, largest: int) -> pl.Expr:
        return (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers)
            & col("l_quantity").is_between(fewest, fewest + 10)
            & col("p_size").is_between(1, largest)
        )

    return (
        t["lineitem"]
        .filter(col("l_shipinstruct") == "DELIVER IN PERSON", col("l_shipmode").is_in(["AIR", "AIR REG"]))
        .join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .filter(
            fits("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
            | fits("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
            | fits("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
        )
        .select(revenue=NET_PRICE.sum())
    )


def q20(t: Tables) -> pl.LazyFrame:
    sold = (
        t["lineitem"]
        .filter(within("l_shipdate", (1994, 1, 1), (1995, 1, 1)))
        .group_by("l_partkey", "l_suppkey")
        .agg(half=0.5 * col("l_quantity").sum())
    )
    plenty = (
        t["partsupp"]
        .join(
            t["part"].filter(col("p_name").str.starts_with("forest")),
            left_on="ps_partkey",
            right_on="p_partkey",
            how="semi",
        )
        .join(sold, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .filter(col("ps_availqty") > col("half"))
    )
    return (
        t["supplier"]
        .join(t["nation"].filter(col("n_name") == "CANADA"), left_on="s_nationkey", right_on="n_nationkey")
        .join(plenty, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t: Tables) -> pl.LazyFrame:
    lines = t["lineitem"]
    shared = (
        lines.group_by("l_orderkey").agg(suppliers=col("l_suppkey").n_unique()).filter(col("suppliers") > 1)
    )
    late = lines.filter(IS_LATE)
    blamed = late.group_by("l_orderkey").agg(late=col("l_suppkey").n_unique()).filter(col("late") == 1)
    saudis = t["supplier"].join(
        t["nation"].filter(col("n_name") == "SAUDI ARABIA"), left_on="s_nationkey", right_on="n_nationkey"
    )
    return (
        late.join(shared, on="l_orderkey", how="semi")
        .join(blamed, on="l_orderkey", how="semi")
        .join(
            t["orders"].filter(col("o_orderstatus") == "F"),
            left_on="l_orderkey",
            right_on="o_orderkey",
            how="semi",
        )
        .join(saudis, left_on="l_suppkey", right_on="s_suppkey")
        .group_by("s_name")
        .agg(numwait=pl.len())
        .sort("numwait", "s_name", descending=[True, False])
        .head(100)
    )


def q22(t: Tables) -> pl.LazyFrame:
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    rich = (
        t["customer"]
        .with_columns(cntrycode=col("c_phone").str.slice(0, 2))
        .filter(col("cntrycode").is_in(codes))
        .filter(col("c_acctbal") > col("c_acctbal").filter(col("c_acctbal") > 0).mean())
    )
    return (
        rich.join(t["orders"], left_on="c_custkey", right_on="o_custkey", how="anti")
        .group_by("cntrycode")
        .agg(numcust=pl.len(), totacctbal=col("c_acctbal").sum())
        .sort("cntrycode")
    )


QUERIES: dict[int, Callable[[Tables], pl.LazyFrame]] = dict(
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
    return QUERIES[query](tables).collect().to_arrow()

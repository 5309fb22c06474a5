"""The 22 queries of TPC-H as SQL, with the specification's validation parameters."""

from pathlib import Path

import duckdb
import pyarrow as pa
from benchmarks.tpch.dataset import TABLES

Q01 = """
select l_returnflag, l_linestatus,
       sum(l_quantity) as sum_qty,
       sum(l_extendedprice) as sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
       avg(l_quantity) as avg_qty,
       avg(l_extendedprice) as avg_price,
       avg(l_discount) as avg_disc,
       count(*) as count_order
from lineitem
where l_shipdate <= date '1998-09-02'
group by l_returnflag, l_linestatus
order by l_returnflag, l_linestatus
"""

Q02 = """
with offers as (
    select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment, ps_supplycost
    from part
    join partsupp on ps_partkey = p_partkey
    join supplier on s_suppkey = ps_suppkey
    join nation on n_nationkey = s_nationkey
    join region on r_regionkey = n_regionkey
    where p_size = 15 and p_type like '%BRASS' and r_name = 'EUROPE'
)
select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
from offers
where ps_supplycost = (select min(o.ps_supplycost) from offers o where o.p_partkey = offers.p_partkey)
order by s_acctbal desc, n_name, s_name, p_partkey
limit 100
"""

Q03 = """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
from customer
join orders on o_custkey = c_custkey
join lineitem on l_orderkey = o_orderkey
where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate
limit 10
"""

Q04 = """
select o_orderpriority, count(*) as order_count
from orders
where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'
  and exists (select 1 from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
group by o_orderpriority
order by o_orderpriority
"""

Q05 = """
select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
from customer
join orders on o_custkey = c_custkey
join lineitem on l_orderkey = o_orderkey
join supplier on s_suppkey = l_suppkey and s_nationkey = c_nationkey
join nation on n_nationkey = s_nationkey
join region on r_regionkey = n_regionkey
where r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
group by n_name
order by revenue desc
"""

Q06 = """
select sum(l_extendedprice * l_discount) as revenue
from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
  and l_discount between 0.05 and 0.07 and l_quantity < 24
"""

Q07 = """
select s.n_name as supp_nation, c.n_name as cust_nation, extract(year from l_shipdate) as l_year,
       sum(l_extendedprice * (1 - l_discount)) as revenue
from supplier
join lineitem on l_suppkey = s_suppkey
join orders on o_orderkey = l_orderkey
join customer on c_custkey = o_custkey
join nation s on s.n_nationkey = s_nationkey
join nation c on c.n_nationkey = c_nationkey
where ((s.n_name = 'FRANCE' and c.n_name = 'GERMANY') or (s.n_name = 'GERMANY' and c.n_name = 'FRANCE'))
  and l_shipdate between date '1995-01-01' and date '1996-12-31'
group by supp_nation, cust_nation, l_year
order by supp_nation, cust_nation, l_year
"""

Q08 = """
select extract(year from o_orderdate) as o_year,
       sum(case when seller.n_name = 'BRAZIL' then l_extendedprice * (1 - l_discount) else 0 end)
           / sum(l_extendedprice * (1 - l_discount)) as mkt_share
from part
join lineitem on l_partkey = p_partkey
join supplier on s_suppkey = l_suppkey
join orders on o_orderkey = l_orderkey
join customer on c_custkey = o_custkey
join nation buyer on buyer.n_nationkey = c_nationkey
join region on r_regionkey = buyer.n_regionkey
join nation seller on seller.n_nationkey = s_nationkey
where r_name = 'AMERICA' and p_type = 'ECONOMY ANODIZED STEEL'
  and o_orderdate between date '1995-01-01' and date '1996-12-31'
group by o_year
order by o_year
"""

Q09 = """
select n_name as nation, extract(year from o_orderdate) as o_year,
       sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) as sum_profit
from part
join lineitem on l_partkey = p_partkey
join partsupp on ps_partkey = l_partkey and ps_suppkey = l_suppkey
join supplier on s_suppkey = l_suppkey
join orders on o_orderkey = l_orderkey
join nation on n_nationkey = s_nationkey
where p_name like '%green%'
group by n_name, o_year
order by n_name, o_year desc
"""

Q10 = """
select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue,
       c_acctbal, n_name, c_address, c_phone, c_comment
from customer
join orders on o_custkey = c_custkey
join lineitem on l_orderkey = o_orderkey
join nation on n_nationkey = c_nationkey
where o_orderdate >= date '1993-10-01' and o_orderdate < date '1994-01-01' and l_returnflag = 'R'
group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
order by revenue desc
limit 20
"""

# The share of the total that a part must reach shrinks as the scale grows, so that about as many parts do.
Q11 = """
with stock as (
    select ps_partkey, sum(ps_supplycost * ps_availqty) as value
    from partsupp
    join supplier on s_suppkey = ps_suppkey
    join nation on n_nationkey = s_nationkey
    where n_name = 'GERMANY'
    group by ps_partkey
)
select ps_partkey, value
from stock
where value > (select sum(value) * {share} from stock)
order by value desc
"""

Q12 = """
select l_shipmode,
       count(*) filter (where o_orderpriority in ('1-URGENT', '2-HIGH')) as high_line_count,
       count(*) filter (where o_orderpriority not in ('1-URGENT', '2-HIGH')) as low_line_count
from orders
join lineitem on l_orderkey = o_orderkey
where l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
  and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
group by l_shipmode
order by l_shipmode
"""

Q13 = """
with bought as (
    select c_custkey, count(o_orderkey) as c_count
    from customer
    left join orders on o_custkey = c_custkey and o_comment not like '%special%requests%'
    group by c_custkey
)
select c_count, count(*) as custdist
from bought
group by c_count
order by custdist desc, c_count desc
"""

Q14 = """
select 100 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
           / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from lineitem
join part on p_partkey = l_partkey
where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'
"""

# Materialised, because two sums of the same floats by several threads may differ in the last bit.
Q15 = """
with revenue as materialized (
    select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue
    from lineitem
    where l_shipdate >= date '1996-01-01' and l_shipdate < date '1996-04-01'
    group by l_suppkey
)
select s_suppkey, s_name, s_address, s_phone, total_revenue
from supplier
join revenue on supplier_no = s_suppkey
where total_revenue = (select max(total_revenue) from revenue)
order by s_suppkey
"""

Q16 = """
select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt
from partsupp
join part on p_partkey = ps_partkey
where p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%' and p_size in (49, 14, 23, 45, 19, 3, 36, 9)
  and ps_suppkey not in (select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
group by p_brand, p_type, p_size
order by supplier_cnt desc, p_brand, p_type, p_size
"""

Q17 = """
select sum(l_extendedprice) / 7.0 as avg_yearly
from lineitem
join part on p_partkey = l_partkey
where p_brand = 'Brand#23' and p_container = 'MED BOX'
  and l_quantity < (select 0.2 * avg(l.l_quantity) from lineitem l where l.l_partkey = p_partkey)
"""

Q18 = """
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as quantity
from customer
join orders on o_custkey = c_custkey
join lineitem on l_orderkey = o_orderkey
where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300)
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate
limit 100
"""

Q19 = """
select sum(l_extendedprice * (1 - l_discount)) as revenue
from lineitem
join part on p_partkey = l_partkey
where l_shipinstruct = 'DELIVER IN PERSON' and l_shipmode in ('AIR', 'AIR REG')
  and ((p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        and l_quantity between 1 and 11 and p_size between 1 and 5)
    or (p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        and l_quantity between 10 and 20 and p_size between 1 and 10)
    or (p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        and l_quantity between 20 and 30 and p_size between 1 and 15))
"""

Q20 = """
select s_name, s_address
from supplier
join nation on n_nationkey = s_nationkey
where n_name = 'CANADA'
  and s_suppkey in (
      select ps_suppkey
      from partsupp
      where ps_partkey in (select p_partkey from part where p_name like 'forest%')
        and ps_availqty > (
            select 0.5 * sum(l_quantity)
            from lineitem
            where l_partkey = ps_partkey and l_suppkey = ps_suppkey
              and l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'))
order by s_name
"""

Q21 = """
select s_name, count(*) as numwait
from supplier
join lineitem late on late.l_suppkey = s_suppkey
join orders on o_orderkey = late.l_orderkey
join nation on n_nationkey = s_nationkey
where o_orderstatus = 'F' and late.l_receiptdate > late.l_commitdate and n_name = 'SAUDI ARABIA'
  and exists (
      select 1 from lineitem l where l.l_orderkey = late.l_orderkey and l.l_suppkey <> late.l_suppkey)
  and not exists (
      select 1 from lineitem l
      where l.l_orderkey = late.l_orderkey and l.l_suppkey <> late.l_suppkey and l.l_receiptdate > l.l_commitdate)
group by s_name
order by numwait desc, s_name
limit 100
"""

Q22 = """
with rich as (
    select substring(c_phone, 1, 2) as cntrycode, c_custkey, c_acctbal
    from customer
    where substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17')
)
select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal
from rich
where c_acctbal > (select avg(c_acctbal) from rich where c_acctbal > 0)
  and not exists (select 1 from orders where o_custkey = c_custkey)
group by cntrycode
order by cntrycode
"""

QUERIES = dict(
    enumerate(
        (
            *(Q01, Q02, Q03, Q04, Q05, Q06, Q07, Q08, Q09, Q10, Q11),
            *(Q12, Q13, Q14, Q15, Q16, Q17, Q18, Q19, Q20, Q21, Q22),
        ),
        start=1,
    )
)


def connect(dataset: Path, *, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory whose tables are views of the dataset's files."""
    connection = duckdb.connect(config={} if threads is None else {"threads": threads})
    for name in TABLES:
        files = str(dataset / name / "*.parquet").replace("'", "''")
        connection.execute(f"create view {name} as select * from read_parquet('{files}')")
    return connection


def thread_count(connection: duckdb.DuckDBPyConnection) -> int:
    """The number of threads that queries are run with."""
    [(threads,)] = connection.execute("select current_setting('threads')").fetchall()
    return int(threads)


def run_query(connection: duckdb.DuckDBPyConnection, query: int, scale: float) -> pa.Table:
    """The query's answer."""
    return connection.sql(QUERIES[query].replace("{share}", f"{0.0001 / scale!r}")).to_arrow_table()

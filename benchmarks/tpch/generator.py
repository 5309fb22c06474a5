"""Makes the eight tables of TPC-H from a seed: its schema and value ranges, sizes linear in the scale factor.

Values follow the specification's distributions with four liberties, so that every query has something to find from a
scale factor of 0.01 on: suppliers and customers are dealt evenly to the nations, a few parts are made for the queries
that look for one brand, type, size or colour, a few orders are large, and comments come from a stock of sentences.
Amounts are floats of whole cents and dates are timestamps, which all engines read alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from benchmarks.tpch.columns import (
    Integers,
    addresses,
    comments,
    digits,
    draw,
    generator_of,
    join,
    money,
    phones,
    pick,
    stock,
)
from benchmarks.tpch.vocabulary import (
    BRANDS,
    COLOURS,
    CONTAINERS,
    INSTRUCTIONS,
    MODES,
    NATIONS,
    PRIORITIES,
    REGIONS,
    SEGMENTS,
    TYPES,
)
from numpy.typing import NDArray

SMALLEST_SCALE = 25 / 10_000  # one supplier a nation
SUPPLIERS_A_PART = 4
LINES = (1, 7)  # fewest and most lines of an order

_FIRST_DAY = np.datetime64("1992-01-01", "D")
_ORDER_DAYS = 2406  # up to 1998-08-02, so that all lines are received by the end of 1998
_TODAY = np.datetime64("1995-06-17", "D")
_ORDERS_A_BLOCK = 150_000

_SUPPLIER, _CUSTOMER, _PART, _PARTSUPP, _ORDERS = range(5)

Days = NDArray[np.datetime64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows of each table that has a row count of its own."""

    supplier: int
    customer: int
    part: int
    orders: int
    clerks: int

    @classmethod
    def at(cls, scale: float) -> "Counts":
        if scale < SMALLEST_SCALE:
            raise ValueError(f"a scale factor of {scale:g} is too small: {SMALLEST_SCALE:g} is the least")
        return cls(
            supplier=round(10_000 * scale),
            customer=round(150_000 * scale),
            part=round(200_000 * scale),
            orders=round(1_500_000 * scale),
            clerks=max(1, round(1_000 * scale)),
        )

    def blocks(self) -> list[range]:
        """Positions of the orders that are made together; two blocks at least, so that every engine can share work."""
        number = max(2, -(-self.orders // _ORDERS_A_BLOCK))
        edges = [self.orders * block // number for block in range(number + 1)]
        return [range(*edges[block : block + 2]) for block in range(number)]


def make_region() -> pa.Table:
    return pa.table(
        {
            "r_regionkey": np.arange(len(REGIONS)),
            "r_name": list(REGIONS),
            "r_comment": [f"markets of {name.lower()}" for name in REGIONS],
        }
    )


def make_nation() -> pa.Table:
    return pa.table(
        {
            "n_nationkey": np.arange(len(NATIONS)),
            "n_name": [name for name, _ in NATIONS],
            "n_regionkey": [region for _, region in NATIONS],
            "n_comment": [f"trade with {name.lower()}" for name, _ in NATIONS],
        }
    )


def make_supplier(counts: Counts, seed: int) -> pa.Table:
    rng = generator_of(seed, _SUPPLIER)
    keys = np.arange(1, counts.supplier + 1)
    nations = _deal(rng, counts.supplier)
    return pa.table(
        {
            "s_suppkey": keys,
            "s_name": join("Supplier#", digits(keys, 9)),
            "s_address": addresses(rng, counts.supplier),
            "s_nationkey": nations,
            "s_phone": phones(rng, nations),
            "s_acctbal": money(rng.integers(-99_999, 1_000_000, counts.supplier)),
            "s_comment": _supplier_comments(rng, counts.supplier),
        }
    )


def _deal(rng: np.random.Generator, count: int) -> Integers:
    """Nations, shuffled, each as often as any other."""
    return rng.permutation(np.arange(count) % len(NATIONS))


def _supplier_comments(rng: np.random.Generator, count: int) -> pa.Array:
    """One supplier in a hundred is praised and one complained about; both are there at any scale."""
    stocks = [
        stock(rng, (4, 10)),
        stock(rng, (3, 8), ("Customer", "Complaints")),
        stock(rng, (3, 8), ("Customer", "Recommends")),
    ]
    kinds = rng.permutation(np.select([np.arange(count) % 100 == 0, np.arange(count) % 100 == 1], [1, 2], 0))
    size = len(stocks[0])
    return pick([text for kind in stocks for text in kind], kinds * size + rng.integers(0, size, count))


def make_customer(counts: Counts, seed: int) -> pa.Table:
    rng = generator_of(seed, _CUSTOMER)
    keys = np.arange(1, counts.customer + 1)
    nations = _deal(rng, counts.customer)
    return pa.table(
        {
            "c_custkey": keys,
            "c_name": join("Customer#", digits(keys, 9)),
            "c_address": addresses(rng, counts.customer),
            "c_nationkey": nations,
            "c_phone": phones(rng, nations),
            "c_acctbal": money(rng.integers(-99_999, 1_000_000, counts.customer)),
            "c_mktsegment": draw(rng, SEGMENTS, counts.customer),
            "c_comment": comments(rng, counts.customer, (5, 14)),
        }
    )


def make_part(counts: Counts, seed: int) -> pa.Table:
    rng = generator_of(seed, _PART)
    keys = np.arange(1, counts.part + 1)
    brands, kinds, sizes, containers, colours = _part_codes(rng, keys)
    return pa.table(
        {
            "p_partkey": keys,
            "p_name": join(*(pick(COLOURS, colours[:, word]) for word in range(5)), between=" "),
            "p_mfgr": join("Manufacturer#", digits(brands // 5 + 1)),
            "p_brand": pick(BRANDS, brands),
            "p_type": pick(TYPES, kinds),
            "p_size": sizes,
            "p_container": pick(CONTAINERS, containers),
            "p_retailprice": money(_retail_cents(keys)),
            "p_comment": comments(rng, counts.part, (1, 3)),
        }
    )


def _part_codes(rng: np.random.Generator, keys: Integers) -> tuple[Integers, ...]:
    """Brand, type, size, container and five colours; some parts get those that queries ask for."""
    count = len(keys)
    brands, kinds, sizes, containers = (
        rng.integers(low, high, count)
        for low, high in ((0, len(BRANDS)), (0, len(TYPES)), (1, 51), (0, len(CONTAINERS)))
    )
    colours = rng.integers(0, len(COLOURS), (count, 5))
    wanted = (("Brand#12", "SM BOX"), ("Brand#23", "MED BOX"), ("Brand#34", "LG BOX"))
    for turn, (brand, container) in enumerate(wanted):  # queries 17 and 19
        chosen = keys % 150 == 50 * turn + 1
        brands[chosen], containers[chosen] = BRANDS.index(brand), CONTAINERS.index(container)
        sizes[chosen] = keys[chosen] // 150 % 5 + 1
    brass = keys % 100 == 7  # query 2
    sizes[brass], kinds[brass] = 15, kinds[brass] // 5 * 5
    kinds[keys % 75 == 3] = TYPES.index("ECONOMY ANODIZED STEEL")  # query 8
    colours[keys % 40 == 5, 0] = COLOURS.index("forest")  # query 20
    return brands, kinds, sizes, containers, colours


def _retail_cents(part_keys: Integers) -> Integers:
    return 90_000 + part_keys // 10 % 20_001 + 100 * (part_keys % 1_000)


def make_partsupp(counts: Counts, seed: int) -> pa.Table:
    rng = generator_of(seed, _PARTSUPP)
    parts = np.repeat(np.arange(1, counts.part + 1), SUPPLIERS_A_PART)
    turns = np.tile(np.arange(SUPPLIERS_A_PART), counts.part)
    rows = len(parts)
    return pa.table(
        {
            "ps_partkey": parts,
            "ps_suppkey": _supplier_of(parts, turns, counts.supplier),
            "ps_availqty": rng.integers(1, 10_000, rows),
            "ps_supplycost": money(rng.integers(100, 100_001, rows)),
            "ps_comment": comments(rng, rows, (8, 20)),
        }
    )


def _supplier_of(parts: Integers, turns: Integers, suppliers: int) -> Integers:
    """The supplier that is a part's first to fourth; they are four different ones."""
    return (parts + parts // suppliers + turns * (suppliers // SUPPLIERS_A_PART)) % suppliers + 1


def make_orders(counts: Counts, seed: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Orders with their lines, a block at a time."""
    for number, positions in enumerate(counts.blocks()):
        yield _make_block(
            counts, generator_of(seed, _ORDERS, number), np.arange(positions.start, positions.stop)
        )


def _make_block(counts: Counts, rng: np.random.Generator, positions: Integers) -> tuple[pa.Table, pa.Table]:
    days = _FIRST_DAY + rng.integers(0, _ORDER_DAYS, len(positions))
    large = positions % 1500 == 7  # query 18 looks for orders of more than 300 pieces
    lines = np.where(large, LINES[1], rng.integers(LINES[0], LINES[1] + 1, len(positions)))
    order = np.repeat(np.arange(len(positions)), lines)
    keys = positions // 8 * 32 + positions % 8 + 1  # a quarter of the key space is used, as specified
    first = np.concatenate([[0], np.cumsum(lines)[:-1]])
    items = _make_lines(counts, rng, days[order], large[order])
    items = items.add_column(0, "l_orderkey", pa.array(keys[order]))
    items = items.add_column(3, "l_linenumber", pa.array(np.arange(len(order)) - first[order] + 1))
    return _make_order_rows(counts, rng, keys, days, items, first, lines), items


def _make_lines(
    counts: Counts, rng: np.random.Generator, ordered: Days, large: NDArray[np.bool_]
) -> pa.Table:
    rows = len(ordered)
    parts = rng.integers(1, counts.part + 1, rows)
    quantity = np.where(large, rng.integers(44, 51, rows), rng.integers(1, 51, rows))
    shipped = ordered + rng.integers(1, 122, rows)
    received = shipped + rng.integers(1, 31, rows)
    returned = np.where(received <= _TODAY, rng.integers(0, 2, rows), 2)
    return pa.table(
        {
            "l_partkey": parts,
            "l_suppkey": _supplier_of(parts, rng.integers(0, SUPPLIERS_A_PART, rows), counts.supplier),
            "l_quantity": quantity.astype(np.float64),
            "l_extendedprice": money(quantity * _retail_cents(parts)),
            "l_discount": money(rng.integers(0, 11, rows)),
            "l_tax": money(rng.integers(0, 9, rows)),
            "l_returnflag": pick(("A", "R", "N"), returned),
            "l_linestatus": pick(("F", "O"), (shipped > _TODAY).astype(np.int64)),
            "l_shipdate": _timestamps(shipped),
            "l_commitdate": _timestamps(ordered + rng.integers(30, 91, rows)),
            "l_receiptdate": _timestamps(received),
            "l_shipinstruct": draw(rng, INSTRUCTIONS, rows),
            "l_shipmode": draw(rng, MODES, rows),
            "l_comment": comments(rng, rows, (2, 6)),
        }
    )


def _make_order_rows(
    counts: Counts,
    rng: np.random.Generator,
    keys: Integers,
    days: Days,
    items: pa.Table,
    first: Integers,
    lines: Integers,
) -> pa.Table:
    rows = len(keys)
    price, tax, discount = (items[f"l_{name}"].to_numpy() for name in ("extendedprice", "tax", "discount"))
    total = np.add.reduceat(price * (1 + tax) * (1 - discount), first)
    is_open = np.add.reduceat((items["l_linestatus"].to_numpy() == "O").astype(np.int64), first)
    buyers = rng.integers(0, counts.customer - counts.customer // 3, rows)
    notes = stock(rng, (4, 10), ("special", "requests"), every=64)
    return pa.table(
        {
            "o_orderkey": keys,
            "o_custkey": buyers // 2 * 3 + buyers % 2 + 1,  # every third customer never buys
            "o_orderstatus": pick(("F", "O", "P"), np.select([is_open == 0, is_open == lines], [0, 1], 2)),
            "o_totalprice": total.round(2),
            "o_orderdate": _timestamps(days),
            "o_orderpriority": draw(rng, PRIORITIES, rows),
            "o_clerk": join("Clerk#", digits(rng.integers(1, counts.clerks + 1, rows), 9)),
            "o_shippriority": np.zeros(rows, dtype=np.int64),
            "o_comment": draw(rng, notes, rows),
        }
    )


def _timestamps(days: Days) -> pa.Array:
    return pa.array(days.astype("datetime64[us]"))

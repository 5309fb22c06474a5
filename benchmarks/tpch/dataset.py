"""TPC-H tables on disk: Parquet files that every engine reads, made once for a scale factor and a seed.

python -m benchmarks.tpch.dataset --output data --scale 1
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.tpch import generator

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
SEED = 1992
# A change of the data under the same name would be taken for a change of the engines.
VERSION = 1


def ensure_dataset(directory: Path, scale: float, seed: int = SEED) -> Path:
    """The directory with a folder of Parquet files a table; what is there already is used."""
    target = directory / f"tpch-{VERSION}-scale-{scale:g}-seed-{seed}"
    if target.exists():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    workplace = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=directory))
    try:
        for path, table in make_files(scale, seed):
            (workplace / path).parent.mkdir(exist_ok=True)
            pq.write_table(table, workplace / path)
        workplace.chmod(0o755)
        _publish(workplace, target)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
    return target


def _publish(workplace: Path, target: Path) -> None:
    """Two processes may make the same data at once; it is the same, so the first one's stays."""
    try:
        workplace.rename(target)
    except OSError:
        if not target.exists():
            raise


def make_files(scale: float, seed: int) -> Iterator[tuple[str, pa.Table]]:
    """Every file's path with its content; orders and lines, most of the data, are made a block at a time."""
    counts = generator.Counts.at(scale)
    yield "region/part-0.parquet", generator.make_region()
    yield "nation/part-0.parquet", generator.make_nation()
    files = len(counts.blocks())
    for name in ("supplier", "customer", "part", "partsupp"):
        make = getattr(generator, f"make_{name}")
        yield from _in_files(name, make(counts, seed), 1 if name == "supplier" else files)
    for number, (orders, lines) in enumerate(generator.make_orders(counts, seed)):
        yield f"orders/part-{number}.parquet", orders
        yield f"lineitem/part-{number}.parquet", lines


def _in_files(name: str, table: pa.Table, files: int) -> Iterator[tuple[str, pa.Table]]:
    edges = [len(table) * number // files for number in range(files + 1)]
    for number in range(files):
        yield f"{name}/part-{number}.parquet", table.slice(edges[number], edges[number + 1] - edges[number])


def data_bytes(dataset: Path) -> int:
    """Size of the tables' Parquet pages before compression."""
    return sum(_uncompressed_bytes(file) for file in dataset.glob("*/*.parquet"))


def _uncompressed_bytes(file: Path) -> int:
    metadata = pq.read_metadata(file)
    return sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the tables of TPC-H as Parquet files.")
    parser.add_argument(
        "--output", type=Path, required=True, help="directory that gets a folder with the tables"
    )
    parser.add_argument("--scale", type=float, default=0.01, help="scale factor; 1 is about 6 million lines")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    print(ensure_dataset(options.output, options.scale, options.seed))


if __name__ == "__main__":
    main()

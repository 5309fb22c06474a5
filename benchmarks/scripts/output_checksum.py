"""A checksum over written documents that does not depend on their order, nor on how they are spread over files."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from paceline.curate.arrow import pq


def checksum_of(directory: Path) -> str:
    """The sum of all rows' hashes: the same for the same documents, whichever executor wrote them."""
    total = 0
    for path in sorted(directory.rglob("*")):
        for row in _rows(path):
            line = orjson.dumps(row, option=orjson.OPT_SORT_KEYS)
            total += int.from_bytes(blake2b(line, digest_size=8).digest())
    return f"{total % (1 << 64):016x}"


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        yield from pq.read_table(path).to_pylist()
    elif path.suffix == ".jsonl":
        with path.open("rb") as file:
            yield from map(orjson.loads, file)

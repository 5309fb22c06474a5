"""How much of an attention is computed at once, so that it stays within a number of bytes; known without torch."""

from typing import NamedTuple

from paceline.evals.attention_config import SparseAttentionConfig

DEFAULT_BYTES = 512 << 20
"""The memory that one layer's attention may take besides its inputs and outputs."""


class Shape(NamedTuple):
    """One layer's attention: of `heads` queries each, `kv_heads` keys; `size` numbers of `item` bytes each."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    item: int


def cell_bytes(attention: SparseAttentionConfig, item: int) -> int:
    """Bytes for each head × query × key: the scores, which keys are kept, and the most that a step needs."""
    softmax = item + 8
    steps = max(masker.cell_bytes for masker in attention.maskers)
    return item + 3 + max(steps, softmax) + (softmax if attention.measure_error else 0)


def block(shape: Shape, cell: int, budget: int) -> tuple[int, int]:
    """How many heads and how many queries at once: as many as fit, and at least one query of one head of keys."""
    group = shape.heads // shape.kv_heads
    row = shape.batch * shape.keys * cell
    kv_heads = min(shape.kv_heads, max(1, budget // (2 * group * max(1, _copies(shape, 1) + row))))
    heads = kv_heads * group
    queries = (budget - _copies(shape, heads)) // (heads * row) if row else shape.queries
    return heads, max(1, min(shape.queries, queries))


def workspace_bytes(shape: Shape, cell: int, budget: int) -> int:
    """What a layer's attention takes at most when it is computed so."""
    heads, queries = block(shape, cell, budget)
    return _copies(shape, heads) + heads * queries * shape.batch * shape.keys * cell


def _copies(shape: Shape, heads: int) -> int:
    """Keys and values, each head of which several heads of queries share, written out for those."""
    if shape.heads == shape.kv_heads:
        return 0
    return 2 * shape.batch * heads * shape.keys * shape.size * shape.item

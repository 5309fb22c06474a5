"""How large a workload is: a share of the cluster's memory, turned into shapes, chunks and partitions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from dask.utils import parse_bytes

MIB = 2**20
SMALLEST_CHUNK_BYTES = 4 * MIB
LARGEST_CHUNK_BYTES = 128 * MIB
# Tables of scale factor 1 hold about 1 GB; joins of them pass several times that through memory.
_BYTES_A_TPCH_SCALE = 10 * 2**30
_SMALLEST_TPCH_SCALE = 0.01

# What the names of `--dask-scale` stand for: the share of the cluster's memory that a workload of size 1 takes.
SHARES = {"smallest": 0.05, "small": 0.2, "medium": 0.5, "full": 1.0}
_LARGEST_SHARE = 4.0
_TASKS_AT_FULL = 20_000

_FREE_AXIS = re.compile(r"(\d+(?:\.\d+)?)?x")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSize:
    """What the workers of a cluster have together."""

    workers: int
    threads: int
    memory_bytes: int

    @property
    def chunk_bytes(self) -> int:
        """A chunk of which each thread could hold 128, within what Dask works well with."""
        share = self.memory_bytes // self.threads // 128
        return min(max(share, SMALLEST_CHUNK_BYTES), LARGEST_CHUNK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a workload may use on this cluster at the scale asked for."""

    cluster: ClusterSize
    share: float

    def data_bytes(self, multiple: float) -> int:
        """Bytes of data for a workload of so many times the usual size."""
        return int(self.cluster.memory_bytes * self.share * multiple)

    def tasks(self, multiple: float = 1.0) -> int:
        """Number of tasks for a workload that is about tasks and not about data."""
        return max(1, round(_TASKS_AT_FULL * self.share * multiple))

    def tpch_scale(self) -> float:
        """A scale factor of two digits, so that a little more memory does not make other tables."""
        scale = self.cluster.memory_bytes * self.share / _BYTES_A_TPCH_SCALE
        return max(_SMALLEST_TPCH_SCALE, float(f"{scale:.2g}"))


def parse_share(text: str) -> float:
    """The share that a name or a number of `--dask-scale` means."""
    if text in SHARES:
        return SHARES[text]
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= _LARGEST_SHARE:
        names = ", ".join(SHARES)
        raise ValueError(
            f"{text!r} is no scale: give {names}, or a share of the memory up to {_LARGEST_SHARE:g}"
        )
    return share


def solve_shape(
    target_bytes: int, template: Sequence[int | str], *, itemsize: int = 8, max_error: float = 0.1
) -> tuple[int, ...]:
    """The shape of an array of about so many bytes.

    An axis of the template is a length, a size such as "8 MiB" of one row along it, or free: "x", or "3x" for three
    times as long. Axes of one factor are of one length. Raises ValueError if no shape comes within `max_error`.
    """
    factors = {axis: _factor(length) for axis, length in enumerate(template) if _is_free(length)}
    lengths = {
        axis: _fixed_length(length, itemsize) for axis, length in enumerate(template) if axis not in factors
    }
    remaining = target_bytes / itemsize / prod(lengths.values())
    open_axes = dict(factors)
    # The longest axes come last: they can be set most finely, and take up what rounding the others left.
    for factor in sorted(set(factors.values())):
        unit = (remaining / prod(open_axes.values())) ** (1 / len(open_axes))
        alike = [axis for axis in open_axes if open_axes[axis] == factor]
        lengths |= dict.fromkeys(alike, max(1, round(factor * unit)))
        remaining /= prod(lengths[axis] for axis in alike)
        open_axes = {axis: other for axis, other in open_axes.items() if other != factor}
    shape = tuple(lengths[axis] for axis in range(len(template)))
    _check_error(shape, target_bytes, itemsize, max_error)
    return shape


def _is_free(length: int | str) -> bool:
    return isinstance(length, str) and _FREE_AXIS.fullmatch(length) is not None


def _factor(length: int | str) -> float:
    found = _FREE_AXIS.fullmatch(str(length))
    return float(found[1] or 1) if found else 1.0


def _fixed_length(length: int | str, itemsize: int) -> int:
    elements = length if isinstance(length, int) else parse_bytes(length) // itemsize
    if elements < 1:
        raise ValueError(f"an axis of {length!r} holds nothing")
    return elements


def _check_error(shape: tuple[int, ...], target_bytes: int, itemsize: int, max_error: float) -> None:
    actual = prod(shape) * itemsize
    if abs(actual - target_bytes) > max_error * target_bytes:
        raise ValueError(f"{shape} takes {actual} bytes: not within {max_error:.0%} of {target_bytes}")


def temper(target_bytes: int, exponent: float, reference_bytes: int = 64 * MIB) -> int:
    """Fewer bytes for work that grows faster than its data, so that time still grows as the target does.

    Work of `bytes ** exponent` takes at the tempered size what linear work takes at the target, scaled to agree at
    the reference size.
    """
    return round(reference_bytes * (target_bytes / reference_bytes) ** (1 / exponent))


def partition_count(target_bytes: int, sample_bytes: int) -> int:
    """How many partitions like the sample make up the target; two at least, so that there is work to share."""
    return max(2, round(target_bytes / sample_bytes))

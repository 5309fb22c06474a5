"""Sizes of the Dask suite: shares of memory that become shapes, chunks, partitions and scale factors."""

from math import prod

import dask
import pytest
from benchmarks.dask.frames import bytes_of, count_rows, make_float_frame, make_timeseries, rows_of
from benchmarks.dask.sizes import (
    LARGEST_CHUNK_BYTES,
    MIB,
    SHARES,
    SMALLEST_CHUNK_BYTES,
    Budget,
    ClusterSize,
    parse_share,
    partition_count,
    solve_shape,
    temper,
)
from hypothesis import assume, given
from hypothesis import strategies as st

FREE = st.integers(1, 20).map(lambda factor: "x" if factor == 1 else f"{factor}x")
TEMPLATES = st.lists(FREE, min_size=1, max_size=4)
TARGETS = st.integers(4 * MIB, 2**46)
CLUSTERS = st.builds(
    ClusterSize,
    workers=st.integers(1, 1000),
    threads=st.integers(1, 1000),
    memory_bytes=st.integers(64 * MIB, 2**46),
)


@given(TARGETS, TEMPLATES, st.sampled_from([1, 2, 4, 8]))
def test_a_shape_takes_the_bytes_asked_for(target_bytes: int, template: list[str], itemsize: int) -> None:
    shape = solve_shape(target_bytes, template, itemsize=itemsize)
    assert len(shape) == len(template)
    assert all(length >= 1 for length in shape)
    assert prod(shape) * itemsize == pytest.approx(target_bytes, rel=0.1)


@given(TARGETS, st.integers(2, 20))
def test_free_axes_keep_their_proportion(target_bytes: int, factor: int) -> None:
    short, long, other = solve_shape(target_bytes, ["x", f"{factor}x", "x"])
    assert long / short == pytest.approx(factor, rel=0.1)
    assert short == other


@given(TARGETS, TARGETS, TEMPLATES)
def test_more_bytes_never_make_a_smaller_array(one: int, other: int, template: list[str]) -> None:
    fewer, more = sorted([one, other])
    assume(more > 1.3 * fewer)
    assert prod(solve_shape(fewer, template)) <= prod(solve_shape(more, template))


def test_fixed_axes_stay_as_they_are() -> None:
    assert solve_shape(800 * MIB, [100, "x"]) == (100, MIB)
    assert solve_shape(8 * MIB, ["x", "1 MiB"]) == (8, MIB // 8)
    assert solve_shape(64, [8]) == (8,)


@pytest.mark.parametrize(
    ("target_bytes", "template"), [(8, [100]), (64, [1000, "x"]), (800, ["4 B", "x"]), (10**9, [10, 10])]
)
def test_an_impossible_shape_is_refused(target_bytes: int, template: list[int | str]) -> None:
    with pytest.raises(ValueError, match=r"bytes|nothing"):
        solve_shape(target_bytes, template)


@given(TARGETS, st.floats(1, 3), st.integers(MIB, 2**36))
def test_tempered_work_grows_as_the_target_does(
    target_bytes: int, exponent: float, reference_bytes: int
) -> None:
    work = temper(target_bytes, exponent, reference_bytes) ** exponent
    assert work == pytest.approx(target_bytes * reference_bytes ** (exponent - 1), rel=1e-2)


@given(st.integers(0, 2**46), st.integers(1, 2**40))
def test_partitions_make_up_the_target(target_bytes: int, sample_bytes: int) -> None:
    partitions = partition_count(target_bytes, sample_bytes)
    assert partitions == 2 or abs(partitions * sample_bytes - target_bytes) <= sample_bytes / 2


@given(CLUSTERS, st.floats(0.001, 4), st.floats(0.01, 8))
def test_a_budget_follows_from_memory_and_share(cluster: ClusterSize, share: float, multiple: float) -> None:
    budget = Budget(cluster=cluster, share=share)
    assert budget.data_bytes(multiple) == pytest.approx(cluster.memory_bytes * share * multiple, abs=1)
    assert SMALLEST_CHUNK_BYTES <= cluster.chunk_bytes <= LARGEST_CHUNK_BYTES
    assert budget.tasks() >= 1
    assert budget.tpch_scale() >= 0.01


def test_a_little_more_memory_does_not_change_the_tables() -> None:
    scales = {
        Budget(cluster=ClusterSize(workers=2, threads=2, memory_bytes=memory), share=1.0).tpch_scale()
        for memory in (64 * 2**30, 64 * 2**30 + 123_456_789)
    }
    assert len(scales) == 1


@pytest.mark.parametrize(("text", "share"), [*SHARES.items(), ("0.3", 0.3), ("2", 2.0)])
def test_a_scale_is_a_name_or_a_share(text: str, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize("text", ["tiny", "", "0", "-1", "nan", "5", "inf"])
def test_other_scales_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(ValueError, match="smallest, small, medium, full"):
        parse_share(text)


def test_frames_have_the_size_asked_for_and_depend_on_the_seed_alone() -> None:
    target_bytes = 8 * MIB
    floats = make_float_frame(target_bytes, partition_bytes=MIB)
    series = make_timeseries(target_bytes, rows_a_day=5_000)
    for frame in (floats, series):
        assert bytes_of(frame) == pytest.approx(target_bytes, rel=0.2)
        computed = frame.compute(scheduler="synchronous")
        assert len(computed) == rows_of(frame)
        assert computed.equals(frame.compute(scheduler="synchronous"))
    other = make_timeseries(target_bytes, rows_a_day=5_000, seed=7).compute(scheduler="synchronous")
    assert not other.equals(computed)
    assert other.index.equals(computed.index)
    assert computed.index.is_monotonic_increasing


def test_counting_rows_leaves_no_work_out() -> None:
    left, right = (make_float_frame(2 * MIB, partition_bytes=MIB // 2, seed=seed) for seed in (1, 2))
    joined, indexed = left.merge(right, on="key"), left.set_index("key")
    with dask.config.set(scheduler="synchronous"):
        assert count_rows(indexed).compute() == rows_of(left)
        assert count_rows(joined).compute() == len(joined)
    for counted, width in (
        (count_rows(joined), 21),
        (count_rows(indexed), 10),
        (count_rows(left.shuffle("key")), 11),
    ):
        plan = list(counted.optimize(fuse=False).expr.walk())
        assert any("Shuffle" in type(step).__name__ for step in plan)
        [counting] = [step for step in plan if type(step).__name__ == "MapPartitions"]
        assert len(counting.frame.columns) == width

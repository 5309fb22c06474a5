"""How functions are timed, by a clock that shows only what the function adds to it."""

import asyncio
import gc
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from paceline.timing.bench import Bench, Settings, Timed
from paceline.timing.functions import Effort, Rounds, measure
from paceline.timing.work import Calls, Statement

QUICK = 0.01


class Clock:
    """A clock that stands still unless somebody works."""

    def __init__(self, reading_s: float = 1e-8) -> None:
        self.now = 0.0
        self._reading_s = reading_s

    def __call__(self) -> float:
        self.now += self._reading_s
        return self.now

    def worker(self, *costs_s: float) -> Callable[[], int]:
        """A function that takes these times, call by call, and then always the last."""
        calls = []

        def work() -> int:
            calls.append(1)
            self.now += costs_s[min(len(calls), len(costs_s)) - 1]
            return len(calls)

        return work


def taken(work: Callable[..., Any], clock: Clock, **effort: Any) -> Rounds:
    return measure(Calls(work, timer=clock), Effort(seconds=QUICK, **effort))


@pytest.mark.parametrize("cost_s", [2e-8, 1e-6, 5e-5, 5e-3, 0.7])
def test_a_round_takes_as_long_as_the_clock_needs_and_not_much_longer(cost_s: float) -> None:
    clock = Clock()
    found = taken(clock.worker(cost_s), clock)
    assert statistics.median(found.samples_s) == pytest.approx(cost_s, rel=0.01)
    assert 0.0002 <= found.loops * cost_s <= max(0.0005, cost_s)
    assert found.laps == (9 if cost_s < 1e-4 else 1) and found.laps * found.loops * cost_s < max(
        0.005, 2 * cost_s
    )
    assert len(found.samples_s) >= 5 and found.is_settled and not found.is_too_short


def test_a_slow_first_call_does_not_make_the_rounds_short() -> None:
    clock = Clock()
    found = taken(clock.worker(3.0, 1e-6), clock)
    assert found.loops >= 200 and max(found.samples_s) < 2e-6


def test_the_warm_up_goes_on_until_the_function_settles() -> None:
    clock = Clock()
    costs = [0.1 * 0.8**turn for turn in range(12)]
    found = taken(clock.worker(*costs), clock)
    assert found.warmups >= 12 and found.is_settled
    assert {round(one, 6) for one in found.samples_s} == {round(costs[-1], 6)}
    work = Calls(clock.worker(*(0.1 * 0.97**turn for turn in range(100_000))), timer=clock)
    endless = measure(work, Effort(seconds=0.0002, loops=1))
    assert not endless.is_settled


def test_rounds_loops_and_warm_up_that_are_given_are_kept_to() -> None:
    clock = Clock()
    work = clock.worker(1e-9)
    found = taken(work, clock, rounds=3, loops=2, warmup=4)
    assert (len(found.samples_s), found.loops, found.warmups, work()) == (3, 2, 4, 3 * 2 + 4 * 2 + 1)
    assert found.is_too_short
    for wrong in ({"rounds": 0}, {"loops": 0}, {"warmup": -1}, {"rounds": 1.5}):
        with pytest.raises(ValueError, match="must be a whole number"):
            Effort(**wrong)


@pytest.mark.parametrize("collects", [False, True])
def test_garbage_is_collected_in_a_round_only_if_that_is_wanted(collects: bool) -> None:
    seen = []
    measure(Calls(lambda: seen.append(gc.isenabled())), Effort(rounds=2, loops=1, warmup=1, gc=collects))
    assert seen == [collects] * 3 and gc.isenabled()


def test_cycles_are_collected_between_rounds() -> None:
    def make() -> None:
        for _ in range(20_000):
            one: list[Any] = []
            one.append(one)

    measure(Calls(make), Effort(rounds=20, loops=1, warmup=0))
    assert gc.get_count()[0] < 200_000


def test_a_tracer_sees_nothing_of_a_round() -> None:
    seen = []

    def trace(frame: Any, _event: str, _argument: Any) -> None:
        seen.append(frame.f_code.co_name)

    def watched() -> None:
        pass

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        measure(Calls(watched), Effort(rounds=2, loops=2, warmup=0))
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert "measure" in seen and "watched" not in seen


def test_what_comes_around_a_round_is_not_timed() -> None:
    clock = Clock()
    events: list[str] = []

    def setup() -> tuple[tuple[str], dict[str, str]]:
        clock.now += 100
        events.append("setup")
        return ("a",), {"b": "c"}

    def work(a: str, b: str) -> None:
        clock.now += 1
        events.append(a + b)

    def teardown(a: str, b: str) -> None:
        clock.now += 100
        events.append(b + a)

    found = measure(
        Calls(work, setup=setup, teardown=teardown, timer=clock), Effort(rounds=2, loops=1, warmup=0)
    )
    assert events == ["setup", "ac", "ca"] * 2
    assert found.samples_s == pytest.approx((1, 1))
    with pytest.raises(TypeError, match="there must be no others"):
        Calls(work, ("x",), setup=setup).round(1)
    with pytest.raises(TypeError, match=r"must return \(args, kwargs\)"):
        Calls(work, setup=lambda: 3).round(1)


def test_the_peak_is_that_of_one_call() -> None:
    found = measure(Calls(lambda: bytes(5_000_000)), Effort(rounds=1, loops=1, warmup=0, memory=True))
    assert found.peak_bytes is not None and 5_000_000 <= found.peak_bytes < 5_100_000


def test_code_is_timed_with_the_variables_of_its_set_up() -> None:
    log: list[str] = []
    sys.modules["log_of_statement"] = type(sys)("log_of_statement")
    sys.modules["log_of_statement"].log = log  # type: ignore[attr-defined]
    code = Statement(
        "n += 1\nlog.append(f'code {n}')",
        setup="from log_of_statement import log\nn = 0",
        prepare="log.append('prepare')",
        conclude="log.append('conclude')",
    )
    assert code.round(2) > 0 and code.round(1) > 0 and 0 < code.loop(100) < 0.1
    assert log == ["prepare", "code 1", "code 2", "conclude", "prepare", "code 3", "conclude"]
    del sys.modules["log_of_statement"]
    for wrong in ("return 1", "break", "yield", "1 +", "await x"):
        with pytest.raises(SyntaxError):
            Statement(wrong)


class Kept(list[Timed]):
    """What `bench` was asked to keep."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.bench = Bench(self.append, Settings(seconds=QUICK, **settings))


def test_bench_returns_what_the_function_returns() -> None:
    kept = Kept()
    assert kept.bench(sorted, [2, 1], reverse=True) == [2, 1]
    assert kept.bench(dict, rounds=1, seconds=3) == {"seconds": 3}
    assert kept.bench.run(dict, (), {"rounds": 1}) == {"rounds": 1}
    assert [len(one.rounds.samples_s) >= 5 for one in kept] == [True, False, True]
    assert kept.bench.pedantic(dict, kwargs={"a": 1}, rounds=4, iterations=3) == {"a": 1}
    assert (kept[-1].rounds.loops, len(kept[-1].rounds.samples_s)) == (3, 4)
    given = kept.bench.using(setup=lambda: (([3, 1],), {}))
    assert given(sorted) == [1, 3] and kept[-1].rounds.loops == 1
    with pytest.raises(TypeError, match="has no roundz"):
        kept.bench.using(roundz=1)
    with pytest.raises(ValueError, match="leave iterations at 1"):
        kept.bench.pedantic(int, setup=lambda: None, iterations=2)


def test_a_function_that_fails_keeps_the_rounds_before() -> None:
    kept, left = Kept(), [1, 2, 3]
    with pytest.raises(IndexError):
        kept.bench(left.pop, rounds=5, warmup=1)
    assert [len(one.rounds.samples_s) for one in kept] == [2]


def test_async_functions_are_awaited_in_one_loop() -> None:
    loops = set()

    async def work(given: int) -> int:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return given

    class Callable:
        async def __call__(self) -> str:
            return "called"

    kept = Kept()
    assert kept.bench(work, 3) == 3 and len(loops) == 1
    assert kept.bench(work, 4, rounds=2) == 4
    assert Bench(None)(work, 5) == 5 and Bench(None)(Callable()) == "called"

    async def inside() -> None:  # As in a notebook, whose thread has a loop already.
        loops.clear()
        assert kept.bench(work, 6) == 6 and len(loops) == 1
        assert loops != {asyncio.get_running_loop()}

    with ThreadPoolExecutor(1) as thread:  # A browser of other tests has a loop in this one.
        thread.submit(asyncio.run, inside()).result()

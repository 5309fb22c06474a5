"""The scheduler's promises, held against random plans: needs first, never too much at once, each case once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.model import Case, Record, Resources, Status
from paceline.run.scheduler import Capacity, Grant, Scheduler

CAPACITY = Capacity(cpus=4, memory_bytes=100, gpus=("0", "1"))


@st.composite
def plans(draw: st.DrawFn) -> list[Case]:
    count = draw(st.integers(1, 12))
    cases = []
    for number in range(count):
        needs = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        resources = Resources(
            cpus=draw(st.sampled_from([0.5, 1, 2, 4, 64])),
            gpus=draw(st.integers(0, 2)),
            memory_bytes=draw(st.sampled_from([0, 40, 60, 1000])),
            exclusive=draw(st.booleans()),
        )
        name = f"c{number}"
        needed = tuple(f"c{need}" for need in sorted(needs))
        cases.append(Case(name=name, entry=name, key=name, resources=resources, needs=needed))
    return cases


class Watcher:
    """Runs cases that do nothing but be counted while they run."""

    def __init__(self, failing: set[str]) -> None:
        self.failing = failing
        self.running: dict[str, tuple[Case, Grant]] = {}
        self.lock = threading.Lock()
        self.order: list[str] = []
        self.faults: list[str] = []

    @contextmanager
    def _counted(self, case: Case, grant: Grant) -> Iterator[None]:
        with self.lock:
            self.running[case.name] = (case, grant)
            self.order.append(case.name)
            self._look()
        yield
        with self.lock:
            del self.running[case.name]

    def _look(self) -> None:
        running = list(self.running.values())
        if len(running) > 1 and any(case.resources.exclusive for case, _ in running):
            self.faults.append("an exclusive case had company")
        if sum(min(case.resources.cpus, CAPACITY.cpus) for case, _ in running) > CAPACITY.cpus:
            self.faults.append("too many cpus")
        if sum(min(case.resources.memory_bytes, 100) for case, _ in running) > 100:
            self.faults.append("too much memory")
        gpus = [gpu for _, grant in running for gpu in grant.gpus]
        slots = [grant.slot for _, grant in running]
        if len(set(gpus)) != len(gpus) or len(set(slots)) != len(slots):
            self.faults.append("a gpu or a slot handed out twice")

    def run(self, case: Case, grant: Grant) -> Record:
        with self._counted(case, grant):
            status = Status.FAILED if case.name in self.failing else Status.PASSED
        return Record(session="s", case=case, attempt=1, status=status)

    @staticmethod
    def skip(case: Case, reason: str) -> Record:
        return Record(session="s", case=case, attempt=1, status=Status.SKIPPED, reason=reason)


@settings(deadline=None)
@given(plans(), st.sets(st.integers(0, 11)), st.integers(1, 4))
def test_every_case_ends_once_within_the_machine(cases: list[Case], failing: set[int], jobs: int) -> None:
    watcher = Watcher({f"c{number}" for number in failing})
    scheduler = Scheduler(CAPACITY, jobs, watcher.run, threading.Event())
    ended = list(scheduler.run(cases, kept={}, skip=watcher.skip))
    assert watcher.faults == []
    assert sorted(case.name for case, _ in ended) == sorted(case.name for case in cases)
    statuses = {case.name: record.status for case, record in ended}
    for case in cases:
        assert (statuses[case.name] is Status.SKIPPED) == any(not statuses[need].ok for need in case.needs)
        if case.name in watcher.order:
            assert all(watcher.order.index(need) < watcher.order.index(case.name) for need in case.needs)


def test_cases_run_in_the_order_of_the_plan_by_default() -> None:
    cases = [Case(name=f"c{number}", entry="c", key=f"c{number}") for number in range(20)]
    watcher = Watcher(set())
    list(Scheduler(CAPACITY, 1, watcher.run, threading.Event()).run(cases, kept={}, skip=watcher.skip))
    assert watcher.order == [case.name for case in cases]


def test_kept_cases_do_not_run_and_count_for_those_that_need_them() -> None:
    first = Case(name="a", entry="a", key="a")
    second = Case(name="b", entry="b", key="b", needs=("a",))
    watcher = Watcher(set())
    scheduler = Scheduler(CAPACITY, 1, watcher.run, threading.Event())
    ended = list(scheduler.run([first, second], kept={"a": Status.FAILED}, skip=watcher.skip))
    assert [(case.name, record.status) for case, record in ended] == [("b", Status.SKIPPED)]
    assert ended[0][1].reason == "needs a, which ended as failed"


def test_after_a_stop_nothing_new_begins() -> None:
    stop = threading.Event()
    cases = [Case(name=f"c{number}", entry="c", key=f"c{number}") for number in range(5)]
    watcher = Watcher(set())
    ended = []
    for case, _ in Scheduler(CAPACITY, 1, watcher.run, stop).run(cases, kept={}, skip=watcher.skip):
        ended.append(case.name)
        if len(ended) == 2:
            stop.set()
    assert ended == ["c0", "c1"]

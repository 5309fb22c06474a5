"""The scheduler's promises, held against random plans: needs first, never too much at once, each case once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.model import Case, Record, Resources, Status
from paceline.run.context import Stop
from paceline.run.scheduler import Capacity, Grant, Ledger, Scheduler, unmet_need

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


def scheduled(
    cases: list[Case], watcher: Watcher, jobs: int = 1, stop: Stop | None = None
) -> Iterator[Record]:
    ledger = Ledger(CAPACITY, jobs)
    return Scheduler(ledger, jobs, watcher.run, watcher.skip, stop or Stop()).run(cases)


@settings(deadline=None)
@given(plans(), st.sets(st.integers(0, 11)), st.integers(1, 4))
def test_every_case_ends_once_within_the_machine(cases: list[Case], failing: set[int], jobs: int) -> None:
    watcher = Watcher({f"c{number}" for number in failing})
    ended = list(scheduled(cases, watcher, jobs))
    assert watcher.faults == []
    assert sorted(record.case.name for record in ended) == sorted(case.name for case in cases)
    statuses = {record.case.name: record.status for record in ended}
    for case in cases:
        assert (statuses[case.name] is Status.SKIPPED) == any(not statuses[need].ok for need in case.needs)
        if case.name in watcher.order:
            assert all(watcher.order.index(need) < watcher.order.index(case.name) for need in case.needs)


def test_cases_run_in_the_order_of_the_plan_by_default() -> None:
    cases = [Case(name=f"c{number}", entry="c", key=f"c{number}") for number in range(20)]
    watcher = Watcher(set())
    list(scheduled(cases, watcher))
    assert watcher.order == [case.name for case in cases]


def test_a_need_that_is_not_to_run_has_been_met() -> None:
    watcher = Watcher(set())
    ended = list(scheduled([Case(name="b", entry="b", key="b", needs=("a",))], watcher))
    assert [(record.case.name, record.status) for record in ended] == [("b", Status.PASSED)]


def test_an_unmet_need_is_named() -> None:
    case = Case(name="b", entry="b", key="b", needs=("x", "a"))
    assert unmet_need(case, {"a": Status.FAILED}) == "needs a, which ended as failed"
    assert unmet_need(case, {"a": Status.PASSED}) == ""


def make_setup(name: str) -> Case:
    return Case(name=name, entry=name, key=name, kind="data_setup")


def test_data_set_ups_run_one_by_one_before_all_cases() -> None:
    cases = [make_setup("one"), make_setup("two"), *(Case(name=n, entry=n, key=n) for n in ("a", "b", "two"))]
    watcher = Watcher(set())
    ended = list(scheduled(cases, watcher, jobs=4))
    assert watcher.order[:2] == ["one", "two"]
    assert [record.case.kind for record in ended[:2]] == ["data_setup", "data_setup"]
    assert sorted(record.case.name for record in ended[2:]) == ["a", "b", "two"]


def test_after_a_failed_data_set_up_nothing_more_runs() -> None:
    cases = [make_setup("one"), make_setup("two"), Case(name="a", entry="a", key="a")]
    watcher = Watcher({"one"})
    ended = list(scheduled(cases, watcher, jobs=4))
    assert watcher.order == ["one"]
    assert [(record.case.name, record.status, record.reason) for record in ended] == [
        ("one", Status.FAILED, ""),
        ("two", Status.SKIPPED, "the data set-up one did not pass"),
        ("a", Status.SKIPPED, "the data set-up one did not pass"),
    ]


def test_after_a_stop_nothing_new_begins() -> None:
    stop = Stop()
    cases = [Case(name=f"c{number}", entry="c", key=f"c{number}") for number in range(5)]
    ended = []
    for record in scheduled(cases, Watcher(set()), stop=stop):
        ended.append(record.case.name)
        if len(ended) == 2:
            stop.ask()
    assert ended == ["c0", "c1"]

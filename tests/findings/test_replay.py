"""The detector is run over the past and held against what people said."""

from pathlib import Path

from findings_nights import add_nights, noisy
from paceline.findings.detection import detect
from paceline.findings.order import Order
from paceline.findings.replay import replay
from paceline.history import open_store


def test_precision_and_recall_are_those_of_the_verdicts(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        cases = {f"case-{number}": noisy(40, (25, 1.2), seed=number) for number in range(4)}
        add_nights(store, {**cases, "unsaid": noisy(40, (25, 1.2), seed=7)})
        detect(store)
        found = {one.series.case: one for one in store.findings()}
        states = ("acknowledged", "expected", "fixed", "false")
        for number, state in enumerate(states):
            store.say(found[f"case-{number}"].id, state, why="told so", who="keeper")
        done = replay(store, Order())
    assert (done.series, done.nights, done.real_found, done.false_raised) == (4, 40, 3, 1)
    assert (done.precision, done.recall) == (0.75, 1.0) and done.unlabelled <= 1
    assert done.median_delay is not None and 3 <= done.median_delay <= 6
    assert {alarm.label for alarm in done.alarms if alarm.label} == {
        found[f"case-{number}"].id for number in range(4)
    }


def test_a_change_that_is_not_found_any_more_is_missed(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(40, (25, 1.2))})
        detect(store)
        (found,) = store.findings()
        store.say(found.id, "acknowledged", why="", who="keeper")
        add_nights(store, {"sort": noisy(40, seed=8)})
        done = replay(store, Order(), cases=["so*"])
        assert (done.recall, [one.id for one in done.real_missed], done.precision) == (0.0, [found.id], None)
        assert replay(store, Order(), metrics=["other"]).series == 0


def test_without_verdicts_there_is_nothing_to_say(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(20)})
        done = replay(store, Order())
    assert (done.series, done.precision, done.recall, done.median_delay) == (0, None, None, None)

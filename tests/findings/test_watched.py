"""What is measured of every case raises alarms only where nothing else does, or where the suite says so."""

from pathlib import Path

import pytest

from findings_nights import noisy
from in_process import Here, make_here
from paceline.findings.detection import detect
from paceline.history import open_store
from paceline.model import Case
from stored_records import ENVIRONMENT, case, measured, record, session

SUITE = """
entries:
  - name: sort
    command: "true"
    {more}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def metrics_with_findings(path: Path, told: Case, *, own: bool = True) -> set[str]:
    """Sixty nights in which the machine becomes slower, and the case's own metric does not."""
    slower, steady = noisy(60, (40, 1.3)), noisy(60, seed=2)
    with open_store(path) as store:
        for number in range(1, 61):
            automatic = {name: measured(slower[number - 1]) for name in ("exec_time_s", "cpu_user_s")}
            metrics = {**automatic, **({"sort_s": measured(steady[number - 1])} if own else {})}
            store.add(session(number), ENVIRONMENT, [record(number=number, case=told, metrics=metrics)])
            if number in (39, 60):
                detect(store)
        return {one.series.metric for one in store.findings()}


def test_a_metric_of_its_own_keeps_those_of_every_case_quiet(tmp_path: Path) -> None:
    assert metrics_with_findings(tmp_path / "own.db", case("sort")) == set()
    assert metrics_with_findings(tmp_path / "none.db", case("sort"), own=False) == {
        "exec_time_s",
        "cpu_user_s",
    }


@pytest.mark.parametrize(
    ("names", "found"),
    [(("exec_time_s",), {"exec_time_s"}), (("cpu_*",), {"cpu_user_s"}), (("peak_memory_bytes",), set())],
)
def test_the_suite_asks_for_them(names: tuple[str, ...], found: set[str], tmp_path: Path) -> None:
    assert metrics_with_findings(tmp_path / "asked.db", case("sort", watch=names)) == found


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("watch: [exec_time_s]", ["exec_time_s"]),
        ("requirements: {cpu_user_s: {max_value: 10}}", ["cpu_user_s"]),
        ("repeat: 1", []),
    ],
)
def test_a_session_records_what_to_watch(more: str, expected: list[str], here: Here) -> None:
    (here.path / "paceline.yaml").write_text(SUITE.format(more=more))
    assert here.run("run", "--session-name", "one").returncode == 0
    with open_store(here.path / "results/benchmark.db") as store:
        (told,) = store.records("one")
    assert list(told.case.watch) == expected


@pytest.mark.parametrize(
    ("watch", "own", "words", "code"),
    [
        ((), True, (), 0),
        (("exec_time_s",), True, (), 1),
        ((), False, (), 1),
        ((), True, ("--metric", "exec_time_s"), 1),
    ],
)
def test_compare_shows_them_and_fails_by_those_that_somebody_asked_for(
    here: Here, watch: tuple[str, ...], own: bool, words: tuple[str, ...], code: int
) -> None:
    slower, steady = noisy(40, (39, 1.5)), noisy(40, seed=2)
    with open_store(here.path / "benchmark.db") as store:
        for number in range(1, 41):
            metrics = {"exec_time_s": measured(slower[number - 1])}
            metrics |= {"sort_s": measured(steady[number - 1])} if own else {}
            told = record(number=number, case=case("sort", watch=watch), metrics=metrics)
            store.add(session(number), ENVIRONMENT, [told])
    done = here.run("compare", *words)
    assert done.returncode == code, done.stdout

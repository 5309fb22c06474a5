"""A case that reports no more while its suite goes on is a finding, which fails nothing."""

from pathlib import Path

import pytest

from findings_nights import add_nights, noisy
from in_process import Here, make_here
from paceline.findings.detection import detect
from paceline.findings.telling import session_findings
from paceline.history import Store, open_store
from stored_records import ENVIRONMENT, record, session


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def night(store: Store, number: int, *cases: str) -> None:
    store.add(session(number), ENVIRONMENT, [record(key, 10.0, number=number) for key in cases])
    detect(store)


def test_a_case_that_reports_no_more_is_a_finding_until_it_does(here: Here) -> None:
    with open_store(here.path / "benchmark.db") as store:
        for number in range(1, 11):
            night(store, number, "sort", "join", "sum")
        for number in (11, 12):
            night(store, number, "join", "sum")
            assert store.findings() == []
        night(store, 13, "join", "sum")
        (found,) = store.findings()
        assert (found.kind, found.case, found.word, found.fails) == ("stopped", "sort", "stopped", False)
        assert (found.last_good.session, found.first_bad.session) == ("night-10", "night-11")
        (told,) = session_findings(store, session(13).id)
        assert "no results since night-10" in told.message and not told.fails
        night(store, 14, "join", "sum")
        assert session_findings(store, session(14).id) == () and len(store.findings()) == 1
    done = here.run("regressions")
    assert done.returncode == 0 and "and 1 stopped" in done.stdout and "since 2026-01-11" in done.stdout
    assert "stopped" in here.run("regressions", "--markdown").stdout
    with open_store(here.path / "benchmark.db") as store:
        night(store, 15, "sort", "join", "sum")
        assert store.findings() == []


def test_one_that_runs_once_a_week_is_missed_after_weeks(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for number in range(1, 29):
            night(store, number, "join", "sum", *(["weekly"] if number % 7 == 1 and number < 20 else []))
            assert [one.case for one in store.findings()] == []


def test_a_part_of_the_suite_is_not_the_suite(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for number in range(1, 8):
            night(store, number, "sort", "join", "sum", "read", "write")
        for number in range(8, 15):
            night(store, number, "join")
        assert store.findings() == []


def test_the_runs_of_a_branch_stop_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(10), "join": noisy(10)})
        detect(store)
        branch = {"branch": "idea", "merge_base": session(10).revision}
        add_nights(store, {"join": noisy(5, seed=2)}, first=11, **branch)
        detect(store)
        assert store.findings() == []

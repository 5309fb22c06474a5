"""A case that reports no more while its suite goes on is a finding, which fails nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from findings_nights import add_nights, noisy
from in_process import Here, make_here
from paceline.findings.detection import detect
from paceline.findings.stopped import overdue
from paceline.findings.telling import session_findings
from paceline.history import Store, open_store
from stored_records import ENVIRONMENT, measured, record, session


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def night(store: Store, number: int, *cases: str) -> None:
    store.add(session(number), ENVIRONMENT, [record(key, 10.0, number=number) for key in cases])
    detect(store)


def test_a_case_that_reports_no_more_is_a_finding_until_it_does(here: Here) -> None:
    with open_store(here.path / "results/benchmark.db") as store:
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
    assert (
        done.returncode == 0
        and "no open regressions, 1 stopped" in done.stdout
        and "since 2026-01-12" in done.stdout
    )
    assert "stopped" in here.run("regressions", "--markdown").stdout
    with open_store(here.path / "results/benchmark.db") as store:
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


def test_a_machine_whose_nights_come_no_more_is_found_while_another_goes_on(tmp_path: Path) -> None:
    other = {**ENVIRONMENT, "id": "machine-2", "class_id": "class-2"}
    cases = ("sort", "join", "sum")
    with open_store(tmp_path / "benchmark.db") as store:
        for number in range(1, 25):
            environment = other if number % 2 else ENVIRONMENT
            if number % 2 and number > 12:
                continue
            records = [record(key, 10.0, number=number, environment=environment["id"]) for key in cases]
            store.add(session(number), environment, records)
            detect(store)
            assert not store.findings() or number > 20
        found = store.findings()
        assert {(one.kind, one.case, one.environment_class) for one in found} == {
            ("stopped", case, "class-2") for case in cases
        }
        assert len({one.incident for one in found}) == 1 and found[0].last_good.session == "night-11"
        (told,) = [one for number in (22, 24) for one in session_findings(store, session(number).id)]
        assert "on machines of class class-2, while the suite went on" in told.message
        store.add(
            session(25), other, [record(key, 10.0, number=25, environment="machine-2") for key in cases]
        )
        detect(store)
        assert store.findings() == []


def test_a_metric_that_a_case_no_longer_has_is_found(tmp_path: Path) -> None:
    def night(number: int, *metrics: str) -> None:
        told = {name: measured(10.0 + number / 1000) for name in metrics}
        store.add(session(number), ENVIRONMENT, [record("sort", metrics=told, number=number)])
        detect(store)

    with open_store(tmp_path / "benchmark.db") as store:
        for number in range(1, 11):
            night(number, "wall_s", "read_s", *(["weekly_s"] if number in (2, 9) else []))
        for number in (11, 12):
            night(number, "wall_s")
            assert store.findings() == []
        night(13, "wall_s")
        (found,) = store.findings()
        assert (found.kind, found.case, found.metric) == ("stopped", "sort", "read_s")
        (told,) = session_findings(store, session(13).id)
        assert (
            "no results since night-10" in told.message and "the case went on for 3 sessions" in told.message
        )
        night(14, "wall_s")
        assert len(store.findings()) == 1
        night(15, "wall_s", "read_s")
        assert store.findings() == []


def test_a_session_that_does_not_come_is_overdue(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        assert overdue(store, datetime(2026, 3, 1, tzinfo=UTC)) == ""
        add_nights(store, {"sort": noisy(20)})
        last = datetime.fromisoformat(session(20).started_at)
        assert overdue(store, last + timedelta(days=2)) == ""
        line = overdue(store, last + timedelta(days=8))
        assert line.startswith(f"no session since {last:%Y-%m-%d}, 8 days ago; before, one came about every ")

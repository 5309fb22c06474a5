"""What is reported: what is new and believed, by the session that found it, whatever is known already."""

import re
from pathlib import Path

from findings_nights import add_nights, noisy
from paceline.findings.detection import detect
from paceline.findings.telling import session_findings
from paceline.history import Store, open_store
from paceline.judge.discoveries import FLOOR
from stored_records import session

WEAK = noisy(40, (25, 1.012), seed=33)
"""A p-value of 0.002: chance, for whoever looks at many series."""
SLOW = noisy(120, (60, 1.02), seed=12, noise=0.02)
"""Two percent in noise of two percent: it takes more than 30 results to be sure of."""


def cases_with_findings(store: Store) -> set[str]:
    return {one.series.case for one in store.findings()}


def test_known_changes_do_not_relax_what_is_new(tmp_path: Path) -> None:
    changed = {f"case-{number}": noisy(40, (25, 1.3), seed=number) for number in range(40)}
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {name: values[:39] for name, values in changed.items()})
        detect(store)
        assert len(cases_with_findings(store)) == 40
        add_nights(store, {name: values[39:] for name, values in changed.items()}, first=40)
        add_nights(store, {"weak": WEAK})
        detect(store)
        assert len(cases_with_findings(store)) == 40


def test_what_is_sure_is_found_whatever_else_is_searched(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(
            store, {"sort": noisy(40, (25, 1.1)), **{f"quiet-{n}": noisy(40, seed=n) for n in range(2, 12)}}
        )
        detect(store)
        assert cases_with_findings(store) == {"sort"}
        assert all(one.p_value <= FLOOR for one in store.findings())


def test_a_slow_detection_is_in_the_report_of_the_session_that_found_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": SLOW[:60]})
        detect(store)
        reported = {}
        for night in range(61, 121):
            add_nights(store, {"sort": [SLOW[night - 1]]}, first=night)
            detect(store)
            if found := session_findings(store, session(night).id):
                reported[night] = found
        (finding,) = store.findings()
        assert finding.found_after > 30 and finding.found_in == session(min(reported)).id
        assert list(reported) == list(range(min(reported), 121))
        assert all(one.fails for found in reported.values() for one in found)


def test_a_past_that_was_imported_is_listed_and_is_not_a_sessions_fault(tmp_path: Path) -> None:
    changed = {f"case-{number}": noisy(40, (25, 1.3), seed=number) for number in range(5)}
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, changed)
        done = detect(store)
        assert (done.past, done.findings) == (5, 5) and len(store.findings()) == 5
        assert session_findings(store, session(40).id) == ()
        for night in range(41, 51):
            add_nights(store, {"case-0": noisy(1, (0, 1.3 * 1.2), seed=night)}, first=night)
            detect(store)
        (told,) = session_findings(store, session(50).id)
        assert told.case == "case-0" and told.fails


def test_a_slow_drift_is_one_finding_that_says_so(tmp_path: Path) -> None:
    drifting = [value * 1.10 ** (night / 200) for night, value in enumerate(noisy(220, noise=0.005))]
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": drifting[:40]})
        detect(store)
        for begin in range(40, 220, 20):
            add_nights(store, {"sort": drifting[begin : begin + 20]}, first=begin + 1)
            detect(store)
        assert [(one.kind, one.verdict) for one in store.findings()] == [("drift", "worse")]
        (told,) = session_findings(store, session(220).id)
        assert re.search(r"little by little \(about \+0\.3\d* % a week\), between", told.message), (
            told.message
        )
        assert told.fails

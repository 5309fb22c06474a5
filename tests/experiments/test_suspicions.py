"""What a night looks at again, and what it does not."""

from pathlib import Path

from findings_nights import add_nights, noisy
from paceline.experiments.nightly.investigation import Followed, _settled
from paceline.experiments.nightly.suspicions import Suspected, find_suspicions
from paceline.history import Store, open_store


def suspicions(store: Store) -> list[Suspected]:
    newest = max(store.sessions(), key=lambda one: one.started_at)
    return find_suspicions(store, None, newest.id, ["sort"])


def test_points_that_did_not_reproduce_are_not_run_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "history.db") as store:
        add_nights(store, {"sort": [*noisy(20), 10.8, 10.8]})
        (suspected,) = suspicions(store)
        finding = _settled(suspected, Followed(holds=False, message="Not confirmed"), store, None)
        assert (finding.stage, finding.verdict) == ("not_reproduced", "inconclusive")
        assert store.findings() == []
        assert suspicions(store) == []
        # Another odd night is another question, about that night alone.
        add_nights(store, {"sort": [10.9]}, first=23)
        (again,) = suspicions(store)
        assert again.at.value == 10.9
        assert max(again.before) < 10.5

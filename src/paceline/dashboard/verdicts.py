"""What judges found and people said, as the pages show it."""

from typing import Any

from paceline.dashboard.frame import Verdicts
from paceline.findings.commits import Repository
from paceline.findings.detection import known_places
from paceline.history.findings import Place, StoredFinding, read_findings, read_marks
from paceline.history.marks import case_marks
from paceline.history.store.columns import Marks
from paceline.history.store.columns import read_marks as read_record_marks
from paceline.history.store.store import Store


def read_verdicts(store: Store, repository: Repository | None = None, marks: Marks | None = None) -> Verdicts:
    """All findings that stand, the newest first, and the order of the revisions."""
    with store.database.reading():
        found = read_findings(store.database)
        unsearched = _unsearched(store, read_record_marks(store.database) if marks is None else marks)
    return Verdicts(
        findings=tuple(pack_finding(one) for one in reversed(found)),
        places=known_places(store, repository),
        unsearched=unsearched,
    )


def _unsearched(store: Store, marks: Marks) -> int:
    """How many cases have records that no search has looked at."""
    rows = store.database.rows("SELECT id, key FROM \"case\" WHERE kind = 'entry'")
    keys: dict[int, str] = dict(rows)
    sums = [(case, keys[case], *numbers) for case, *numbers in marks.sums() if case in keys]
    searched = {case: mark.rpartition(":")[2] for case, mark in read_marks(store.database).items()}
    return sum(1 for case, mark in case_marks(store.database, sums).items() if searched.get(case) != mark)


def pack_finding(one: StoredFinding) -> dict[str, Any]:
    """A finding as `paceline regressions --json` has it, with what a chart needs besides."""
    said = (
        {"state": one.said.state, "why": one.said.why, "who": one.said.who, "at": one.said.at}
        if one.said
        else None
    )
    return {
        **{"id": one.id, "incident": one.incident, "case": one.series.case, "metric": one.series.metric},
        **{
            "variant": one.series.variant,
            "version": one.series.version,
            "class": one.series.environment_class,
        },
        **{"unit": one.series.unit, "verdict": one.verdict, "state": one.state, "said": said},
        **{"effect": one.effect, "low": one.low, "high": one.high, "p_value": one.p_value},
        **{"last_good": _place(one.last_good), "first_bad": _place(one.first_bad)},
        **{"at": one.at_time, "fixed_at": one.fixed_at, "suspects": [dict(each) for each in one.suspects]},
    }


def _place(place: Place) -> dict[str, str]:
    told = {"revision": place.revision, "session": place.session, "time": place.time}
    return {**told, "session_id": place.session_id, "environment": place.environment}

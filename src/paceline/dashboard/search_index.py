"""All cases with what can be searched for: names, metrics, tags."""

from collections.abc import Mapping
from typing import Any

from paceline.dashboard.case_pages import letters
from paceline.dashboard.frame import Frame
from paceline.history.store.columns import RecordRow, read_settings
from paceline.history.store.database import Database
from paceline.record.codec import load


def search_index(database: Database, frame: Frame, latest: Mapping[str, RecordRow]) -> dict[str, Any]:
    """The index as columns; names of metrics and tags are written once."""
    metrics, tags = _Words(), _Words()
    with database.reading():
        by_case = _metrics_by_case(database)
        settings = read_settings(database, [row.setting for row in latest.values()])
    groups = [group for group in frame.groups if group.key in latest]
    rows = [latest[group.key] for group in groups]
    tagged = {
        number: load(text.encode()).get("tags", []) if text else [] for number, text in settings.items()
    }
    return {
        "case": [group.key for group in groups],
        "records": [len(frame.of_case(group).ids) for group in groups],
        "status": letters(rows),
        "last": [row.started_at for row in rows],
        "metrics": [
            metrics.places(name for number, _, _ in group.rows for name in by_case.get(number, ()))
            for group in groups
        ],
        "tags": [tags.places(map(str, tagged[row.setting])) for row in rows],
        "metric_names": metrics.words,
        "tag_names": tags.words,
    }


class _Words:
    """Words by their places in a list."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        return list(self._places)

    def places(self, words: Any) -> list[int]:
        return [self._places.setdefault(word, len(self._places)) for word in dict.fromkeys(words)]


def _metrics_by_case(database: Database) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for case, name in database.rows("SELECT case_id, name FROM series ORDER BY id"):
        found.setdefault(case, []).append(name)
    return found

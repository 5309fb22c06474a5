"""GitLab's REST API, as far as we need it: the notes of a merge request."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from paceline.sinks.http import request

MOST_NOTE = 900_000
"""A note may have a million characters; counted in bytes we stay below."""
_MOST_PAGES = 30


class GitLabApi:
    """One merge request of one project, by its number there."""

    def __init__(self, api_url: str, project: str, merge_request: str, token: str) -> None:
        self._api_url = api_url.rstrip("/")
        place = (quote(project, safe=""), quote(merge_request, safe=""))
        self._notes = f"projects/{place[0]}/merge_requests/{place[1]}/notes"
        self._token = token

    def own_notes(self, marker: str) -> Iterator[Mapping[str, Any]]:
        """The notes that begin with a marker, oldest first, and were made with this token."""
        own = ""
        for page in range(1, _MOST_PAGES + 1):
            notes = self._ask("GET", f"{self._notes}?sort=asc&order_by=created_at&per_page=100&page={page}")
            for note in notes:
                if str(note.get("body") or "").startswith(marker):
                    own = own or str(self._ask("GET", "user").get("username"))
                    if (note.get("author") or {}).get("username") == own:
                        yield note
            if len(notes) < 100:
                return

    def add(self, body: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._ask("POST", self._notes, {"body": body})
        return found

    def edit(self, note: int, body: str) -> None:
        self._ask("PUT", f"{self._notes}/{note}", {"body": body})

    def _ask(self, method: str, path: str, data: Any = None) -> Any:
        answer = request(
            method,
            f"{self._api_url}/{path}",
            body=None if data is None else json.dumps(data).encode(),
            headers={
                "PRIVATE-TOKEN": self._token,
                "Content-Type": "application/json",
                "User-Agent": "paceline",
            },
            timeout_s=20.0,
        )
        return answer.json()

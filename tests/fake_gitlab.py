"""A server that speaks GitLab's API of notes, and the environment of a job there."""

import json
from typing import Any

from loopback import Asked, Loopback, Reply

TOKEN = "glpat-planted-token-77"
USER = "project_1_bot"


class FakeGitLab(Loopback):
    """One merge request with notes of others, one of which looks like ours."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.notes: list[dict[str, Any]] = [
            {"id": number, "body": "<!-- paceline check: a note -->", "author": {"username": "somebody"}}
            for number in range(105)
        ]

    @property
    def ours(self) -> list[dict[str, Any]]:
        return [note for note in self.notes if note["author"]["username"] == USER]

    def _serve(self, asked: Asked) -> Reply:
        if asked.headers.get("private-token") != TOKEN:
            return Reply(401, b'{"message": "401 Unauthorized"}')
        if asked.path == "/api/v4/user":
            return Reply(200, json.dumps({"username": USER}).encode())
        notes = "/api/v4/projects/42/merge_requests/7/notes"
        assert asked.path.startswith(notes), asked.path
        if asked.method == "GET":
            assert asked.query["sort"] == "asc"
            size, page = int(asked.query["per_page"]), int(asked.query["page"])
            return Reply(200, json.dumps(self.notes[(page - 1) * size : page * size]).encode())
        body = json.loads(asked.body)["body"]
        assert len(body) <= 1_000_000
        if asked.method == "POST":
            self.notes.append({"id": len(self.notes), "body": body, "author": {"username": USER}})
            return Reply(201, json.dumps(self.notes[-1]).encode())
        assert asked.method == "PUT"
        self.notes[int(asked.path.rpartition("/")[2])]["body"] = body
        return Reply(200, b"{}")


def environ_of(gitlab: FakeGitLab, **more: str) -> dict[str, str]:
    return {
        "GITLAB_CI": "true",
        "GITLAB_TOKEN": TOKEN,
        "CI_API_V4_URL": f"{gitlab.url}/api/v4",
        "CI_PROJECT_ID": "42",
        "CI_MERGE_REQUEST_IID": "7",
        **more,
    }

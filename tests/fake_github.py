"""A server that speaks GitHub's API and checks what it checks, and the environment of a job there."""

import json
from pathlib import Path
from typing import Any

from loopback import Asked, BreakOff, Loopback, Reply

TOKEN = "ghs_planted_token_99"
SHA = "1a2b3c4d" * 5
LOGIN = "github-actions[bot]"


class FakeGitHub(Loopback):
    """One repository; `lost` requests of a method are done and not answered, `refuse` has the next answers."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.comments: list[dict[str, Any]] = [
            {
                "id": number,
                "body": f"> <!-- paceline report: github -->\ncomment {number}",
                "user": {"login": LOGIN},
            }
            for number in range(120)
        ]
        self.login: str | None = LOGIN
        self.checks: list[dict[str, Any]] = []
        self.lost: set[str] = set()
        self.refuse: list[Reply] = []

    @property
    def ours(self) -> list[dict[str, Any]]:
        return [comment for comment in self.comments if comment["id"] >= 120]

    def _serve(self, asked: Asked) -> Reply:
        if self.refuse:
            return self.refuse.pop(0)
        if asked.headers["authorization"] != f"Bearer {TOKEN}":
            return Reply(401, b'{"message": "Bad credentials"}')
        assert asked.headers["accept"] == "application/vnd.github+json" and asked.headers["user-agent"]
        if asked.path == "/graphql":
            assert asked.method == "POST" and json.loads(asked.body) == {"query": "{viewer{login}}"}
            known = {"data": {"viewer": {"login": self.login}}} if self.login else {"errors": []}
            return Reply(200, json.dumps(known).encode())
        path = asked.path.removeprefix("/repos/team/library/")
        data = json.loads(asked.body) if asked.body else {}
        status, answer = self._do(asked, path, data)
        if asked.method in self.lost:
            self.lost.discard(asked.method)
            raise BreakOff
        return Reply(status, json.dumps(answer).encode())

    def _do(self, asked: Asked, path: str, data: dict[str, Any]) -> tuple[int, Any]:
        if path == "issues/7/comments" and asked.method == "GET":
            size, page = int(asked.query["per_page"]), int(asked.query["page"])
            return 200, self.comments[(page - 1) * size : page * size]
        if "comments" in path:
            return self._comment(asked.method, path, data)
        if path == f"commits/{SHA}/check-runs":
            return 200, {
                "check_runs": [one for one in self.checks if one["name"] == asked.query["check_name"]]
            }
        return self._check(asked.method, path, data)

    def _comment(self, method: str, path: str, data: dict[str, Any]) -> tuple[int, Any]:
        if len(data["body"]) > 65536:
            return 422, {"message": "body is too long (maximum is 65536 characters)"}
        if method == "POST":
            comment = {
                "id": len(self.comments),
                "html_url": "https://github.example/c",
                "user": {"login": LOGIN},
                **data,
            }
            self.comments.append(comment)
            return 201, comment
        self.comments[int(path.rpartition("/")[2])].update(data)
        return 200, {}

    def _check(self, method: str, path: str, data: dict[str, Any]) -> tuple[int, Any]:
        assert len(data.get("output", {}).get("summary", "")) <= 65535
        if method == "POST":
            assert path == "check-runs" and data["head_sha"] == SHA
            self.checks.append({"id": len(self.checks), **data})
            return 201, self.checks[-1]
        self.checks[int(path.rpartition("/")[2])].update(data)
        return 200, {}


def environ_of(github: FakeGitHub, place: Path, **more: str) -> dict[str, str]:
    """The environment of a job for a pull request."""
    event = place / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": {"sha": SHA}}}))
    return {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "team/library",
        "GITHUB_API_URL": github.url,
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_SHA": "f" * 40,
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        **more,
    }

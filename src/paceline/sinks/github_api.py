"""GitHub's REST API, as far as we need it: requests with a token, and the comments of a pull request."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.http import Answer, request, retry_after_s

MOST_COMMENT = 65_000
"""A comment's body and a check's summary may have 65,535 characters; counted in bytes we stay below."""

MOST_SUMMARY = 1 << 20
_SUMMARY_ROOM, _LEAST_ROOM = 300_000, 1000
"""Bytes of the megabyte that GitHub takes: others write there, too."""
_MOST_PAGES = 30
_EVERY_STATUS = frozenset(range(300, 600))
_HINTS: Mapping[int, str] = {
    401: "give a valid token",
    403: "the token may not do this: give the job `pull-requests: write` or `checks: write`",
    404: "check `repository`, and that the token may see it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a workflow's environment says of the job; a job for no pull request has none."""

    repository: str
    pull_request: int | None
    sha: str
    api_url: str


def find_job(environ: Mapping[str, str]) -> Job:
    """The repository, the pull request and the commit of the job that we run in, as far as they are known."""
    try:
        event = as_mapping(json.loads(Path(environ.get("GITHUB_EVENT_PATH") or os.devnull).read_bytes()))
    except (OSError, ValueError):
        event = {}
    pull = as_mapping(event.get("pull_request"))
    by_ref = re.fullmatch(r"refs/pull/(\d+)/\w+", environ.get("GITHUB_REF", ""))
    return Job(
        repository=environ.get("GITHUB_REPOSITORY", ""),
        pull_request=pull.get("number") or (int(by_ref[1]) if by_ref else None),
        sha=as_mapping(pull.get("head")).get("sha") or environ.get("GITHUB_SHA", ""),
        api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
    )


def add_to_summary(path: Path, text: Callable[[int], str], *, marker: str = "") -> None:
    """Append to a job's summary what `text` makes of the room; past what GitHub takes of a step it would lose all.

    What is there already, by its marker, is not added again.
    """
    present = path.read_bytes() if path.exists() else b""
    room = min(MOST_SUMMARY - len(present) - 1, _SUMMARY_ROOM)
    if room < _LEAST_ROOM or (marker and marker.encode() in present):
        return
    data = text(room).encode("utf-8", "replace")
    with path.open("ab", buffering=0) as file:
        file.write((b"" if present.endswith(b"\n") or not present else b"\n") + data)


class GitHubApi:
    """One repository; `token` is asked for with each request."""

    def __init__(
        self, api_url: str, repository: str, token: Callable[[], str], *, timeout_s: float = 20.0
    ) -> None:
        self._api_url = api_url.rstrip("/")
        self._repository = repository
        self._token = token
        self._timeout_s = timeout_s
        self._own_login: str | None = None

    def ask(self, method: str, path: str, data: Any = None) -> Answer:
        """The answer to a request about the repository; `TryLater` or `Undeliverable` if it is refused."""
        return self._request(method, f"{self._api_url}/repos/{self._repository}/{path}", data)

    def own_comments(self, pull_request: int, marker: str) -> Iterator[Mapping[str, Any]]:
        """The comments on a pull request that begin with a marker, oldest first, and were made with this token.

        Anybody can write one that begins as ours do, so its author must be who the token is.
        """
        for page in range(1, _MOST_PAGES + 1):
            path = f"issues/{pull_request}/comments?per_page=100&page={page}"
            comments = self.ask("GET", path).json()
            for comment in comments:
                author = as_mapping(comment.get("user")).get("login")
                if str(comment.get("body") or "").startswith(marker) and author and author == self.login():
                    yield comment
            if len(comments) < 100:
                return

    def login(self) -> str:
        """Whose token it is, which GitHub tells a user and an app alike; empty if it does not."""
        if self._own_login is None:
            url = re.sub("/v3$", "", self._api_url) + "/graphql"
            try:
                data = as_mapping(self._request("POST", url, {"query": "{viewer{login}}"}).json()).get("data")
                self._own_login = str(as_mapping(as_mapping(data).get("viewer")).get("login") or "")
            except Undeliverable:
                self._own_login = ""
        return self._own_login

    def _request(self, method: str, url: str, data: Any) -> Answer:
        answer = request(
            method,
            url,
            body=None if data is None else json.dumps(data).encode(),
            headers={
                "Authorization": f"Bearer {self._token()}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": "paceline",
            },
            timeout_s=self._timeout_s,
            expected=_EVERY_STATUS,
        )
        if answer.status >= 300:
            _refuse(answer, method, urlsplit(url).path.partition(f"/repos/{self._repository}/")[2])
        return answer


def as_mapping(value: Any) -> dict[str, Any]:
    """A part of an answer, which may be anything."""
    return value if isinstance(value, dict) else {}


def _refuse(answer: Answer, method: str, path: str) -> None:
    """Later, if it is GitHub's fault or its limit is reached, which a 403 can mean as well as a 429."""
    said = f"GitHub answered {answer.status} to {method} {path}"
    after_s = retry_after_s(answer.headers.get("retry-after"))
    if after_s is None and answer.headers.get("x-ratelimit-remaining") == "0":
        reset = answer.headers.get("x-ratelimit-reset", "")
        after_s = max(0.0, float(reset) - time.time()) if reset.isdecimal() else 60.0
    if answer.status in (408, 429) or answer.status >= 500 or (answer.status == 403 and after_s is not None):
        raise TryLater(said, after_s=after_s)
    hint = _HINTS.get(answer.status)
    raise Undeliverable(f"{said}; {hint}" if hint else said)

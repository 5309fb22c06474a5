"""GitHub: the job's summary, one comment a pull request that is kept current, and a check on the commit."""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Plan, Report
from paceline.report import markdown
from paceline.sinks import Sink, SinkContext, TryLater, Undeliverable
from paceline.sinks.digest import Change, Digest, inert, make_digest, mark, report_link, words
from paceline.sinks.http import Answer, request, retry_after_s

MOST_COMMENT = 65_000
"""A comment's body and a check's summary may have 65,535 characters; counted in bytes we stay below."""

MOST_SUMMARY = 1 << 20
_SUMMARY_ROOM = 300_000
_MOST_PAGES = 30
_EVERY_STATUS = frozenset(range(300, 600))
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_HINTS: Mapping[int, str] = {
    401: "give a valid token",
    403: "the token may not do this: give the job `pull-requests: write` or `checks: write`",
    404: "check `repository`, and that the token may see it",
}


class GitHubOptions(BaseModel):
    """What to write, and where; in a workflow all of it is known."""

    model_config = ConfigDict(extra="forbid")

    summary: bool = Field(default=True, description="Add to the job's summary where there is one.")
    comment: bool = Field(default=True, description="Comment on the pull request where there is one.")
    check: bool = Field(default=False, description="Make a check run on the commit; needs `checks: write`.")
    check_name: str = Field(default="paceline", min_length=1, description="The check's name.")
    repository: str | None = Field(default=None, description="`owner/name`; `GITHUB_REPOSITORY` by default.")
    pull_request: int | None = Field(default=None, gt=0, description="Its number; the event's by default.")
    sha: str | None = Field(default=None, description="The commit; the event's or `GITHUB_SHA` by default.")
    token_env: str = Field(default="GITHUB_TOKEN", description="The variable with the token.")
    token_file: str | None = Field(default=None, description="A file with it, in place of the variable.")
    viewer_url: str | None = Field(default=None, description="A link to show; `report_url` by default.")
    api_url: str | None = Field(default=None, description="`GITHUB_API_URL`, else https://api.github.com.")

    def secrets(self) -> dict[str, str | None]:
        """The variables that hold what it cannot do without, each with a file that may stand in for it."""
        # Whether there is a pull request to comment on is known only where the session runs.
        asks = self.check or (self.comment and self.pull_request is not None)
        return {self.token_env: self.token_file} if asks else {}


class GitHubSink(Sink):
    """Where the session runs is noted when it begins, so that it can be told later from another place."""

    Options = GitHubOptions
    options: GitHubOptions

    def __init__(self, options: GitHubOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self._notebook = context.notes
        self._here = self._notebook.get("place") or self._find_place()
        self._own_login: str | None = None

    def open(self, plan: Plan) -> None:
        if self._notebook.get("place") is None:
            self._here = self._notebook.put("place", **self._here)
        self._check_place()
        if self.options.check:
            self._begin_check()

    def close(self, report: Report) -> None:
        self._check_place()
        digest = make_digest(report, report_link(self.context, self.options.viewer_url))
        refusals = [refusal for tell in self._places(report) if (refusal := _refusal_of(tell, digest))]
        if refusals:
            raise refusals[0]

    def _places(self, report: Report) -> Iterator[Callable[[Digest], None]]:
        """Where to tell it; one that refuses, as it does where a token may only read, does not hold up the others."""
        if self.options.summary and self._here["summary"]:
            yield self._add_to_summary
        if self.options.comment and self._here["pull_request"]:
            yield self._comment
        if self.options.check:
            yield lambda digest: self._end_check(digest, report)

    def _find_place(self) -> dict[str, Any]:
        """What the workflow's environment says of the job."""
        environ, event = self.context.environ, self._event()
        pull = _mapping(event.get("pull_request"))
        head = _mapping(pull.get("head"))
        by_ref = re.fullmatch(r"refs/pull/(\d+)/\w+", environ.get("GITHUB_REF", ""))
        number = self.options.pull_request or pull.get("number") or (by_ref and int(by_ref[1])) or None
        return {
            "repository": self.options.repository or environ.get("GITHUB_REPOSITORY", ""),
            "pull_request": number,
            "sha": self.options.sha or head.get("sha") or environ.get("GITHUB_SHA", ""),
            "summary": environ.get("GITHUB_STEP_SUMMARY", ""),
            "api_url": self.options.api_url or environ.get("GITHUB_API_URL") or "https://api.github.com",
        }

    def _event(self) -> dict[str, Any]:
        """What the workflow was started by."""
        try:
            event = json.loads(Path(self.context.environ.get("GITHUB_EVENT_PATH") or os.devnull).read_bytes())
        except (OSError, ValueError):
            return {}
        return _mapping(event)

    def _check_place(self) -> None:
        wanted = self.options.check or (self.options.comment and self._here["pull_request"])
        if wanted and not _REPOSITORY.fullmatch(str(self._here["repository"])):
            raise Undeliverable("GitHub: set `repository` to owner/name, or run in a workflow")
        if self.options.check and not self._here["sha"]:
            raise Undeliverable("GitHub: set `sha` to the commit to check, or run in a workflow")

    def _add_to_summary(self, digest: Digest) -> None:
        """Append once; past what GitHub takes of a step it would lose all of it."""
        path = Path(str(self._here["summary"]))
        mark = hashlib.sha256(f"{self.context.session_id} {self.context.key}".encode()).hexdigest()[:24]
        marker = f"<!-- paceline {mark} -->"
        try:
            present = path.read_bytes() if path.exists() else b""
            room = min(MOST_SUMMARY - len(present) - 1, _SUMMARY_ROOM)
            if marker.encode() in present or room < 1000:
                return
            text = digest_markdown(digest, room, marker=marker)
            with path.open("ab", buffering=0) as file:
                file.write(
                    (b"" if present.endswith(b"\n") or not present else b"\n")
                    + text.encode("utf-8", "replace")
                )
        except OSError as error:
            raise Undeliverable(f"the job's summary cannot be written: {error.strerror or error}") from None

    def _comment(self, digest: Digest) -> None:
        marker = f"<!-- paceline report: {self._label} -->"
        body = {"body": digest_markdown(digest, MOST_COMMENT, marker=marker)}
        comment = self._find_comment(marker)
        if comment is None:
            issue = f"issues/{self._here['pull_request']}/comments"
            made = self._ask("POST", issue, body).json()
            self._notebook.put("comment", id=made.get("id"))
            self.context.say(f"GitHub: {made.get('html_url', 'commented')}")
        else:
            self._ask("PATCH", f"issues/comments/{comment}", body)

    @property
    def _label(self) -> str:
        """This sink's name, harmless in a comment of HTML."""
        return re.sub(r"[^\w.]", "_", self.context.name)

    def _find_comment(self, marker: str) -> int | None:
        """The comment that an earlier session, or an earlier try, has left on the pull request.

        Anybody can write one that begins as ours do, so its author must be who the token is.
        """
        for page in range(1, _MOST_PAGES + 1):
            path = f"issues/{self._here['pull_request']}/comments?per_page=100&page={page}"
            comments = self._ask("GET", path).json()
            for comment in comments:
                author = _mapping(comment.get("user")).get("login")
                if str(comment.get("body") or "").startswith(marker) and author and author == self._login():
                    return int(comment["id"])
            if len(comments) < 100:
                return None
        return None

    def _login(self) -> str:
        """Whose token it is, which GitHub tells a user and an app alike; empty if it does not."""
        if self._own_login is None:
            url = re.sub("/v3/?$", "", str(self._here["api_url"]).rstrip("/")) + "/graphql"
            try:
                data = _mapping(self._request("POST", url, {"query": "{viewer{login}}"}).json()).get("data")
                self._own_login = str(_mapping(_mapping(data).get("viewer")).get("login") or "")
            except Undeliverable:
                self._own_login = ""
        return self._own_login

    def _begin_check(self) -> int:
        known = self._notebook.get("check")
        if known and known.get("id"):
            return int(known["id"])
        external = hashlib.sha256(f"{self.context.session_id} {self.context.name}".encode()).hexdigest()[:40]
        found = self._find_check(external) if known else None
        if found is None:
            self._notebook.put("check", external=external)
            data = {
                "name": self.options.check_name,
                "head_sha": self._here["sha"],
                "status": "in_progress",
                "external_id": external,
            }
            found = int(self._ask("POST", "check-runs", data).json()["id"])
        return int(self._notebook.put("check", id=found)["id"])

    def _find_check(self, external: str) -> int | None:
        """The check that was made before a crash, if it was."""
        name = quote(self.options.check_name, safe="")
        path = f"commits/{self._here['sha']}/check-runs?check_name={name}&filter=all&per_page=100"
        runs = self._ask("GET", path).json().get("check_runs") or ()
        return next((int(run["id"]) for run in runs if run.get("external_id") == external), None)

    def _end_check(self, digest: Digest, report: Report) -> None:
        conclusion = "cancelled" if report.interrupted else "success" if report.ok else "failure"
        link = {"details_url": digest.link} if digest.link.startswith("https://") else {}
        data = {
            "status": "completed",
            "conclusion": conclusion,
            "output": {"title": digest.summary[:200], "summary": digest_markdown(digest, MOST_COMMENT)},
            **link,
        }
        self._ask("PATCH", f"check-runs/{self._begin_check()}", data)

    def _ask(self, method: str, path: str, data: Any = None) -> Answer:
        api_url = str(self._here["api_url"]).rstrip("/")
        return self._request(method, f"{api_url}/repos/{self._here['repository']}/{path}", data)

    def _request(self, method: str, url: str, data: Any) -> Answer:
        token = self.context.secret(self.options.token_env, self.options.token_file)
        answer = request(
            method,
            url,
            body=None if data is None else json.dumps(data).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": "paceline",
            },
            timeout_s=min(self.context.timeout_s / 3, 20.0),
            expected=_EVERY_STATUS,
        )
        if answer.status >= 300:
            _refuse(answer, method, urlsplit(url).path.partition(f"/repos/{self._here['repository']}/")[2])
        return answer


def _refusal_of(tell: Callable[[Digest], None], digest: Digest) -> Undeliverable | None:
    try:
        tell(digest)
    except Undeliverable as refusal:
        return refusal
    return None


def _mapping(value: Any) -> dict[str, Any]:
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


def escape(text: str) -> str:
    """Foreign text, shown as it is: it also calls nobody and leads nowhere."""
    return inert(markdown.escape(text))


def digest_markdown(digest: Digest, most_bytes: int, *, marker: str = "") -> str:
    """The session's page; lines that do not fit are left out, and that they are is said."""
    left_out = "\n… shortened: the rest is in the session's report."
    room = most_bytes - len(left_out.encode()) - 1
    kept: list[str] = []
    for line in _lines(digest, marker):
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return "\n".join([*kept, left_out, ""])
        kept.append(line)
    return "\n".join([*kept, ""])


def _lines(digest: Digest, marker: str) -> Iterator[str]:
    yield from [marker] if marker else []
    yield from (
        f"## {'✅' if digest.ok else '❌'} {escape(digest.session)}",
        "",
        f"{escape(digest.summary)}.",
    )
    yield from ("", f"**{escape(digest.unfinished)}**") if digest.unfinished else ()
    yield from ("", f"[Open the report]({digest.link})") if _is_plain(digest.link) else ()
    yield from _failed(digest)
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        yield from ("", f"### {title}", "", *map(_change, changes)) if changes else ()
    yield from _entries(digest)


def _failed(digest: Digest) -> Iterator[str]:
    if digest.failed:
        yield from ("", "### Failed", "")
    for row in digest.failed:
        why = f": {escape('; '.join(row.complaints))}" if row.complaints else ""
        yield f"- {mark(row.status)} **{escape(row.case)}** {words(row.status)}{why}"


def _change(change: Change) -> str:
    sign = "📉" if change.worse else "📈"
    said = f": {escape(change.message)}" if change.message else ""
    shown = f"{sign} **{escape(change.case)}**, {escape(change.metric)} {escape(change.effect)}{said}"
    return f"- {shown}"


def _entries(digest: Digest) -> Iterator[str]:
    if digest.table.rows:
        yield from ("", "### Entries", "", "| entry | outcome | time | metrics |", "|---|---|---:|---|")
    for row in digest.table.rows:
        metrics = "<br>".join(escape(text) for text in row.metrics)
        yield f"| {escape(row.case)} | {mark(row.status)} {words(row.status)} | {row.time} | {metrics} |"
    yield from ("", *digest.table.footnotes) if digest.table.footnotes else ()


def _is_plain(url: str) -> bool:
    """Whether an address can stand in a link as it is."""
    return url.startswith(("https://", "http://")) and not any(char in url for char in " \t\r\n()<>\"'")

"""GitHub: the job's summary, one comment a pull request that is kept current, and a check on the commit."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Plan, Report
from paceline.report import markdown
from paceline.sinks import Sink, SinkContext, Undeliverable
from paceline.sinks.digest import Change, Digest, inert, make_digest, mark, report_link, words
from paceline.sinks.github_api import MOST_COMMENT, GitHubApi, add_to_summary, find_job

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


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
        self._api = GitHubApi(
            str(self._here["api_url"]),
            str(self._here["repository"]),
            lambda: self.context.secret(self.options.token_env, self.options.token_file),
            timeout_s=min(context.timeout_s / 3, 20.0),
        )

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
        """What the workflow's environment says of the job; options that are given win."""
        environ, options = self.context.environ, self.options
        job = find_job(environ)
        return {
            "repository": options.repository or job.repository,
            "pull_request": options.pull_request or job.pull_request,
            "sha": options.sha or job.sha,
            "summary": environ.get("GITHUB_STEP_SUMMARY", ""),
            "api_url": options.api_url or job.api_url,
        }

    def _check_place(self) -> None:
        wanted = self.options.check or (self.options.comment and self._here["pull_request"])
        if wanted and not _REPOSITORY.fullmatch(str(self._here["repository"])):
            raise Undeliverable("GitHub: set `repository` to owner/name, or run in a workflow")
        if self.options.check and not self._here["sha"]:
            raise Undeliverable("GitHub: set `sha` to the commit to check, or run in a workflow")

    def _add_to_summary(self, digest: Digest) -> None:
        """Append once."""
        mark = hashlib.sha256(f"{self.context.session_id} {self.context.key}".encode()).hexdigest()[:24]
        marker = f"<!-- paceline {mark} -->"
        path = Path(str(self._here["summary"]))
        try:
            add_to_summary(path, lambda room: digest_markdown(digest, room, marker=marker), marker=marker)
        except OSError as error:
            raise Undeliverable(f"the job's summary cannot be written: {error.strerror or error}") from None

    def _comment(self, digest: Digest) -> None:
        marker = f"<!-- paceline report: {self._label} -->"
        body = {"body": digest_markdown(digest, MOST_COMMENT, marker=marker)}
        # What an earlier session, or an earlier try, has left on the pull request.
        comment = next(self._api.own_comments(int(self._here["pull_request"]), marker), None)
        if comment is None:
            issue = f"issues/{self._here['pull_request']}/comments"
            made = self._api.ask("POST", issue, body).json()
            self._notebook.put("comment", id=made.get("id"))
            self.context.say(f"GitHub: {made.get('html_url', 'commented')}")
        else:
            self._api.ask("PATCH", f"issues/comments/{comment['id']}", body)

    @property
    def _label(self) -> str:
        """This sink's name, harmless in a comment of HTML."""
        return re.sub(r"[^\w.]", "_", self.context.name)

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
            found = int(self._api.ask("POST", "check-runs", data).json()["id"])
        return int(self._notebook.put("check", id=found)["id"])

    def _find_check(self, external: str) -> int | None:
        """The check that was made before a crash, if it was."""
        name = quote(self.options.check_name, safe="")
        path = f"commits/{self._here['sha']}/check-runs?check_name={name}&filter=all&per_page=100"
        runs = self._api.ask("GET", path).json().get("check_runs") or ()
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
        self._api.ask("PATCH", f"check-runs/{self._begin_check()}", data)


def _refusal_of(tell: Callable[[Digest], None], digest: Digest) -> Undeliverable | None:
    try:
        tell(digest)
    except Undeliverable as refusal:
        return refusal
    return None


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
    yield from (f"## {'✅' if digest.ok else '❌'} {escape(digest.sentence)}", "")
    link = f"[Open the report]({digest.link})" if _is_plain(digest.link) else ""
    yield " · ".join(filter(None, (link, escape(digest.session), escape(digest.rest))))
    yield from ("", f"**{escape(digest.unfinished)}**") if digest.unfinished else ()
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

"""A check's result where a pull request is read: GitHub's summary, annotations and comment, GitLab's note.

Whoever reads a pull request is told of new comments and not of edited ones. So later pushes edit the comment, and only
a verdict that is worse than the one before gets a new one.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from paceline.experiments.check.check import CheckResult
from paceline.experiments.check.report import markdown, reproduce, verdict_line
from paceline.history.session_files import ci_run_url
from paceline.numbers import change
from paceline.record.redact import Redactor
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.github_api import (
    MOST_COMMENT,
    GitHubApi,
    add_to_summary,
    find_job,
)
from paceline.sinks.gitlab_api import MOST_NOTE, GitLabApi

_RANK = re.compile(r"<!-- paceline check: [^ ]* rank: (\d+) -->")
_MOST_ANNOTATIONS = 10
"""GitHub shows no more of one step."""
_LONGEST_PAUSE_S = 10.0


def publish(
    result: CheckResult, redactor: Redactor, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Tell the CI that we run in; the lines are for the log. What cannot be told does not change the outcome."""
    environ = os.environ if environ is None else environ
    if environ.get("GITHUB_ACTIONS") == "true":
        yield from (redactor.text(line) for line in annotations(result))
        yield from _tell("the job's summary", lambda: _summarise(result, redactor, environ))
        yield from _tell("the comment", lambda: _comment(result, redactor, environ))
    if environ.get("GITLAB_CI") == "true":
        yield from _tell("the note", lambda: _note(result, redactor, environ))


def _tell(what: str, tell: Callable[[], str]) -> Iterator[str]:
    """Do it, once more after a pause if the service asks for patience."""
    for is_last in (False, True):
        try:
            said = tell()
        except TryLater as later:
            if not is_last:
                time.sleep(min(later.after_s or 1.0, _LONGEST_PAUSE_S))
                continue
            yield f"note: {what} could not be written: {later}"
        except (Undeliverable, OSError) as error:
            yield f"note: {what} could not be written: {error}"
        else:
            yield from [said] if said else []
        return


def annotations(result: CheckResult) -> Iterator[str]:
    """Workflow commands: an error for each loss, beside the entry that it is of."""
    for one in result.losses[:_MOST_ANNOTATIONS]:
        limits = [change(None if limit is None else limit - 1) for limit in (one.low, one.high)]
        share = change((one.ratio or 1) - 1)
        message = f"{one.case} {one.metric}: {share} ({limits[0]} to {limits[1]}); again: {reproduce(result)}"
        yield _command("error", result.sources.get(one.case), f"{one.case} got worse", message)
    for name in result.failing[:_MOST_ANNOTATIONS]:
        yield _command(
            "error", result.sources.get(name), f"{name} fails", f"{name} passes at the base and fails here"
        )
    if result.exit_code == 2:
        yield _command("error", None, "nothing was compared", verdict_line(result))
    for gap in result.not_run[:_MOST_ANNOTATIONS]:
        if gap.why != "not selected":
            yield _command("notice", result.sources.get(gap.case), f"{gap.case} was not run", gap.why)


def _command(kind: str, source: tuple[str, int] | None, title: str, message: str) -> str:
    place = {"file": source[0], "line": str(source[1])} if source and source[0] else {}
    words = {**place, "title": title}
    given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in words.items())
    return f"::{kind} {given}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """As GitHub reads its commands: whoever names a case cannot give another command."""
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def rank(result: CheckResult) -> int:
    """How bad it is: nothing, unknown, or how much got worse."""
    if result.exit_code == 1:
        return 1 + len(result.losses) + len(result.failing)
    return 1 if result.exit_code else 0


def _marker(result: CheckResult) -> tuple[str, str]:
    """How our comments on this suite begin, and the whole first line of this one."""
    label = re.sub(r"[^\w.-]", "_", result.suite)
    start = f"<!-- paceline check: {label} rank: "
    return start, f"{start}{rank(result)} -->"


def _text(result: CheckResult, redactor: Redactor, environ: Mapping[str, str], most_bytes: int) -> str:
    """The Markdown, with less in it where there is no room for all."""
    link = ci_run_url(environ)
    for brief in (False, True):
        text = redactor.text(markdown(result, marker=_marker(result)[1], link=link, brief=brief))
        if len(text.encode("utf-8", "replace")) <= most_bytes:
            return text
    end = "\n\n… shortened: the rest is in the job's log.\n"
    cut = text.encode("utf-8", "replace")[: most_bytes - len(end.encode())].decode("utf-8", "ignore")
    return cut.rpartition("\n")[0] + end


def _summarise(result: CheckResult, redactor: Redactor, environ: Mapping[str, str]) -> str:
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        add_to_summary(Path(path), lambda room: _text(result, redactor, environ, room))
    return ""


def _is_worse(result: CheckResult, body: str) -> bool:
    known = _RANK.match(body)
    return known is not None and rank(result) > int(known[1])


def _comment(result: CheckResult, redactor: Redactor, environ: Mapping[str, str]) -> str:
    job, token = find_job(environ), environ.get("GITHUB_TOKEN", "")
    if job.pull_request is None:
        return ""
    if not token:
        return "note: no comment: GITHUB_TOKEN is not set"
    api = GitHubApi(job.api_url, job.repository, lambda: token)
    start, _ = _marker(result)
    body = _text(result, redactor, environ, MOST_COMMENT)
    ours = list(api.own_comments(job.pull_request, start))
    if ours and not _is_worse(result, str(ours[-1].get("body"))):
        api.ask("PATCH", f"issues/comments/{int(ours[-1]['id'])}", {"body": body})
        return ""
    made = api.ask("POST", f"issues/{job.pull_request}/comments", {"body": body}).json()
    return str(made.get("html_url") or "commented")


def _note(result: CheckResult, redactor: Redactor, environ: Mapping[str, str]) -> str:
    number, token = environ.get("CI_MERGE_REQUEST_IID"), environ.get("GITLAB_TOKEN", "")
    if not number:
        return ""
    if not token:
        return "note: no note on the merge request: GITLAB_TOKEN is not set (a project access token with scope api)"
    api = GitLabApi(environ.get("CI_API_V4_URL", ""), environ.get("CI_PROJECT_ID", ""), number, token)
    start, _ = _marker(result)
    body = _text(result, redactor, environ, MOST_NOTE)
    ours = list(api.own_notes(start))
    if ours and not _is_worse(result, str(ours[-1].get("body"))):
        api.edit(int(ours[-1]["id"]), body)
    else:
        api.add(body)
    return ""

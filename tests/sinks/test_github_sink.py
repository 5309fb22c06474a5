"""GitHub against a server that checks what its API checks, and the job's summary as a file."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_github import LOGIN, TOKEN, FakeGitHub, environ_of
from loopback import Reply
from paceline.model import Status
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.digest import make_digest
from paceline.sinks.github import GitHubSink, digest_markdown
from paceline.sinks.github_api import MOST_SUMMARY
from service_sessions import REGRESSION, build, make_plan, make_record, make_report, run_session, too_slow


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        yield server


def sink_for(github: FakeGitHub, place: Path, **options: Any) -> GitHubSink:
    return build(GitHubSink, place, options, environ_of(github, place), name="github")


def test_a_job_says_it_in_three_places(github: FakeGitHub, tmp_path: Path) -> None:
    sink = sink_for(github, tmp_path, check=True, viewer_url="https://bench.example/night")
    run_session(sink, [make_record("sort"), too_slow("join")], [REGRESSION])
    (comment,) = github.ours
    text = comment["body"]
    link = "[Open the report](https://bench.example/night)"
    assert text.startswith(
        "<!-- paceline report: github -->\n## ❌ 1 failed, 1 slower\n\n"
        f"{link} · night · 1 passed, 1 requirement failed of 2 cases\n"
    )
    assert "- ❌ **join** requirement failed: docs_per_sec ≥ 100: got 93" in text
    assert "- 📉 **sort**, docs_per_sec -12.5 % (-16 % to -9 %): since 1a2b3c4" in text
    assert "| sort | ✅ passed | 1.5 s |" in text
    (check,) = github.checks
    assert (check["status"], check["conclusion"]) == ("completed", "failure")
    assert check["details_url"] == "https://bench.example/night"
    assert "**join**" in check["output"]["summary"]
    assert "**join**" in (tmp_path / "summary.md").read_text()


def test_the_next_session_keeps_the_comment_current(github: FakeGitHub, tmp_path: Path) -> None:
    run_session(sink_for(github, tmp_path), [too_slow()])
    second = build(
        GitHubSink, tmp_path / "second", {}, environ_of(github, tmp_path), name="github", session_id="id-2"
    )
    run_session(second, [make_record()])
    (comment,) = github.ours
    assert "## ✅ 1 passed of 1 case\n\nnight\n" in comment["body"]


@pytest.mark.parametrize("login", [LOGIN, None])
def test_a_comment_of_somebody_else_is_left_alone(
    github: FakeGitHub, tmp_path: Path, login: str | None
) -> None:
    github.login = login
    stranger = {"id": 120, "body": "<!-- paceline report: github -->\nhello", "user": {"login": "mallory"}}
    nobody = {**stranger, "id": 121, "user": None}
    github.comments += [stranger, nobody]
    run_session(sink_for(github, tmp_path), [make_record()])
    assert stranger["body"] == nobody["body"] == "<!-- paceline report: github -->\nhello"
    assert [comment["id"] for comment in github.ours] == [120, 121, 122]
    assert "## ✅ 1 passed of 1 case\n\nnight\n" in github.comments[122]["body"]


def test_foreign_text_calls_nobody_and_leads_nowhere() -> None:
    reason = "cc @team/core, see https://evil.example and www.evil.example, mail me@evil.example"
    text = digest_markdown(make_digest(make_report([make_record("a@b", Status.FAILED, reason=reason)])), 5000)
    for active in ("@team", "https://", "www.", "@evil", "a@b"):
        assert active not in text
    assert "@\u200bteam/core, see https:\u200b//evil.example and www\u200b.evil.example" in text


@pytest.mark.parametrize("method", ["POST", "PATCH", "GET"])
def test_what_was_taken_without_an_answer_is_not_said_twice(
    github: FakeGitHub, tmp_path: Path, method: str
) -> None:
    for _ in range(2):
        github.lost = {method}
        run_session(sink_for(github, tmp_path, check=True), [make_record()])
    assert (len(github.ours), len(github.checks)) == (1, 1)
    assert (tmp_path / "summary.md").read_text().count("## ✅ 1 passed of 1 case\n\nnight\n") == 1


def test_a_session_that_is_told_later_goes_to_its_own_pull_request(
    github: FakeGitHub, tmp_path: Path
) -> None:
    records = [make_record()]
    sink_for(github, tmp_path).open(make_plan(records))
    (tmp_path / "summary.md").write_text("a line of an earlier step")
    later = build(GitHubSink, tmp_path, {}, {"GITHUB_TOKEN": TOKEN}, name="github")
    later.close(make_report(records))
    assert len(github.ours) == 1
    assert (tmp_path / "summary.md").read_text().startswith("a line of an earlier step\n<!-- paceline ")


def test_the_pull_request_is_known_by_the_ref_as_well(github: FakeGitHub, tmp_path: Path) -> None:
    environ = environ_of(github, tmp_path, GITHUB_REF="refs/pull/7/merge", GITHUB_EVENT_PATH="")
    run_session(build(GitHubSink, tmp_path, {}, environ, name="github"), [make_record()])
    assert len(github.ours) == 1


def test_outside_of_a_job_there_is_nothing_to_say(github: FakeGitHub, tmp_path: Path) -> None:
    run_session(build(GitHubSink, tmp_path, {}, {}), [make_record()])
    with pytest.raises(Undeliverable, match="set `repository` to owner/name"):
        build(GitHubSink, tmp_path / "x", {"check": True}, {}).open(make_plan([]))
    with pytest.raises(Undeliverable, match="set `sha`"):
        build(GitHubSink, tmp_path / "y", {"check": True, "repository": "a/b"}, {}).open(make_plan([]))
    assert github.asked == []


def test_a_summary_stays_within_what_github_takes(github: FakeGitHub, tmp_path: Path) -> None:
    environ = environ_of(github, tmp_path)
    (tmp_path / "summary.md").write_bytes(b"x" * (MOST_SUMMARY - 2000))
    records = [make_record(f"{'long' * 50}{i}", Status.FAILED, reason="<b>" * 300) for i in range(200)]
    run_session(build(GitHubSink, tmp_path, {"check": True}, environ, name="github"), records)
    assert MOST_SUMMARY - 2000 < (tmp_path / "summary.md").stat().st_size <= MOST_SUMMARY
    assert "… shortened" in (tmp_path / "summary.md").read_text() and "… shortened" in github.ours[0]["body"]


LIMITS = {
    "429 with a pause": (Reply(429, b"", {"Retry-After": "9"}), 9.0),
    "403 with a pause": (Reply(403, b"", {"Retry-After": "8"}), 8.0),
    "403 at the limit": (Reply(403, b"", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}), 0.0),
    "502": (Reply(502, b""), None),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_obeyed(github: FakeGitHub, tmp_path: Path, name: str) -> None:
    reply, after_s = LIMITS[name]
    github.refuse = [reply]
    with pytest.raises(TryLater) as later:
        sink_for(github, tmp_path).close(make_report([make_record()]))
    assert later.value.after_s == after_s


def test_the_time_of_a_reset_is_waited_for(github: FakeGitHub, tmp_path: Path) -> None:
    reset = str(int(time.time()) + 1000)
    github.refuse = [Reply(403, b"", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})]
    with pytest.raises(TryLater) as later:
        sink_for(github, tmp_path).close(make_report([make_record()]))
    assert later.value.after_s is not None and 900 < later.value.after_s <= 1000


def test_a_refusal_says_what_to_do_and_never_the_token(github: FakeGitHub, tmp_path: Path) -> None:
    environ = environ_of(github, tmp_path, GITHUB_TOKEN="ghs_another_planted")
    with pytest.raises(Undeliverable) as refusal:
        build(GitHubSink, tmp_path, {}, environ).close(make_report([make_record()]))
    assert str(refusal.value) == "GitHub answered 401 to GET issues/7/comments; give a valid token"
    with pytest.raises(Undeliverable, match="GITHUB_TOKEN"):
        build(GitHubSink, tmp_path, {}, {**environ, "GITHUB_TOKEN": ""}).close(make_report([make_record()]))


def test_one_place_that_refuses_does_not_keep_it_from_the_others(github: FakeGitHub, tmp_path: Path) -> None:
    sink = sink_for(github, tmp_path, check=True)
    sink.open(make_plan([make_record()]))
    github.refuse = [Reply(403, b'{"message": "Resource not accessible by integration"}')]
    with pytest.raises(Undeliverable, match="pull-requests: write"):
        sink.close(make_report([make_record()]))
    assert github.checks[0]["conclusion"] == "success"
    assert "## ✅ 1 passed of 1 case\n\nnight\n" in (tmp_path / "summary.md").read_text()


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(st.lists(NAMES, max_size=8), st.integers(1000, 5000))
def test_markdown_of_any_names_fits_and_has_no_foreign_markup(names: list[str], most: int) -> None:
    records = [make_record(name, Status.FAILED, reason=name * 20) for name in names]
    text = digest_markdown(make_digest(make_report(records), "javascript:alert(1)"), most)
    assert len(text.encode()) <= most
    assert "javascript" not in text
    assert "<script" not in text and not any(line.startswith("<") for line in text.splitlines())

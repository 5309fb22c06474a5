"""Slack against a server that checks what Slack checks."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_slack import CHANNEL, TOKEN, FakeSlack
from paceline.model import Case, Status
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.slack import SlackSink
from service_sessions import (
    REGRESSION,
    build,
    make_plan,
    make_record,
    make_report,
    patiently,
    run_session,
    too_slow,
)

ENVIRON = {"SLACK_BOT_TOKEN": TOKEN}


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        yield server


def sink_for(
    slack: FakeSlack, place: Path, *, environ: dict[str, str] | None = None, **options: Any
) -> SlackSink:
    given = {"channel_id": CHANNEL, "api_url": f"{slack.url}/api", **options}
    return build(SlackSink, place, given, ENVIRON if environ is None else environ, name="slack")


def test_a_session_is_one_message_with_a_thread(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path, viewer_url="https://bench.example/night")
    (tmp_path / "night" / "report.md").write_text("# night\n")
    run_session(sink, [make_record("sort"), too_slow("join")], [REGRESSION])
    (parent,) = slack.parents
    text = slack.text_of(parent)
    assert text.startswith("❌ 1 failed, 1 slower\n<https://bench.example/night|Open the report>\n`night`: ")
    assert "1 passed, 1 requirement failed of 2 cases" in text
    assert "<https://bench.example/night|Open the report>" in text
    assert "`join` requirement failed: docs_per_sec ≥ 100: got 93" in text
    assert "`sort` `docs_per_sec` worse: *-12.5 % (-16 % to -9 %)*" in text
    assert {message["thread_ts"] for message in slack.replies} == {parent["ts"]}
    sort, join = map(slack.text_of, slack.replies)
    assert "✅ `sort` *passed* in 1.5 s" in sort and "docs_per_sec 93" in sort
    assert "❌ docs_per_sec ≥ 100" in join and "got 93" in join
    assert slack.refusals == []


def test_the_report_and_a_chart_are_files_of_the_thread(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path)
    (tmp_path / "night" / "report.md").write_text("# night\n")
    run_session(sink, [make_record("sort")], [REGRESSION])
    chart, report = slack.files.values()
    assert report["content"] == b"# night\n" and report["name"] == "night.md"
    assert {chart["shared"], report["shared"]} == {slack.parents[0]["ts"]}
    assert "-12.5 %" in chart["comment"] and "since 1a2b3c4" in chart["comment"]
    assert png_size(chart["content"]) == (640, 200)


def png_size(data: bytes) -> tuple[int, int]:
    """The size in a PNG whose every chunk is whole and whose pixels are all there."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, rest = {}, data[8:]
    while rest:
        (length,) = struct.unpack(">I", rest[:4])
        kind, content, check = rest[4:8], rest[8 : 8 + length], rest[8 + length : 12 + length]
        assert struct.pack(">I", zlib.crc32(kind + content)) == check
        chunks[kind], rest = content, rest[12 + length :]
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)
    assert list(chunks)[-1] == b"IEND"
    return width, height


def test_metrics_are_those_asked_for(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path, default_metrics=["exec_time_s", "absent"])
    data = {"slack": {"additional_metrics": ["num_documents"]}}
    case = Case(name="sort", entry="sort", key="sort", sink_data=data)
    run_session(sink, [make_record(case=case)])
    lines = slack.text_of(slack.replies[0]).splitlines()[1:]
    assert lines == ["• exec_time_s 1.5 s ↓", "• absent not measured", "• num_documents 1,000"]


@pytest.mark.parametrize("on", [True, False])
def test_users_are_pinged_when_their_entry_fails(slack: FakeSlack, tmp_path: Path, on: bool) -> None:
    sink = sink_for(slack, tmp_path, ping_users_on_failure=on)
    data = {"slack": {"ping_on_failure": ["U024BE7LH", "S0TEAM"]}}
    cases = [Case(name=name, entry=name, key=name, sink_data=data) for name in ("good", "bad")]
    run_session(sink, [make_record(case=cases[0]), too_slow(case=cases[1])])
    good, bad = map(slack.text_of, slack.replies)
    assert "<@" not in good
    assert ("<@U024BE7LH> <!subteam^S0TEAM>" in bad) is on


def test_the_end_of_a_failed_entrys_output_is_shown(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path)
    (tmp_path / "night" / "sort").mkdir()
    (tmp_path / "night" / "sort" / "stdouterr.log").write_text("one\n<!channel> ```boom```\n")
    run_session(sink, [make_record(status=Status.FAILED, reason="exit code 1")])
    text = slack.text_of(slack.replies[0])
    assert "❌ exit code 1" in text and "&lt;!channel&gt; ʹʹʹboomʹʹʹ" in text


def test_the_message_is_current_while_the_session_runs(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path)
    records = [make_record("a"), make_record("b")]
    sink.open(make_plan(records))
    assert "*Running*: 0 of 2 done" in slack.text_of(slack.parents[0])
    sink.record(records[0])
    assert "*Running*: 1 of 2 done: 1 passed" in slack.text_of(slack.parents[0])
    again = sink_for(slack, tmp_path)  # a new process goes on where the last one was
    again.reopen(make_plan(records))
    again.record(records[1])
    assert "2 of 2 done: 2 passed" in slack.text_of(slack.parents[0])
    assert len(slack.parents) == 1


def test_without_live_updates_all_is_said_at_the_end(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path, live_updates=False)
    records = [make_record("a"), too_slow("b")]
    sink.open(make_plan(records))
    sink.record(records[0])
    sink.record(records[1])
    assert slack.messages == {}
    sink.close(make_report(records))
    assert (len(slack.parents), len(slack.replies)) == (1, 2)


def test_good_entries_can_be_left_out(slack: FakeSlack, tmp_path: Path) -> None:
    options = {"thread_replies_for_failures_or_warnings_only": True}
    records = [make_record("good"), too_slow("bad"), make_record("odd", warnings=("clock moved",))]
    run_session(sink_for(slack, tmp_path, **options), records)
    bad, odd = map(slack.text_of, slack.replies)
    assert "`bad`" in bad and "⚠️ clock moved" in odd


def test_a_session_of_any_size_can_be_told(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path, live_updates=False, most_replies=3)
    wide = make_record("wide", Status.FAILED, reason="x" * 50_000, warnings=("&<>" * 3000,) * 30)
    records = [
        wide,
        *(make_record(f"good-{i}") for i in range(30)),
        *(too_slow(f"{'n' * 300}{i}") for i in range(300)),
    ]
    findings = [REGRESSION] * 70
    assert patiently(lambda: sink.close(make_report(records[:31], findings[:2]))) == 1
    big = build(SlackSink, tmp_path, {"webhook_url": f"{slack.url}/hook/T0/B0/planted-hook-secret"})
    big.close(make_report(records, findings))
    assert slack.refusals == []
    assert sum("good-" in slack.text_of(reply) for reply in slack.replies) == 2


def test_limits_of_the_rate_are_obeyed(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path)
    slack.busy = 1
    with pytest.raises(TryLater) as later:
        sink.open(make_plan([make_record()]))
    assert later.value.after_s == 0.0
    slack.busy = 2
    run_session(sink, [make_record(), too_slow()], [REGRESSION])
    assert (len(slack.parents), len(slack.replies), len(slack.files)) == (1, 2, 1)


LOST = ["chat.postMessage", "chat.update", "files.getUploadURLExternal", "files.completeUploadExternal"]


@pytest.mark.parametrize("method", LOST)
def test_what_slack_took_without_an_answer_is_not_said_twice(
    slack: FakeSlack, tmp_path: Path, method: str
) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "report.md").write_text("# night\n")
    records = [make_record("a"), too_slow("b")]
    for _ in range(2):
        slack.lost = {method}
        sink = sink_for(slack, tmp_path)  # as if the process had died as well
        for call in (
            lambda sink=sink: sink.open(make_plan(records)),
            lambda sink=sink: sink.record(records[0]),
            lambda sink=sink: sink.record(records[1]),
            lambda sink=sink: sink.close(make_report(records, [REGRESSION])),
        ):
            patiently(call)
    assert (len(slack.parents), len(slack.replies)) == (1, 2)
    assert sorted(file["name"] for file in slack.files.values() if file.get("shared")) == [
        "chart.png",
        "night.md",
    ]


def test_a_bot_that_may_not_read_says_it_again(slack: FakeSlack, tmp_path: Path) -> None:
    slack.forbidden = {"conversations.replies"}
    sink = sink_for(slack, tmp_path)
    sink.open(make_plan([make_record()]))
    slack.lost = {"chat.postMessage"}
    assert patiently(lambda: sink.record(make_record())) == 2
    assert len(slack.replies) == 2


def test_a_bot_that_may_not_upload_says_what_it_can(slack: FakeSlack, tmp_path: Path) -> None:
    slack.forbidden = {"files.getUploadURLExternal"}
    sink = sink_for(slack, tmp_path)
    (tmp_path / "night" / "report.md").write_text("# night\n")
    with pytest.raises(
        Undeliverable, match=r"refused files\.getUploadURLExternal: missing_scope; give the bot"
    ):
        sink.close(make_report([make_record("sort")], [REGRESSION]))
    (reply,) = slack.replies
    assert "████▁▁" in slack.text_of(reply) and "✅" not in slack.text_of(reply)


def test_a_deleted_message_is_posted_anew_at_the_end(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path, upload_report=False)
    sink.open(make_plan([make_record()]))
    first = slack.parents[0]["ts"]
    sink.close(make_report([make_record()]))
    slack.messages.pop(first)
    sink.context.key = "id-of-night-close-2"
    sink.close(make_report([make_record()]))
    assert "✅ 1 passed of 1 case\n`night`" in slack.text_of(slack.parents[0])


def test_a_channel_may_be_given_by_its_name(slack: FakeSlack, tmp_path: Path) -> None:
    sink = sink_for(slack, tmp_path, channel_id="#bench")
    (tmp_path / "night" / "report.md").write_text("# night\n")
    run_session(sink, [make_record()])
    assert [file["shared"] for file in slack.files.values()] == [slack.parents[0]["ts"]]


def test_refusals_say_what_to_do_and_never_the_token(slack: FakeSlack, tmp_path: Path) -> None:
    wrong = sink_for(slack, tmp_path, environ={"SLACK_BOT_TOKEN": "xoxb-another-planted"})
    with pytest.raises(Undeliverable) as refusal:
        wrong.open(make_plan([]))
    assert (
        str(refusal.value) == "Slack refused chat.postMessage: invalid_auth; give a valid bot token (xoxb-…)"
    )
    with pytest.raises(Undeliverable, match="SLACK_BOT_TOKEN"):
        sink_for(slack, tmp_path / "none", environ={})
    other = sink_for(slack, tmp_path / "other", channel_id="C0WRONG")
    with pytest.raises(Undeliverable, match="check `channel_id`"):
        other.open(make_plan([]))


def test_a_webhook_says_how_it_ended_once(slack: FakeSlack, tmp_path: Path) -> None:
    options = {"webhook_env": "SLACK_WEBHOOK_URL"}
    environ = {"SLACK_WEBHOOK_URL": f"{slack.url}/hook/T0/B0/planted-hook-secret"}
    data = {"slack": {"ping_on_failure": ["U024BE7LH"]}}
    records = [make_record(), too_slow(case=Case(name="join", entry="join", key="join", sink_data=data))]
    for _ in range(2):
        run_session(build(SlackSink, tmp_path, options, environ, name="slack"), records, [REGRESSION])
    (message,) = slack.messages.values()
    text = slack.text_of(message)
    assert "`join` requirement failed" in text and "████▁▁" in text and "<@U024BE7LH>" in text


def test_a_webhook_shows_metrics_and_the_environment(slack: FakeSlack, tmp_path: Path) -> None:
    options = {
        "webhook_url": f"{slack.url}/hook/T0/B0/planted-hook-secret",
        "default_metrics": ["exec_time_s", "none_such"],
    }
    sink = build(SlackSink, tmp_path, options)
    sink.context.environment = {
        "hostname": "bench-7 <!channel>",
        "cpu": {"model": "Zen 9", "count": 64},
        "memory_bytes": 64 << 30,
        "python": {"version": "3.12.1"},
        "git": {"revision": "0123456789abcdef", "branch": "main", "dirty": True},
    }
    sink.close(make_report([make_record(f"case-{number}") for number in range(40)]))
    text = "\n".join(slack.text_of(message) for message in slack.messages.values())
    assert "`case-0` in " in text and "exec_time_s" in text and "none_such not measured" in text
    assert "`case-29`" in text and "`case-30`" not in text and "… and 10 more" in text
    assert "host bench-7 &lt;!channel&gt;" in text and "CPU Zen 9 × 64" in text and "memory 64.0 GiB" in text
    assert "Python 3.12.1" in text and "revision 0123456789ab (dirty)" in text and "branch main" in text


def test_a_webhook_that_fails_never_shows_its_address(tmp_path: Path) -> None:
    options = {"webhook_url": "http://127.0.0.1:9/hook/planted-hook-secret"}
    with pytest.raises(TryLater) as later:
        build(SlackSink, tmp_path, options).close(make_report([make_record()]))
    assert "planted" not in str(later.value)


def test_a_place_to_post_is_needed() -> None:
    with pytest.raises(ValueError, match="give `channel_id` for a bot, or `webhook_env`"):
        SlackSink.Options()
    assert SlackSink.Options(channel="C1").channel_id == "C1"

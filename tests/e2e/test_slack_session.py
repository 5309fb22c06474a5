"""Whole sessions told to Slack: while it is away, and while the runner is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_slack import CHANNEL, TOKEN, FakeSlack
from patience import wait_until
from workplace import Workplace

SUITE = """
results_dir: results
entries:
  - name: quick
    command: [sh, -c, "echo done"]
    sink_data:
      - {{name: slack, additional_metrics: [exec_time_s], ping_on_failure: [U024BE7LH]}}
  - name: broken
    command: [sh, -c, "echo my token is $SLACK_BOT_TOKEN; test ! -e gate && exit 3 || sleep 600"]
    sink_data:
      - {{name: slack, ping_on_failure: [U024BE7LH]}}
sinks:
  - name: slack
    channel_id: {channel}
    api_url: {url}/api
    wait_s: 60
"""


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        yield server


@pytest.fixture
def place(slack: FakeSlack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    place = Workplace(tmp_path)
    place.write("suite.yaml", SUITE.format(channel=CHANNEL, url=slack.url))
    return place


def assert_told_once(slack: FakeSlack) -> None:
    (parent,) = slack.parents
    assert slack.text_of(parent).startswith("❌ 1 passed, 1 failed of 2 cases\n`night`\n")
    texts = sorted(map(slack.text_of, slack.replies))
    assert [("`quick`" in text, "`broken`" in text) for text in texts] == [(True, False), (False, True)]
    assert "• exec_time_s" in texts[0] and "<@" not in texts[0]
    assert "my token is ***" in texts[1] and "<@U024BE7LH>" in texts[1]
    assert [file["name"] for file in slack.files.values()] == ["night.md"]


def test_what_slack_missed_is_sent_later(slack: FakeSlack, place: Workplace) -> None:
    slack.is_away = True
    suite = place.path / "suite.yaml"
    suite.write_text(suite.read_text().replace("wait_s: 60", "wait_s: 1"))
    done = place.run("run", "suite.yaml", "--session-name", "night", "--no-history")
    assert done.returncode == 1, done.stderr  # for the broken entry, not for Slack
    assert "slack" in done.stderr + done.stdout
    assert slack.messages == {}
    slack.is_away = False
    assert place.run("send", "night").returncode == 0
    assert_told_once(slack)
    assert place.run("send", "night").returncode == 0
    assert_told_once(slack)
    files = [file.read_bytes() for file in place.path.rglob("*") if file.is_file()]
    said = [(done.stdout + done.stderr).encode(), *(asked.body for asked in slack.asked)]
    assert not [text for text in [*files, *said] if TOKEN.encode() in text]


def test_a_killed_session_goes_on_in_its_thread(slack: FakeSlack, place: Workplace) -> None:
    place.write("gate", "")
    runner = place.start("run", "suite.yaml", "--session-name", "night", "--no-history")
    wait_until(lambda: len(slack.replies) == 1)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    (place.path / "gate").unlink()
    done = place.run("run", "suite.yaml", "--session-name", "night", "--no-history", "--resume")
    assert done.returncode == 1, done.stderr
    assert_told_once(slack)

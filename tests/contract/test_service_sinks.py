"""The sinks for services, as a session runs them: each record seen once, whatever is repeated, and no secret."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller

from fake_drive import ROOT, FakeDrive
from fake_slack import CHANNEL, TOKEN, FakeSlack
from free_port import free_port
from loopback import Asked, Loopback, Reply
from paceline.model import Finding, SinkSpec, Status
from sink_bench import SinkBench, make_record, spec

GITHUB_TOKEN = "ghs_planted_token_77"
OTEL_KEY = "planted-otel-key-77"
WAIT_S = 120.0


class Mailbox:
    """The mails that a server took."""

    def __init__(self) -> None:
        self.mails: list[str] = []

    async def handle_DATA(self, server: object, session: object, envelope: object) -> str:  # noqa: N802
        self.mails.append(envelope.content.decode())  # type: ignore[attr-defined]
        return "250 OK"


@dataclass
class Services:
    """All services on loopback, and what they have."""

    slack: FakeSlack
    drive: FakeDrive
    github: Loopback
    collector: Loopback
    mailbox: Mailbox
    mail_port: int
    comments: list[str]

    def specs(self, place: Path) -> list[SinkSpec]:
        mail = {"security": "none", "from": "bench@team.example", "to": ["a@team.example"]}
        return [
            spec("slack", channel_id=CHANNEL, api_url=f"{self.slack.url}/api", wait_s=WAIT_S),
            spec("gdrive", drive_folder_id=ROOT, api_url=self.drive.url, wait_s=WAIT_S),
            spec("github", repository="a/b", pull_request=7, api_url=self.github.url, wait_s=WAIT_S),
            spec("prometheus", textfile=str(place / "bench.prom"), wait_s=WAIT_S),
            spec("otel", endpoint=self.collector.url, wait_s=WAIT_S),
            spec("email", host="127.0.0.1", port=self.mail_port, wait_s=WAIT_S, **mail),
        ]

    def seen(self, place: Path) -> dict[str, list[str]]:
        """The cases that each of them knows, as often as it does."""
        replies = (self.slack.text_of(reply) for reply in self.slack.replies)
        folders = [path.split("/") for path in self.drive.paths if path.endswith("/record.json")]
        points = {asked.body for asked in self.collector.asked}
        (mail,) = self.mailbox.mails
        return {
            "slack": re.findall(r"`(\w)` \*", "\n".join(replies)),
            "gdrive": [path[1] for path in folders],
            "github": [name for text in self.comments for name in re.findall(r"^\| (\w) \|", text, re.M)],
            "prometheus": re.findall(
                r'paceline_case_passed{case="(\w)"}', (place / "bench.prom").read_text()
            ),
            "otel": [name.decode() for body in points for name in _cases_of(body)],
            "email": re.findall(r"^- (\w): (?:passed|failed)  ", mail, re.M),
        }


def _cases_of(body: bytes) -> list[bytes]:
    return re.findall(rb'"paceline\.case", "value": {"stringValue": "(\w)"}', body)[:1]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    comments: list[str] = []

    def comment(asked: Asked) -> Reply:
        assert asked.headers["authorization"] == f"Bearer {GITHUB_TOKEN}"
        if asked.method == "GET":
            return Reply(
                200, json.dumps([{"id": i, "body": body} for i, body in enumerate(comments)]).encode()
            )
        comments[:] = [json.loads(asked.body)["body"]]
        return Reply(201, b'{"id": 0}')

    def collect(asked: Asked) -> Reply:
        assert asked.headers["x-api-key"] == OTEL_KEY
        return Reply(200, b"{}")

    mailbox = Mailbox()
    with ExitStack() as stack:
        slack, drive = stack.enter_context(FakeSlack()), stack.enter_context(FakeDrive())
        github, collector = (stack.enter_context(Loopback(answer)) for answer in (comment, collect))
        mail = Controller(mailbox, hostname="127.0.0.1", port=free_port(), ready_timeout=60)
        mail.start()
        stack.callback(mail.stop)
        for name in [name for name in os.environ if name.startswith("GITHUB_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
        monkeypatch.setenv("GITHUB_TOKEN", GITHUB_TOKEN)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-api-key={OTEL_KEY}")
        monkeypatch.setenv("GDRIVE_SERVICE_ACCOUNT", drive.key_file())
        yield Services(slack, drive, github, collector, mailbox, mail.port, comments)


FINDING = Finding(judge="changes", case="a", metric="time_s", verdict="worse", effect=0.2, values=(1, 1, 1.2))


def test_each_record_is_seen_once_also_when_calls_are_repeated(services: Services, tmp_path: Path) -> None:
    sinks = services.specs(tmp_path)
    bench = SinkBench(tmp_path, *sinks)
    records = (make_record("a"), make_record("b", status=Status.FAILED), make_record("c"))
    bench.run(*records, findings=(FINDING,))
    assert not [note for note in bench.notes if "fail" in note or "wait" in note]
    assert {name: sorted(cases) for name, cases in services.seen(tmp_path).items()} == {
        sink.name: ["a", "b", "c"] for sink in sinks
    }
    # The last record and the end, as if each courier had died before it could note them.
    for sink in sinks:
        bench.forget_last(sink.name, 2)
    sent = bench.send()
    assert {one.name: (one.delivered, one.waiting) for one in sent} == {sink.name: (2, 0) for sink in sinks}
    assert {name: sorted(cases) for name, cases in services.seen(tmp_path).items()} == {
        sink.name: ["a", "b", "c"] for sink in sinks
    }
    assert (len(services.slack.parents), len(services.slack.files)) == (1, 1)
    assert_no_secret(tmp_path, bench.notes)


def assert_no_secret(place: Path, notes: list[str]) -> None:
    """None of the secrets, nor what was got for them, is in a file or in what was said."""
    key_part = json.loads(os.environ["GDRIVE_SERVICE_ACCOUNT"])["private_key"].splitlines()[5]
    secrets = [TOKEN, GITHUB_TOKEN, OTEL_KEY, key_part, "planted-access-1"]
    texts = [file.read_bytes() for file in place.rglob("*") if file.is_file()] + [
        note.encode() for note in notes
    ]
    assert [secret for secret in secrets if any(secret.encode() in text for text in texts)] == []


LONG = """
from paceline.sinks import GoOn, Sink

class Long(Sink):
    def close(self, report):
        done = self.context.load_state().get("done", 0)
        if done < 6:
            self.context.save_state(done=done + 1)
            raise GoOn("more to send")
"""


def test_a_long_call_goes_on_as_often_as_it_comes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "long_sink.py").write_text(LONG)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    bench = SinkBench(tmp_path, spec("long_sink:Long", "long", wait_s=WAIT_S))
    bench.run(make_record("a"))
    assert not bench.is_waiting
    assert [line["fault"] for line in bench.ledger("long") if "fault" in line] == [
        "close failed: more to send"
    ] * 6

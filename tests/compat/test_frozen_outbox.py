"""Messages that an older version left waiting for a receiver that was away: each arrives once, as it was.

That version did not sign the settings of sinks, so who wrote them is not known: they are given again, by --config.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from frozen import WRITTEN, difference, frozen_place
from hook_server import HookServer, Posted, serving
from workplace import Workplace

KNOWN = json.loads((WRITTEN / "outbox.json").read_text())
SECRET, TOKEN = "hook-secret-4711", "hook-token-4711"
GIVEN = ("--config", "paceline.yaml")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """Sessions with messages for two sinks each; of `half`, one sink had got two of them."""
    monkeypatch.setenv("FROZEN_HOOK_SECRET", SECRET)
    monkeypatch.setenv("FROZEN_HOOK_TOKEN", TOKEN)
    with frozen_place("outbox") as place:
        yield place


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HookServer]:
    with serving() as server:
        monkeypatch.setenv("FROZEN_HOOK_URL", server.url)
        yield server


def told(posted: Posted) -> dict[str, Any]:
    return {
        "path": posted.path,
        "key": posted.key,
        "token": posted.headers.get("X-Token"),
        "body": posted.json,
    }


def in_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sinks and sessions one after the other; which of them comes first is nobody's business."""
    return sorted(messages, key=lambda one: (one["path"], one["body"]["session"]))


def waiting(session: str) -> list[dict[str, Any]]:
    return in_order([one for one in KNOWN["waiting"] if one["body"]["session"] == session])


@pytest.mark.parametrize("session", ["away", "half"])
def test_what_waits_is_delivered_once(place: Workplace, receiver: HookServer, session: str) -> None:
    done = place.run("send", session, *GIVEN, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == [one for one in KNOWN["told"] if one["session"] == session]
    assert difference(waiting(session), in_order([told(one) for one in receiver.posted])) == ""
    again = place.run("send", session)
    assert again.returncode == 0 and again.stdout.count("0 delivered, nothing waits") == 2
    keys = [(one.path, one.key) for one in receiver.posted]
    assert len(keys) == len(set(keys)) == len(waiting(session))


def test_all_sessions_are_served_and_marked_as_done(place: Workplace, receiver: HookServer) -> None:
    marks = place.path / "results/.outbox"
    assert {path.name for path in marks.iterdir()} == {"away", "half"}
    done = place.run("send", *GIVEN, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert difference(KNOWN["told"], json.loads(done.stdout)) == ""
    everything = in_order([told(one) for one in receiver.posted])
    assert difference(in_order(KNOWN["waiting"]), everything) == ""
    before = {one["key"] for one in KNOWN["delivered_before"]}
    assert len(before) == 2 and before.isdisjoint(one["key"] for one in everything if one["path"] == "/hook")
    assert list(marks.iterdir()) == []


def test_messages_are_signed_with_the_secret_of_now(place: Workplace, receiver: HookServer) -> None:
    assert place.run("send", "away", *GIVEN).returncode == 0
    signed = [one for one in receiver.posted if one.path == "/hook"]
    assert len(signed) == 6
    for one in signed:
        mark = hmac.new(SECRET.encode(), one.body, hashlib.sha256).hexdigest()
        assert one.headers["X-Paceline-Signature"] == f"sha256={mark}"


def test_a_receiver_that_is_still_away_costs_nothing(place: Workplace, receiver: HookServer) -> None:
    receiver.answers[:] = [(503, {"Retry-After": "0"})] * 1000
    done = place.run("send", "half", *GIVEN)
    assert done.returncode == 1 and receiver.posted == []
    receiver.answers.clear()
    assert place.run("send", "half").returncode == 0
    assert difference(waiting("half"), in_order([told(one) for one in receiver.posted])) == ""


def test_without_a_configuration_it_waits_and_that_is_said(place: Workplace, receiver: HookServer) -> None:
    done = place.run("send", "half")
    assert done.returncode == 1
    assert (
        done.stdout.count("(written by somebody else (or elsewhere): give its configuration with --config")
        == 2
    )
    ran = place.run("run", "--session-name", "next", "--no-history")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "sink hook of session away was written by somebody else (or elsewhere)" in ran.stdout
    assert {one.json["session"] for one in receiver.posted} == {"next"}
    assert place.run("send", *GIVEN).returncode == 0
    old = in_order([told(one) for one in receiver.posted if one.json["session"] != "next"])
    assert difference(in_order(KNOWN["waiting"]), old) == ""

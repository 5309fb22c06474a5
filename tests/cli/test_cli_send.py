"""`paceline send`: by name, by path, for all; with a configuration given again."""

import json

import pytest

from hook_server import HookServer, serving
from workplace import Workplace

SUITE = """
sinks: [{sink}]
entries: [{{name: a, command: [sleep, "0"]}}]
"""


@pytest.fixture
def left(place: Workplace) -> Workplace:
    """A session whose sink was away."""
    sink = "{type: webhook, name: hook, url: '${HOOK_PLACE}', wait_s: 0}"
    place.write("suite.yaml", SUITE.format(sink=sink))
    with serving() as server:
        url = server.url
    done = place.run("run", "suite.yaml", "--session-name", "monday", "--no-history", HOOK_PLACE=url)
    assert done.returncode == 0
    assert "messages wait: paceline send monday" in done.stdout
    return place


def events(server: HookServer) -> list[str]:
    return [posted.json["event"] for posted in server.posted]


def test_what_waits_is_sent_once_and_told(left: Workplace) -> None:
    unset = left.run("send", "monday")
    assert unset.returncode == 1
    assert (
        "sink hook: 0 delivered, 3 still waiting (environment variable HOOK_PLACE is not set)" in unset.stdout
    )
    with serving() as server:
        unknown = left.run("send", "monday", "--sink", "hok", HOOK_PLACE=server.url)
        assert unknown.returncode == 2
        assert unknown.stderr.startswith("paceline: no sink 'hok' in these sessions")
        assert server.posted == []
        sent = left.run("send", "--json", HOOK_PLACE=server.url)
        assert sent.returncode == 0, sent.stderr
        (told,) = json.loads(sent.stdout)
        assert told == {
            "session": "monday",
            "name": "hook",
            "type": "webhook",
            "delivered": 3,
            "waiting": 0,
            "required": False,
            "fault": "",
        }
        assert events(server) == ["open", "record", "close"]
        again = left.run("send", left.path / "results/monday", HOOK_PLACE=server.url)
        assert again.stdout == "session monday: sink hook: 0 delivered, nothing waits\n"
        assert left.run("send").stdout == "nothing is waiting\n"
        assert len(server.posted) == 3


def test_a_sink_that_is_still_away_keeps_its_queue(left: Workplace) -> None:
    with serving() as server:
        url = server.url
    told = left.run("send", "monday", HOOK_PLACE=url)
    assert told.returncode == 1
    assert "sink hook: 0 delivered, 3 still waiting (open failed: 127.0.0.1 cannot be reached" in told.stdout


def test_a_stored_session_is_sent_to_a_sink_that_it_never_had(place: Workplace) -> None:
    place.write("suite.yaml", SUITE.format(sink=""))
    assert place.run("run", "suite.yaml", "--session-name", "monday", "--no-history").returncode == 0
    refused = place.run("send", "monday")
    assert refused.returncode == 2
    assert "session monday was run without sinks: name some with --config" in refused.stderr
    place.write("new.yaml", SUITE.format(sink="{type: files, name: copies, directory: copies}"))
    done = place.run("send", "monday", "--config", "new.yaml")
    assert done.stdout == "session monday: sink copies: 3 delivered, nothing waits\n", done.stderr
    (line,) = (place.path / "copies/monday.jsonl").read_text().splitlines()
    assert json.loads(line)["case"]["name"] == "a"
    assert json.loads((place.path / "copies/monday.summary.json").read_text())["ok"] is True

"""The end of a session waits for a sink that makes progress, and for none that is silent or has failed."""

import json
import socket
from pathlib import Path

import pytest

from free_port import free_port
from hook_server import serving
from workplace import Workplace

# Past the time that a command gets here: a session that waits for its sink does not end in time.
LONG = "wait_s: 600, timeout_s: 600"
ENTRY = "entries: [{name: a, command: [sleep, '0.1']}]\n"
SINKS = """
import os, pathlib, subprocess, time
from paceline.sinks import Sink

class InBuild(Sink):
    def __init__(self, options, context): time.sleep(3600)

class InOpen(Sink):
    def open(self, plan): time.sleep(3600)

class InRecord(Sink):
    def record(self, record): time.sleep(3600)

class Slow(Sink):
    def open(self, plan):
        from paceline.sinks import note_answer
        note_answer()
    def record(self, record): time.sleep(2)
    def close(self, report): pathlib.Path("slow-has-all").touch()

class Starts(Sink):
    def __init__(self, options, context):
        while time.process_time() < 3: pass
    def close(self, report): pathlib.Path("starts-has-all").touch()

class Crashes(Sink):
    def open(self, plan):
        with open("starts", "a") as file: file.write(f"{os.getpid()}\\n")
        os.abort()

class Leaves(Sink):
    def open(self, plan):
        for number, away in enumerate((False, True)):
            child = subprocess.Popen(["sleep", "3600"], start_new_session=away)
            pathlib.Path(f"left-{number}").write_text(str(child.pid))
    def close(self, report):
        if self.options.get("hangs"): time.sleep(3600)
"""


def run(suite: Workplace, sinks: str, *, name: str = "s", entries: str = ENTRY) -> str:
    suite.write("own_sinks.py", SINKS)
    suite.write("suite.yaml", f"sinks: [{sinks}]\n{entries}")
    done = suite.run("run", "suite.yaml", "--session-name", name, "--no-history", PYTHONPATH=str(suite.path))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("where", "waiting"), [("InBuild", 3), ("InOpen", 3), ("InRecord", 2)])
def test_a_sink_that_only_waits_does_not_hold_the_session(suite: Workplace, where: str, waiting: int) -> None:
    output = run(suite, f"{{name: hangs, type: 'own_sinks:{where}', {LONG}}}")
    assert f"sink hangs: no answer by the session's end; {waiting} of 3 messages wait" in output
    assert "hangs" not in run(suite, "", name="next")


def test_a_service_that_never_answers_gets_all_from_send_when_it_is_well(suite: Workplace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dumb:
        port = dumb.getsockname()[1]
        output = run(suite, f"{{name: hook, type: webhook, url: 'http://127.0.0.1:{port}/', {LONG}}}")
    assert "sink hook: no answer by the session's end; 3 of 3 messages wait" in output
    with serving(port) as server:
        sent = suite.run("send", "s")
        assert sent.stdout == "session s: sink hook: 3 delivered, nothing waits\n"
        assert [posted.json["event"] for posted in server.posted] == ["open", "record", "close"]


def test_starting_up_and_a_service_that_has_answered_are_waited_for(suite: Workplace) -> None:
    slow, starts = (
        f"{{name: {name.lower()}, type: 'own_sinks:{name}', {LONG}}}" for name in ("Slow", "Starts")
    )
    output = run(suite, f"{slow}, {starts}")
    assert "messages wait" not in output
    assert (suite.path / "slow-has-all").exists()
    assert (suite.path / "starts-has-all").exists()


def test_a_service_that_asks_for_patience_first_of_all_is_asked_another_day(suite: Workplace) -> None:
    with serving() as server:
        server.answers = [(503, {"Retry-After": "20"})] * 5
        output = run(suite, f"{{name: hook, type: webhook, url: '{server.url}', {LONG}}}")
        assert len(server.answers) == 4
    assert "sink hook: open failed: 127.0.0.1 answered 503; 3 of 3 messages wait" in output


def test_a_sink_that_crashed_is_not_started_again_at_the_end(suite: Workplace) -> None:
    is_over = r"until grep -q ') Z' /proc/$(cat starts)/stat; do sleep 0.05; done"
    entries = f'entries: [{{name: a, command: [sh, -c, "{is_over}"]}}]\n'
    output = run(suite, "{name: bad, type: 'own_sinks:Crashes'}", entries=entries)
    assert "sink bad: its process was ended by SIGABRT; 3 of 3 messages wait" in output
    assert len((suite.path / "starts").read_text().splitlines()) == 1


@pytest.mark.parametrize("hangs", [False, True])
def test_nothing_that_a_sink_started_outlives_the_command(suite: Workplace, hangs: bool) -> None:
    run(suite, f"{{name: leaves, type: 'own_sinks:Leaves', hangs: {str(hangs).lower()}, wait_s: 5}}")
    assert [number for number in range(2) if is_alive(suite.path / f"left-{number}")] == []


def is_alive(pid_file: Path) -> bool:
    pid = pid_file.read_text()
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_a_sink_that_cannot_be_imported_spoils_nothing_later(suite: Workplace) -> None:
    suite.write("broken_sink.py", "raise ImportError('not today')\n")
    output = run(suite, "{type: 'broken_sink:Sink'}")
    assert "off: cannot import the sink 'broken_sink:Sink': not today; 3 of 3 messages wait" in output
    later = run(suite, "", name="later")
    assert "broken_sink" not in later
    sent = suite.run("send", "--json", PYTHONPATH=str(suite.path))
    assert (sent.returncode, sent.stderr) == (1, "")
    (one,) = json.loads(sent.stdout)
    assert (one["name"], one["waiting"]) == ("broken_sink:Sink", 3)


def test_mlflow_is_not_even_imported_while_its_server_is_away(suite: Workplace) -> None:
    suite.write(
        "mlflow.py", f"open({str(suite.path / 'imported')!r}, 'w').close()\nraise ImportError('a sham')\n"
    )
    output = run(suite, f"{{name: mlflow, tracking_uri: 'http://127.0.0.1:{free_port()}', {LONG}}}")
    assert "sink mlflow: open failed: 127.0.0.1 cannot be reached: [Errno 111]" in output
    assert not (suite.path / "imported").exists()


def test_four_sinks_that_hang_refuse_lie_and_crash_leave_all_for_send(suite: Workplace) -> None:
    refusing = free_port()
    with socket.create_server(("127.0.0.1", 0)) as dumb, serving() as lying:
        hanging, url = dumb.getsockname()[1], "http://127.0.0.1"
        lying.answers = [(500, {})] * 50
        lies = lying.server_address[1]
        ports = {"hangs": hanging, "refuses": refusing, "lies": lies}
        sinks = [
            f"{{name: {name}, type: webhook, url: '{url}:{port}/', {LONG}}}" for name, port in ports.items()
        ]
        output = run(suite, ", ".join([*sinks, "{name: crashes, type: 'own_sinks:Crashes'}"]))
        assert output.count("3 of 3 messages wait: paceline send s") == 4
    for name, port in ports.items():
        with serving(port) as server:
            sent = suite.run("send", "s", "--sink", name)
            assert sent.stdout == f"session s: sink {name}: 3 delivered, nothing waits\n"
            assert len(server.posted) == 3

"""Sinks that raise, hang, crash or eat memory: the session is none the worse and says so."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

from free_port import free_port
from hook_server import serving
from patience import wait_until
from workplace import Workplace

BAD = """
import os, time

class Raises:
    def __init__(self, options, context): pass
    def record(self, record): raise ValueError("no " + record.case.name)

class Hangs:
    def __init__(self, options, context): pass
    def open(self, plan): open("hangs-is-up", "w").close()
    def record(self, record): time.sleep(3600)

class HangsLater(Hangs):
    def open(self, plan):
        from paceline.sinks import note_answer
        note_answer()

class Crashes:
    def __init__(self, options, context): pass
    def record(self, record): os.abort()

class Eats:
    def __init__(self, options, context): self.food = []
    def record(self, record):
        while True:
            self.food.append(bytearray(1 << 24))
"""


def test_bad_sinks_cost_a_line_each_and_a_good_one_gets_everything(suite: Workplace) -> None:
    suite.write("bad_sinks.py", BAD)
    suite.write(
        "suite.yaml",
        """
sinks:
  - {type: 'bad_sinks:Raises', name: raises}
  - {type: 'bad_sinks:Hangs', name: hangs, wait_s: 1}
  - {type: 'bad_sinks:Crashes', name: crashes}
  - {type: 'bad_sinks:Eats', name: eats, memory: 200MiB}
  - {type: files, name: good, directory: copies}
entries:
  - {name: a, command: [sh, -c, 'until [ -e hangs-is-up ]; do sleep 0.05; done']}
  - {name: b, script: count.py}
""",
    )
    done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history", PYTHONPATH=str(suite.path))
    assert done.returncode == 0, done.stdout + done.stderr
    told = {
        line.split(":")[0].strip(): line
        for line in done.stdout.splitlines()
        if line.strip().startswith("sink ")
    }
    assert len(told) == done.stdout.count("\nsink "), done.stdout
    assert sorted(told) == ["sink crashes", "sink eats", "sink hangs", "sink raises"]
    assert "record failed: ValueError: no b; 2 of 4 messages wait: paceline send s" in told["sink raises"]
    assert re.search(
        r"(no answer for \d+ s|no answer by the session's end); 3 of 4 messages wait", told["sink hangs"]
    )
    assert "its process was ended by SIGABRT; 3 of 4 messages wait" in told["sink crashes"]
    assert "it took more than 200 MiB of memory; 3 of 4 messages wait" in told["sink eats"]
    assert json.loads((suite.path / "results/s/report.json").read_text())["ok"] is True
    assert len((suite.path / "copies/s.jsonl").read_text().splitlines()) == 2


def test_the_next_session_delivers_what_the_last_one_left(suite: Workplace) -> None:
    suite.write("scripts/once.py", "from paceline import emit\nemit.metrics({'score': 1})\n")
    port = free_port()
    suite.write(
        "suite.yaml",
        f"sinks: [{{type: webhook, name: hook, url: 'http://127.0.0.1:{port}/'}}]\n"
        "entries: [{name: a, script: once.py}]\n",
    )
    first = suite.run("run", "suite.yaml", "--session-name", "first", "--no-history")
    assert first.returncode == 0
    assert "sink hook: open failed: 127.0.0.1 cannot be reached" in first.stdout
    assert "3 of 3 messages wait: paceline send first" in first.stdout
    with serving(port) as server:
        second = suite.run("run", "suite.yaml", "--session-name", "second", "--no-history")
        assert "session first: sink hook: 3 delivered, nothing waits" in second.stdout
        told = [(posted.json["session"], posted.json["event"]) for posted in server.posted]
        assert told == [
            (session, event) for session in ("second", "first") for event in ("open", "record", "close")
        ]
        assert len({posted.key for posted in server.posted}) == 6
        third = suite.run("run", "suite.yaml", "--session-name", "third", "--no-history")
        assert "session first" not in third.stdout
    assert not list((Path(suite.path) / "results/.outbox").iterdir())


def test_an_interrupt_ends_the_wait_for_sinks_and_nothing_else(suite: Workplace) -> None:
    suite.write("bad_sinks.py", BAD)
    sink = "{type: 'bad_sinks:HangsLater', name: hangs, wait_s: 600, timeout_s: 600}"
    suite.write("suite.yaml", f"sinks: [{sink}]\nentries: [{{name: a, script: count.py}}]\n")
    session = subprocess.Popen(
        suite.command("run", "suite.yaml", "--session-name", "s", "--no-history"),
        cwd=suite.path,
        env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(suite.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    ledger = suite.path / "results/s/.outbox/hangs/ledger.jsonl"
    journal = suite.path / "results/s/.outbox/journal.jsonl"
    wait_until(
        lambda: ledger.exists() and ledger.read_text() and '"close-1"' in journal.read_text(), by=session
    )
    session.send_signal(signal.SIGINT)
    output, _ = session.communicate(timeout=120)
    assert session.returncode == 0, output
    assert "interrupted: sinks are not waited for any longer" in output
    assert "2 of 3 messages wait: paceline send s" in output
    assert "1 passed of 1 case" in output
    assert "Traceback" not in output

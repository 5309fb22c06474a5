"""The outbox: what is told when, what waits, and who delivers it later."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hook_server import HookServer, serving
from paceline.errors import SessionError
from paceline.model import Finding, Plan, PoolSettings, Settings, Status
from paceline.record.directory import SessionDir
from paceline.record.layout import OUTBOX
from paceline.sinks.dispatch import describe
from paceline.sinks.outbox import Outbox, read_plan
from sink_bench import SinkBench, make_case, make_record, spec

SINKS = """
import json, os, pathlib
from paceline.sinks import Sink, TryLater, Undeliverable

class Notes(Sink):
    def note(self, *words):
        with open(self.options["log"], "a") as log:
            log.write(json.dumps(words) + "\\n")
    def open(self, plan): self.note("open", [case.name for case in plan.cases], os.getpid())
    def reopen(self, plan): self.note("reopen", self.context.load_state().get("last"))
    def record(self, record):
        self.note("record", record.case.name, record.case.sink_data.get("ping"), record.attempt)
        self.context.save_state(last=record.case.name)
    def close(self, report): self.note("close", report.ok, len(report.records), len(report.findings))

class Refuses(Notes):
    def record(self, record):
        if record.case.name == "b":
            raise Undeliverable("b is refused")
        super().record(record)

class DiesOnce(Notes):
    def record(self, record):
        mark = pathlib.Path(self.options["log"] + ".died")
        if record.case.name == "b" and not mark.exists():
            mark.touch()
            os._exit(9)
        super().record(record)

class ComesLater(Notes):
    def record(self, record):
        tries = self.context.load_state().get("tries", 0)
        self.context.save_state(tries=tries + 1)
        if tries < 2:
            raise TryLater("not yet", after_s=0.01)
        super().record(record)

class Rude(Notes):
    def record(self, record): raise Undeliverable("no\\x1b]52;c;ZXZpbA==\\x07\\nreally " + "x" * 9000)

class Needy(Notes):
    needs = ("no_such_package", "needy")
"""


@pytest.fixture(autouse=True)
def _custom_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_outbox_sinks.py").write_text(SINKS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def custom(tmp_path: Path, name: str, **fields: Any) -> Any:
    return spec(f"my_outbox_sinks:{name}", "mine", log=str(tmp_path / "log"), **fields)


def log(tmp_path: Path) -> list[list[Any]]:
    path = tmp_path / "log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kinds(tmp_path: Path) -> list[str]:
    return [words[1] if words[0] == "record" else words[0] for words in log(tmp_path)]


def test_a_sink_gets_what_the_plan_knows_of_a_case(tmp_path: Path) -> None:
    cases = [make_case("a", sink_data={"ping": ["U1"]}), make_case("b")]
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes"), cases=cases)
    finding = Finding(judge="j", case="a", metric="m", verdict="worse", effect=0.5)
    bench.run(make_record("a"), make_record("b"), findings=(finding,))
    opened, *rest = log(tmp_path)
    assert opened[:2] == ["open", ["a", "b"]] and opened[2] != os.getpid()
    assert rest == [["record", "a", ["U1"], 1], ["record", "b", None, 1], ["close", False, 2, 1]]
    assert bench.notes == [] and not bench.is_waiting


def test_a_refused_record_does_not_hold_up_the_others(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Refuses", required=True))
    assert bench.run(make_record("a"), make_record("b"), make_record("c")) == ("mine",)
    assert kinds(tmp_path) == ["open", "a", "c", "close"]
    assert bench.notes == ["sink mine: record failed: b is refused; 1 of 5 messages wait: paceline send s"]
    assert bench.is_waiting
    (sent,) = bench.send()
    assert (sent.delivered, sent.waiting, sent.fault) == (0, 1, "record failed: b is refused")
    # Who was refused is not asked again by every session that follows.
    other = SinkBench(tmp_path, session="other")
    other.run(make_record("a"))
    assert other.notes == []


def test_a_crashed_sender_is_followed_by_another(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "DiesOnce"))
    bench.run(make_record("a"), make_record("b"), make_record("c"))
    assert bench.is_waiting is ("close" not in kinds(tmp_path))
    if bench.is_waiting:  # It died after the end had begun, when no further courier is started.
        bench.send()
    assert kinds(tmp_path) == ["open", "a", "reopen", "b", "c", "close"]
    assert ["reopen", "a"] in log(tmp_path)


def test_what_a_service_answers_is_shown_on_one_line_and_commands_no_terminal(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Rude"))
    bench.run(make_record("a"))
    (note,) = bench.notes
    assert note.startswith("sink mine: record failed: no")
    assert note.isprintable() and "]52" not in note and len(note) < 700
    (sent,) = bench.send()
    assert describe(sent).isprintable() and "]52" not in describe(sent)
    # Who made the session made its ledger, too.
    ledger = bench.sink_dir("mine") / "ledger.jsonl"
    line = {"key": "record-x", "fault": "\x1b]52;c;ZXZpbA==\x07\n", "say": "\x1b[2J"}
    ledger.write_text(ledger.read_text() + json.dumps(line) + "\n")
    (sent,) = bench.send()
    assert describe(sent).isprintable() and all(note.isprintable() for note in bench.notes)


def test_a_sender_that_died_in_a_call_long_ago_is_not_the_one_of_now(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", wait_s=30.0))
    bench.run(make_record("a"), finish=False)
    busy = bench.sink_dir("mine") / "busy"
    busy.touch()
    for path in (busy, bench.sink_dir("mine") / "ledger.jsonl"):
        os.utime(path, (1000, 1000))
    bench.run(make_record("b"))
    assert bench.notes == [] and not bench.is_waiting and not busy.exists()


@pytest.mark.parametrize("asked", ["-5", "9" * 400, "Fri, 31 Dec 9999 23:59:59 -1200"])
def test_an_absurd_retry_after_neither_crashes_nor_stalls(tmp_path: Path, asked: str) -> None:
    with serving() as server:
        server.answers = [(200, {}), *[(429, {"Retry-After": asked})] * 3]
        bench = SinkBench(tmp_path, spec("webhook", url=server.url, wait_s=5.0))
        bench.run(make_record("a"))
        for note in bench.notes:
            assert "record failed: 127.0.0.1 answered 429" in note
        bench.send()
        server.answers.clear()
        bench.send()
        assert [posted.json["event"] for posted in server.posted] == ["open", "record", "close"]


def test_a_service_that_always_asks_to_come_at_once_is_not_asked_without_pause(tmp_path: Path) -> None:
    with serving() as server:
        server.answers = [(429, {"Retry-After": "0"})] * 100_000
        bench = SinkBench(tmp_path, spec("webhook", url=server.url, wait_s=5.0))
        # There is nothing to wait for: what counts is how often it was asked within this time.
        bench.run(make_record("a"), between=lambda: time.sleep(3))
        assert len(server.answers) > 100_000 - 40


def test_what_comes_later_is_waited_for(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "ComesLater"))
    bench.run(make_record("a"))
    assert kinds(tmp_path) == ["open", "a", "close"]
    assert [line["fault"] for line in bench.ledger("mine") if "fault" in line] == [
        "record failed: not yet"
    ] * 2


def test_retry_after_is_obeyed_and_the_keys_stay(tmp_path: Path) -> None:
    with serving() as server:
        server.answers = [(200, {}), (429, {"Retry-After": "0"}), (503, {})]
        bench = SinkBench(tmp_path, spec("webhook", url=server.url))
        bench.run(make_record("a"))
        events = [posted.json["event"] for posted in server.posted]
        assert events == ["open", "record", "close"]
        assert len({posted.key for posted in server.posted}) == 3
        check_keys(server)


def check_keys(server: HookServer) -> None:
    for posted in server.posted:
        assert posted.key == posted.json["key"]
        assert posted.key.isascii() and posted.key.isprintable()


def test_a_session_that_goes_on_is_opened_once_and_closed_again(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes"))
    bench.run(make_record("a"), make_record("b", status=Status.FAILED))
    bench.run(make_record("b", attempt=2))
    assert kinds(tmp_path) == ["open", "a", "b", "close", "reopen", "b", "close"]
    assert ["record", "b", None, 2] in log(tmp_path)


def test_what_a_killed_runner_had_not_noted_is_found(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", live=False))
    bench.run(make_record("a"), finish=False)
    SessionDir.open(bench.directory).write_record(make_record("b"))
    assert log(tmp_path) == [] and bench.is_waiting
    (sent,) = bench.send()
    assert (sent.delivered, sent.waiting) == (4, 0)
    assert kinds(tmp_path) == ["open", "a", "b", "close"]
    assert ["close", False, 2, 0] in log(tmp_path)


def test_an_earlier_attempt_is_sent_although_its_files_have_moved(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", live=False))
    bench.run(make_record("a", status=Status.FAILED), finish=False)
    bench.run(make_record("a", attempt=2))
    assert [words[3] for words in log(tmp_path) if words[0] == "record"] == [1, 2]


@pytest.mark.parametrize("is_failing", [True, False])
def test_only_failures_means_silence_when_all_is_well(tmp_path: Path, is_failing: bool) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", only=("failures",), live=False))
    bench.run(make_record("a"), make_record("b", status=Status.TIMEOUT if is_failing else Status.PASSED))
    assert kinds(tmp_path) == (["open", "b", "close"] if is_failing else [])
    assert not bench.is_waiting


def test_a_blocked_sink_waits_for_its_variable(tmp_path: Path) -> None:
    blocked = custom(tmp_path, "Notes", blocked="environment variable X is not set", required=True)
    bench = SinkBench(tmp_path, blocked)
    assert bench.run(make_record("a")) == ("mine",)
    assert bench.notes == [
        "sink mine: off: environment variable X is not set; 3 of 3 messages wait: paceline send s"
    ]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("my_outbox_sinks:Absent", "off: cannot import the sink 'my_outbox_sinks:Absent'"),
        ("my_outbox_sinks:Needy", "off: the sink Needy needs the needy extra: pip install 'paceline[needy]'"),
        ("files", "open failed: its options are wrong: directory: Field required"),
    ],
)
def test_a_sink_that_cannot_be_made_says_why(tmp_path: Path, kind: str, fault: str) -> None:
    bench = SinkBench(tmp_path, spec(kind, "mine"))
    bench.run(make_record("a"))
    (note,) = bench.notes
    assert note.startswith(f"sink mine: {fault}") and note.endswith("3 of 3 messages wait: paceline send s")


def test_a_session_that_runs_is_left_alone(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", live=False))
    bench.run(make_record("a"), finish=False)
    program = f"from paceline.record.lock import SessionLock; from pathlib import Path; \
lock = SessionLock(Path({str(bench.directory)!r})); lock.take(); print('taken', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        with pytest.raises(SessionError, match="is being run by process"):
            bench.send()
        holder.communicate(b"\n")
    assert log(tmp_path) == []


def test_sending_does_not_make_a_session_the_newest(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", live=False))
    bench.run(make_record("a"), finish=False)
    os.utime(bench.directory / ".lock", (1000, 1000))
    bench.send()
    assert (bench.directory / ".lock").stat().st_mtime == 1000


def test_a_session_without_sinks_leaves_no_outbox(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path)
    bench.run(make_record("a"))
    assert not (bench.directory / OUTBOX).exists() and not (bench.directory.parent / OUTBOX).exists()
    with pytest.raises(SessionError, match="run without sinks"):
        bench.send()


def test_a_disk_that_takes_no_journal_is_no_trouble_of_the_run(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, custom(tmp_path, "Notes", required=True))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / OUTBOX).write_text("in the way")
    assert bench.run(make_record("a"), make_record("b")) == ("mine",)
    assert bench.notes == [
        "sinks: their journal cannot be written: Not a directory; paceline send s finds what is on disk",
        "sink mine: not delivered; 3 of 3 messages wait: paceline send s",
    ]


def test_a_service_that_asks_for_more_time_than_there_is_gets_it_later(tmp_path: Path) -> None:
    with serving() as server:
        server.answers = [(200, {}), (429, {"Retry-After": "3600"})]
        bench = SinkBench(tmp_path, spec("webhook", url=server.url))
        bench.run(make_record("a"))
        assert [posted.json["event"] for posted in server.posted] == ["open"]
        (note,) = bench.notes
        assert "record failed: 127.0.0.1 answered 429; 2 of 3 messages wait" in note
        bench.send()
        assert [posted.json["event"] for posted in server.posted] == ["open", "record", "close"]


# As releases before the settings had types wrote them, with keys that nobody reads any more.
OLDER_SETTINGS = {
    "delete_scratch": True,
    "gpu_stats_interval_s": 0,
    "run_reason": "nightly",
    "viewer_url": "http://viewer/night",
    "gpu_mem_use_warning_threshold": None,
    "gpu_mem_use_warning_threshold_by_entry": {"one": 0.5},
    "grace_s": 5.0,
    "results_url": "s3://bucket/results",
    "history_url": "history.db",
    "pool": {
        "type": "ray",
        "address": "h:1",
        "ship": "never",
        "ship_limit": 1,
        "files": ["/data"],
        "exclude": [],
        "node_retries": 0,
        "wait_for_node_s": 0.0,
    },
    "config_files": ["/suite.yaml"],
    "errors": [],
}


@pytest.mark.parametrize("settings", [OLDER_SETTINGS, {}])
def test_the_settings_of_older_releases_are_read(tmp_path: Path, settings: dict[str, Any]) -> None:
    night = tmp_path / "night"
    night.mkdir()
    Outbox(night).keep_plan(Plan(session="night", directory=night))
    file = night / ".outbox/session.json"
    data = json.loads(file.read_bytes())
    data["plan"]["settings"] = settings
    file.write_text(json.dumps(data))
    found = read_plan(night).plan.settings
    pool = PoolSettings(
        address="h:1",
        ship="never",
        ship_limit=1,
        files=["/data"],
        exclude=[],
        node_retries=0,
        wait_for_node_s=0,
    )
    expected = Settings(
        run_reason="nightly",
        viewer_url="http://viewer/night",
        results_url="s3://bucket/results",
        gpu_stats_interval_s=0,
        pool=pool,
        config_files=("/suite.yaml",),
    )
    assert found == (expected if settings else Settings())

import json
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paceline.record.events import EventLog
from paceline.record.files import read_lines
from paceline.record.redact import Redactor


def test_each_event_is_a_line_with_its_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path, Redactor(["s3cret-value"])) as events:
        assert events.write("case_started", case="a", path=tmp_path)
        assert events.write("note", text="has s3cret-value\nin it")
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["event"] == "case_started" and first["path"] == str(tmp_path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert second["text"] == "has ***\nin it"


def test_a_line_torn_by_a_crash_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event": "one"}\n{"event": "tw')
    with EventLog(path) as events:
        events.write("three")
    assert [event["event"] for event in read_lines(path)] == ["one", "three"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_not_fatal() -> None:
    with EventLog(Path("/dev/full")) as events:
        assert events.write("anything") is False


def test_a_missing_directory_is_not_fatal_and_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "events.jsonl"
    with EventLog(path) as events:
        assert not events.write("lost")
        path.parent.mkdir()
        assert events.write("kept")
    assert [event["event"] for event in read_lines(path)] == ["kept"]


def test_a_missing_journal_has_no_events(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path / "none.jsonl")) == []


def test_threads_write_whole_lines_and_nothing_between_them(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")

    def write(thread: int) -> None:
        for number in range(500):
            log.write("tick", thread=thread, number=number)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with log, ThreadPoolExecutor(8) as threads:
            list(threads.map(write, range(8)))
    finally:
        sys.setswitchinterval(before)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert Counter(event["thread"] for event in events) == dict.fromkeys(range(8), 500)

"""Logs of a run: whole, masked, and no trouble when there is no room for them."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.record.redact import Redactor
from paceline.run.script_output import TAIL_BYTES, OutputLog, line_that_says_why


def texts(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_each_stream_has_a_file_and_both_have_one(tmp_path: Path) -> None:
    with OutputLog(tmp_path / "logs") as log:
        log.write("stdout", b"one\n")
        log.write("stderr", b"two\n")
        log.write("stdout", b"\xff\xfe\n")
    assert texts(tmp_path / "logs") == {
        "stdout.log": b"one\n\xff\xfe\n",
        "stderr.log": b"two\n",
        "stdouterr.log": b"one\ntwo\n\xff\xfe\n",
    }
    assert log.tail(2) == ["two", "\ufffd\ufffd"]
    assert log.tail(0) == []
    assert log.warning == ""


def test_a_silent_run_has_empty_files(tmp_path: Path) -> None:
    with OutputLog(tmp_path) as log:
        assert log.tail(5) == []
    assert set(texts(tmp_path).values()) == {b""}


def test_an_earlier_log_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text("a longer text from before")
    with OutputLog(tmp_path) as log:
        log.write("stdout", b"new")
    assert (tmp_path / "stdout.log").read_text() == "new"


@given(cuts=st.lists(st.integers(0, 40), max_size=8))
def test_a_secret_is_masked_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    whole = b"before hunter2-secret after hunter2-secret"
    edges = sorted({0, len(whole), *cuts})
    directory = tmp_path_factory.mktemp("logs")
    with OutputLog(directory, Redactor(["hunter2-secret"]).stream) as log:
        for begin, end in pairwise(edges):
            log.write("stdout", whole[begin:end])
            log.write("stderr", whole[begin:end])
    assert (directory / "stdout.log").read_bytes() == b"before *** after ***"
    assert (directory / "stderr.log").read_bytes() == b"before *** after ***"
    assert b"hunter2-secret" not in (directory / "stdouterr.log").read_bytes()
    assert "hunter2-secret" not in "".join(log.tail(100))


def test_progress_bars_show_their_last_state(tmp_path: Path) -> None:
    with OutputLog(tmp_path) as log:
        log.write("stderr", b"10%\r50%\r90%")
        assert log.tail(3) == ["90%"]
        log.write("stderr", b"\r100%\r\ndone\r\n")
    assert log.tail(3) == ["100%", "done"]


@given(chunks=st.lists(st.binary(max_size=2000), max_size=300), count=st.integers(1, 20))
def test_the_tail_is_the_end_of_the_output(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], count: int
) -> None:
    with OutputLog(tmp_path_factory.mktemp("logs")) as log:
        for chunk in chunks:
            log.write("stdout", chunk)
        kept = sum(len(part) for part in log._tail)
    whole = b"".join(chunks)
    assert min(len(whole), TAIL_BYTES) <= kept < 2 * TAIL_BYTES
    plain = [
        line.rstrip("\r").rpartition("\r")[2] for line in whole[-kept:].decode("utf-8", "replace").split("\n")
    ]
    assert log.tail(count) == (plain[:-1] if whole.endswith(b"\n") or not whole else plain)[-count:]


def test_the_tail_of_a_line_without_end_is_bounded(tmp_path: Path) -> None:
    with OutputLog(tmp_path) as log:
        for _ in range(50):
            log.write("stdout", b"x" * 131_072)
        assert sum(len(part) for part in log._tail) == TAIL_BYTES
    assert (tmp_path / "stdout.log").stat().st_size == 50 * 131_072


def test_a_full_disk_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").symlink_to("/dev/full")
    with OutputLog(tmp_path) as log:
        for _ in range(3):
            log.write("stdout", b"text\n")
    assert log.warning == "output is missing from stdout.log: No space left on device"
    assert (tmp_path / "stdouterr.log").read_bytes() == b"text\n" * 3
    assert log.tail(1) == ["text"]


def test_a_directory_that_cannot_be_made_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with OutputLog(tmp_path / "logs") as log:
        log.write("stderr", b"text\n")
    assert log.warning == "output is missing from logs: File exists"
    assert log.tail(1) == ["text"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with OutputLog(tmp_path):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_tail_can_be_read_while_output_comes(tmp_path: Path) -> None:
    def write(log: OutputLog) -> None:
        for _ in range(500):
            log.write("stdout", b"line\n" * 100)

    with OutputLog(tmp_path) as log:
        writer = threading.Thread(target=write, args=(log,))
        writer.start()
        while writer.is_alive():
            assert set(log.tail(3)) <= {"line"}
        writer.join()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["starting", "ERROR: no such file: x", "closing", "bye", ""], "ERROR: no such file: x"),
        (["2026-11-18 ERROR reader: broken", "INFO done"], "2026-11-18 ERROR reader: broken"),
        (["Traceback (most recent call last):", "ValueError: bad", "cleaned up"], "ValueError: bad"),
        (
            ["KeyError: 1", "During handling …", "lib.errors.JoinError: lost", "ok"],
            "lib.errors.JoinError: lost",
        ),
        (["  File x", "    assert 1 == 2", "AssertionError", "atexit"], "AssertionError"),
        (["main.rs: error[E0308]: mismatched types", "aborting"], "main.rs: error[E0308]: mismatched types"),
        (
            ["thread 'main' panicked at src/main.rs:2", "note: run with"],
            "thread 'main' panicked at src/main.rs:2",
        ),
        (["fatal: not a git repository", "stopped"], "fatal: not a git repository"),
        (["0 errors in 12 files", "error rate 0.1", "gave up", "  "], "gave up"),
        (["", "  "], ""),
        ([], ""),
    ],
)
def test_the_reason_is_the_line_that_says_why(lines: list[str], why: str) -> None:
    assert line_that_says_why(lines) == why


def test_the_reason_is_bounded() -> None:
    assert len(line_that_says_why(["ERROR: " + "x" * 10_000])) == 501

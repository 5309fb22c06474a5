"""What a person sees of a session: the plain log, the live view, the final table."""

import errno
import io
import os
import pty
import re
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.model import Measurement, Record, Scalar, Status
from paceline.numbers import clock, duration, number, size
from paceline.report import live as live_view
from paceline.report.format import display_width, measured, output_line, quantity, spelled_for, visible
from paceline.report.live import LiveConsole, Running
from paceline.report.log import LogConsole
from paceline.report.table import Screen
from paceline.report.terminal import LineConsole, QuietConsole, make_console
from patience import wait_until
from report.reports import MISSED, make_case, make_record, make_report


def no_output(lines: int) -> list[str]:
    return []


class TestPlainLog:
    def test_has_the_shape_of_the_hierarchical_log(self, tmp_path: Path) -> None:
        stream = io.StringIO()
        console = LogConsole(stream)
        records = [
            make_record("removal_xenna", exec_time_s=45.21),
            make_record("removal_ray_data", Status.FAILED, exec_time_s=12.3, reason="exit code 3"),
        ]
        plan = make_report(records).plan
        console.session_started(plan, 0)
        for record in records:
            entry_dir = tmp_path / record.case.name
            (entry_dir / "logs").mkdir(parents=True)
            console.case_started(record.case, ["python", "a script.py", "--n=1"], entry_dir, no_output)
            console.case_finished(record, entry_dir)
        assert stream.getvalue().splitlines() == [
            "Started session s...",
            "\tRunning removal_xenna",
            "\t\tRunning command python 'a script.py' --n=1",
            "\t\t✅ Run Succeeded in 45.2 seconds",
            f"\t\tLogs found in {tmp_path}/removal_xenna/logs",
            "\tRunning removal_ray_data",
            "\t\tRunning command python 'a script.py' --n=1",
            "\t\t❌ Run Failed in 12.3 seconds (failed)",
            "\t\texit code 3",
            f"\t\tLogs found in {tmp_path}/removal_ray_data/logs",
        ]

    def test_says_whose_lines_follow_when_cases_run_side_by_side(self) -> None:
        stream = io.StringIO()
        console = LogConsole(stream)
        for name in ("a", "b"):
            console.case_started(make_case(name), ["true"], Path(name), no_output)
        console.run_started(make_case("a"), "repeat 1/2")
        console.case_finished(make_record("b"), Path("b"))
        console.case_finished(make_record("a"), Path("a"))
        headers = [line.strip() for line in stream.getvalue().splitlines() if re.match(r"\t\w", line)]
        assert headers == ["Running a", "Running b", "Running a", "Finished b", "Finished a"]

    def test_shows_requirements_and_warnings_once(self) -> None:
        stream = io.StringIO()
        record = make_record(
            "c",
            Status.REQUIREMENT_FAILED,
            reason="windows is 50 and must be at least 100",
            requirements=(MISSED,),
            warnings=("the machine was busy",),
        )
        LogConsole(stream).case_finished(record, Path("c"))
        text = stream.getvalue()
        assert text.count("windows ≥ 100: got 50") == 1
        assert "must be at least" not in text
        assert "\t\twarning: the machine was busy\n" in text

    def test_spells_symbols_out_where_the_encoding_has_none(self) -> None:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
        console = LogConsole(stream)
        console.case_finished(make_record("größe"), Path("x"))
        console.case_finished(make_record("y", Status.TIMEOUT, reason="ended after 5 s"), Path("y"))
        text = raw.getvalue().decode("ascii")
        assert "[ok] Run Succeeded" in text
        assert "[failed] Run Failed" in text
        assert "gr\\xf6\\xdfe" in text

    def test_keeps_lines_whole_when_many_threads_write(self) -> None:
        stream = io.StringIO()
        console = LogConsole(stream)

        def tell(name: str) -> None:
            for _ in range(50):
                console.case_started(make_case(name), ["true"], Path(name), no_output)
                console.case_finished(make_record(name), Path(name))

        threads = [threading.Thread(target=tell, args=(f"case{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outcomes = re.findall(
            r"\t(?:Running|Finished) (case\d)\n(?:\t\tRunning command.*\n)?\t\t✅", stream.getvalue()
        )
        assert Counter(outcomes) == {f"case{i}": 50 for i in range(4)}

    def test_goes_on_when_its_reader_is_gone(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        stream = os.fdopen(writing, "w")
        console = LogConsole(stream)
        console.note("nobody reads this")
        console.session_finished(make_report([make_record("a")]), Path("s"))
        with pytest.raises(BrokenPipeError):
            stream.close()

    def test_quiet_tells_of_failures_and_the_end_only(self) -> None:
        stream = io.StringIO()
        console = QuietConsole(stream, Screen())
        records = [make_record("good"), make_record("bad", Status.FAILED, reason="exit code 1")]
        report = make_report(records)
        console.session_started(report.plan, 0)
        for record in records:
            console.case_started(record.case, ["true"], Path(record.case.name), no_output)
            console.run_started(record.case, "repeat 1/2")
            console.case_finished(record, Path(record.case.name))
        console.mention("run 3: abc 1.2 s, likely abc")
        console.note("not recorded in the history")
        console.session_finished(report, Path("/results/s"))
        text = stream.getvalue()
        assert "good" not in text and "run 3" not in text and "not recorded in the history\n" in text
        assert "exit code 1" in text
        assert re.search(r"1 passed, 1 failed of 2 cases in .*; results in /results/s\n$", text)

    def test_many_warnings_are_cut(self) -> None:
        stream = io.StringIO()
        warnings = tuple(f"busy {i}" for i in range(50))
        LogConsole(stream).case_finished(make_record("a", warnings=warnings), Path("/s/a"))
        assert stream.getvalue().count("warning: busy") == 3
        assert "\t\t… and 47 more warnings in record.json\n" in stream.getvalue()

    def test_repeated_runs_have_their_logs_under_attempts(self, tmp_path: Path) -> None:
        stream = io.StringIO()
        (tmp_path / "attempts").mkdir()
        record = replace(make_record("a"), case=make_case("a", repeat=3))
        LogConsole(stream).case_finished(record, tmp_path)
        assert f"Logs found in {tmp_path}/attempts\n" in stream.getvalue()

    def test_a_case_that_never_ran_has_no_logs(self, tmp_path: Path) -> None:
        stream = io.StringIO()
        LogConsole(stream).case_finished(make_record("a", Status.LAUNCH_ERROR, reason="no X"), tmp_path)
        assert "no X" in stream.getvalue()
        assert "Logs found" not in stream.getvalue()

    def test_remembers_why_its_stream_takes_no_more(self) -> None:
        with suppress(OSError), Path("/dev/full").open("w") as stream:
            console = LogConsole(stream)
            console.note("lost")
            console.note("not even tried")
        assert console.fault is not None
        assert console.fault.errno == errno.ENOSPC

    def test_says_why_a_session_is_not_whole(self) -> None:
        report = replace(make_report([make_record("a")]), unfinished="the disk is full")
        for make in (
            LogConsole,
            partial(LineConsole, screen=Screen()),
            partial(QuietConsole, screen=Screen()),
        ):
            stream = io.StringIO()
            make(stream).session_finished(report, Path("/s"))
            assert "Unfinished: the disk is full\n" in stream.getvalue()

    def test_skipped_cases_have_no_time_and_no_logs(self) -> None:
        stream = io.StringIO()
        LogConsole(stream).case_finished(
            make_record("c", Status.SKIPPED, reason="needs a, which failed"), Path("c")
        )
        assert stream.getvalue() == "\tFinished c\n\t\t❌ Run Skipped\n\t\tneeds a, which failed\n"

    @pytest.mark.parametrize(
        ("environ", "coloured"),
        [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
    )
    def test_colour_is_asked_for(self, environ: Mapping[str, str], coloured: bool) -> None:
        stream = io.StringIO()
        make_console(stream, environ=environ).case_finished(make_record("a"), Path("a"))
        assert ("\x1b[32m" in stream.getvalue()) is coloured


class TestFormat:
    @given(st.text(alphabet=st.characters(), max_size=200))
    def test_foreign_text_cannot_steer_the_terminal(self, text: str) -> None:
        for shown in (visible(text), output_line(text)):
            assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, shown))

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07done", "done"),
            ("\x1b]8;;file:///x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (" 10%\r 50%\r100%\r\n", "100%"),
            ("a\tb", "a    b"),
            ("left\u202eright", "left\ufffdright"),
            ("x\x00\x9b2Jy", "x\ufffdy"),
        ],
    )
    def test_output_lines(self, text: str, shown: str) -> None:
        assert output_line(text) == shown

    @given(st.text(max_size=50), st.sampled_from(["ascii", "latin-1", "cp437", "utf-8"]))
    def test_spelling_always_encodes(self, text: str, encoding: str) -> None:
        spelled_for(encoding, visible(text)).encode(encoding)

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "0 s"),
            (2.5e-5, "25 µs"),
            (0.42, "420 ms"),
            (45.21, "45.2 s"),
            (59.97, "60.0 s"),
            (192, "3m 12s"),
            (7500, "2h 05m"),
            (float("nan"), "nan s"),
        ],
    )
    def test_duration(self, seconds: float, text: str) -> None:
        assert duration(seconds) == text

    @pytest.mark.parametrize(("seconds", "text"), [(-1, "0:00"), (67.9, "1:07"), (3723, "1:02:03")])
    def test_clock(self, seconds: float, text: str) -> None:
        assert clock(seconds) == text

    def test_size_and_number(self) -> None:
        assert [size(512), size(1536), size(3 * 2**40)] == ["512 bytes", "1.5 KiB", "3 TiB"]
        assert [number(87932), number(0.123456), number(123456.7), number(1e20)] == [
            "87,932",
            "0.123",
            "123,000",
            "1e+20",
        ]

    @example(10**400, "s")
    @example(-(10**3000), None)
    @given(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
        st.sampled_from([None, "s", "bytes", "%"]),
    )
    def test_any_value_is_one_printable_line(self, value: Scalar, unit: str | None) -> None:
        text = measured("m", Measurement(value=value, unit=unit, samples=(value, value), direction="lower"))
        assert text == visible(text)
        assert quantity(value, unit) in text

    def test_width_counts_columns(self) -> None:
        assert [display_width(text) for text in ("abc", "名前", "e\u0301")] == [3, 4, 1]


class Terminal:
    """A pseudo-terminal of a given width, and all that was written to it."""

    def __init__(self, columns: int) -> None:
        self._reader, writer = pty.openpty()
        os.set_blocking(self._reader, False)
        self.stream: TextIO = os.fdopen(writer, "w", encoding="utf-8")
        self.columns = columns
        self._written = b""
        self._lock = threading.Lock()

    def text(self) -> str:
        """All of it; a character that is only half written is left out."""
        with self._lock, suppress(BlockingIOError):
            while chunk := os.read(self._reader, 65536):
                self._written += chunk
        return self._written.decode(errors="ignore")

    def last_line(self) -> str:
        """The line that was drawn last."""
        bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.text())
        return [line for line in re.split("[\r\n]+", bare) if line.strip()][-1]

    def shown(self) -> list[str]:
        """What stands on an endless screen after all of it: lines may be written over and erased."""
        lines, row = [""], 0
        for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", self.text()):
            if part == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif up := re.fullmatch(r"\x1b\[(\d*)A", part):
                row = max(0, row - int(up[1] or 1))
            elif part == "\x1b[2K":
                lines[row] = ""
            elif not part.startswith(("\x1b", "\r")):
                lines[row] += part
        return lines

    def close(self) -> None:
        self.stream.close()
        os.close(self._reader)


@pytest.fixture(params=[20, 100])
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("LINES", "24")
    opened = Terminal(request.param)
    yield opened
    opened.close()


class TestLiveView:
    def test_is_chosen_on_a_terminal_that_can_redraw(self, screen: Terminal) -> None:
        assert isinstance(make_console(screen.stream), LiveConsole)
        assert isinstance(make_console(screen.stream, environ={"TERM": "dumb"}), LineConsole)
        assert isinstance(make_console(screen.stream, environ={}), LineConsole)
        assert isinstance(make_console(screen.stream, log="plain"), LogConsole)
        assert isinstance(make_console(screen.stream, quiet=True), QuietConsole)

    def test_no_line_is_lost_while_the_view_is_drawn_anew(
        self, screen: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The view gets lower when a case ends; what stands above it must not be erased with it."""
        monkeypatch.setattr(live_view, "REFRESHES_A_SECOND", 2000)
        records = [make_record(f"c{number}", exec_time_s=1) for number in range(200)]
        report = make_report(records)

        def run(record: Record) -> None:
            console.case_started(record.case, ["x"], Path("a"), lambda n: ["one", "two", "three"][-n:])
            time.sleep(0.001)  # for the view to be drawn now and then
            console.case_finished(record, Path("a"))
            screen.text()

        with make_console(screen.stream) as console:
            console.session_started(report.plan, 0)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(run, records))
            console.session_finished(report, Path("/s"))
        lines = screen.shown()
        assert [one for one in records if not any(f"✓  {one.case.name} " in line for line in lines)] == []
        assert not any("▶" in line for line in lines)

    def test_shows_the_running_case_then_its_end(self, screen: Terminal, tmp_path: Path) -> None:
        (tmp_path / "b" / "logs").mkdir(parents=True)
        records = [
            make_record("a", exec_time_s=2),
            make_record("b", Status.FAILED, reason="exit code 7", exec_time_s=1),
        ]
        report = make_report(records)
        with make_console(screen.stream) as console:
            console.session_started(report.plan, 0)
            console.case_started(records[0].case, ["x"], Path("a"), lambda n: ["\x1b[2Jwiped", "last"][-n:])
            console.run_started(records[0].case, "repeat 1/2")
            wait_until(
                lambda: "│ wiped" in screen.text() and "│ last" in screen.text() and "▶ 0:0" in screen.text()
            )
            console.note("a note")
            for record in records:
                console.case_finished(record, tmp_path / record.case.name)
            console.session_finished(report, Path("/s"))
        text = screen.text()
        assert "\x1b[2J" not in text
        bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
        for expected in (
            "Started session s",
            "✓  a",
            "✗  b",
            "exit code 7",
            "a note",
        ):
            assert expected in bare
        assert "Results in /s Next: paceline show /s b" in " ".join(bare.split())
        assert text.count("\x1b[?25h") >= text.count("\x1b[?25l"), "the cursor is shown again"

    def test_what_stands_below_a_line_is_never_older_than_the_line(
        self, screen: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_view, "REFRESHES_A_SECOND", 0.001)  # only what we print makes it draw
        records = [make_record("a"), make_record("b")]
        with LiveConsole(screen.stream) as console:
            console.session_started(make_report(records).plan, 0)
            for done, record in enumerate(records, start=1):
                console.case_started(record.case, ["x"], Path("x"), no_output)
                console.note("drawn while it runs")
                assert f"{done - 1}/2 done" in screen.last_line()
                console.case_finished(record, Path("x"))
                assert f"{done}/2 done" in screen.last_line()

    def test_leaves_the_terminal_usable_after_an_error(self, screen: Terminal) -> None:
        with suppress(RuntimeError), make_console(screen.stream) as console:
            console.session_started(make_report([]).plan, 0)
            raise RuntimeError
        assert screen.text().rindex("\x1b[?25h") > screen.text().rindex("\x1b[?25l")

    def test_no_line_of_the_view_is_wider_than_the_screen(self, screen: Terminal) -> None:
        console = LiveConsole(screen.stream)
        report = make_report([make_record("名" * 90)])
        console.session_started(report.plan, 0)
        for i in range(live_view.MOST_RUNNING_SHOWN + 2):
            console.case_started(make_case(f"{i}" + "名" * 90), ["x"], Path("x"), lambda n: ["y" * 5000] * n)
        rendered = console._screen.render_lines(console._view(), pad=False)
        console.__exit__(None, None, None)
        widths = [sum(segment.cell_length for segment in line) for line in rendered]
        assert max(widths) <= screen.columns
        assert len(rendered) <= 2 * live_view.MOST_RUNNING_SHOWN + 2

    def test_many_threads_may_report(self, screen: Terminal) -> None:
        report = make_report([make_record(f"case{i}") for i in range(40)])

        def tell(records: Sequence[Record]) -> None:
            for record in records:
                console.case_started(record.case, ["x"], Path("x"), no_output)
                console.run_started(record.case, "repeat 1/1")
                console.case_finished(record, Path("x"))
                screen.text()

        with LiveConsole(screen.stream) as console:
            console.session_started(report.plan, 0)
            threads = [threading.Thread(target=tell, args=(report.records[i::4],)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.text())
        assert Counter(re.findall(r"✓  (case\d+)", bare)) == {f"case{i}": 1 for i in range(40)}


class TestTimeLeft:
    def test_counts_the_timeout_of_the_current_run(self) -> None:
        running = Running(case=make_case("a", timeout_s=60.0), tail=no_output, started_s=100)
        assert running.timeout_left_s(110) == 50
        running.begin_run("repeat 1/3", 130)
        assert running.timeout_left_s(140) == 50
        assert running.timeout_left_s(999) == 0

    def test_expects_of_the_rest_what_the_runs_so_far_took(self) -> None:
        running = Running(case=make_case("a", repeat=4), tail=no_output, started_s=0)
        running.begin_run("repeat 1/4", 0)
        assert running.estimate_left_s(5) is None
        running.begin_run("repeat 2/4", 10)
        assert running.estimate_left_s(14) == 6 + 2 * 10
        assert running.estimate_left_s(40) == 2 * 10

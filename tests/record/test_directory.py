import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from paceline.errors import PacelineError, SessionError
from paceline.model import RUN_DIR, Measurement, Plan, Status
from paceline.record.directory import SessionDir, sessions
from paceline.record.redact import Redactor
from record.session_dirs import make_case, make_plan, make_record


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


class TestCreate:
    def test_an_existing_session_names_resume(self, tmp_path: Path) -> None:
        SessionDir.create(make_plan(tmp_path))
        with pytest.raises(SessionError, match=r"s1 exists already .*--resume"):
            SessionDir.create(make_plan(tmp_path))

    def test_an_impossible_place_is_one_clear_line(self, tmp_path: Path) -> None:
        (tmp_path / "results").write_text("a file")
        with pytest.raises(SessionError, match="cannot create the session directory") as caught:
            SessionDir.create(make_plan(tmp_path))
        assert "\n" not in str(caught.value)

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a place where nobody may write")
    def test_a_place_where_not_even_root_may_write_is_one_clear_line(self) -> None:
        with pytest.raises(SessionError, match=r"choose another place with --results-dir"):
            SessionDir.create(Plan(session="s1", directory=Path("/proc/results/s1")))

    def test_an_unwritable_place_is_one_clear_line(self, tmp_path: Path) -> None:
        (tmp_path / "results").mkdir(mode=0o555)
        user = os.geteuid()
        os.seteuid(user or 65534)  # root may write everywhere, so it becomes nobody for a moment
        try:
            with pytest.raises(
                SessionError, match=r"Permission denied; choose another place with --results-dir"
            ):
                SessionDir.create(make_plan(tmp_path))
        finally:
            os.seteuid(user)

    def test_only_a_session_can_be_opened(self, tmp_path: Path, session_dir: SessionDir) -> None:
        assert SessionDir.open(session_dir.path).path == session_dir.path
        (tmp_path / "other").mkdir()
        for path in (tmp_path / "other", tmp_path / "missing"):
            with pytest.raises(SessionError, match="no session at"):
                SessionDir.open(path)


class TestPrepare:
    def test_a_single_run_uses_the_entry_itself(self, session_dir: SessionDir) -> None:
        case = make_case()
        entry = session_dir.prepare(case)
        assert session_dir.run_dir(case, None) == entry == session_dir.entry_dir(case)
        assert tree(entry) == {"logs", "scratch", "artifacts", "benchmark_results", "stdouterr.log"}
        (entry / "logs" / "stdouterr.log").write_text("said")
        assert (entry / "stdouterr.log").read_text() == "said"

    def test_repetitions_have_directories_of_their_own(self, session_dir: SessionDir) -> None:
        case = make_case(repeat=2, warmup=1)
        entry = session_dir.prepare(case)
        for label in ("warmup-1", "repeat-1", "repeat-2"):
            directory = session_dir.run_dir(case, label)
            assert directory == entry / "attempts" / label
            assert tree(directory) == {"logs", "scratch", "benchmark_results", "stdouterr.log"}
            (directory / "logs" / "stdouterr.log").write_text(label)
            assert (entry / "stdouterr.log").read_text() == label
        assert session_dir.artifacts(case)[-1] == "attempts/warmup-1/logs/stdouterr.log"
        session_dir.clean(case)
        assert not list(entry.rglob("scratch"))

    def test_a_data_set_up_has_a_place_of_its_own(self, session_dir: SessionDir) -> None:
        assert session_dir.prepare(make_case(kind="data_setup")) == session_dir.path / "data_setup" / "bench"

    def test_a_cluster_gets_its_directory(self, session_dir: SessionDir) -> None:
        assert (session_dir.prepare(make_case(cluster={})) / "ray_cluster").is_dir()

    def test_the_packages_are_linked_into_each_entry(self, session_dir: SessionDir) -> None:
        (session_dir.path / "packages.txt").write_text("click==8\n")
        (session_dir.path / "conda-explicit.txt").write_text("@EXPLICIT\n")
        case = make_case()
        artifacts = session_dir.prepare(case) / "artifacts"
        assert (artifacts / "pip-freeze.txt").samefile(session_dir.path / "packages.txt")
        assert session_dir.artifacts(case) == ("artifacts/conda-explicit.txt", "artifacts/pip-freeze.txt")
        session_dir.prepare(case)  # Again, with what is there moved aside.
        assert (artifacts / "pip-freeze.txt").samefile(session_dir.path / "packages.txt")

    def test_packages_are_copied_where_links_are_impossible(
        self, session_dir: SessionDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", refuse)
        (session_dir.path / "packages.txt").write_text("click==8\n")
        artifacts = session_dir.prepare(make_case()) / "artifacts"
        assert (artifacts / "pip-freeze.txt").read_text() == "click==8\n"
        assert not (artifacts / "conda-explicit.txt").exists()

    def test_a_command_that_is_not_told_of_its_directory_gets_no_scratch(
        self, session_dir: SessionDir
    ) -> None:
        case = make_case(argv=("script", "--benchmark-results-path", f"{RUN_DIR}/benchmark_results"))
        assert not (session_dir.prepare(case) / "scratch").exists()

    def test_a_command_whose_results_go_into_the_entry_itself_gets_scratch(
        self, session_dir: SessionDir
    ) -> None:
        case = make_case(argv=("script", RUN_DIR), results_path=RUN_DIR)
        assert (session_dir.prepare(case) / "scratch").is_dir()

    def test_scratch_is_kept_when_asked(self, session_dir: SessionDir) -> None:
        case = make_case(delete_scratch=False)
        entry = session_dir.prepare(case)
        session_dir.clean(case)
        assert (entry / "scratch").is_dir()

    def test_large_directories_lie_under_artifacts_dir(self, tmp_path: Path) -> None:
        directory = SessionDir.create(make_plan(tmp_path, artifacts_dir=tmp_path / "big"))
        case = make_case(cluster={})
        entry = directory.prepare(case)
        for name in ("logs", "scratch", "ray_cluster"):
            assert (entry / name).readlink() == tmp_path / "big" / "s1" / "bench" / name
        assert not (entry / "benchmark_results").is_symlink()
        directory.clean(case)
        assert not os.path.lexists(entry / "scratch")
        assert not (tmp_path / "big" / "s1" / "bench" / "scratch").exists()


class TestAttempts:
    def test_an_earlier_attempt_is_moved_aside_and_never_overwritten(self, session_dir: SessionDir) -> None:
        case = make_case()
        for number in (1, 2, 3):
            assert session_dir.next_attempt(case) == number
            entry = session_dir.prepare(case)
            (entry / "logs" / "stdouterr.log").write_text(f"said {number}")
            session_dir.append_result_line(case, {"attempt": number})
            session_dir.write_record(make_record(case, number))
        for number in (1, 2):
            moved = entry / "attempts" / f"attempt-{number}"
            assert json.loads((moved / "record.json").read_bytes())["attempt"] == number
            assert (moved / "stdouterr.log").read_text() == f"said {number}"
        assert (entry / "stdouterr.log").read_text() == "said 3"
        lines = (entry / "results.jsonl").read_text().splitlines()
        assert [json.loads(line)["attempt"] for line in lines] == [1, 2, 3]

    def test_an_attempt_without_record_counts(self, session_dir: SessionDir) -> None:
        case = make_case()
        entry = session_dir.prepare(case)
        (entry / "benchmark_results" / "metrics.json").write_text("{}")
        (entry / ".tmp-half").write_text("half a record")
        assert session_dir.next_attempt(case) == 2
        session_dir.prepare(case)
        assert (entry / "attempts" / "attempt-1" / "benchmark_results" / "metrics.json").exists()
        assert not list(entry.rglob(".tmp-*"))
        assert session_dir.next_attempt(case) == 3

    def test_an_interrupted_move_loses_nothing(self, session_dir: SessionDir) -> None:
        case = make_case()
        entry = session_dir.prepare(case)
        session_dir.write_record(make_record(case))
        (entry / "logs" / "stdout.log").write_text("kept")
        (entry / "attempts" / "attempt-1").mkdir(parents=True)
        (entry / "record.json").rename(entry / "attempts" / "attempt-1" / "record.json")
        assert session_dir.read_record(case) is None
        session_dir.prepare(case)
        assert (entry / "attempts" / "attempt-1" / "record.json").exists()
        assert (entry / "attempts" / "attempt-2" / "logs" / "stdout.log").read_text() == "kept"

    @pytest.mark.parametrize("with_artifacts_dir", [False, True])
    def test_repetitions_move_with_their_attempt(self, tmp_path: Path, with_artifacts_dir: bool) -> None:
        artifacts_dir = tmp_path / "big" if with_artifacts_dir else None
        directory = SessionDir.create(make_plan(tmp_path, artifacts_dir=artifacts_dir))
        case = make_case(repeat=2)
        for number in (1, 2):
            entry = directory.prepare(case)
            for label in ("repeat-1", "repeat-2"):
                run_dir = directory.run_dir(case, label)
                (run_dir / "logs" / "stdouterr.log").write_text(f"{number} {label}")
            directory.write_record(make_record(case, number))
        moved = entry / "attempts" / "attempt-1"
        assert (moved / "attempts" / "repeat-1" / "logs" / "stdouterr.log").read_text() == "1 repeat-1"
        assert (moved / "stdouterr.log").read_text() == "1 repeat-2"
        assert (entry / "attempts" / "repeat-1" / "logs" / "stdouterr.log").read_text() == "2 repeat-1"
        assert directory.next_attempt(case) == 3

    def test_logs_under_artifacts_dir_are_not_overwritten(self, tmp_path: Path) -> None:
        directory = SessionDir.create(make_plan(tmp_path, artifacts_dir=tmp_path / "big"))
        case = make_case(cluster={})
        for number in (1, 2):
            entry = directory.prepare(case)
            (entry / "logs" / "stdout.log").write_text(f"said {number}")
            directory.clean(case)
            directory.write_record(make_record(case, number))
        assert (entry / "attempts" / "attempt-1" / "logs" / "stdout.log").read_text() == "said 1"
        assert (entry / "logs" / "stdout.log").read_text() == "said 2"

    def test_a_record_without_a_run_does_not_replace_an_earlier_one(self, session_dir: SessionDir) -> None:
        case = make_case()
        session_dir.write_record(make_record(case))
        attempt = session_dir.next_attempt(case)
        session_dir.write_record(make_record(case, attempt, status=Status.SKIPPED))
        assert (session_dir.entry_dir(case) / "attempts" / "attempt-1" / "record.json").exists()
        record = session_dir.read_record(case)
        assert record is not None and record.status is Status.SKIPPED


class TestRecords:
    def test_a_record_is_written_redacted_and_read_back(self, tmp_path: Path) -> None:
        directory = SessionDir.create(make_plan(tmp_path), Redactor(["s3cret-value"]))
        case = make_case("odd/name")
        record = make_record(case, reason="said s3cret-value", metrics={"t": Measurement(value=float("nan"))})
        directory.write_record(record)
        directory.append_result_line(case, {"command": "run s3cret-value"})
        read = directory.read_record(case)
        assert read is not None and read.reason == "said ***" and str(read.metrics["t"].value) == "nan"
        assert b"s3cret" not in b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())

    def test_records_are_read_again_each_time(self, session_dir: SessionDir) -> None:
        cases = [make_case(f"c{number}") for number in range(4)]
        for case in cases[:3]:
            session_dir.write_record(make_record(case))
        found = session_dir.records(cases)
        assert len(found) == 3
        assert (
            [record.case.name for record in found]
            == [record.case.name for record in found]
            == ["c0", "c1", "c2"]
        )
        assert found[-1].case.name == "c2"
        assert [record.case.name for record in found[1:]] == ["c1", "c2"]

    def test_a_corrupt_record_is_left_out_and_logged(
        self, session_dir: SessionDir, caplog: pytest.LogCaptureFixture
    ) -> None:
        cases = [make_case("good"), make_case("bad")]
        for case in cases:
            session_dir.write_record(make_record(case))
        path = session_dir.entry_dir(cases[1]) / "record.json"
        path.write_bytes(path.read_bytes()[:50])
        found = session_dir.records(cases)
        assert [record.case.name for record in found] == ["good"]
        assert str(path) in caplog.text
        with pytest.raises(SessionError, match="--resume"):
            found[1]

    def test_a_newer_record_is_an_error_and_not_run_again(self, session_dir: SessionDir) -> None:
        case = make_case()
        session_dir.write_record(make_record(case))
        path = session_dir.entry_dir(case) / "record.json"
        path.write_text(path.read_text().replace('"schema": 1', '"schema": 7'))
        with pytest.raises(PacelineError, match=r"record\.json: .*update paceline"):
            session_dir.read_record(case)

    def test_a_torn_result_line_does_not_spoil_the_next(self, session_dir: SessionDir) -> None:
        case = make_case()
        path = session_dir.prepare(case) / "results.jsonl"
        path.write_bytes(b'{"name": "a"}\n{"na')
        session_dir.append_result_line(case, {"name": "b"})
        assert path.read_text().splitlines() == ['{"name": "a"}', '{"na', '{"name":"b"}']


def test_sessions_are_listed_the_last_started_first(tmp_path: Path) -> None:
    results_dir = tmp_path / "results"
    assert sessions(results_dir) == []
    for position, name in enumerate(("b", "c", "a")):
        path = SessionDir.create(make_plan(tmp_path, name)).path
        os.utime(path / ".lock", (position, position))
    (results_dir / "not-a-session").mkdir()
    assert [path.name for path in sessions(results_dir)] == ["a", "c", "b"]
    SessionDir.open(results_dir / "b").lock()
    assert sessions(results_dir)[0] == results_dir / "b"


class TestSomebodyElsesSession:
    """Links in a session that somebody else made lead nowhere."""

    def test_nothing_is_moved_through_a_link(self, session_dir: SessionDir, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        (home / "diary.txt").write_text("mine")
        (session_dir.path / "bench").symlink_to(home)
        case = make_case()
        for call in (session_dir.prepare, session_dir.run_dir, session_dir.next_attempt):
            with suppress(OSError):
                call(case)
        with pytest.raises(OSError, match="not a directory"):
            session_dir.write_record(make_record(make_case()))
        assert [path.name for path in home.iterdir()] == ["diary.txt"]

    def test_attempts_that_lead_elsewhere_are_not_followed(
        self, session_dir: SessionDir, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        entry = session_dir.prepare(make_case())
        (entry / "attempts").symlink_to(home)
        session_dir.write_record(make_record(make_case()))
        with pytest.raises(OSError, match="link"):
            session_dir.move_aside(make_case())
        assert list(home.iterdir()) == []

    def test_a_record_behind_a_link_is_none(self, session_dir: SessionDir, tmp_path: Path) -> None:
        other = SessionDir.create(make_plan(tmp_path, "other"))
        other.write_record(make_record(make_case()))
        (session_dir.path / "bench").symlink_to(other.path / "bench")
        assert session_dir.read_record(make_case()) is None
        assert list(session_dir.stored_records()) == []
        assert not session_dir.records([make_case()])

    def test_output_behind_a_link_is_not_read(self, session_dir: SessionDir, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("private")
        entry = session_dir.prepare(make_case())
        (entry / "logs" / "stdouterr.log").symlink_to(tmp_path / "key")
        with pytest.raises(OSError, match="regular"):
            session_dir.output_tail(make_case(), 100)
        shutil.rmtree(entry / "logs")
        (entry / "logs").symlink_to(tmp_path)
        (tmp_path / "stdouterr.log").write_text("private")
        with pytest.raises(OSError, match="link"):
            session_dir.output_tail(make_case(), 100)

    def test_a_device_in_place_of_a_record_is_no_record(self, session_dir: SessionDir) -> None:
        session_dir.prepare(make_case())
        os.mkfifo(session_dir.path / "bench" / "record.json")
        assert session_dir.read_record(make_case()) is None

    def test_a_linked_session_is_not_listed(self, session_dir: SessionDir, tmp_path: Path) -> None:
        (session_dir.path.parent / "link").symlink_to(session_dir.path)
        assert sessions(session_dir.path.parent) == [session_dir.path]

    def test_an_absurd_number_of_an_attempt_is_none(self, session_dir: SessionDir) -> None:
        entry = session_dir.prepare(make_case())
        (entry / "attempts" / f"attempt-{'9' * 26}").mkdir(parents=True)
        assert session_dir.next_attempt(make_case()) == 2

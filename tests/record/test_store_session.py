"""A session kept in an object store and run on one machine after another: nothing is lost, nothing runs twice."""

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from paceline.errors import SessionError
from paceline.model import Plan, Record
from paceline.record import codec
from paceline.record.directory import SessionDir
from paceline.record.remote.archive import ARCHIVE, UnsafeName
from paceline.record.remote.object_store import ObjectStore
from paceline.record.remote.session import (
    KEPT_COPIES,
    NameTaken,
    fetched_session,
    is_stored_session,
    keep_copy,
    read_summary,
    remove_old_copies,
    session_names,
)
from record.store_machines import (
    FAILED,
    PASSED,
    STARTED_AT,
    Machine,
    Machines,
    archived,
    finish,
    make_case,
    run_case,
    stored_record,
)


class TestOneMachine:
    def test_all_that_counts_is_in_the_store(self, machines: Machines, store: ObjectStore) -> None:
        one = machines("one")
        assert one.run(one.plan("a", "b"), {"a": PASSED, "b": FAILED}) == ["a", "b"]
        names = {"a/record.json", f"a/{ARCHIVE}", "b/record.json", f"b/{ARCHIVE}", "plan.json", "report.json"}
        assert set(store.find()) == names
        files = {"record.json", "logs/stdouterr.log", "only-1.txt", "results.jsonl"}
        assert set(archived(store, "b")) == files
        assert stored_record(store, "b").status is FAILED
        assert json.loads(archived(store, "b")["record.json"]) == json.loads(
            store.read("b/record.json") or b""
        )

    def test_its_summary(self, machines: Machines, url: str) -> None:
        one = machines("one")
        with one.session(one.plan("a", "b", "c")) as (kept, directory):
            begun = read_summary(f"{url}/s")
            run_case(kept, directory, make_case("a"), PASSED, "one")
            run_case(kept, directory, make_case("b"), FAILED, "one")
            assert finish(kept, directory) == ""
        ended = read_summary(f"{url}/s")
        assert begun is not None and ended is not None
        assert begun.items() >= {"state": "running", "planned": 3, "unfinished": 3, "ok": None}.items()
        assert ended.items() >= {"state": "finished", "planned": 3, "unfinished": 1, "ok": False}.items()
        assert (begun["counts"], ended["counts"]) == ({}, {"passed": 1, "failed": 1})
        with one.session(one.plan("a", "b", "c"), resumes=True):
            again = read_summary(f"{url}/s")
        assert again is not None and again["started_at"] == STARTED_AT
        assert (again["state"], again["counts"]) == ("running", ended["counts"])

    def test_its_summary_is_renewed_with_the_heartbeat(self, machines: Machines, url: str) -> None:
        one = machines("one")
        with one.session(one.plan("a", "b", "c")) as (kept, directory):
            run_case(kept, directory, make_case("a"), FAILED, "one")
            run_case(kept, directory, make_case("b"), FAILED, "one")
            run_case(kept, directory, make_case("a"), PASSED, "one")  # Again.
            kept._lock.on_beat()
            summary = read_summary(f"{url}/s")
            assert finish(kept, directory) == ""
            ended = read_summary(f"{url}/s")
            kept._lock.on_beat()  # One that comes late.
            assert read_summary(f"{url}/s") == ended
        assert summary is not None and summary["counts"] == {"passed": 1, "failed": 1}
        assert (summary["state"], summary["unfinished"]) == ("running", 1)

    def test_a_name_that_is_taken(self, machines: Machines) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        with pytest.raises(NameTaken, match="--resume"), keep_copy(two.plan("a"), resumes=False):
            pass
        assert not two.root.exists()

    def test_a_session_that_is_nowhere(self, machines: Machines, store: ObjectStore) -> None:
        with (
            pytest.raises(SessionError, match="no session s in"),
            keep_copy(machines("one").plan(), resumes=True),
        ):
            pass
        assert store.find() == {}

    def test_a_second_runner_is_kept_out(self, machines: Machines) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, directory):
            for resumes, error in ((True, SessionError), (False, NameTaken)):
                with pytest.raises(error, match="is being run by"), keep_copy(two.plan("a"), resumes=resumes):
                    pass
            assert finish(kept, directory) == ""

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path, url: str) -> None:
        (tmp_path / "file").write_text("")
        plan = Machine(tmp_path / "file", url).plan("a")
        with pytest.raises(SessionError, match="PACELINE_WORK_DIR"), keep_copy(plan, resumes=False):
            pass

    def test_a_case_that_runs_again(self, machines: Machines, store: ObjectStore) -> None:
        one = machines("one")
        one.run(one.plan("a"), {"a": FAILED})
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True) == []
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True) == ["a"]
        record, files = stored_record(store, "a"), archived(store, "a")
        assert (record.attempt, record.status) == (2, PASSED)
        assert files["logs/stdouterr.log"] == "a attempt 2 by one\n"
        assert files["attempts/attempt-1/logs/stdouterr.log"] == "a attempt 1 by one\n"
        assert "only-1.txt" not in files  # It belongs to the attempt that was moved aside.

    def test_a_case_that_runs_again_in_the_same_session(self, machines: Machines, store: ObjectStore) -> None:
        """As on a pool, when its node dies: what is being sent of the first attempt is not left over the second."""
        one = machines("one")
        case = make_case("a")
        with one.session(one.plan("a")) as (kept, directory):
            for _ in range(20):
                run_case(kept, directory, case, PASSED, "one")
            assert finish(kept, directory) == ""
        files = archived(store, "a")
        assert stored_record(store, "a").attempt == 20 and files["only-20.txt"] == "one"
        assert {f"attempts/attempt-{number}/only-{number}.txt" for number in range(1, 20)} < set(files)

    def test_a_local_session_has_no_copy(self, tmp_path: Path) -> None:
        plan = Plan(session="s", directory=tmp_path / "s", cases=(make_case("a"),))
        with keep_copy(plan, resumes=False) as copy:
            assert copy is None


class TestAnotherMachine:
    def test_it_goes_on_where_the_first_was_cut_short(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a", "b", "c"), {"a": PASSED, "b": FAILED})
        both = {"a": PASSED, "b": PASSED, "c": PASSED}
        assert two.run(two.plan("a", "b", "c"), both, resumes=True) == ["c"]
        assert [stored_record(store, name).reason for name in "abc"] == ["one", "one", "two"]
        assert not (two.root / "s/a/logs").exists()  # It passed: its logs are not needed here.
        assert (
            two.root / "s/b/stdouterr.log"
        ).read_text() == "b attempt 1 by one\n"  # The report quotes this.
        assert archived(store, "a")["logs/stdouterr.log"] == "a attempt 1 by one\n"

    def test_what_runs_again_there_leaves_the_first_attempt_whole(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": FAILED})
        assert two.run(two.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True) == ["a"]
        files = archived(store, "a")
        assert files["attempts/attempt-1/logs/stdouterr.log"] == "a attempt 1 by one\n"
        assert (files["attempts/attempt-1/only-1.txt"], files["only-2.txt"]) == ("one", "two")
        assert stored_record(store, "a").attempt == 2 and "only-1.txt" not in files
        assert [json.loads(line)["by"] for line in files["results.jsonl"].splitlines()] == ["one", "two"]

    def test_a_changed_case_runs_again(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        assert two.run(two.plan(make_case("a", fingerprint="new")), {"a": PASSED}, resumes=True) == ["a"]
        assert archived(store, "a")["attempts/attempt-1/only-1.txt"] == "one"

    def test_results_that_a_case_needs_are_fetched(self, machines: Machines) -> None:
        one, two = machines("one"), machines("two")
        cases = (make_case("a"), make_case("b"), make_case("c", needs=("a",)))
        one.run(one.plan(*cases), {"a": PASSED, "b": PASSED})
        assert two.run(two.plan(*cases), {"c": PASSED}, resumes=True) == ["c"]
        assert (two.root / "s/a/only-1.txt").read_text() == "one"
        assert (two.root / "s/a/stdouterr.log").read_text() == "a attempt 1 by one\n"
        assert not (two.root / "s/b/only-1.txt").exists()

    def test_numbers_of_attempts_are_not_used_twice(self, machines: Machines, store: ObjectStore) -> None:
        for number, name in enumerate(("one", "two", "three", "four")):
            machine = machines(name)
            machine.run(machine.plan("a"), {"a": FAILED}, resumes=number > 0, rerun_failed=number > 0)
        files = archived(store, "a")
        moved = [files[f"attempts/attempt-{number}/only-{number}.txt"] for number in (1, 2, 3)]
        assert [*moved, files["only-4.txt"]] == ["one", "two", "three", "four"]

    def test_the_first_machine_learns_of_the_second(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a", "b"), {"a": FAILED})
        two.run(two.plan("a", "b"), {"a": PASSED, "b": PASSED}, resumes=True, rerun_failed=True)
        assert one.run(one.plan("a", "b"), {"a": FAILED, "b": FAILED}, resumes=True, rerun_failed=True) == []
        assert [stored_record(store, name).reason for name in "ab"] == ["two", "two"]
        assert SessionDir.open(one.root / "s").read_record(make_case("a")) == stored_record(store, "a")
        changed = one.plan(make_case("a", fingerprint="new"), "b")
        assert one.run(changed, {"a": PASSED}, resumes=True) == ["a"]
        files = archived(store, "a")
        assert stored_record(store, "a").attempt == 3
        assert [files[f"attempts/attempt-{number}/only-{number}.txt"] for number in (1, 2)] == ["one", "two"]
        assert not any(name.startswith("attempts/attempt-3") for name in files)

    def test_a_copy_without_its_big_files_does_not_empty_the_store(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one = machines("one")
        one.run(one.plan("a", "b"), {"a": PASSED})
        shutil.rmtree(one.root / "s/a/logs")
        (one.root / "s/a/only-1.txt").unlink()
        one.run(one.plan("a", "b"), {"b": PASSED}, resumes=True)
        assert {"logs/stdouterr.log", "only-1.txt"} <= set(archived(store, "a"))
        changed = one.plan(make_case("a", fingerprint="new"), "b")
        assert one.run(changed, {"a": PASSED}, resumes=True) == ["a"]
        assert {"attempts/attempt-1/logs/stdouterr.log", "attempts/attempt-1/only-1.txt"} <= set(
            archived(store, "a")
        )

    def test_what_a_killed_runner_left_is_moved_aside_for_what_another_finished(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, directory):
            (directory.prepare(make_case("a")) / "half.txt").write_text("half")
            assert finish(kept, directory) == ""
        two.run(two.plan("a"), {"a": PASSED}, resumes=True)
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True) == []
        assert stored_record(store, "a").reason == "two"
        assert (one.root / "s/a/attempts/attempt-2/half.txt").read_text() == "half"
        files = archived(store, "a")
        assert (files["attempts/attempt-2/half.txt"], files["only-1.txt"]) == ("half", "two")

    def test_events_of_both_are_kept_in_order(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        lines = [f'{{"time": "2025-01-0{day}", "event": "e{day}"}}\n' for day in range(1, 6)]
        with one.session(one.plan("a")) as (kept, directory):
            (directory.path / "events.jsonl").write_text("".join(lines[:2]))
            assert finish(kept, directory) == ""
        with (one.root / "s/events.jsonl").open("a") as events:
            events.write(lines[3])  # The store did not get this one.
        with two.session(two.plan("a"), resumes=True) as (kept, directory):
            with (directory.path / "events.jsonl").open("a") as events:
                events.write(lines[2] + lines[4])
            assert finish(kept, directory) == ""
        one.run(one.plan("a"), {}, resumes=True)
        assert (store.read("events.jsonl") or b"").decode() == "".join(lines)

    def test_numbers_that_are_none(self, machines: Machines, store: ObjectStore) -> None:
        """They equal nothing, themselves included; records with them are the same all the same."""
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a", "b")) as (kept, directory):
            run_case(kept, directory, make_case("a"), PASSED, "one", ratio=math.nan, most=-math.inf)
            assert finish(kept, directory) == ""
        before = store.read("a/record.json")
        for machine in (one, two):
            assert machine.run(machine.plan("a", "b"), {"a": PASSED}, resumes=True) == []
            assert not (machine.root / "s/a/attempts").exists()
        assert store.read("a/record.json") == before and b'"NaN"' in (before or b"")


class TestWhatOthersLeft:
    def test_a_record_that_is_damaged_counts_as_missing(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a", "b", "c")) as (kept, directory):
            for name in "abc":
                run_case(kept, directory, make_case(name), PASSED, "one")
            assert finish(kept, directory) == ""
        cut_short(store)
        store.write("a/record.json", b'{"half')
        store.write("b/record.json", b'{"schema": 1}')
        outcomes = dict.fromkeys("abc", PASSED)
        assert two.run(two.plan("a", "b", "c"), outcomes, resumes=True) == []  # Their archives have them.
        for name in "ab":
            store.remove(f"{name}/{ARCHIVE}")
            store.write(f"{name}/record.json", b'{"half')
        three = machines("three")
        cut_short(store)
        assert three.run(three.plan("a", "b", "c"), outcomes, resumes=True) == ["a", "b"]

    def test_a_record_of_a_later_version_stops_it(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        cut_short(store)
        store.write("a/record.json", b'{"schema": 999}')
        with pytest.raises(codec.NewerSchema), two.session(two.plan("a"), resumes=True):
            pass

    @pytest.mark.parametrize("name", ["one", "two"])
    def test_a_record_in_the_place_of_another(
        self, machines: Machines, store: ObjectStore, name: str
    ) -> None:
        """It counts for the case that it names; the other one has its own in its archive, and gets it back."""
        one = machines("one")
        one.run(one.plan("a", "b"), {"a": PASSED, "b": FAILED})
        cut_short(store)
        store.write("b/record.json", store.read("a/record.json") or b"")
        machine = machines(name)
        assert machine.run(machine.plan("a", "b"), {"a": FAILED, "b": PASSED}, resumes=True) == []
        assert [stored_record(store, case).case.name for case in "ab"] == ["a", "b"]
        assert [stored_record(store, case).status for case in "ab"] == [PASSED, FAILED]
        assert (one.root / "s/a/only-1.txt").exists() and (one.root / "s/b/only-1.txt").exists()

    @pytest.mark.parametrize("key", ["../x", "a/../../x", "/x", "a//x", "a/./x", "a/b\nc", "a/\x9b1m"])
    def test_names_that_lead_elsewhere_are_refused(
        self, machines: Machines, url: str, key: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a", "b"), {"a": FAILED})
        find = ObjectStore.find

        def find_more(self: ObjectStore, below: str = "") -> dict[str, dict[str, object]]:
            return {**find(self, below), f"s/{key}": {"size": 4}}  # No client would send some of these.

        monkeypatch.setattr(ObjectStore, "find", find_more)
        cut_short(ObjectStore(f"{url}/s"))
        for look in (
            lambda: two.session(two.plan("a", "b"), resumes=True),
            lambda: fetched_session(f"{url}/s"),
        ):
            with pytest.raises(UnsafeName) as caught, look():
                pass
            assert repr(key) in str(caught.value) and "refused" in str(caught.value)
        assert sorted(path.name for path in (two.root / "s").iterdir()) == [".lock"]

    def test_an_empty_directory_of_a_console_is_not_a_file(
        self, machines: Machines, store: ObjectStore, url: str
    ) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        for key in ("results/", "results/s/", "results/.sessions/", "results/s/a/"):
            store._fs.call_s3("put_object", Bucket="bench", Key=key, Body=b"")
        assert two.run(two.plan("a"), {"a": PASSED}, resumes=True) == []
        assert session_names(url) == ["s"]


def cut_short(store: ObjectStore) -> None:
    """Make it a session whose end nobody saw, so that its records are read one by one."""
    ObjectStore(store.url.rpartition("/")[0]).remove(".sessions/s.json")


class TestOldCopies:
    def test_the_latest_stay_and_the_rest_make_room(self, machines: Machines) -> None:
        one = machines("one")
        names = [f"s{number}" for number in range(KEPT_COPIES + 4)]
        for number, name in enumerate(names):
            with one.session(one.plan("a", session=name)) as (kept, directory):
                if number == 1:  # The store gets no scratch data, so they stay.
                    scratch = directory.prepare(make_case("a")) / "scratch"
                    scratch.mkdir()
                    (scratch / "big").write_text("kept on purpose")
                run_case(kept, directory, make_case("a"), PASSED, "one")
                assert finish(kept, directory) == ""
            os.utime(one.root / name / ".lock", (number, number))
        assert {path.name for path in one.root.iterdir()} == {"s1", *names[-KEPT_COPIES:]}
        assert set(session_names(one.url)) == set(names)

    def test_one_in_use_stays(self, machines: Machines) -> None:
        one = machines("one")
        with one.session(one.plan("a")) as (kept, directory):
            assert finish(kept, directory) == ""
            remove_old_copies(one.root, keep=0)
            assert (one.root / "s").exists()
        remove_old_copies(one.root, keep=0)
        assert not (one.root / "s").exists()

    def test_one_that_a_sink_waits_for_stays(self, machines: Machines) -> None:
        one = machines("one")
        one.run(one.plan("a"), {"a": PASSED})
        (one.root / ".outbox").mkdir()
        (one.root / ".outbox/s").touch()
        remove_old_copies(one.root, keep=0)
        assert (one.root / "s").exists()

    def test_one_that_goes_on_stays_until_all_is_sent_again(self, machines: Machines) -> None:
        one = machines("one")
        one.run(one.plan("a"), {"a": PASSED})
        with one.session(one.plan("a"), resumes=True):
            pass
        remove_old_copies(one.root, keep=0)
        assert (one.root / "s").exists()


class TestReading:
    def test_sessions_are_listed_and_fetched(self, machines: Machines, url: str) -> None:
        one = machines("one")
        assert session_names(url) == []
        one.run(one.plan("a", session="first"), {"a": PASSED})
        one.run(one.plan("a", "b", session="second"), {"a": PASSED, "b": FAILED})
        assert set(session_names(url)) == {"first", "second"}
        assert is_stored_session(f"{url}/first") and not is_stored_session(url)
        with fetched_session(f"{url}/second") as directory:
            found = {
                record.case.name: record.status for _, record in SessionDir.open(directory).stored_records()
            }
            assert found == {"a": PASSED, "b": FAILED} and directory.name == "second"
            assert not (directory / "b/logs").exists()
        assert not directory.exists()
        with fetched_session(f"{url}/second", case="b") as directory:
            assert (directory / "b/stdouterr.log").read_text() == "b attempt 1 by one\n"
            assert not (directory / "a/logs").exists()

    @pytest.mark.parametrize("ended", [True, False])
    def test_the_report_of_a_session_that_ended_spares_the_records(
        self, machines: Machines, url: str, store: ObjectStore, ended: bool
    ) -> None:
        one = machines("one")
        one.run(one.plan("a", "b"), {"a": PASSED, "b": FAILED})
        report = codec.load(store.read("report.json") or b"")
        for record in report["records"]:
            record["reason"] = "from the report"
        store.write("report.json", codec.dump(report))
        if not ended:
            with one.session(one.plan("a", "b"), resumes=True):
                pass
        with fetched_session(f"{url}/s") as directory:
            reasons = {record.reason for _, record in SessionDir.open(directory).stored_records()}
        assert reasons == ({"from the report"} if ended else {"one"})

    def test_summaries_of_others_are_not_trusted(self, machines: Machines, url: str) -> None:
        one = machines("one")
        one.run(one.plan("a"), {"a": PASSED})
        store = ObjectStore(url)
        for text in ("", "{", "[]", "{}", '{"schema": 1, "session": "another"}'):
            store.write(".sessions/s.json", text.encode())
            assert read_summary(f"{url}/s") is None
            with fetched_session(f"{url}/s") as directory:
                assert len(list(SessionDir.open(directory).stored_records())) == 1
        store.write(".sessions/deep/er.json", b"{}")
        assert session_names(url) == ["s"]
        store.write(".sessions/s.json", b'{"schema": 2, "session": "s"}')
        with pytest.raises(codec.NewerSchema, match="newer paceline"):
            read_summary(f"{url}/s")


class TestArchiveBeforeItsRecord:
    """A runner may be killed after a case's archive was sent and before its record was."""

    def test_of_a_first_attempt(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        store.remove("a/record.json")
        cut_short(store)
        assert two.run(two.plan("a"), {"a": FAILED}, resumes=True) == []
        assert stored_record(store, "a").reason == "one"

    @pytest.mark.parametrize("rerun_failed", [False, True])
    def test_of_a_later_one(self, machines: Machines, store: ObjectStore, rerun_failed: bool) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": FAILED})
        first = store.read("a/record.json") or b""
        one.run(one.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True)
        store.write("a/record.json", first)
        cut_short(store)
        assert two.run(two.plan("a"), {"a": FAILED}, resumes=True, rerun_failed=rerun_failed) == []
        record: Record = stored_record(store, "a")
        assert (record.attempt, record.status) == (2, PASSED)
        assert (two.root / "s/a/stdouterr.log").read_text() == "a attempt 2 by one\n"
        assert archived(store, "a")["attempts/attempt-1/only-1.txt"] == "one"

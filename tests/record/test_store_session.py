"""A session kept in an object store and run on one machine after another: nothing is lost, nothing runs twice."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.errors import SessionError
from paceline.model import Plan
from paceline.record import codec
from paceline.record.directory import SessionDir
from paceline.record.remote.copies import KEPT_COPIES, remove_old_copies
from paceline.record.remote.object_store import ObjectStore
from paceline.record.remote.session import NameTaken, keep_copy
from paceline.record.remote.sessions import fetched_session, is_stored_session, newest_stored, stored_names
from record.store_machines import (
    FAILED,
    PASSED,
    Machine,
    Machines,
    make_case,
    stored_record,
    texts,
)


class TestOneMachine:
    def test_all_that_counts_is_in_the_store(self, machines: Machines, store: ObjectStore) -> None:
        one = machines("one")
        assert one.run(one.plan("a", "b"), {"a": PASSED, "b": FAILED}) == ["a", "b"]
        assert {"plan.json", "a/record.json", "a/logs/stdouterr.log", "b/results.jsonl"} <= set(store.find())
        assert not any(name.startswith(".") for name in store.find())
        assert stored_record(store, "b").status is FAILED

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
        with one.session(one.plan("a")) as (kept, _):
            for resumes, error in ((True, SessionError), (False, NameTaken)):
                with pytest.raises(error, match="is being run by"), keep_copy(two.plan("a"), resumes=resumes):
                    pass
            assert kept.finish() == ""

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
        record = stored_record(store, "a")
        assert (record.attempt, record.status) == (2, PASSED)
        assert texts(store, ["a/logs/stdouterr.log", "a/attempts/attempt-1/logs/stdouterr.log"]) == [
            "a attempt 2 by one\n",
            "a attempt 1 by one\n",
        ]
        assert "a/only-1.txt" not in store.find()  # It belongs to the attempt that was moved aside.

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
        assert texts(store, ["a/logs/stdouterr.log"]) == ["a attempt 1 by one\n"]

    def test_what_runs_again_there_leaves_the_first_attempt_whole(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": FAILED})
        assert two.run(two.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True) == ["a"]
        names = ["a/attempts/attempt-1/logs/stdouterr.log", "a/attempts/attempt-1/only-1.txt", "a/only-2.txt"]
        assert texts(store, names) == ["a attempt 1 by one\n", "one", "two"]
        assert stored_record(store, "a").attempt == 2 and "a/only-1.txt" not in store.find()
        lines = (store.read("a/results.jsonl") or b"").splitlines()
        assert [json.loads(line)["by"] for line in lines] == ["one", "two"]

    def test_a_changed_case_runs_again(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        assert two.run(two.plan(make_case("a", fingerprint="new")), {"a": PASSED}, resumes=True) == ["a"]
        assert texts(store, ["a/attempts/attempt-1/only-1.txt"]) == ["one"]

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
        moved = [f"a/attempts/attempt-{number}/only-{number}.txt" for number in (1, 2, 3)]
        assert texts(store, [*moved, "a/only-4.txt"]) == ["one", "two", "three", "four"]

    def test_the_first_machine_learns_of_the_second(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a", "b"), {"a": FAILED})
        two.run(two.plan("a", "b"), {"a": PASSED, "b": PASSED}, resumes=True, rerun_failed=True)
        assert one.run(one.plan("a", "b"), {"a": FAILED, "b": FAILED}, resumes=True, rerun_failed=True) == []
        assert [stored_record(store, name).reason for name in "ab"] == ["two", "two"]
        assert SessionDir.open(one.root / "s").read_record(make_case("a")) == stored_record(store, "a")

    def test_a_copy_without_its_big_files_does_not_empty_the_store(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one = machines("one")
        one.run(one.plan("a", "b"), {"a": PASSED})
        shutil.rmtree(one.root / "s/a/logs")
        (one.root / "s/a/only-1.txt").unlink()
        one.run(one.plan("a", "b"), {"b": PASSED}, resumes=True)
        assert {"a/logs/stdouterr.log", "a/only-1.txt"} <= set(store.find())

    def test_what_a_killed_runner_left_is_moved_aside_for_what_another_finished(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, directory):
            (directory.prepare(make_case("a")) / "half.txt").write_text("half")
            assert kept.finish() == ""
        two.run(two.plan("a"), {"a": PASSED}, resumes=True)
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True) == []
        assert stored_record(store, "a").reason == "two"
        assert (one.root / "s/a/attempts/attempt-1/half.txt").read_text() == "half"

    def test_events_of_both_are_kept_in_order(self, machines: Machines, store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        lines = [f'{{"time": "2025-01-0{day}", "event": "e{day}"}}\n' for day in range(1, 6)]
        with one.session(one.plan("a")) as (kept, directory):
            (directory.path / "events.jsonl").write_text("".join(lines[:2]))
            assert kept.finish() == ""
        with (one.root / "s/events.jsonl").open("a") as events:
            events.write(lines[3])  # The store did not get this one.
        with two.session(two.plan("a"), resumes=True) as (kept, directory):
            with (directory.path / "events.jsonl").open("a") as events:
                events.write(lines[2] + lines[4])
            assert kept.finish() == ""
        one.run(one.plan("a"), {}, resumes=True)
        assert (store.read("events.jsonl") or b"").decode() == "".join(lines)


class TestOldCopies:
    def test_the_latest_stay_and_the_rest_make_room(self, machines: Machines) -> None:
        one = machines("one")
        names = [f"s{number}" for number in range(KEPT_COPIES + 4)]
        for number, name in enumerate(names):
            one.run(one.plan("a", session=name), {"a": PASSED})
            if number == 1:  # The store has no scratch data, so they stay.
                (one.root / "s1/a/scratch").mkdir()
                (one.root / "s1/a/scratch/big").write_text("kept on purpose")
            if (one.root / name).exists():
                os.utime(one.root / name / ".lock", (number, number))
        assert {path.name for path in one.root.iterdir()} == {"s1", *names[-KEPT_COPIES:]}
        assert set(stored_names(one.url)) == set(names)

    def test_one_in_use_stays(self, machines: Machines) -> None:
        one = machines("one")
        with one.session(one.plan("a")) as (kept, _):
            assert kept.finish() == ""
            assert remove_old_copies(one.root, keep=0) == []
        assert remove_old_copies(one.root, keep=0) == [one.root / "s"]


class TestReading:
    def test_sessions_are_listed_and_fetched(self, machines: Machines, url: str) -> None:
        one = machines("one")
        assert stored_names(url) == [] and newest_stored(url) is None
        one.run(one.plan("a", session="first"), {"a": PASSED})
        one.run(replace(one.plan("a", "b", session="second")), {"a": PASSED, "b": FAILED})
        assert set(stored_names(url)) == {"first", "second"}
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

    @pytest.mark.parametrize("complete", [True, False])
    def test_a_report_that_is_complete_spares_the_records(
        self, machines: Machines, url: str, store: ObjectStore, complete: bool
    ) -> None:
        one = machines("one")
        one.run(one.plan("a", "b"), {"a": PASSED, "b": FAILED})
        names = ["a/record.json", "b/record.json"] if complete else ["a/record.json"]
        records = [codec.load(store.read(name) or b"") for name in names]
        for record in records:
            record["reason"] = "from the report"
        for (
            name
        ) in names:  # Times in a store may be whole seconds; here the report must be later for certain.
            while store.modified_s(name) == store.modified_s("report.json"):
                pass
        store.write("report.json", codec.dump({"records": records}))
        with fetched_session(f"{url}/s") as directory:
            reasons = {record.reason for _, record in SessionDir.open(directory).stored_records()}
        assert reasons == ({"from the report"} if complete else {"one"})


def test_the_ledger_is_not_needed(machines: Machines, store: ObjectStore) -> None:
    """Without it all is sent again, and nothing is lost."""
    one = machines("one")
    one.run(one.plan("a", "b"), {"a": PASSED})
    (one.root / "s/.sent.jsonl").unlink()
    with (one.root / "s/.sent.jsonl").open("wb") as torn:
        torn.write(b'{"name": "a/rec')
    assert one.run(one.plan("a", "b"), {"a": PASSED, "b": PASSED}, resumes=True) == ["b"]
    assert stored_record(store, "a").reason == "one"
    assert (one.root / "s/.sent.jsonl").stat().st_size > 0

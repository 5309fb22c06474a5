"""A session kept in an object store and run on one machine after another: nothing is lost, nothing runs twice."""

import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from paceline.errors import SessionError
from paceline.model import Case, Plan, Record, Status
from paceline.record import codec
from paceline.record.directory import SessionDir
from paceline.record.object_store import ObjectStore, StoreError
from paceline.record.resumption import is_kept
from paceline.record.store_copies import KEPT_COPIES, remove_old_copies
from paceline.record.store_session import KeptHere, KeptInStore, NameTaken, keeping
from paceline.record.store_sessions import fetched_session, is_stored_session, newest_stored, stored_names

Outcomes = Mapping[str, Status]
PASSED, FAILED = Status.PASSED, Status.FAILED


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}/results"


@dataclass(frozen=True)
class Machine:
    """A directory to run in, as each machine has one for an object store."""

    root: Path
    url: str

    def plan(self, *cases: str | Case, session: str = "s") -> Plan:
        made = tuple(case if isinstance(case, Case) else make_case(case) for case in cases)
        return Plan(
            session=session, directory=self.root / session, cases=made, settings={"results_url": self.url}
        )

    @contextmanager
    def session(
        self, plan: Plan, *, resumes: bool = False, rerun_failed: bool = False
    ) -> Iterator[tuple[KeptHere, SessionDir]]:
        with keeping(plan, resumes=resumes) as kept:
            directory = SessionDir.open(plan.directory) if resumes else SessionDir.create(plan)
            directory.lock()
            try:
                if resumes:
                    kept.catch_up(directory, rerun_failed=rerun_failed)
                (plan.directory / "plan.json").write_text(json.dumps({"cases": [c.name for c in plan.cases]}))
                kept.start()
                yield kept, directory
            finally:
                directory.unlock()

    def run(
        self, plan: Plan, outcomes: Outcomes, *, resumes: bool = False, rerun_failed: bool = False
    ) -> list[str]:
        """Run what is not kept; the names of what ran."""
        with self.session(plan, resumes=resumes, rerun_failed=rerun_failed) as (kept, directory):
            ran = run_cases(kept, directory, plan, outcomes, by=self.root.name, rerun_failed=rerun_failed)
            assert kept.finish() == ""
        return ran


def make_case(name: str, **options: object) -> Case:
    return Case(**{"name": name, "entry": name, "key": name, "fingerprint": f"f-{name}", **options})  # type: ignore[arg-type]


def run_cases(
    kept: KeptHere,
    directory: SessionDir,
    plan: Plan,
    outcomes: Outcomes,
    *,
    by: str,
    rerun_failed: bool = False,
) -> list[str]:
    ran = []
    for case in plan.cases:
        if case.name not in outcomes or is_kept(directory.read_record(case), case, rerun_failed=rerun_failed):
            continue
        run_case(kept, directory, case, outcomes[case.name], by)
        ran.append(case.name)
    return ran


def run_case(kept: KeptHere, directory: SessionDir, case: Case, status: Status, by: str) -> None:
    attempt = directory.next_attempt(case)
    entry = directory.prepare(case)
    (entry / "logs/stdouterr.log").write_text(f"{case.name} attempt {attempt} by {by}\n")
    (entry / f"only-{attempt}.txt").write_text(by)
    directory.write_record(Record(session="s", case=case, attempt=attempt, status=status, reason=by))
    directory.append_result_line(case, {"name": case.name, "by": by})
    kept.case_ended(case)


@pytest.fixture
def machines(tmp_path: Path, url: str) -> Callable[[str], Machine]:
    return lambda name: Machine(tmp_path / name, url)


@pytest.fixture
def store(url: str) -> ObjectStore:
    return ObjectStore(f"{url}/s")


def stored_record(store: ObjectStore, case: str) -> Record:
    return codec.from_json(codec.load(store.read(f"{case}/record.json") or b""))


def texts(store: ObjectStore, names: Iterable[str]) -> list[str]:
    return [(store.read(name) or b"(missing)").decode() for name in names]


class TestOneMachine:
    def test_all_that_counts_is_in_the_store(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        one = machines("one")
        assert one.run(one.plan("a", "b"), {"a": PASSED, "b": FAILED}) == ["a", "b"]
        assert {"plan.json", "a/record.json", "a/logs/stdouterr.log", "b/results.jsonl"} <= set(store.find())
        assert not any(name.startswith(".") for name in store.find())
        assert stored_record(store, "b").status is FAILED

    def test_a_name_that_is_taken(self, machines: Callable[[str], Machine]) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        with pytest.raises(NameTaken, match="--resume"), keeping(two.plan("a"), resumes=False):
            pass
        assert not two.root.exists()

    def test_a_session_that_is_nowhere(self, machines: Callable[[str], Machine], store: ObjectStore) -> None:
        with (
            pytest.raises(SessionError, match="no session s in"),
            keeping(machines("one").plan(), resumes=True),
        ):
            pass
        assert store.find() == {}

    def test_a_second_runner_is_kept_out(self, machines: Callable[[str], Machine]) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, _):
            for resumes, error in ((True, SessionError), (False, NameTaken)):
                with pytest.raises(error, match="is being run by"), keeping(two.plan("a"), resumes=resumes):
                    pass
            assert kept.finish() == ""

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path, url: str) -> None:
        (tmp_path / "file").write_text("")
        plan = Machine(tmp_path / "file", url).plan("a")
        with pytest.raises(SessionError, match="PACELINE_WORK_DIR"), keeping(plan, resumes=False):
            pass

    def test_a_case_that_runs_again(self, machines: Callable[[str], Machine], store: ObjectStore) -> None:
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

    def test_a_local_session_sends_nothing(self, tmp_path: Path) -> None:
        plan = Plan(session="s", directory=tmp_path / "s", cases=(make_case("a"),))
        with keeping(plan, resumes=False) as kept:
            kept.start()
            assert (kept.finish(), kept.place, kept.fault) == ("", tmp_path / "s", "")


class TestAnotherMachine:
    def test_it_goes_on_where_the_first_was_cut_short(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
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
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": FAILED})
        assert two.run(two.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True) == ["a"]
        names = ["a/attempts/attempt-1/logs/stdouterr.log", "a/attempts/attempt-1/only-1.txt", "a/only-2.txt"]
        assert texts(store, names) == ["a attempt 1 by one\n", "one", "two"]
        assert stored_record(store, "a").attempt == 2 and "a/only-1.txt" not in store.find()
        lines = (store.read("a/results.jsonl") or b"").splitlines()
        assert [json.loads(line)["by"] for line in lines] == ["one", "two"]

    def test_a_changed_case_runs_again(self, machines: Callable[[str], Machine], store: ObjectStore) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a"), {"a": PASSED})
        assert two.run(two.plan(make_case("a", fingerprint="new")), {"a": PASSED}, resumes=True) == ["a"]
        assert texts(store, ["a/attempts/attempt-1/only-1.txt"]) == ["one"]

    def test_results_that_a_case_needs_are_fetched(self, machines: Callable[[str], Machine]) -> None:
        one, two = machines("one"), machines("two")
        cases = (make_case("a"), make_case("b"), make_case("c", needs=("a",)))
        one.run(one.plan(*cases), {"a": PASSED, "b": PASSED})
        assert two.run(two.plan(*cases), {"c": PASSED}, resumes=True) == ["c"]
        assert (two.root / "s/a/only-1.txt").read_text() == "one"
        assert (two.root / "s/a/stdouterr.log").read_text() == "a attempt 1 by one\n"
        assert not (two.root / "s/b/only-1.txt").exists()

    def test_numbers_of_attempts_are_not_used_twice(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        for number, name in enumerate(("one", "two", "three", "four")):
            machine = machines(name)
            machine.run(machine.plan("a"), {"a": FAILED}, resumes=number > 0, rerun_failed=number > 0)
        moved = [f"a/attempts/attempt-{number}/only-{number}.txt" for number in (1, 2, 3)]
        assert texts(store, [*moved, "a/only-4.txt"]) == ["one", "two", "three", "four"]

    def test_the_first_machine_learns_of_the_second(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        one.run(one.plan("a", "b"), {"a": FAILED})
        two.run(two.plan("a", "b"), {"a": PASSED, "b": PASSED}, resumes=True, rerun_failed=True)
        assert one.run(one.plan("a", "b"), {"a": FAILED, "b": FAILED}, resumes=True, rerun_failed=True) == []
        assert [stored_record(store, name).reason for name in "ab"] == ["two", "two"]
        assert SessionDir.open(one.root / "s").read_record(make_case("a")) == stored_record(store, "a")

    def test_a_copy_without_its_big_files_does_not_empty_the_store(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        one = machines("one")
        one.run(one.plan("a", "b"), {"a": PASSED})
        shutil.rmtree(one.root / "s/a/logs")
        (one.root / "s/a/only-1.txt").unlink()
        one.run(one.plan("a", "b"), {"b": PASSED}, resumes=True)
        assert {"a/logs/stdouterr.log", "a/only-1.txt"} <= set(store.find())

    def test_what_a_killed_runner_left_is_moved_aside_for_what_another_finished(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, directory):
            (directory.prepare(make_case("a")) / "half.txt").write_text("half")
            assert kept.finish() == ""
        two.run(two.plan("a"), {"a": PASSED}, resumes=True)
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True) == []
        assert stored_record(store, "a").reason == "two"
        assert (one.root / "s/a/attempts/attempt-1/half.txt").read_text() == "half"

    def test_events_of_both_are_kept_in_order(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
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
    def test_the_latest_stay_and_the_rest_make_room(self, machines: Callable[[str], Machine]) -> None:
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

    def test_one_in_use_stays(self, machines: Callable[[str], Machine]) -> None:
        one = machines("one")
        with one.session(one.plan("a")) as (kept, _):
            assert kept.finish() == ""
            assert remove_old_copies(one.root, keep=0) == []
        assert remove_old_copies(one.root, keep=0) == [one.root / "s"]


class TestStoreThatIsDown:
    @pytest.fixture
    def down(self, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
        """While set, the store takes nothing but locks."""
        is_down = threading.Event()

        def refusing(method: Callable[..., None]) -> Callable[..., None]:
            def call(*words: object) -> None:
                if is_down.is_set():
                    raise StoreError("no answer")
                method(*words)

            return call

        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "0.3")
        for name in ("send", "write"):
            monkeypatch.setattr(ObjectStore, name, refusing(getattr(ObjectStore, name)))
        return is_down

    def test_what_was_not_sent_is_said_and_sent_later(
        self, machines: Callable[[str], Machine], store: ObjectStore, down: threading.Event
    ) -> None:
        one = machines("one")
        plan = one.plan("a", "b")
        with one.session(plan) as (kept, directory):
            down.set()
            assert run_cases(kept, directory, plan, {"a": PASSED, "b": FAILED}, by="one") == ["a", "b"]
            text = kept.finish()
        assert "2 cases could not be sent to" in text and "(no answer)" in text and "--resume s" in text
        assert kept.place == one.root / "s" and "\n" not in text
        assert not any(name.endswith("record.json") for name in store.find())
        down.clear()
        assert one.run(plan, {"a": PASSED, "b": PASSED}, resumes=True) == []
        assert [stored_record(store, name).status for name in "ab"] == [PASSED, FAILED]

    @pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
    def test_patience_is_a_number(
        self, machines: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch, text: str
    ) -> None:
        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", text)
        with (
            pytest.raises(SessionError, match=f"PACELINE_STORE_PATIENCE_S is '{text}'"),
            keeping(machines("one").plan("a"), resumes=False),
        ):
            pass

    def test_it_is_sent_as_soon_as_the_store_is_back(
        self, machines: Callable[[str], Machine], store: ObjectStore, down: threading.Event
    ) -> None:
        one = machines("one")
        plan = one.plan("a", "b")
        with one.session(plan) as (kept, directory):
            down.set()
            run_cases(kept, directory, plan, {"a": PASSED}, by="one")
            down.clear()
            run_cases(kept, directory, plan, {"b": PASSED}, by="one")
            assert kept.finish() == ""
        assert stored_record(store, "a").status is PASSED

    def test_a_later_attempt_here_goes_over_the_earlier_one_there(
        self, machines: Callable[[str], Machine], store: ObjectStore, down: threading.Event
    ) -> None:
        one = machines("one")
        one.run(one.plan("a"), {"a": FAILED})
        with one.session(one.plan("a"), resumes=True, rerun_failed=True) as (kept, directory):
            down.set()
            run_cases(kept, directory, one.plan("a"), {"a": PASSED}, by="later", rerun_failed=True)
            assert kept.finish() != ""
        down.clear()
        assert stored_record(store, "a").attempt == 1
        assert one.run(one.plan("a"), {"a": FAILED}, resumes=True, rerun_failed=True) == []
        assert (stored_record(store, "a").attempt, stored_record(store, "a").reason) == (2, "later")
        assert texts(store, ["a/attempts/attempt-1/only-1.txt"]) == ["one"]
        assert "a/only-1.txt" not in store.find()

    def test_both_ran_a_case_and_both_results_are_kept(
        self, machines: Callable[[str], Machine], store: ObjectStore, down: threading.Event
    ) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, directory):
            assert kept.finish() == ""
        with one.session(one.plan("a"), resumes=True) as (kept, directory):
            down.set()
            run_cases(kept, directory, one.plan("a"), {"a": PASSED}, by="one")
            assert kept.finish() != ""
        down.clear()
        two.run(two.plan("a"), {"a": PASSED}, resumes=True)
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True) == []
        assert stored_record(store, "a").reason == "two"  # The store is the truth.
        aside = codec.from_json(codec.load(store.read("a/attempts/attempt-1/record.json") or b""))
        assert aside.reason == "one"

    def test_one_file_that_is_refused_does_not_keep_the_others(
        self, machines: Callable[[str], Machine], store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = ObjectStore.send

        def refuse_one(self: ObjectStore, path: Path, name: str, told: Callable[[], object]) -> None:
            if "/a/" in name and name.endswith("only-1.txt"):
                raise StoreError("the name is too long")
            send(self, path, name, told)

        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "0.3")
        monkeypatch.setattr(ObjectStore, "send", refuse_one)
        one = machines("one")
        plan = one.plan("a", "b", "c")
        with one.session(plan) as (kept, directory):
            run_cases(kept, directory, plan, dict.fromkeys("abc", PASSED), by="one")
            assert "1 case could not be sent" in kept.finish()
        assert store.read("a/record.json") is None
        assert stored_record(store, "c").status is PASSED


class TestRecordComesLast:
    def test_no_record_without_its_files(
        self, machines: Callable[[str], Machine], store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At every single step, a record in the store is that of the files beside it."""
        one = machines("one")
        seen: list[str] = []

        def checked(method: Callable[..., None]) -> Callable[..., None]:
            def call(self: ObjectStore, *words: object) -> None:
                method(self, *words)
                if store.read("a/record.json") is not None:
                    attempt = stored_record(store, "a").attempt
                    output, only = texts(store, ["a/logs/stdouterr.log", f"a/only-{attempt}.txt"])
                    seen.append(f"{attempt}")
                    assert (output, only) == (f"a attempt {attempt} by one\n", "one")

            return call

        for name in ("send", "write", "remove"):
            monkeypatch.setattr(ObjectStore, name, checked(getattr(ObjectStore, name)))
        one.run(one.plan("a"), {"a": FAILED})
        one.run(one.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True)
        assert {"1", "2"} == set(seen)

    def test_a_session_that_is_taken_over_sends_no_more(
        self, machines: Callable[[str], Machine], store: ObjectStore
    ) -> None:
        one = machines("one")
        plan = one.plan("a")
        with one.session(plan) as (kept, directory):
            assert isinstance(kept, KeptInStore)
            store.write(".lock", json.dumps({"pid": 1, "host": "elsewhere"}).encode())
            kept._lock._beat()
            assert "taken over by process 1 on elsewhere" in kept.fault
            run_case(kept, directory, plan.cases[0], PASSED, "one")
            assert "taken over by process 1 on elsewhere" in kept.finish()
        assert store.read("a/record.json") is None
        assert b"elsewhere" in (store.read(".lock") or b"")


class TestReading:
    def test_sessions_are_listed_and_fetched(self, machines: Callable[[str], Machine], url: str) -> None:
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
        self, machines: Callable[[str], Machine], url: str, store: ObjectStore, complete: bool
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


def test_the_ledger_is_not_needed(machines: Callable[[str], Machine], store: ObjectStore) -> None:
    """Without it all is sent again, and nothing is lost."""
    one = machines("one")
    one.run(one.plan("a", "b"), {"a": PASSED})
    (one.root / "s/.sent.jsonl").unlink()
    with (one.root / "s/.sent.jsonl").open("wb") as torn:
        torn.write(b'{"name": "a/rec')
    assert one.run(one.plan("a", "b"), {"a": PASSED, "b": PASSED}, resumes=True) == ["b"]
    assert stored_record(store, "a").reason == "one"
    assert (one.root / "s/.sent.jsonl").stat().st_size > 0

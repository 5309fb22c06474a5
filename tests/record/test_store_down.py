"""A store that is down, or taken over, while a session runs: no record is lost, and none is there without its files."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.errors import SessionError
from paceline.record import codec
from paceline.record.remote.archive import ARCHIVE
from paceline.record.remote.object_store import ObjectStore, StoreError
from paceline.record.remote.session import RemoteCopy, keep_copy, read_summary
from patience import wait_until
from record.store_machines import (
    FAILED,
    PASSED,
    Machines,
    archived,
    finish,
    run_case,
    run_cases,
    stored_record,
)


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

        # Long enough for a busy machine while the store is up.
        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "2")
        for name in ("send", "write"):
            monkeypatch.setattr(ObjectStore, name, refusing(getattr(ObjectStore, name)))
        return is_down

    def test_what_was_not_sent_is_said_and_sent_later(
        self, machines: Machines, store: ObjectStore, down: threading.Event
    ) -> None:
        one = machines("one")
        plan = one.plan("a", "b")
        with one.session(plan) as (kept, directory):
            down.set()
            assert run_cases(kept, directory, plan, {"a": PASSED, "b": FAILED}, by="one") == ["a", "b"]
            text = finish(kept, directory)
        assert "2 cases could not be sent to" in text and "(no answer)" in text and "--resume s" in text
        assert kept.location == one.root / "s" and "\n" not in text
        assert not any(name.endswith("record.json") for name in store.find())
        down.clear()
        assert one.run(plan, {"a": PASSED, "b": PASSED}, resumes=True) == []
        assert [stored_record(store, name).status for name in "ab"] == [PASSED, FAILED]

    @pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
    def test_patience_is_a_number(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch, text: str
    ) -> None:
        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", text)
        with (
            pytest.raises(SessionError, match=f"PACELINE_STORE_PATIENCE_S is '{text}'"),
            keep_copy(machines("one").plan("a"), resumes=False),
        ):
            pass

    def test_it_is_sent_as_soon_as_the_store_is_back(
        self, machines: Machines, store: ObjectStore, down: threading.Event
    ) -> None:
        one = machines("one")
        plan = one.plan("a", "b")
        with one.session(plan) as (kept, directory):
            down.set()
            run_cases(kept, directory, plan, {"a": PASSED}, by="one")
            down.clear()
            run_cases(kept, directory, plan, {"b": PASSED}, by="one")
            assert finish(kept, directory) == ""
        assert stored_record(store, "a").status is PASSED

    def test_a_store_that_hangs_holds_up_no_case_and_no_end(
        self, machines: Machines, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        goes_on = threading.Event()
        send = ObjectStore.send

        def hang(self: ObjectStore, path: Path, name: str, on_progress: Callable[[], object]) -> None:
            if ARCHIVE in name:
                goes_on.wait()
            send(self, path, name, on_progress)

        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "0.5")
        monkeypatch.setattr(ObjectStore, "send", hang)
        one = machines("one")
        names = [f"case-{number}" for number in range(12)]
        plan = one.plan(*names)
        with one.session(plan) as (kept, directory):
            assert run_cases(kept, directory, plan, dict.fromkeys(names, PASSED), by="one") == names
            assert "12 cases could not be sent to" in finish(kept, directory)
        goes_on.set()
        assert one.run(plan, {}, resumes=True) == []
        assert {name for name in store.find() if name.endswith("record.json")} == {
            f"{name}/record.json" for name in names
        }

    def test_a_large_archive_takes_as_long_as_it_takes(
        self, machines: Machines, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What counts is how long the store has taken nothing."""
        send, now_s = ObjectStore.send, [0.0]

        def slow(self: ObjectStore, path: Path, name: str, on_progress: Callable[[], object]) -> None:
            for _ in range(10 if ARCHIVE in name else 0):
                now_s[0] += 50
                on_progress()
            send(self, path, name, on_progress)

        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "60")
        clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=time.sleep)
        monkeypatch.setattr("paceline.record.remote.session.time", clock)
        monkeypatch.setattr(ObjectStore, "send", slow)
        one = machines("one")
        assert one.run(one.plan("a"), {"a": PASSED}) == ["a"]
        assert stored_record(store, "a").status is PASSED

    def test_a_later_attempt_here_goes_over_the_earlier_one_there(
        self, machines: Machines, store: ObjectStore, down: threading.Event
    ) -> None:
        one = machines("one")
        one.run(one.plan("a"), {"a": FAILED})
        with one.session(one.plan("a"), resumes=True, rerun_failed=True) as (kept, directory):
            down.set()
            run_cases(kept, directory, one.plan("a"), {"a": PASSED}, by="later", rerun_failed=True)
            assert finish(kept, directory) != ""
        down.clear()
        assert stored_record(store, "a").attempt == 1
        assert one.run(one.plan("a"), {"a": FAILED}, resumes=True, rerun_failed=True) == []
        assert (stored_record(store, "a").attempt, stored_record(store, "a").reason) == (2, "later")
        files = archived(store, "a")
        assert files["attempts/attempt-1/only-1.txt"] == "one" and "only-1.txt" not in files

    def test_both_ran_a_case_and_both_results_are_kept(
        self, machines: Machines, store: ObjectStore, down: threading.Event
    ) -> None:
        one, two = machines("one"), machines("two")
        with one.session(one.plan("a")) as (kept, directory):
            assert finish(kept, directory) == ""
        with one.session(one.plan("a"), resumes=True) as (kept, directory):
            down.set()
            run_cases(kept, directory, one.plan("a"), {"a": PASSED}, by="one")
            assert finish(kept, directory) != ""
        down.clear()
        two.run(two.plan("a"), {"a": PASSED}, resumes=True)
        assert one.run(one.plan("a"), {"a": PASSED}, resumes=True) == []
        assert stored_record(store, "a").reason == "two"  # The store is the truth.
        files = archived(store, "a")
        aside = codec.from_json(codec.load(files["attempts/attempt-2/record.json"].encode()))
        assert aside.reason == "one" and files["attempts/attempt-2/only-1.txt"] == "one"
        assert files["only-1.txt"] == "two"

    def test_one_object_that_is_refused_does_not_keep_the_others(
        self, machines: Machines, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = ObjectStore.send

        def refuse_one(self: ObjectStore, path: Path, name: str, on_progress: Callable[[], object]) -> None:
            if "/a/" in name:
                raise StoreError("the name is too long")
            send(self, path, name, on_progress)

        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "0.3")
        monkeypatch.setattr(ObjectStore, "send", refuse_one)
        one = machines("one")
        plan = one.plan("a", "b", "c")
        with one.session(plan) as (kept, directory):
            run_cases(kept, directory, plan, dict.fromkeys("abc", PASSED), by="one")
            assert "1 case could not be sent" in finish(kept, directory)
        assert store.read("a/record.json") is None
        assert stored_record(store, "c").status is PASSED


class TestRecordComesLast:
    def test_no_record_without_its_files(
        self, machines: Machines, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At every single step, all that belongs to a record in the store is in the archive beside it."""
        one = machines("one")
        seen: list[tuple[int, bool]] = []

        def checked(method: Callable[..., None]) -> Callable[..., None]:
            def call(self: ObjectStore, *words: object) -> None:
                method(self, *words)
                if store.read("a/record.json") is not None:
                    attempt, files = stored_record(store, "a").attempt, archived(store, "a")
                    is_current = f"only-{attempt}.txt" in files
                    below = "" if is_current else f"attempts/attempt-{attempt}/"
                    seen.append((attempt, is_current))
                    assert files[f"{below}only-{attempt}.txt"] == "one"
                    assert files[f"{below}logs/stdouterr.log"] == f"a attempt {attempt} by one\n"
                    assert json.loads(files[f"{below}record.json"])["attempt"] == attempt

            return call

        for name in ("send", "write", "remove"):
            monkeypatch.setattr(ObjectStore, name, checked(getattr(ObjectStore, name)))
        one.run(one.plan("a"), {"a": FAILED})
        one.run(one.plan("a"), {"a": PASSED}, resumes=True, rerun_failed=True)
        assert set(seen) == {(1, True), (1, False), (2, True)}

    def test_a_session_that_is_taken_over_sends_no_more(self, machines: Machines, store: ObjectStore) -> None:
        one = machines("one")
        plan = one.plan("a")
        with one.session(plan) as (kept, directory):
            assert isinstance(kept, RemoteCopy)
            store.write(".lock", json.dumps({"pid": 1, "host": "elsewhere"}).encode())
            kept._lock._beat()
            assert "taken over by process 1 on elsewhere" in kept.fault
            theirs = b'{"schema": 1, "session": "s", "state": "running"}'
            results = ObjectStore(one.url)
            results.write(".sessions/s.json", theirs)
            run_case(kept, directory, plan.cases[0], PASSED, "one")
            assert "taken over by process 1 on elsewhere" in finish(kept, directory)
        assert store.read("a/record.json") is None and results.read(".sessions/s.json") == theirs
        assert b"elsewhere" in (store.read(".lock") or b"")

    def test_one_that_is_taken_over_when_all_is_sent_does_not_say_that_it_ended(
        self, machines: Machines, store: ObjectStore
    ) -> None:
        one = machines("one")
        with one.session(one.plan()) as (kept, _):
            wait_until(lambda: store.read("plan.json") and not kept._queue.unfinished_tasks)
            store.write(".lock", json.dumps({"pid": 1, "host": "elsewhere"}).encode())
            kept._lock._beat()
            kept._lock.on_beat()
            assert "taken over by process 1 on elsewhere" in kept.finish(ok=True)
        summary = read_summary(f"{one.url}/s")
        assert summary is not None and summary["state"] == "running"

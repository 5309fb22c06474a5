"""A store that is down, or taken over, while a session runs: no record is lost, and none is there without its files."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import SessionError
from paceline.record import codec
from paceline.record.remote.object_store import ObjectStore, StoreError
from paceline.record.remote.session import RemoteCopy, keep_copy
from record.store_machines import (
    FAILED,
    PASSED,
    Machines,
    run_case,
    run_cases,
    stored_record,
    texts,
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

        monkeypatch.setenv("PACELINE_STORE_PATIENCE_S", "0.3")
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
            text = kept.finish()
        assert "2 cases could not be sent to" in text and "(no answer)" in text and "--resume s" in text
        assert kept.place == one.root / "s" and "\n" not in text
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
            assert kept.finish() == ""
        assert stored_record(store, "a").status is PASSED

    def test_a_later_attempt_here_goes_over_the_earlier_one_there(
        self, machines: Machines, store: ObjectStore, down: threading.Event
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
        self, machines: Machines, store: ObjectStore, down: threading.Event
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
        self, machines: Machines, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
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
        self, machines: Machines, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
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

    def test_a_session_that_is_taken_over_sends_no_more(self, machines: Machines, store: ObjectStore) -> None:
        one = machines("one")
        plan = one.plan("a")
        with one.session(plan) as (kept, directory):
            assert isinstance(kept, RemoteCopy)
            store.write(".lock", json.dumps({"pid": 1, "host": "elsewhere"}).encode())
            kept._lock._beat()
            assert "taken over by process 1 on elsewhere" in kept.fault
            run_case(kept, directory, plan.cases[0], PASSED, "one")
            assert "taken over by process 1 on elsewhere" in kept.finish()
        assert store.read("a/record.json") is None
        assert b"elsewhere" in (store.read(".lock") or b"")

"""Sessions that an older version kept in an object store: read from there, and gone on with from another machine."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from frozen import Answer, answers, called, check, difference, frozen_place
from object_store import BUCKET, archive_files, s3
from workplace import Workplace

__all__ = ["s3"]

ANSWERS = answers("store")
LOCK = "nightly/killed/.lock"


class Bucket:
    """The bucket as any client of S3 sees it."""

    def __init__(self) -> None:
        self._client = boto3.client("s3")

    def put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def get(self, key: str) -> bytes | None:
        try:
            return bytes(self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        except self._client.exceptions.NoSuchKey:
            return None


@pytest.fixture
def place(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """The suite; a machine that has nothing of its sessions."""
    with frozen_place("store") as place:
        monkeypatch.setenv("PACELINE_WORK_DIR", str(place.path / "work"))
        yield place


@pytest.fixture
def bucket(place: Workplace) -> Bucket:
    """The store, with the objects of the sessions `monday`, which is over, and `killed`."""
    bucket = Bucket()
    objects = place.path / "objects"
    for path in sorted(path for path in objects.rglob("*") if path.is_file()):
        bucket.put(str(path.relative_to(objects)), path.read_bytes())
    return bucket


def records(place: Workplace, bucket: Bucket, session: str) -> dict[str, bytes | None]:
    """What the store has now in place of each record of then."""
    objects = place.path / "objects"
    then = sorted(objects.glob(f"nightly/{session}/**/record.json"))
    return {key: bucket.get(key) for key in (str(path.relative_to(objects)) for path in then)}


def named(told: Any) -> dict[str, Any]:
    """Sessions by their names: all of them were put into the store within one second, so none is the newest."""
    return {one["session"]: one for one in told}


@pytest.mark.parametrize("answer", [one for one in ANSWERS if "list" not in one["words"]], ids=called)
def test_it_is_read_as_it_was(place: Workplace, bucket: Bucket, answer: Answer) -> None:
    check(place, answer)
    assert not (place.path / "work").exists()


def test_both_sessions_are_listed(place: Workplace, bucket: Bucket) -> None:
    (known,) = [one for one in ANSWERS if "list" in one["words"] and "json" in one]
    told = json.loads(place.run(*known["words"]).stdout)
    assert difference(named(known["json"]), named(told)) == ""


def test_what_is_shown_can_be_compared(place: Workplace, bucket: Bucket) -> None:
    for session in ("monday", "killed"):
        shown = place.run("show", f"s3://bench/nightly/{session}", "--json")
        place.write(f"{session}.json", shown.stdout)
    for answer in answers("store_compared"):
        check(place, answer)


def test_of_a_session_that_is_over_nothing_runs_again(place: Workplace, bucket: Bucket) -> None:
    before, ran = records(place, bucket, "monday"), place.ran()
    done = place.run("run", "--no-history", "--resume", "s3://bench/nightly/monday")
    assert done.returncode == 1 and "Keeping 6 of 6 cases" in done.stdout, done.stdout + done.stderr
    assert place.ran() == ran
    assert len(before) == 6 and records(place, bucket, "monday") == before


def test_only_what_failed_runs_again_on_request(place: Workplace, bucket: Bucket) -> None:
    before, ran = records(place, bucket, "monday"), place.ran()
    done = place.run("run", "--no-history", "--resume", "monday", "--rerun-failed")
    assert done.returncode == 1 and "Keeping 5 of 6 cases" in done.stdout, done.stdout + done.stderr
    assert place.ran() == [*ran, "bad"]
    bad = "nightly/monday/bad/record.json"
    after = records(place, bucket, "monday")
    assert {key for key in before if before[key] != after[key]} == {bad}
    assert json.loads(after[bad] or b"")["attempt"] == 2
    files = archive_files(bucket.get("nightly/monday/bad/files.tar.gz"))
    assert files["attempts/attempt-1/record.json"] == before[bad]


def test_a_session_that_another_machine_seems_to_run_is_left_alone(place: Workplace, bucket: Bucket) -> None:
    ran, lock = place.ran(), bucket.get(LOCK)
    done = place.run("run", "held.yaml", "--no-history", "--resume", "killed")
    assert done.returncode == 2 and place.ran() == ran
    assert "session killed" in done.stderr and "is being run by process" in done.stderr
    assert "on bench-host" in done.stderr
    assert bucket.get(LOCK) == lock


def test_of_a_session_whose_runner_died_here_the_rest_runs(place: Workplace, bucket: Bucket) -> None:
    """The lock is as that runner would have written it on this machine, where its process is no more."""
    owner = json.loads(bucket.get(LOCK) or b"")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    here = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    bucket.put(LOCK, json.dumps({**owner, "machine": here, "pid": a_dead_process()}).encode())
    before, ran = records(place, bucket, "killed"), place.ran()
    assert set(before) == {"nightly/killed/first/record.json"}
    (place.path / "go").touch()
    done = place.run("run", "held.yaml", "--no-history", "--resume", "killed")
    assert done.returncode == 0 and "Keeping 1 of 3 cases" in done.stdout, done.stdout + done.stderr
    assert place.ran() == [*ran, "held", "last"]
    assert records(place, bucket, "killed") == before and bucket.get(LOCK) is None
    report = json.loads(bucket.get("nightly/killed/report.json") or b"")
    told = [(one["case"]["name"], one["status"], one["attempt"]) for one in report["records"]]
    assert told == [("first", "passed", 1), ("held", "passed", 1), ("last", "passed", 1)]


def a_dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid

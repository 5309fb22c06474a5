"""Google Drive against a server that checks what Drive checks."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fake_drive import PRIVATE_PEM, ROOT, UNIT, FakeDrive, _error
from loopback import Reply
from paceline.errors import MissingExtra
from paceline.record.redact import Redactor
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.gdrive import DriveSink, session_files
from paceline.sinks.legacy import check_extra
from service_sessions import build, make_record, make_report, patiently

REPORT = make_report([make_record()])


@pytest.fixture
def drive() -> Iterator[FakeDrive]:
    with FakeDrive() as server:
        yield server


@pytest.fixture
def session(tmp_path: Path) -> dict[str, bytes]:
    """The files of a session at `tmp_path`, by their path in Drive."""
    files = {
        "report.md": b"# night\n",
        "sort/record.json": b"{}",
        "sort/logs/stdouterr.log": b"",
        "sort/benchmark_results/tasks.pkl": os.urandom(5 * UNIT + 17),
        "join/weird 'name' & co.txt": b"x" * UNIT,
    }
    for name, content in files.items():
        path = tmp_path / "night" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for hidden in (".lock", ".outbox/sink/state/x", "sort/scratch/big", "sort/.tmp-1-2"):
        (tmp_path / "night" / hidden).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "night" / hidden).write_bytes(b"not for Drive")
    return {f"night/{name}": content for name, content in files.items()}


def sink_for(drive: FakeDrive, place: Path, **options: Any) -> DriveSink:
    given = {"drive_folder_id": ROOT, "api_url": drive.url, "chunk_bytes": 2 * UNIT, **options}
    return build(DriveSink, place, given, {"GDRIVE_SERVICE_ACCOUNT": drive.key_file()})


def test_a_session_is_a_folder_with_its_files(
    drive: FakeDrive, session: dict[str, bytes], tmp_path: Path
) -> None:
    said: list[str] = []
    sink = sink_for(drive, tmp_path)
    sink.context.say = said.append
    assert patiently(lambda: sink.close(REPORT)) == 1
    assert drive.paths == session
    assert len(said) == 1 and said[0].startswith("Google Drive: https://drive.google.com/drive/folders/id-")
    assert drive.tokens == 1


def test_nothing_is_uploaded_twice(drive: FakeDrive, session: dict[str, bytes], tmp_path: Path) -> None:
    sink_for(drive, tmp_path).close(REPORT)
    before = len(drive.asked)
    sink_for(drive, tmp_path).close(REPORT)
    assert [asked.method for asked in drive.asked[before:]] == []
    assert drive.paths == session


def test_what_changed_is_replaced_in_place(
    drive: FakeDrive, session: dict[str, bytes], tmp_path: Path
) -> None:
    sink_for(drive, tmp_path).close(REPORT)
    (tmp_path / "night" / "report.md").write_bytes(b"# night, resumed\n")
    before = drive.received
    sink_for(drive, tmp_path).close(REPORT)
    assert drive.paths == {**session, "night/report.md": b"# night, resumed\n"}
    assert drive.received - before == len(b"# night, resumed\n")


@pytest.mark.parametrize("kept", ["nothing", "the folder"])
def test_lost_notes_lead_to_no_duplicate(
    drive: FakeDrive, session: dict[str, bytes], tmp_path: Path, kept: str
) -> None:
    sink_for(drive, tmp_path).close(REPORT)
    notes = tmp_path / "night" / ".outbox" / "sink" / "state" / "notebook.jsonl"
    notes.unlink()
    before = drive.received
    sink = sink_for(drive, tmp_path)
    if kept == "the folder":  # noted that it was found, and killed then
        sink._folder("", "night", ROOT)
        sink = sink_for(drive, tmp_path)
    sink.close(REPORT)
    assert drive.received == before
    assert drive.paths == session


TROUBLES: dict[str, list[Any]] = {
    "busy": [503, 500, "ok", 502],
    "half a chunk arrives": ["ok", "half"],
    "the answer is lost": ["break", "break"],
    "the upload is forgotten": ["ok", "forget"],
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_uploads_survive(drive: FakeDrive, session: dict[str, bytes], tmp_path: Path, trouble: str) -> None:
    drive.trouble = list(TROUBLES[trouble])
    sink = sink_for(drive, tmp_path)
    patiently(lambda: sink.close(REPORT))
    assert drive.paths == session
    lost = UNIT * 2 if trouble == "the upload is forgotten" else 0
    assert drive.received <= sum(map(len, session.values())) + lost
    assert drive.trouble == []


def test_a_drive_that_stays_busy_is_left_for_later(
    drive: FakeDrive, session: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.sinks.gdrive.time.sleep", lambda _: None)
    drive.trouble = [503] * 5
    with pytest.raises(TryLater, match="503"):
        sink_for(drive, tmp_path).close(REPORT)
    patiently(lambda: sink_for(drive, tmp_path).close(REPORT))
    assert drive.paths == session


PROGRAM = """
import sys
from pathlib import Path
from service_sessions import build, make_record, make_report
from paceline.sinks.gdrive import DriveSink

url, key, place = sys.argv[1:]
options = {"drive_folder_id": "folder-of-the-team", "api_url": url, "chunk_bytes": 256 * 1024}
build(DriveSink, Path(place), options, {"GDRIVE_SERVICE_ACCOUNT": key}).close(make_report([make_record()]))
"""


@pytest.mark.parametrize("chunk", [1, 5])
def test_an_upload_goes_on_after_a_kill(drive: FakeDrive, tmp_path: Path, chunk: int) -> None:
    content = os.urandom(7 * UNIT + 5)
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "tasks.pkl").write_bytes(content)
    drive.hold_at_chunk = chunk
    command = [sys.executable, "-c", PROGRAM, drive.url, drive.key_file(), str(tmp_path)]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ) as uploader:
        assert drive.held.wait(30)
        uploader.send_signal(signal.SIGKILL)
    drive.go_on.set()
    assert drive.received == (chunk - 1) * UNIT
    sink_for(drive, tmp_path, chunk_bytes=UNIT).close(REPORT)
    assert drive.paths == {"night/tasks.pkl": content}
    assert drive.received == len(content)
    assert len(drive.uploads) == 1


def test_a_long_upload_goes_on_in_the_next_call(drive: FakeDrive, tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "tasks.pkl").write_bytes(b"x" * (4 * UNIT))
    sink = sink_for(drive, tmp_path, chunk_bytes=UNIT)
    sink.context.timeout_s = 0.0
    with pytest.raises(TryLater) as later:
        sink.close(REPORT)
    assert later.value.after_s == 0.0
    sink.context.timeout_s = 60.0
    sink.close(REPORT)
    assert drive.received == 4 * UNIT


def test_an_expired_token_is_renewed(drive: FakeDrive, session: dict[str, bytes], tmp_path: Path) -> None:
    sink = sink_for(drive, tmp_path)
    sink._folder("", "night", ROOT)
    drive.tokens = 7  # the one that the sink has is no longer good
    sink.close(REPORT)
    assert drive.paths == session and drive.tokens == 8


REFUSALS = {
    "use a folder of a shared drive": (_error(403, "storageQuotaExceeded"), Undeliverable),
    "check `drive_folder_id`": (_error(404, "notFound"), Undeliverable),
    "answered 403: because userRateLimitExceeded": (_error(403, "userRateLimitExceeded"), TryLater),
    "answered 429": (Reply(429, b"{}", {"Retry-After": "7"}), TryLater),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals_say_what_to_do(drive: FakeDrive, tmp_path: Path, text: str) -> None:
    reply, kind = REFUSALS[text]
    drive.refuse = [reply]
    with pytest.raises(kind, match=text) as refusal:
        sink_for(drive, tmp_path).close(REPORT)
    if isinstance(refusal.value, TryLater) and "429" in text:
        assert refusal.value.after_s == 7.0


def test_a_wrong_key_is_refused_without_showing_it(drive: FakeDrive, tmp_path: Path) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    data = {**json.loads(drive.key_file()), "private_key": other.decode()}
    file = tmp_path / "key.json"
    file.write_text(json.dumps(data))
    options = {"drive_folder_id": ROOT, "api_url": drive.url, "service_account_file": str(file)}
    with pytest.raises(Undeliverable, match=r"Google does not take .*: Invalid JWT Signature\.") as refusal:
        build(DriveSink, tmp_path, options).close(REPORT)
    assert other.decode()[40:80] not in str(refusal.value)


@pytest.mark.parametrize("text", ["planted-nonsense", '{"client_email": "planted"}', "[]"])
def test_a_key_file_of_another_kind_is_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(Undeliverable, match="no service account's key file") as refusal:
        build(DriveSink, tmp_path, {"drive_folder_id": ROOT}, {"GDRIVE_SERVICE_ACCOUNT": text})
    assert "planted" not in str(refusal.value)


def test_a_broken_private_key_is_said(drive: FakeDrive, tmp_path: Path) -> None:
    data = {**json.loads(drive.key_file()), "private_key": PRIVATE_PEM[:200]}
    sink = build(
        DriveSink,
        tmp_path,
        {"drive_folder_id": ROOT, "api_url": drive.url},
        {"GDRIVE_SERVICE_ACCOUNT": json.dumps(data)},
    )
    with pytest.raises(Undeliverable, match=r"private key .* cannot be read"):
        sink.close(REPORT)


def test_what_a_link_shows_is_not_uploaded(drive: FakeDrive, tmp_path: Path) -> None:
    night, kept, foreign = tmp_path / "night", tmp_path / "artifacts" / "night", tmp_path / "etc"
    for directory in (night / "sort", kept / "sort" / "logs", foreign):
        directory.mkdir(parents=True)
    (kept / "sort" / "logs" / "out.log").write_text("ours")
    (foreign / "passwd").write_text("not ours")
    (night / "sort" / "logs").symlink_to(kept / "sort" / "logs")
    (night / "sort" / "stdouterr.log").symlink_to("logs/out.log")
    (night / "sort" / "secret").symlink_to(foreign / "passwd")
    (night / "sort" / "etc").symlink_to(foreign)
    (night / "sort" / "gone").symlink_to("nowhere")
    (night / "circle").symlink_to(night)
    (kept / "sort" / "logs" / "circle").symlink_to(kept)
    (kept / "sort" / "logs" / "key").symlink_to(foreign / "passwd")
    os.mkfifo(night / "sort" / "pipe")
    sink = sink_for(drive, tmp_path)
    assert session_files(sink.context) == []
    sink.context.artifacts_dir = tmp_path / "artifacts"
    # What a session itself says of it may be anybody's word.
    sink.close(replace(REPORT, plan=replace(REPORT.plan, artifacts_dir=foreign)))
    assert drive.paths == {"night/sort/logs/out.log": b"ours"}


def test_secrets_are_masked_on_the_way_and_what_is_too_large_stays(drive: FakeDrive, tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "notes.txt").write_bytes(b"x" * (1 << 20) + b"planted-secret-1 end")
    with (tmp_path / "night" / "large.bin").open("wb") as file:
        file.truncate((50 << 20) + 1)
    sink = sink_for(drive, tmp_path)
    said: list[str] = []
    sink.context.say = said.append
    sink.context.redactor = lambda: Redactor(["planted-secret-1"])
    sink.close(REPORT)
    assert drive.paths == {"night/notes.txt": b"x" * (1 << 20) + b"*** end"}
    assert said[0] == "large.bin is left out: it is larger than 50 MiB"


def test_chunks_are_whole_units() -> None:
    with pytest.raises(ValueError, match="multiple of 262144"):
        DriveSink.Options(drive_folder_id="x", chunk_bytes=300_000)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DriveSink, "needs", ("no_such_package.auth", "gdrive"))
    with pytest.raises(MissingExtra, match=r"pip install 'paceline\[gdrive\]'"):
        check_extra(DriveSink)


def test_a_key_is_needed(tmp_path: Path) -> None:
    with pytest.raises(
        Undeliverable, match=r"set `service_account_file` .* or GDRIVE_SERVICE_ACCOUNT to its content"
    ):
        build(DriveSink, tmp_path, {"drive_folder_id": ROOT})

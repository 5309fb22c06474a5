"""A sink's settings on disk: variables by their names, and back; only for who wrote them, where they were written."""

import json
import os
import re
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.model import Plan, SinkSpec
from paceline.record.redact import Redactor
from paceline.sinks.specs import FOREIGN, StoredSpec, read_spec, read_specs, write_spec
from sink_bench import spec

ENVIRON = {"MY_TOKEN": "tok-123456", "PLACE": "host.example:99", "HOME": "/home/me"}
TEXTS = st.lists(
    st.sampled_from(["tok-123456", "host.example:99", "$", "${", "}", "$$", "MY_TOKEN", "é", "a b", "{x}"])
).map("".join)


def keep(directory: Path, sink: SinkSpec, secrets: tuple[str, ...] = ()) -> Path:
    values = ("tok-123456", "host.example:99", *secrets)
    plan = Plan(session=directory.name, directory=directory, secret_names=("PLACE",))
    write_spec(plan, "id-1", sink, Redactor(values), ENVIRON)
    return directory / ".outbox" / sink.name / "spec.json"


def read(
    directory: Path, environ: dict[str, str] = ENVIRON, name: str = "t", id_: str = "id-1"
) -> StoredSpec:
    return read_spec(directory, name, id_, environ)


@given(
    options=st.dictionaries(st.sampled_from(["a", "b"]), TEXTS | st.lists(TEXTS) | st.integers() | st.none())
)
def test_settings_come_back_as_they_were_and_hold_no_value(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, object]
) -> None:
    directory = tmp_path_factory.mktemp("spec")
    sink = SinkSpec(type="t", name="n", options=options, only=("failures",), wait_s=2.5)
    text = keep(directory, sink).read_text()
    assert "tok-123456" not in text and "host.example:99" not in text
    found = read(directory, name="n")
    assert found.spec == sink and found.is_own and not found.needs_config


def test_todays_value_of_a_variable_counts(tmp_path: Path) -> None:
    keep(tmp_path, spec("t", token="Bearer tok-123456"))
    assert read(tmp_path, {"MY_TOKEN": "new"}).spec.options == {"token": "Bearer new"}
    assert read(tmp_path, {}).spec.blocked == "environment variable MY_TOKEN is not set"


def test_a_secret_written_out_is_lost_and_that_is_said(tmp_path: Path) -> None:
    text = keep(tmp_path, spec("t", token="plain-secret"), secrets=("plain-secret",)).read_text()
    assert "plain-secret" not in text and json.loads(text)["lost"] is True
    found = read(tmp_path)
    assert found.needs_config and "give the configuration again with --config" in str(found.spec.blocked)


def is_foreign(found: StoredSpec) -> bool:
    assert found.is_own or found.spec.blocked == FOREIGN
    return not found.is_own and not found.config_files and not found.cwd


def test_nothing_but_the_settings_as_they_were_written_counts(tmp_path: Path) -> None:
    file = keep(tmp_path, spec("t", url="http://127.0.0.1:1/", memory_bytes=123))
    text = file.read_text()
    assert not is_foreign(read(tmp_path))
    changes = [
        *((re.escape('"type": "t"'), '"type": "os:system"'), (":1/", ":2/"), ("123", "124")),
        *(('"lost": false', '"lost": true'), (r'"cwd": "', '"cwd": "/x'), (r'"hmac": "\w', '"hmac": "_')),
        *(('"artifacts_dir": null', '"artifacts_dir": "/"'), (r'"hmac": "\w+"', '"hmac": ""'), (".$", "")),
    ]
    for pattern, other in changes:
        changed = re.sub(pattern, other, text, count=1)
        assert changed != text
        file.write_text(changed)
        assert is_foreign(read(tmp_path)), pattern
    file.write_text(text)
    assert not is_foreign(read(tmp_path))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"spec": 1}', "[" * 100_000, "\x00", '{"hmac": []}']
)
def test_what_cannot_be_read_is_somebody_elses(tmp_path: Path, text: str) -> None:
    keep(tmp_path, spec("t")).write_text(text)
    assert is_foreign(read(tmp_path))


def test_settings_count_in_their_session_and_directory_only(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    keep(here, spec("t"))
    assert is_foreign(read(here, id_="id-2"))
    shutil.copytree(here, there)
    assert is_foreign(read(there))
    shutil.copytree(here / ".outbox/t", here / ".outbox/other")
    found = read_specs(here, "id-1", ENVIRON)
    assert {name: one.is_own for name, one in found.items()} == {"t": True, "other": False}
    shutil.rmtree(there)
    here.rename(there)
    assert is_foreign(read(there))
    there.rename(here)
    assert not is_foreign(read(here))


def test_settings_of_another_user_or_without_a_key_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    monkeypatch.setenv("XDG_STATE_HOME", str(mine))
    session = tmp_path / "session"
    session.mkdir()
    keep(session, spec("t"))
    assert not is_foreign(read(session))
    monkeypatch.setenv("XDG_STATE_HOME", str(theirs))
    assert is_foreign(read(session))
    keys = [home / "paceline/outbox.key" for home in (mine, theirs)]
    assert keys[0].read_bytes() != keys[1].read_bytes()
    monkeypatch.setenv("XDG_STATE_HOME", str(mine))
    assert not is_foreign(read(session))
    keys[0].unlink()
    assert is_foreign(read(session))
    assert is_foreign(read(session)), "the key that was made instead signs nothing that is there"
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # No key can be kept: sent now, not later.
    keep(session, spec("t"))
    assert is_foreign(read(session))


def test_a_key_that_others_could_read_or_that_is_a_link_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keep(tmp_path, spec("t"))
    key = tmp_path / "paceline/outbox.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    key.chmod(0o644)
    assert is_foreign(read(tmp_path))
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    keep(tmp_path, spec("t"))
    assert not is_foreign(read(tmp_path))
    key.rename(tmp_path / "moved")
    key.symlink_to(tmp_path / "moved")
    assert is_foreign(read(tmp_path))


def test_what_a_sink_noted_goes_if_somebody_else_may_have_made_it(tmp_path: Path) -> None:
    file = keep(tmp_path, spec("t"))
    note = file.parent / "state/notebook.jsonl"
    note.parent.mkdir()
    note.write_text("{}\n")
    keep(tmp_path, spec("t"))
    assert note.exists()
    file.unlink()
    keep(tmp_path, spec("t"))
    assert not note.parent.exists()
    assert '"again"' in (file.parent / "ledger.jsonl").read_text()


def test_notes_that_stay_are_followed_by_no_settings(tmp_path: Path) -> None:
    state = tmp_path / ".outbox/t/state"
    state.parent.mkdir(parents=True)
    state.symlink_to(tmp_path)
    keep(tmp_path, spec("t"))
    assert not state.is_symlink() and not is_foreign(read(tmp_path))
    (state.parent / "spec.json").unlink()
    state.write_text("in the way")
    with pytest.raises(OSError, match="cannot be removed"):
        keep(tmp_path, spec("t"))
    assert is_foreign(read(tmp_path))


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_settings_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        file = keep(tmp_path, spec("t"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

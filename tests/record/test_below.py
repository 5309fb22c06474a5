"""Files of a directory that somebody else made."""

import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.record import below
from paceline.record.below import Refused
from paceline.record.files import JsonLines

BAD_NAMES = [
    "",
    ".",
    "..",
    "a/..",
    "../a",
    "/etc/passwd",
    "a//b",
    "a/",
    "a\nb",
    "a\x1b[2J",
    "a\0b",
    "x" * 256,
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("mine")
    inside = tmp_path / "results"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "b" / "file").write_bytes(b"text")
    return inside


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_not_one_is_refused(root: Path, name: str) -> None:
    for call in (below.read, below.open_below, below.make_dir, below.remove, below.remove_tree):
        if call is below.remove_tree:
            continue  # It says whether something is gone, and nothing of that name is there.
        with pytest.raises(OSError):
            call(root, name)
    with pytest.raises(Refused):
        below.write(root, name, b"x")
    assert below.status(root, name) is None


@given(st.text(max_size=40))
def test_no_name_leads_outside(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    top = tmp_path_factory.mktemp("top")
    (top / "root").mkdir()
    try:
        below.write(top / "root", name, b"x", durable=False)
    except OSError:
        assert [path for path in top.rglob("*") if path.is_file()] == []
    else:
        assert below.read(top / "root", name) == b"x"
        assert all(path.is_relative_to(top / "root") for path in top.rglob("*") if path.is_file())


def test_links_are_not_followed_anywhere(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "key").symlink_to(tmp_path / "secret" / "key")
    (root / "a" / "near").symlink_to("b")
    for name in ("out/key", "key", "a/near/file"):
        with pytest.raises(Refused, match="refused"):
            below.read(root, name)
    with pytest.raises(Refused, match="out is a link"):
        below.write(root, "out/new", b"x")
    with pytest.raises(Refused, match="regular"):
        below.open_below(root, "key", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    with pytest.raises(Refused):
        below.make_dir(root, "out")
    with pytest.raises(OSError, match="link"):
        below.rename(root, "a/b/file", "out/file")
    assert below.names(root, "out") == []
    assert [entry.name for entry in below.walk(root)] == ["a/b/file"]
    assert below.remove_tree(root, "out")
    assert (tmp_path / "secret" / "key").read_text() == "mine"
    assert sorted(path.name for path in (tmp_path / "secret").iterdir()) == ["key"]


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert below.read(tmp_path / "alias", "a/b/file") == b"text"


def test_pipes_sockets_and_devices_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "socket"))
    began = time.monotonic()
    for name in ("pipe", "socket"):
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND):
            with pytest.raises(OSError):
                below.open_below(root, name, flags)
    server.close()
    assert time.monotonic() - began < 60  # It would wait forever for a writer.
    with pytest.raises(Refused, match="not a regular file"):
        below.read("/dev", "zero")
    with pytest.raises(Refused, match="not a regular file"):
        below.read(root, "a")


def test_sizes_and_counts_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="larger than 3 bytes"):
        below.read(root, "a/b/file", limit=3)
    assert below.read(root, "a/b/file", limit=4) == b"text"
    assert below.read_end(root, "a/b/file", 2) == b"xt"
    with pytest.raises(Refused, match="more than 2 files"):
        list(below.walk(root, most=2))
    monkeypatch.setattr(below, "MAX_NAMES", 1)
    (root / "other").touch()
    with pytest.raises(Refused, match="more than 1 names"):
        below.names(root)


def test_a_file_is_written_whole_or_not_at_all(root: Path) -> None:
    below.write(root, "new/deep/file", [b"1", b"2"], mode=0o600)
    assert below.read(root, "new/deep/file") == b"12"
    assert stat.S_IMODE((root / "new/deep/file").stat().st_mode) == 0o600

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        below.write(root, "new/deep/file", broken())
    assert below.read(root, "new/deep/file") == b"12"
    assert below.names(root, "new/deep") == ["file"]


def test_a_link_is_replaced_by_a_written_file(root: Path, tmp_path: Path) -> None:
    (root / "report").symlink_to(tmp_path / "secret" / "key")
    below.write(root, "report", b"x")
    assert (root / "report").is_file()
    assert not (root / "report").is_symlink()
    assert (tmp_path / "secret" / "key").read_text() == "mine"


def test_moving_linking_removing(root: Path, tmp_path: Path) -> None:
    below.rename(root, "a/b/file", "a/attempts/file")
    assert below.is_file(root, "a/attempts/file")
    below.link(root, "latest", "a/attempts/file")
    below.link(root, "latest", "a")
    assert (root / "latest").readlink() == Path("a")
    with pytest.raises(Refused, match="not a link"):
        below.link(root, "a/attempts/file", "b")
    (root / "a" / "trap").symlink_to(tmp_path / "secret")
    assert below.remove_tree(root, "a")
    below.remove(root, "latest")
    below.remove(root, "latest")
    assert below.names(root) == []
    assert (tmp_path / "secret" / "key").exists()


def test_what_a_killed_writer_left_is_removed(root: Path) -> None:
    (root / f".tmp-{below.RUNNER}-1-0").touch()
    below.remove_temporary_files(root)
    assert below.names(root) == ["a"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_private_directory_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        for name in ("new", "there"):
            below.make_private_dir(tmp_path, name)
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "there").chmod(0o755)
    with pytest.raises(below.Refused):
        below.make_private_dir(tmp_path, "link")
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o755


def test_a_root_that_may_not_be_read_is_not_an_empty_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(root))

    assert below.names(root / "gone") == below.names(root / "a/b/file") == []
    monkeypatch.setattr(os, "open", refuse)  # For root there is no such directory.
    with pytest.raises(PermissionError):
        below.names(root)


def test_a_durable_write_puts_every_name_on_the_way_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        synced.append(
            str(Path(f"/proc/self/fd/{fd}").readlink()).removeprefix(str(tmp_path)).partition(".tmp")[0]
        )
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    below.write(tmp_path, "a/b/file", b"x")
    assert synced == ["/a/b/", "/a/b", "/a", ""]
    synced.clear()
    below.write(tmp_path, "a/b/file", b"x", durable=False)
    assert synced == []
    with JsonLines(tmp_path / "c/lines", root=tmp_path, durable=True) as lines:
        lines.append({})
        lines.append({})
    assert synced == ["/c", "", "/c/lines", "/c/lines"]
    synced.clear()
    with JsonLines(tmp_path / "c/lines", root=tmp_path, durable=True) as lines:
        lines.append({})
    assert synced == ["/c/lines"]

"""Which files of a case go into its archive, and what is put down of an archive that others made."""

import gzip
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from paceline.model import Record, Status
from paceline.record import codec
from paceline.record.directory import restore_links
from paceline.record.remote.archive import UnsafeName, entry_files, entry_of, pack, unpack
from paceline.record.remote.object_store import StoreError
from record.store_machines import make_case


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.fsencode(name))


def files(entry: Path, artifacts: Path | None = None) -> set[str]:
    return {name for name, _, _ in entry_files(entry, artifacts)}


def packed(entry: Path, artifacts: Path | None = None) -> Path:
    with (entry.parent / f"{entry.name}.tar.gz").open("wb") as target:
        pack(entry, artifacts, target)
    return Path(target.name)


def record_of(attempt: int) -> bytes:
    return codec.dump(
        codec.to_json(Record(session="s", case=make_case("e"), attempt=attempt, status=Status.PASSED))
    )


class TestWhatIsPacked:
    def test_scratch_and_unfinished_files_stay(self, tmp_path: Path) -> None:
        make(tmp_path, "record.json", "scratch/big", "attempts/repeat-1/scratch/big", "logs/.tmp-1")
        make(
            tmp_path,
            "attempts/attempt-1/attempts/repeat-1/scratch/big",
            "output/scratch/mine",
            "logs/stdout.log",
        )
        assert files(tmp_path) == {"record.json", "logs/stdout.log", "output/scratch/mine"}

    def test_links(self, tmp_path: Path) -> None:
        entry, artifacts, elsewhere = tmp_path / "s/e", tmp_path / "large/s", tmp_path / "elsewhere"
        make(entry, "record.json", "deep/data", "attempts/repeat-1/benchmark_results/metrics.json")
        make(artifacts, "e/logs/stdouterr.log", "e/scratch/big")
        make(elsewhere, "secret", "huge/data")
        links = {
            "logs": artifacts / "e/logs",
            "scratch": artifacts / "e/scratch",
            "stdouterr.log": Path("logs/stdouterr.log"),
            "benchmark_results": Path("attempts/repeat-1/benchmark_results"),
            "same": Path("deep/data"),
            "secret": elsewhere / "secret",
            "input": elsewhere / "huge",
            "nowhere": Path("gone"),
            "loop": Path("loop"),
            "up": Path(".."),
        }
        for name, target in links.items():
            (entry / name).symlink_to(target)
        (artifacts / "e/logs/passwd").symlink_to("/etc/passwd")
        expected = {"record.json", "deep/data", "attempts/repeat-1/benchmark_results/metrics.json", "same"}
        assert files(entry, artifacts / "e") == {*expected, "logs/stdouterr.log"}
        assert files(entry) == expected

    def test_pipes_and_sockets_are_no_files(self, tmp_path: Path) -> None:
        make(tmp_path, "record.json")
        os.mkfifo(tmp_path / "pipe")
        assert files(tmp_path) == {"record.json"}

    def test_names_that_would_be_refused_are_left_out(self, tmp_path: Path) -> None:
        make(tmp_path, "record.json", "two\nlines", "dir\x1b[31m/file", "sort[n=10,k=ü] 100%&=#?*.txt")
        assert files(tmp_path) == {"record.json", "sort[n=10,k=ü] 100%&=#?*.txt"}

    def test_nobody_learns_who_packed_it(self, tmp_path: Path) -> None:
        make(tmp_path / "e", "record.json")
        with tarfile.open(packed(tmp_path / "e")) as archive:
            (member,) = archive.getmembers()
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")


class TestWhatIsPutDown:
    def test_all_that_was_packed(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one/e", tmp_path / "two/e"
        make(one, "logs/stdouterr.log", "deep/er/data", "attempts/attempt-1/logs/a", "odd \udce9 name")
        os.link(one / "deep/er/data", one / "same")
        (one / "large").write_bytes(bytes(3 << 20))
        (one / "record.json").write_bytes(record_of(1))
        unpack(packed(one), two, None)
        assert {name: (root / inner).read_bytes() for name, root, inner in entry_files(two, None)} == {
            name: (root / inner).read_bytes() for name, root, inner in entry_files(one, None)
        }

    def test_nothing_that_is_here_is_overwritten(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one/e", tmp_path / "two/e"
        make(one, "data", "more")
        two.mkdir(parents=True)
        (two / "data").write_text("mine")
        unpack(packed(one), two, None)
        assert ((two / "data").read_text(), (two / "more").read_text()) == ("mine", "more")

    @pytest.mark.parametrize(("here", "there", "left"), [(1, 2, 2), (2, 1, 2), (0, 1, 1)])
    def test_the_later_record_counts(self, tmp_path: Path, here: int, there: int, left: int) -> None:
        one, two = tmp_path / "one/e", tmp_path / "two/e"
        for path, attempt in ((one, there), (two, here)):
            path.mkdir(parents=True)
            if attempt:
                (path / "record.json").write_bytes(record_of(attempt))
        unpack(packed(one), two, None)
        assert codec.from_json(codec.load((two / "record.json").read_bytes())).attempt == left

    def test_a_link_of_ours_into_the_artifacts_is_followed(self, tmp_path: Path) -> None:
        one, two, artifacts = tmp_path / "one/e", tmp_path / "two/e", tmp_path / "large"
        make(one, "logs/stdouterr.log")
        two.mkdir(parents=True)
        (two / "logs").symlink_to(artifacts / "e/logs")  # Where somebody has cleaned up.
        unpack(packed(one), two, artifacts / "e")
        assert (artifacts / "e/logs/stdouterr.log").read_text() == "logs/stdouterr.log"

    def test_other_links_are_not_followed(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one/e", tmp_path / "two/e"
        make(one, "x/file")
        make(tmp_path / "elsewhere", "other")
        two.mkdir(parents=True)
        (two / "x").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(UnsafeName, match="'x/file'"):
            unpack(packed(one), two, None)
        assert not (tmp_path / "elsewhere/file").exists()

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("../x", tarfile.REGTYPE),
            ("/tmp/x", tarfile.REGTYPE),
            ("a/../../x", tarfile.REGTYPE),
            ("a//x", tarfile.REGTYPE),
            ("a\nb", tarfile.REGTYPE),
            ("link", tarfile.SYMTYPE),
            ("hard", tarfile.LNKTYPE),
            ("device", tarfile.CHRTYPE),
            ("pipe", tarfile.FIFOTYPE),
            ("directory", tarfile.DIRTYPE),
        ],
    )
    def test_members_that_are_refused_by_name(self, tmp_path: Path, name: str, kind: bytes) -> None:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = (
                kind,
                "/etc/passwd",
                4 if kind == tarfile.REGTYPE else 0,
            )
            archive.addfile(member, io.BytesIO(b"evil"))
        (tmp_path / "a.tar.gz").write_bytes(data.getvalue())
        with pytest.raises(UnsafeName) as caught:
            unpack(tmp_path / "a.tar.gz", tmp_path / "s/e", None)
        assert repr(name) in str(caught.value) and "refused" in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]

    @pytest.mark.parametrize("keep", [0, 10, 200])
    def test_a_damaged_archive_is_an_error_in_one_line(self, tmp_path: Path, keep: int) -> None:
        (tmp_path / "e").mkdir()
        (tmp_path / "e/noise").write_bytes(os.urandom(1 << 16))
        archive = packed(tmp_path / "e")
        archive.write_bytes(archive.read_bytes()[:keep])
        with pytest.raises(StoreError, match=r"^the archive of new is damaged: [^\n]*$"):
            unpack(archive, tmp_path / "new", None)
        archive.write_bytes(gzip.compress(b"not an archive" * 100))
        with pytest.raises(StoreError, match="is damaged"):
            unpack(archive, tmp_path / "new", None)

    def test_files_are_ordinary_ones(self, tmp_path: Path) -> None:
        make(tmp_path / "one/e", "tool")
        (tmp_path / "one/e/tool").chmod(0o4755)
        unpack(packed(tmp_path / "one/e"), tmp_path / "two/e", None)
        assert not (tmp_path / "two/e/tool").stat().st_mode & (stat.S_ISUID | stat.S_IXUSR)


def test_names() -> None:
    names = ("plan.json", "a/record.json", "data_setup/a/x/y", "data_setup/a")
    assert [entry_of(name) for name in names] == ["", "a", "data_setup/a", ""]


def test_links_are_made_again(tmp_path: Path) -> None:
    make(tmp_path / "one", "logs/stdouterr.log")
    labels = ("warmup-1", "repeat-2", "repeat-10")
    make(tmp_path / "many", *(f"attempts/{label}/logs/stdouterr.log" for label in labels))
    make(tmp_path / "many", *(f"attempts/{label}/benchmark_results/metrics.json" for label in labels))
    for entry in ("one", "many"):
        restore_links(tmp_path, entry)
        restore_links(tmp_path, entry)
    assert (tmp_path / "one/stdouterr.log").readlink() == Path("logs/stdouterr.log")
    latest = Path("attempts/repeat-10")
    assert (tmp_path / "many/stdouterr.log").readlink() == latest / "logs/stdouterr.log"
    assert (tmp_path / "many/benchmark_results").readlink() == latest / "benchmark_results"


@pytest.mark.parametrize("at", [10, -6], ids=["its data", "its checksum"])
def test_a_damaged_archive_is_said(tmp_path: Path, at: int) -> None:
    member = tarfile.TarInfo("big")
    member.size = 512 * 1000
    # Without the blocks that end an archive, so that the reader comes to the checksum.
    data = bytearray(gzip.compress(member.tobuf() + b"".join(b"%07d\n" % number for number in range(64_000))))
    data[at : at + 4] = b"\xff" * 4
    (tmp_path / "packed").write_bytes(data)
    with pytest.raises(StoreError, match="the archive of there is damaged"):
        unpack(tmp_path / "packed", tmp_path / "there", None)


def test_a_file_where_a_directory_should_be_is_said(tmp_path: Path) -> None:
    make(tmp_path / "e", "logs/stdout.log")
    make(tmp_path / "there", "logs")
    with pytest.raises(StoreError, match="the archive of there is not unpacked: Not a directory"):
        unpack(packed(tmp_path / "e"), tmp_path / "there", None)

"""What comes home from a node: everything, masked where it is ours to mask, and nothing outside of its directory."""

import os
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.record.redact import Redactor
from paceline.run.ray.shipping import LiveLog, Piece, new_output, pieces_of, put_down

NAMES = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8
)


def at(home: Path, name: str) -> tuple[Path, str]:
    return home, name


def file(name: str, data: bytes = b"x") -> Piece:
    return Piece(name=name, mode=0o644, data=data)


@given(
    st.dictionaries(NAMES.filter(lambda name: name not in (".", "..")), st.binary(max_size=100), max_size=5)
)
def test_files_come_home_as_they_were(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as home:
        (Path(there) / "inner").mkdir()
        for name, content in files.items():
            (Path(there) / "inner" / name).write_bytes(content)
        assert put_down(pieces_of(there), partial(at, Path(home)), Redactor()) == []
        assert {path.name: path.read_bytes() for path in (Path(home) / "inner").iterdir()} == files


def test_links_modes_and_large_files_come_home(tmp_path: Path) -> None:
    there, home = tmp_path / "there", tmp_path / "home"
    (there / "attempts/repeat-1/logs").mkdir(parents=True)
    home.mkdir()
    (there / "stdouterr.log").symlink_to("attempts/repeat-1/logs/stdouterr.log")
    (there / "attempts/repeat-1/logs/stdouterr.log").write_text("said")
    content = os.urandom(5 << 20)
    (there / "large").write_bytes(content)
    (there / "large").chmod(0o755)
    os.mkfifo(there / "pipe")
    os.link(there / "large", there / "same")
    assert put_down(pieces_of(str(there)), partial(at, home), Redactor()) == []
    assert (home / "stdouterr.log").read_text() == "said"
    assert (home / "large").read_bytes() == (home / "same").read_bytes() == content
    assert os.access(home / "large", os.X_OK) and not (home / "pipe").exists()


def test_logs_are_masked_and_results_are_not(tmp_path: Path) -> None:
    there, home = tmp_path / "there", tmp_path / "home"
    for name in ("logs", "ray_cluster/logs", "benchmark_results"):
        (there / name).mkdir(parents=True)
        (there / name / "text").write_text("the word is open-sesame")
    home.mkdir()
    assert put_down(pieces_of(str(there)), partial(at, home), Redactor(["open-sesame"])) == []
    assert (
        (home / "logs/text").read_text() == (home / "ray_cluster/logs/text").read_text() == "the word is ***"
    )
    assert (home / "benchmark_results/text").read_text() == "the word is open-sesame"


@pytest.mark.parametrize(
    "pieces",
    [
        [file("../evil")],
        [file("a/../../evil")],
        [file("/tmp/evil-of-a-test")],
        [Piece(name="up", link=".."), file("up/evil")],
        [Piece(name="away", link="/"), file("away/evil")],
        [
            Piece(name="a"),
            Piece(name="a/here", link=".."),
            Piece(name="a/here/up", link="../.."),
            file("a/here/up/evil"),
        ],
        [
            Piece(name="a"),
            Piece(name="a/b"),
            Piece(name="a/b/top", link="../.."),
            Piece(name="z", link="a/b/top/../.."),
            file("z/evil"),
        ],
        [file("a\x1b]52;c;evil\x07")],
    ],
)
def test_nothing_lands_outside(tmp_path: Path, pieces: list[Piece]) -> None:
    """As a hostile node might send it."""
    home = tmp_path / "home"
    home.mkdir()
    left = put_down([*pieces, file("good", b"y")], partial(at, home), Redactor())
    assert left
    assert (home / "good").read_bytes() == b"y"
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(home)}
    assert outside == set() and not Path("/tmp/evil-of-a-test").exists()


def test_a_name_that_comes_twice_is_written_in_place_of_the_first(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True)
    twice = [Piece(name="one", link="inner/two"), file("other"), file("one", b"y"), file("one", b"z")]
    assert put_down(twice, partial(at, home), Redactor()) == []
    assert (home / "one").read_bytes() == b"yz" and not (home / "inner/two").exists()


def test_our_own_files_are_not_taken_from_a_node(tmp_path: Path) -> None:
    pieces = [file(name, b"{}") for name in ("record.json", "results.jsonl", "other")]
    assert put_down(pieces, partial(at, tmp_path), Redactor()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_what_is_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    pieces = [file("logs"), file("fine", b"y")]
    assert put_down(pieces, partial(at, tmp_path), Redactor()) == ["logs (Is a directory)"]
    assert (tmp_path / "fine").read_bytes() == b"y"


def test_live_output_is_masked_across_pieces_and_kept(tmp_path: Path) -> None:
    there, home = tmp_path / "there", tmp_path / "home"
    (there / "logs").mkdir(parents=True)
    home.mkdir()
    log = LiveLog(partial(at, home), Redactor(["open-sesame"]))
    for text in ("begin\nopen-", "sesame\n", "50%\r100%\n"):
        with (there / "logs/stdouterr.log").open("a") as file:
            file.write(text)
        for name, chunk in new_output(there, log.seen, 1 << 20).items():
            log.add(name, chunk)
    assert new_output(there, log.seen, 1 << 20) == {}
    assert (home / "logs/stdouterr.log").read_bytes() == b"begin\n***\n50%\r100%\n"
    assert log.tail(3) == ["begin", "***", "100%"] and log.tail(0) == []

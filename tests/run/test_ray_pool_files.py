"""What is copied to nodes: which directories of a case, how much of them, and how its texts follow."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.model import RUN_DIR, Case
from paceline.run.ray.shipping import TooMuch, find_roots, mover, pack, relocated, sees
from paceline.run.ray.slots import extract


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in (
        "scripts/run.py",
        "scripts/lib/part.py",
        "data/rows.txt",
        ".git/config",
        "results/old/record.json",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "empty").mkdir()
    (root / "scripts/run.py").chmod(0o755)
    (root / "scripts/latest.py").symlink_to("run.py")
    (root / "outside").symlink_to("/etc")
    return root


def case_of(root: Path, **more: object) -> Case:
    script = str(root / "scripts/run.py")
    return Case(name="c", entry="c", key="c", script=script, argv=("python", script), **more)  # type: ignore[arg-type]


def test_the_script_and_the_working_directory_are_wanted(tree: Path) -> None:
    session_dir = tree / "results/s"
    apart = find_roots(case_of(tree), str(tree / "data"), session_dir)
    assert sorted(root.path for root in apart) == [str(tree / "data"), str(tree / "scripts")]
    within = find_roots(case_of(tree), str(tree), session_dir)
    assert [root.path for root in within] == [str(tree)]
    assert within[0].script is not None and within[0].script[0].endswith("run.py")
    in_run_dir = find_roots(case_of(tree), f"{RUN_DIR}/scratch", session_dir)
    assert [root.path for root in in_run_dir] == [str(tree / "scripts")]


def test_what_other_cases_made_is_wanted_too(tree: Path) -> None:
    session_dir = tree / "results/s"
    made = [session_dir / "makes", session_dir / "data_setup/get"]
    for path in made:
        path.mkdir(parents=True)
    case = Case(
        name="c",
        entry="c",
        key="c",
        argv=("cat", f"{made[0]}/out.txt", f"--from={made[1]}", f"{session_dir}/absent/x"),
    )
    roots = [root.path for root in find_roots(case, str(tree), session_dir)]
    assert sorted(roots) == sorted([str(tree), *map(str, made)])


def test_a_copy_has_all_but_what_tools_and_sessions_made(tree: Path, tmp_path: Path) -> None:
    archive = pack(str(tree), limit_bytes=10_000, exclude=["rows.*"], leave_out=[tree / "results"])
    extract(archive, tmp_path / "copy")
    copied = sorted(str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*"))
    assert copied == [
        "data",
        "empty",
        "scripts",
        "scripts/latest.py",
        "scripts/lib",
        "scripts/lib/part.py",
        "scripts/run.py",
    ]
    assert os.access(tmp_path / "copy/scripts/run.py", os.X_OK)
    assert (tmp_path / "copy/scripts/latest.py").readlink() == Path("run.py")


def test_too_much_is_refused_with_where_it_lies(tree: Path) -> None:
    (tree / "data/large.bin").write_bytes(bytes(2 << 20))
    with pytest.raises(TooMuch, match=r"more than 1 MiB .* most of it in data: .*`pool.exclude`"):
        pack(str(tree), limit_bytes=1 << 20)


def test_a_node_sees_a_directory_only_with_marker_and_unchanged_script(tree: Path, tmp_path: Path) -> None:
    (root,) = find_roots(case_of(tree), str(tree), tmp_path / "results/s")
    marker = tmp_path / "marker"
    assert not sees(root, str(marker))
    marker.touch()
    assert sees(root, str(marker))
    assert not sees(replace(root, inode=root.inode + 1), str(marker)), "another directory of that name"
    (tree / "scripts/run.py").write_text("changed since")
    assert not sees(root, str(marker))


def test_texts_follow_their_directories() -> None:
    move = mover(
        {"/home/me/suite": "/tmp/copy", "/home/me/suite/data": "/tmp/data", "/usr/bin/python": "/opt/py"}
    )
    assert move("/home/me/suite/run.py") == "/tmp/copy/run.py"
    assert move("--input=/home/me/suite/data/x,/home/me/suite") == "--input=/tmp/data/x,/tmp/copy"
    assert move("/usr/bin/python") == "/opt/py"
    assert (
        move("/usr/bin/python3 /home/me/suites /x/home/me/suite")
        == "/usr/bin/python3 /home/me/suites /x/home/me/suite"
    )
    case = Case(
        name="c",
        entry="c",
        key="c",
        argv=("/usr/bin/python", "/home/me/suite/run.py"),
        env={"PYTHONPATH": "/home/me/suite:/else"},
        cwd="/home/me/suite",
    )
    moved = relocated(case, {"/home/me/suite": "/tmp/copy"})
    assert moved.argv == ("/usr/bin/python", "/tmp/copy/run.py")
    assert moved.env == {"PYTHONPATH": "/tmp/copy:/else"} and moved.cwd == "/tmp/copy"
    assert relocated(case, {}) is case


@given(st.text(alphabet="ab/ :", max_size=20))
def test_texts_without_a_known_directory_stay(text: str) -> None:
    assert mover({"/home/me": "/tmp"})(text) == text

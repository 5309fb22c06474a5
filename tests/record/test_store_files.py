"""Which files of a session go to an object store, and in which order."""

import os
from pathlib import Path

from paceline.record.remote.files import (
    complete_entries,
    entry_files,
    entry_of,
    is_record,
    restore_links,
    session_files,
)


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_scratch_and_unfinished_files_stay(tmp_path: Path) -> None:
    make(
        tmp_path,
        "record.json",
        "scratch/big",
        "attempts/repeat-1/scratch/big",
        "logs/.tmp-1",
        "logs/stdout.log",
    )
    make(tmp_path, "attempts/attempt-1/attempts/repeat-1/scratch/big", "output/scratch/mine")
    assert set(entry_files(tmp_path)) == {"record.json", "logs/stdout.log", "output/scratch/mine"}


def test_a_record_comes_after_what_belongs_to_it(tmp_path: Path) -> None:
    make(tmp_path, "record.json", "z", "attempts/repeat-1/logs/a", "attempts/attempt-1/record.json")
    make(tmp_path, "attempts/attempt-1/z", "attempts/attempt-2/a")
    assert list(entry_files(tmp_path)) == [
        "attempts/attempt-1/z",
        "attempts/attempt-2/a",
        "attempts/attempt-1/record.json",
        "attempts/repeat-1/logs/a",
        "z",
        "record.json",
    ]


def test_links(tmp_path: Path) -> None:
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
    assert set(entry_files(entry, artifacts)) == {
        "record.json",
        "deep/data",
        "attempts/repeat-1/benchmark_results/metrics.json",
        "logs/stdouterr.log",
        "same",
    }
    assert "logs/stdouterr.log" not in entry_files(entry)


def test_pipes_and_sockets_are_no_files(tmp_path: Path) -> None:
    make(tmp_path, "record.json")
    os.mkfifo(tmp_path / "pipe")
    assert set(entry_files(tmp_path)) == {"record.json"}


def test_the_session_itself(tmp_path: Path) -> None:
    make(tmp_path, "plan.json", "events.jsonl", ".lock", ".reserve", ".sent.jsonl", ".tmp-1")
    make(tmp_path, "a/record.json", "b/logs/stdout.log", "data_setup/c/record.json", "data_setup/d/x")
    assert set(session_files(tmp_path)) == {"plan.json", "events.jsonl"}
    assert complete_entries(tmp_path) == ["a", "data_setup/c"]


def test_names() -> None:
    assert [
        entry_of(name) for name in ("plan.json", "a/record.json", "data_setup/a/x/y", "data_setup/a")
    ] == [
        "",
        "a",
        "data_setup/a",
        "",
    ]
    assert is_record("a/record.json") and is_record("data_setup/a/record.json")
    assert not is_record("a/attempts/attempt-1/record.json") and not is_record("record.json")


def test_links_are_made_again(tmp_path: Path) -> None:
    make(tmp_path / "one", "logs/stdouterr.log")
    labels = ("warmup-1", "repeat-2", "repeat-10")
    make(tmp_path / "many", *(f"attempts/{label}/logs/stdouterr.log" for label in labels))
    make(tmp_path / "many", *(f"attempts/{label}/benchmark_results/metrics.json" for label in labels))
    for entry in ("one", "many"):
        restore_links(tmp_path / entry)
        restore_links(tmp_path / entry)
    assert (tmp_path / "one/stdouterr.log").readlink() == Path("logs/stdouterr.log")
    latest = Path("attempts/repeat-10")
    assert (tmp_path / "many/stdouterr.log").readlink() == latest / "logs/stdouterr.log"
    assert (tmp_path / "many/benchmark_results").readlink() == latest / "benchmark_results"

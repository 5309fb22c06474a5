"""`paceline mounts`: a directory is mounted where the suite will look for it in the container."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from in_process import Here, make_here
from paceline.cli.mounts import IMAGE_ENVIRON
from paceline.config import paths

ENTRY = "entries:\n  - name: one\n    command: [cat, '{data}']\n"
PLAIN = "entries:\n  - name: one\n    command: ['true']\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """A host: outside of any container, with a home and an empty history."""
    monkeypatch.setattr(paths, "MARKERS", ())
    monkeypatch.delenv("container", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    return make_here(tmp_path / "work", monkeypatch, capsys)


def needs(here: Here, suite: str, *words: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    (here.path / "suite.yaml").write_text(suite)
    done = here.run("mounts", "--json", *options, "suite.yaml", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fault(here: Here, suite: str, *words: str) -> str:
    (here.path / "suite.yaml").write_text(suite)
    done = here.run("mounts", *words, "suite.yaml")
    assert done.returncode == 2
    return done.stderr


def targets(found: dict[str, Any]) -> dict[str, str]:
    return {one["target"]: one["source"] for one in found["mounts"]}


@pytest.mark.parametrize(
    ("written", "source", "target"),
    [
        ("host_path: '~/data'", "home/data", "/home/paceline/data"),
        ("host_path: '${HOME}/data'", "home/data", "/home/paceline/data"),
        ("host_path: '${SETS}/data'", "home/data", "home/data"),
        ("host_path: '~/data', container_path: /data", "home/data", "/data"),
        ("host_path: '~/data', container_path: '${SETS:-/none}/in'", "home/data", "home/in"),
        ("host_path: ../home/data", "home/data", "home/data"),
    ],
)
def test_a_path_lies_where_the_suite_finds_it_inside(
    here: Here, monkeypatch: pytest.MonkeyPatch, written: str, source: str, target: str
) -> None:
    top = here.path.parent
    monkeypatch.setenv("SETS", str(top / "home"))
    suite = f"paths:\n  - {{name: data, {written}}}\n{ENTRY}"
    expected = target if target.startswith("/") else str(top / target)
    found = needs(here, suite)
    assert targets(found)[expected] == str(top / source)
    # The same suite, planned with what the container has: it must come to the same path.
    for name in ("HOME", "SETS"):
        monkeypatch.delenv(name)
    for name in found["variables"]:
        monkeypatch.setenv(name, str(top / "home"))
    for name, value in IMAGE_ENVIRON.items():
        monkeypatch.setenv(name, value)
    plan = json.loads(here.run("plan", "--json", "suite.yaml").stdout)
    assert os.path.normpath(here.path / plan["cases"][0]["argv"][1]) == expected


def test_results_artifacts_and_history_are_kept_on_the_host(here: Here) -> None:
    found = needs(here, f"results_dir: ~/r\nartifacts_dir: '{{results_dir}}/a'\n{PLAIN}")
    home = here.path.parent / "home"
    mounts = {one["source"]: (one["target"], one["writable"]) for one in found["mounts"]}
    assert mounts[str(home / "r")] == ("/home/paceline/r", True)
    assert str(home / "r" / "a") not in mounts  # it lies in the results
    assert mounts[str(here.path)] == (str(here.path), False)
    assert found["settings"] == {"PACELINE_DB": "/home/paceline/r/benchmark.db"}
    assert not (home / "r").exists()


def test_a_results_path_is_mounted_once(here: Here) -> None:
    suite = f"paths:\n  - {{name: results_path, host_path: ~/out, container_path: /out}}\n{PLAIN}"
    found = needs(here, suite)
    assert targets(found) == {"/out": str(here.path.parent / "home/out"), str(here.path): str(here.path)}
    assert found["settings"] == {"PACELINE_DB": "/out/benchmark.db"}


@pytest.mark.parametrize(
    ("words", "extra", "mounted"),
    [
        (("--db", "../base/h.db"), "", "base"),
        ((), "history: {url: ../base/h.db}\n", "base"),
        (("--db", "postgresql://u@host/d"), "", None),
        (("--no-history",), "", None),
    ],
)
def test_a_history_in_a_file_brings_its_directory(
    here: Here, words: tuple[str, ...], extra: str, mounted: str | None
) -> None:
    found = needs(here, extra + PLAIN, *words)
    assert found["settings"] == {}
    others = set(targets(found)) - {str(here.path), str(here.path / "results")}
    assert others == ({str(here.path.parent / mounted)} if mounted else set())


def test_the_database_of_the_environment_is_handed_on_by_name(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_DB", "postgresql://u:hush@host/d")
    (here.path / "suite.yaml").write_text(PLAIN)
    done = here.run("mounts", "--null", "suite.yaml")
    assert "\0--env\0PACELINE_DB\0" in done.stdout
    assert "hush" not in done.stdout


def test_variables_are_those_that_the_suite_and_its_sinks_read(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USED", "HOOK", "LISTED", "SLACK_BOT_TOKEN", "MLFLOW_TRACKING_URI", "NOT_USED", "TMPDIR"):
        monkeypatch.setenv(name, "value")
    suite = (
        "secrets: [LISTED]\nenv: {A: '${USED}', B: '${UNSET:-x}', C: '${TMPDIR:-/tmp}'}\n"
        "sinks:\n  - {type: slack, channel_id: C1}\n  - {type: mlflow}\n"
        f"  - {{type: webhook, url: 'http://localhost:1/', secret_env: HOOK}}\n{PLAIN}"
    )
    found = needs(here, suite)
    assert found["variables"] == ["HOOK", "LISTED", "MLFLOW_TRACKING_URI", "SLACK_BOT_TOKEN", "USED"]
    assert needs(here, suite, "--sink", "none")["variables"] == ["HOOK", "LISTED", "USED"]


def test_results_in_an_object_store_need_no_mount(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    found = needs(here, PLAIN, "--results-dir", "s3://bucket/results", "--no-history")
    assert targets(found) == {str(here.path): str(here.path)}
    assert found["variables"] == ["AWS_SECRET_ACCESS_KEY"]


def test_the_working_tree_around_a_suite_is_seen(here: Here) -> None:
    (here.path.parent / "repo" / ".git").mkdir(parents=True)
    suite = here.path.parent / "repo" / "deep" / "er" / "suite.yaml"
    suite.parent.mkdir(parents=True)
    suite.write_text(PLAIN)
    found = json.loads(here.run("mounts", "--json", suite).stdout)
    modes = {one["target"]: one["writable"] for one in found["mounts"]}
    assert modes == {
        str(here.path): False,
        str(here.path / "results"): True,
        str(here.path.parent / "repo"): False,
    }


def test_a_path_can_be_read_only(here: Here) -> None:
    suite = f"paths:\n  - {{name: data, host_path: ~/data}}\n{ENTRY}"
    (mount,) = [one for one in needs(here, suite)["mounts"] if one["why"] == "paths: data"]
    assert mount["writable"]
    (mount,) = [
        one
        for one in needs(here, suite, options=("--read-only", "data"))["mounts"]
        if one["why"] == "paths: data"
    ]
    assert not mount["writable"]
    assert "it has data" in fault(here, suite, "--read-only", "date")


def test_what_a_run_makes_can_be_made(here: Here) -> None:
    needs(here, PLAIN, options=("--make-dirs",))
    results = here.path / "results"
    assert results.is_dir()
    assert results.stat().st_uid == (10001 if os.geteuid() == 0 else os.geteuid())


def test_an_unset_variable_leaves_a_path_out(here: Here) -> None:
    found = needs(here, f"paths:\n  - {{name: data, host_path: '${{NOWHERE}}/x'}}\n{ENTRY}")
    assert found["left_out"] == ["data: environment variable NOWHERE is not set"]


def test_mistakes_are_named_with_their_place(here: Here) -> None:
    missing = fault(here, f"paths:\n  - {{name: data, host_path: /no/such}}\n{ENTRY}")
    assert missing == "suite.yaml:2: paths[0].host_path: /no/such is not there: make it, or correct it\n"
    items = "{name: a, host_path: ~/data, container_path: /d}, {name: b, host_path: '~', container_path: /d}"
    assert "would both be /d in the container" in fault(here, f"paths: [{items}]\n{PLAIN}")


@pytest.mark.parametrize("target", ["/", "/usr", "/opt", "/home", "/proc/1", "/dev/x", "/opt/paceline"])
def test_nothing_of_the_image_is_hidden(here: Here, target: str) -> None:
    suite = f"paths:\n  - {{name: data, host_path: ~/data, container_path: {target}}}\n{ENTRY}"
    assert f"cannot be mounted at {target}: it would hide" in fault(here, suite)


def test_the_listing_is_for_people(here: Here) -> None:
    (here.path / "suite.yaml").write_text(f"paths:\n  - {{name: data, host_path: ~/data}}\n{ENTRY}")
    lines = here.run("mounts", "suite.yaml").stdout.splitlines()
    assert lines == [
        f"read-write  {here.path.parent}/home/data as /home/paceline/data  (paths: data)",
        f"read-only   {here.path}  (the suite)",
        f"read-write  {here.path}/results  (results_dir)",
        f"set         PACELINE_DB={here.path}/results/benchmark.db",
    ]


def test_a_variable_that_only_the_host_has_is_told_so(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp")
    said = fault(here, "results_dir: '${TMPDIR}/r'\n" + PLAIN)
    assert "in the container, whose environment is another: suite.yaml:1: results_dir: " in said
    assert "TMPDIR is not set" in said

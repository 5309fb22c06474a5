"""The image itself: built from the Dockerfile by tools/build_docker.sh, and a session run in it, as no root.

Buildah needs neither a daemon nor a registry: the base image is made of this machine's own programs. Its chroot
isolation is no container (no limits, the host's network); what it shows is that the steps work and that a plain user
can run a suite.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import host_image
from paceline import __version__

REPOSITORY = Path(__file__).parents[2]
BASE = "localhost/paceline-test-base:1"
IMAGE = "localhost/paceline:test"
BOUND_S = 400.0


@dataclass(frozen=True)
class Builder:
    """Buildah with a store of its own, which leaves nothing behind."""

    path: Path
    driver: str

    def environ(self) -> dict[str, str]:
        conf = self.path / "storage.conf"
        conf.write_text(
            f'[storage]\ndriver = "{self.driver}"\ngraphroot = "{self.path}/store"\nrunroot = "{self.path}/run"\n'
        )
        return {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(conf),
            "BUILDAH_ISOLATION": "chroot",
            "HOME": str(self.path),
        }

    def run(
        self, *words: str | Path, check: bool = True, cwd: Path = REPOSITORY, **env: str
    ) -> subprocess.CompletedProcess[str]:
        environ = {**self.environ(), **env}
        done = subprocess.run(
            [*map(str, words)], capture_output=True, text=True, env=environ, timeout=BOUND_S, cwd=cwd
        )
        assert not check or done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done

    def make_base(self) -> None:
        root = self.path / "root"
        host_image.make_root(root)
        container = self.run("buildah", "from", "scratch").stdout.strip()
        self.run("buildah", "add", "--quiet", container, root, "/")
        path = "PATH=/usr/local/bin:/usr/sbin:/usr/bin"
        self.run("buildah", "config", "--env", path, container)
        self.run("buildah", "commit", "--quiet", "--rm", container, BASE)
        shutil.rmtree(root)


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    if sys.platform != "linux" or shutil.which("buildah") is None:
        pytest.skip(
            "Buildah is not installed: 'apt-get install --no-install-recommends buildah' does it on Debian"
        )
    if os.geteuid() != 0:
        pytest.skip("Buildah's chroot isolation is used here by root only")
    try:
        yield find_builder(tmp_path)
    finally:
        # Half a gigabyte that nobody looks at.
        for entry in tmp_path.iterdir():
            shutil.rmtree(entry, ignore_errors=True)


def find_builder(path: Path) -> Builder:
    for driver in ("overlay", "vfs"):
        builder = Builder(path, driver)
        made = builder.run("buildah", "from", "scratch", check=False)
        if made.returncode == 0:
            builder.run("buildah", "rm", "--all")
            return builder
        shutil.rmtree(path / "store", ignore_errors=True)
    pytest.skip(f"Buildah can keep no image here: {made.stderr.strip().splitlines()[-1:]}")


def fetch_wheels(builder: Builder, shelf: Path) -> Path:
    """The locked packages as files, got here: the build then needs no network, and nothing but them.

    What an earlier run got is on the shelf. Only if something is not there, all indexes are asked, which takes longer.
    """
    wheels = builder.path / "wheels"
    wheels.mkdir()
    for number, words in enumerate((["--extras", "none"], ["--package", "hatchling"])):
        locked = builder.run(sys.executable, "docker/locked_requirements.py", *words).stdout
        (builder.path / f"locked-{number}.txt").write_text(locked)
    files = [word for number in (0, 1) for word in ("--requirement", builder.path / f"locked-{number}.txt")]
    download = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--require-hashes", *files, "--dest", wheels, "--find-links", shelf),
    ]
    # As root with pip's usual cache, so that a second time is quick.
    if subprocess.run([*download, "--no-index"], capture_output=True).returncode != 0:
        done = subprocess.run(download, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"the locked packages cannot be had: {done.stderr.strip().splitlines()[-1:]}")
        shutil.copytree(wheels, shelf, dirs_exist_ok=True)
    (builder.path / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    return wheels


def build(builder: Builder, wheels: Path) -> None:
    mounts = [f"--volume={wheels}:/wheels:ro", f"--volume={builder.path / 'pip.conf'}:/etc/pip.conf:ro"]
    arguments = ["--isolation=chroot", "--pull-never", *mounts]
    builder.run(
        *(
            "tools/build_docker.sh",
            "--engine",
            "buildah",
            "--base",
            BASE,
            "--image",
            IMAGE,
            "--tag-as-latest",
        ),
        *("--extras", "none", "--apt-packages", ""),
        *(f"--engine-arg={word}" for word in arguments),
    )


@pytest.mark.image
def test_the_image_runs_a_session_as_no_root(builder: Builder, cache: pytest.Cache) -> None:
    builder.make_base()
    build(builder, fetch_wheels(builder, cache.mkdir("wheels")))

    image = json.loads(
        builder.run("buildah", "inspect", "--type", "image", "localhost/paceline:latest").stdout
    )
    config = image["Docker"]["config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["paceline"]
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["Labels"]["org.opencontainers.image.version"] == __version__

    results = builder.path / "results"
    results.mkdir()
    os.chown(results, 10001, 10001)
    container = builder.run("buildah", "from", "--pull-never", IMAGE).stdout.strip()
    inside = ["buildah", "run", "--isolation", "chroot", "--volume", f"{results}:/results", container, "--"]
    who = builder.run(
        *inside, "python", "-c", "import os; print(os.getuid(), os.environ['container'])"
    ).stdout
    assert who == "10001 oci\n"

    demo = "/opt/paceline/suites/examples/quickstart.yaml"
    kept = ["--results-dir", "/results", "--session-name", "demo", "--db", "/results/h.db"]
    # A script in Python, one in shell, and a program; the matrix would add twenty runs of the same kind.
    done = builder.run(*inside, "paceline", "run", demo, "--exclude", "matrix_multiply*", *kept)
    assert "3 passed of 3 cases" in done.stdout
    report = json.loads((results / "demo" / "report.json").read_text())
    assert report["ok"] is True
    assert {record["status"] for record in report["records"]} == {"passed"}
    assert {path.stat().st_uid for path in results.rglob("*")} == {10001}
    shown = builder.run(*inside, "paceline", "history", "list", "--db", "/results/h.db").stdout
    assert "word_count" in shown
    # Of its own shell: without a namespace for processes, the first one is the machine's, which may have a dashboard.
    assert builder.run(*inside, "sh", "-c", "python /opt/paceline/healthcheck.py $$").returncode == 0
    # What the user may not do: change the installed program.
    denied = builder.run(*inside, "sh", "-c", "echo > /opt/paceline/healthcheck.py", check=False)
    assert denied.returncode != 0
    builder.run("buildah", "rm", "--all")
    run_by_script(builder)


SUITE = """
paths:
  - {name: data, host_path: "${DATA}", container_path: /data}
entries:
  - name: count
    script: count.sh
    interpreter: sh
    args: ["{data}/my words.txt"]
    env: {TOKEN: "${SOME_TOKEN}"}
"""
SCRIPT = """
set -e
test "$(wc -l < "$1")" = 2
test "$TOKEN" = hush-hush
test "$(id -u)" = 10001
if touch beside 2>/dev/null; then exit 9; fi
echo '{"num_lines": 2}' > "$PACELINE_RESULTS_PATH/metrics.json"
"""


def run_by_script(builder: Builder) -> None:
    """tools/run.sh with a suite of the host: its directories, variables and user are those that it should see."""
    work = builder.path / "a $(touch pwned) directory"
    data = builder.path / "my data"
    for directory in (work, data):
        directory.mkdir()
    (work / "suite.yaml").write_text(SUITE)
    (work / "count.sh").write_text(SCRIPT)
    (data / "my words.txt").write_text("one\ntwo\n")
    engine = builder.path / "engine"
    engine.write_text(f'#!/bin/sh\nexec {sys.executable} {REPOSITORY}/tests/buildah_engine.py "$@"\n')
    engine.chmod(0o755)
    words = ["--engine", engine, "--image", IMAGE, "--", "suite.yaml", "--session-name", "by-script"]
    known = {"PYTHON_BIN": sys.executable, "DATA": str(data), "SOME_TOKEN": "hush-hush"}
    done = builder.run(REPOSITORY / "tools" / "run.sh", *words, cwd=work, **known)
    assert "1 passed of 1 case" in done.stdout
    record = json.loads((work / "results" / "by-script" / "count" / "record.json").read_text())
    assert record["metrics"]["num_lines"]["value"] == 2
    assert "hush-hush" not in json.dumps(record)
    assert (work / "results" / "benchmark.db").stat().st_uid == 10001
    assert not list(builder.path.rglob("pwned"))

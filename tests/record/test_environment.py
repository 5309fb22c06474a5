import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from git_commands import git
from paceline.model import Settings
from paceline.record import environment
from paceline.record.environment import Environment, capture, without_others
from paceline.record.redact import Redactor
from paceline.record.repository import git_state


def small_capture(tmp_path: Path, **options: Any) -> Environment:
    return capture(**{"cwd": tmp_path, "environ": {"RAY_A": "1"}, "command_line": ["paceline"], **options})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "file.txt").write_text("one\n")
    for words in (["init", "-b", "trunk"], ["add", "."], ["commit", "-m", "first"]):
        git(root, *words)
    return root


def test_the_machine_is_described(tmp_path: Path) -> None:
    data = small_capture(tmp_path).data
    for name in ("id", "class_id", "hostname", "platform", "machine", "kernel", "os", "memory_bytes", "load"):
        assert data[name], name
    assert data["cpu"]["count"] == os.cpu_count()
    assert data["cpu"]["affinity"] == sorted(os.sched_getaffinity(0))
    assert data["python"]["version"].startswith(platform.python_version())
    assert data["python"]["executable"] == sys.executable
    assert "git" not in data


def test_an_unchanged_machine_has_the_same_ids(tmp_path: Path) -> None:
    one = small_capture(tmp_path, settings=Settings(run_reason="nightly", viewer_url="http://viewer/1"))
    other = small_capture(tmp_path, command_line=["paceline", "run"])
    assert (one.id, one.class_id) == (other.id, other.class_id)
    assert one.data["run_reason"] == "nightly" and one.data["viewer_url"] == "http://viewer/1"


def test_a_changed_variable_changes_the_id_and_not_the_class(tmp_path: Path) -> None:
    one, other = small_capture(tmp_path), small_capture(tmp_path, environ={"RAY_A": "2"})
    assert one.id != other.id
    assert one.class_id == other.class_id


BASE: Mapping[str, Any] = {
    "cpu": {"model": "Fast", "count": 8, "affinity": list(range(8))},
    "memory_bytes": 16 << 30,
    "kernel": "6.1.0-13-amd64",
    "python": {"version": "3.11.7"},
    "machine": "x86_64",
    "os": "debian 12",
}


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "6.1.99-other"},
        {"python": {"version": "3.11.9"}},
        {"memory_bytes": (16 << 30) - (100 << 20)},
        {"hostname": "another", "load": [9, 9, 9]},
    ],
)
def test_small_differences_stay_in_the_class(change: Mapping[str, Any]) -> None:
    assert environment._comparable({**BASE, **change}) == environment._comparable(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "6.8.0"},
        {"python": {"version": "3.12.1"}},
        {"memory_bytes": 32 << 30},
        {"cpu": {"model": "Faster", "count": 8, "affinity": list(range(8))}},
        {"cpu": {"model": "Fast", "count": 8, "affinity": [0, 1]}},
        {"container": {"kind": "docker"}},
        {"container": {"cpu_limit": 2.0}},
        {"container": {"memory_limit_bytes": 1 << 30}},
        {"gpus": [{"name": "G"}], "gpu_driver": "550"},
        {"machine": "aarch64"},
        {"os": "ubuntu 24.04"},
    ],
)
def test_what_matters_makes_another_class(change: Mapping[str, Any]) -> None:
    assert environment._comparable({**BASE, **change}) != environment._comparable(BASE)


def test_secrets_are_masked_and_names_kept(tmp_path: Path) -> None:
    environ = {
        "API_TOKEN": "t0ken-value",
        "URL": "http://x/?t=t0ken-value",
        "SHORT_KEY": "abc",
        "NAMED": "n4med",
    }
    described = small_capture(
        tmp_path,
        environ=environ,
        redactor=Redactor(["t0ken-value"]),
        secret_names=["NAMED"],
        settings=Settings(capture_env=("*",)),
        command_line=["run", "--token=t0ken-value", "--db", "postgresql://me:pw@host/db"],
    )
    assert described.data["variables"] == {
        "API_TOKEN": "***",
        "NAMED": "***",
        "SHORT_KEY": "***",
        "URL": "http://x/?t=***",
    }
    assert described.data["command_line"] == ["run", "--token=***", "--db", "postgresql://me:***@host/db"]


# Those of the review, and what holds a credential in variables that are kept.
PRIVATE = {
    "SMTP_PASS": "smtp-pass-1",
    "MYSQL_PWD": "mysql-pwd-1",
    "GITHUB_PAT": "github-pat-1",
    "SSH_PASSPHRASE": "ssh phrase 1",
    "NPM_AUTH": "npm-auth-01",
    "SENTRY_DSN": "https://s3ntry-key-01@sentry.example/1",
    "REDIS_URL": "redis://:redis-pw-01@host/0",
    "AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=azure-key-01;EndpointSuffix=x",
    "HTTPS_PROXY": "http://me:proxy-pw-01@proxy:3128",
    "PIP_INDEX_URL": "https://me:pip-pw-0001@index/simple",
    "HOME": "/home/private-01",
    "GITHUB_TOKEN": "ghs_0123456",
    "CI_JOB_TOKEN": "glcbt-012345",
    "CI_REPOSITORY_URL": "https://gitlab-ci-token:glcbt-repo-1@gitlab/x",
    "CI_REGISTRY_PASSWORD": "registry-pw-1",
}
MASKED = {"HF_TOKEN": "hf_012345678", "RAY_REDIS": "redis://:hunter@host", "SLURM_JWT": "ey.012345.678"}
KEPT = {
    "OMP_NUM_THREADS": "4",
    "LD_PRELOAD": "/usr/lib/libjemalloc.so",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "HF_HUB_OFFLINE": "1",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "a/b",
    "GITHUB_RUN_ID": "17",
    "GITHUB_REF_NAME": "main",
    "CI_JOB_URL": "https://gitlab/j/1",
}


def test_only_variables_that_decide_results_or_name_the_ci_are_kept(tmp_path: Path) -> None:
    described = small_capture(tmp_path, environ={**PRIVATE, **MASKED, **KEPT}, redactor=Redactor())
    masked = {"HF_TOKEN": "***", "RAY_REDIS": "redis://:***@host", "SLURM_JWT": "***"}
    assert described.data["variables"] == {**masked, **KEPT}


def test_a_suite_may_ask_for_more_variables(tmp_path: Path) -> None:
    environ = {"TEAM": "perf", "CLUSTER_A": "1", "CLUSTER_B_TOKEN": "x", "OTHER": "2", "SORT_KEY": "by-name"}
    described = small_capture(
        tmp_path,
        environ=environ,
        settings=Settings(capture_env=("TEAM", "CLUSTER_*", "SORT_KEY")),
        secret_names=["!SORT_KEY"],
    )
    expected = {"TEAM": "perf", "CLUSTER_A": "1", "CLUSTER_B_TOKEN": "***", "SORT_KEY": "by-name"}
    assert described.data["variables"] == expected
    assert without_others(described.data)["variables"] == expected


def test_of_an_older_file_the_same_variables_are_taken() -> None:
    written = {"id": "1", "variables": {**PRIVATE, **KEPT}, "command_line": ["--db", "postgresql://u:p@h/d"]}
    assert without_others(written) == {
        "id": "1",
        "variables": KEPT,
        "command_line": ["--db", "postgresql://u:***@h/d"],
    }
    assert without_others({"variables": "odd", "x": 1}) == {"x": 1}


def test_a_repository_is_known_by_revision_branch_and_changes(repository: Path) -> None:
    clean = git_state(repository)
    assert len(clean["revision"]) == 40 and clean["branch"] == "trunk" and clean["dirty"] is False
    assert "diff_sha256" not in clean
    (repository / "file.txt").write_text("two\n")
    two = git_state(repository)
    (repository / "file.txt").write_text("three\n")
    three = git_state(repository)
    assert two["dirty"] and two["revision"] == clean["revision"]
    assert two["diff_sha256"] != three["diff_sha256"]


def test_the_suites_repository_gives_the_revision(tmp_path: Path, repository: Path) -> None:
    inside = repository / "suites"
    inside.mkdir()
    described = small_capture(tmp_path, config_files=[inside / "suite.yaml"])
    assert described.revision == described.data["config_git"]["revision"]
    same = small_capture(repository, config_files=[inside / "suite.yaml"])
    assert "config_git" not in same.data and same.revision == described.revision


def test_a_broken_or_missing_git_is_not_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    assert small_capture(tmp_path).revision == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert small_capture(tmp_path).revision == ""


def test_a_removed_directory_is_not_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert capture(config_files=[Path("suites/a.yaml")]).id


def test_a_repository_cannot_make_us_start_programs(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external"):
        git(repository, "config", name, str(script))
    (repository / "file.txt").write_text("changed\n")
    assert git_state(repository)["dirty"]
    assert not mark.exists()


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_limits_of_control_groups_version_2(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/box\n",
        "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/pod/memory.max": "max\n",
        "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pod/box/memory.max": "1073741824\n",
        ".dockerenv": "",
    }
    described = environment.container_facts({}, write_tree(tmp_path, files))
    assert described == {"kind": "docker", "cpu_limit": 1.5, "memory_limit_bytes": 1 << 30}


def test_limits_of_control_groups_version_1(tmp_path: Path) -> None:
    files = {
        "proc/1/cgroup": "4:memory:/kubepods/x\n",
        "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "2147483648\n",
        "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "200000\n",
        "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
    }
    described = environment.container_facts({}, write_tree(tmp_path, files))
    assert described == {"kind": "kubepods", "cpu_limit": 2.0, "memory_limit_bytes": 2 << 30}


def test_no_container_and_no_limit(tmp_path: Path) -> None:
    assert environment.container_facts({}, tmp_path) == {}


NVML_STUB = """
#include <string.h>
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "550.1", size); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void *device, char *text, unsigned size) { strncpy(text, "Stub GPU", size); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) { memory[0] = 8ULL << 30; return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_gpus_are_read_from_the_driver_library(tmp_path: Path) -> None:
    (tmp_path / "nvml.c").write_text(NVML_STUB)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    code = """
        import json
        from paceline.record.environment import capture
        described = capture()
        print(json.dumps([described.data["gpus"], described.data["comparable"]["gpus"], described.data["gpu_driver"]]))
    """
    output = subprocess.check_output(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    )
    gpu = {"name": "Stub GPU", "memory_bytes": 8 << 30}
    assert json.loads(output) == [[gpu, gpu], ["Stub GPU", "Stub GPU"], "550.1"]

import json
import platform
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from paceline.record.packages import conda_explicit, describe_python, installed


def installed_here() -> list[str]:
    """What `installed` says in a fresh interpreter: packages imported by other tests may have added to the path."""
    code = "import json; from paceline.record.packages import installed; print(json.dumps(installed()))"
    found: list[str] = json.loads(subprocess.check_output([sys.executable, "-c", code], cwd="/"))
    return found


def install(
    site: Path, name: str, *, metadata: str = "", direct_url: Mapping[str, object] | None = None
) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\nText\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_our_own_packages_are_listed_with_versions() -> None:
    lines = installed()
    assert f"orjson=={version('orjson')}" in lines
    assert f"PyYAML=={version('PyYAML')}" in lines
    names = [line.split("==")[0].lower() for line in lines if "==" in line and not line.startswith("-e")]
    assert len(names) == len(set(names))


def test_where_a_package_came_from_is_noted(site: Path) -> None:
    install(site, "plain")
    install(site, "editable", direct_url={"url": "file:///src/editable", "dir_info": {"editable": True}})
    install(
        site,
        "from_git",
        direct_url={
            "url": "https://user:t0ken@example.com/r.git",
            "vcs_info": {"vcs": "git", "commit_id": "abc123"},
        },
    )
    install(site, "archive", direct_url={"url": "https://example.com/a.whl", "archive_info": {}})
    assert installed() == [
        "archive @ https://example.com/a.whl",
        "-e file:///src/editable  # editable==1.0",
        "from_git @ git+https://example.com/r.git@abc123",
        "plain==1.0",
    ]


def test_broken_metadata_is_left_out(site: Path) -> None:
    install(site, "good")
    install(site, "nameless", metadata="Metadata-Version: 2.1\n")
    install(site, "odd", direct_url={})
    (site / "binary-1.0.dist-info").mkdir()
    (site / "binary-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\x00")
    (site / "odd-1.0.dist-info" / "direct_url.json").write_text("{half")
    assert installed() == ["good==1.0", "odd==1.0"]


def test_another_interpreter_is_asked_once(tmp_path: Path) -> None:
    link = tmp_path / "python-elsewhere"
    link.write_text(f'#!/bin/sh\necho asked >> {tmp_path}/asked\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    described = describe_python(str(link))
    assert described["packages"] == installed_here()
    assert described["version"] == platform.python_version()
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.parametrize("body", ["exit 3", "echo no-json", "echo '[]'", "sleep 600"])
def test_an_interpreter_that_does_not_answer_has_no_packages(tmp_path: Path, body: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{'exec ' if 'sleep' in body else ''}{body}\n")
    program.chmod(0o755)
    assert describe_python(str(program), timeout_s=0.5) == {}
    assert describe_python(str(tmp_path / "missing")) == {}


def test_conda_environments_are_read_without_conda(tmp_path: Path) -> None:
    meta = tmp_path / "conda-meta"
    meta.mkdir()
    packages = {
        "b": {"url": "https://conda.example.com/t/tk-123/main/b-1.conda", "md5": "aa"},
        "a": {"url": "https://user:pw@conda.example.com/a-1.conda"},
        "no_url": {},
    }
    for name, data in packages.items():
        (meta / f"{name}.json").write_text(json.dumps(data))
    (meta / "broken.json").write_text("{")
    assert conda_explicit({"CONDA_PREFIX": str(tmp_path)}) == textwrap.dedent("""\
        @EXPLICIT
        https://conda.example.com/a-1.conda
        https://conda.example.com/main/b-1.conda#aa
        """)
    assert conda_explicit({}) is None
    assert conda_explicit({"CONDA_PREFIX": str(tmp_path / "missing")}) is None


def test_the_module_runs_by_itself(tmp_path: Path) -> None:
    source = Path(sys.modules[installed.__module__].__file__ or "")
    copy = tmp_path / "alone.py"
    copy.write_bytes(source.read_bytes())
    answer = json.loads(subprocess.check_output([sys.executable, "-I", str(copy)]))
    assert answer["packages"] == installed_here()

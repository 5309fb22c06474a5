"""The wheel and the sdist: what is in them, and that a stranger who installs one gets a working program."""

import json
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import paceline
from shipping.distributions import REPOSITORY, Distributions, hatch, unpack

SUITE = """\
results_dir: results
entries:
  - {name: one, command: ["true"]}
"""


def names_in(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def test_the_wheel_has_the_package_and_nothing_else(distributions: Distributions) -> None:
    names = zipfile.ZipFile(distributions.wheel).namelist()
    info = f"paceline-{paceline.__version__}.dist-info/"
    assert {name.partition("/")[0] + "/" for name in names} == {"paceline/", info}
    inside = {name for name in names if name.startswith("paceline/")}
    source = REPOSITORY / "src"
    ours = {str(path.relative_to(source)) for path in (source / "paceline").rglob("*") if path.is_file()}
    assert inside == {name for name in ours if "__pycache__" not in name}
    assert {f"{info}licenses/LICENSE", f"{info}entry_points.txt"} <= set(names)


def test_the_wheel_has_the_dashboards_bundle_and_all_data(distributions: Distributions) -> None:
    wheel = zipfile.ZipFile(distributions.wheel)
    for name in (
        "dashboard/static/app.js",
        "dashboard/static/app.css",
        "dashboard/static/early.js",
        "py.typed",
    ):
        assert wheel.read(f"paceline/{name}") == (REPOSITORY / "src/paceline" / name).read_bytes()
    assert any(name.startswith("paceline/evals/benchmarks/samples/") for name in wheel.namelist())


def test_the_sdist_has_what_its_makefile_and_tests_need(distributions: Distributions) -> None:
    names = names_in(distributions.sdist)
    tops = {PurePosixPath(name).parts[0] for name in names}
    assert {"src", "tests", "docs", "examples", "benchmarks", "frontend", "tools"} <= tops
    assert {
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "requirements.lock",
    } <= names


def test_the_sdist_has_no_junk(distributions: Distributions) -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git repository, so nobody knows which files belong to it")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(
        listed, cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert names_in(distributions.sdist) - set(known) <= {"PKG-INFO"}


def test_an_installer_makes_the_same_wheel_of_the_sdist(distributions: Distributions, tmp_path: Path) -> None:
    """An installer turns an sdist into a wheel by the same backend; where that is equal, so is what it installs."""
    source = unpack(distributions.sdist, tmp_path / "source")
    hatch(source, tmp_path / "dist", "--target", "wheel")
    (made,) = (tmp_path / "dist").iterdir()
    assert made.name == distributions.wheel.name
    assert contents(made) == contents(distributions.wheel)


def contents(wheel: Path) -> dict[str, bytes]:
    archive = zipfile.ZipFile(wheel)
    return {name: archive.read(name) for name in archive.namelist()}


def test_an_installed_wheel_runs_a_suite_from_start_to_dashboard(
    distributions: Distributions, tmp_path: Path
) -> None:
    def run(*words: str) -> str:
        done = distributions.run(tmp_path, "paceline", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "paceline.yaml").write_text(SUITE)
    assert run("--version") == f"paceline {paceline.__version__}\n"
    assert "1 passed of 1 case" in run("run", "--session-name", "first")
    assert "1 passed of 1 case" in run("show")
    assert re.search(r"^one +exec_time_s ", run("history", "log", "one"), re.MULTILINE)
    run("dashboard", "build", "site")
    assert (tmp_path / "site" / "index.html").is_file()
    assert list((tmp_path / "site").rglob("app*.js"))
    run("history", "export", "all.csv")
    refused = distributions.run(tmp_path, "paceline", "history", "export", "all.parquet")
    assert (refused.returncode, refused.stderr) == (
        2,
        "paceline: exporting Parquet needs the curate extra: pip install 'paceline[curate]'\n",
    )


def test_the_doctor_names_every_extra_as_missing(distributions: Distributions, tmp_path: Path) -> None:
    done = distributions.run(tmp_path, "paceline", "doctor", "--quick", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["remarks"] if one["section"] == "installed"}
    assert found["core"]["level"] == "ok"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for extra, needs in project["optional-dependencies"].items():
        if extra not in ("all", "dev") and needs:
            assert found[extra]["level"] == "note"
            assert (
                f"install --python {distributions.bin / 'python'} 'paceline[{extra}]'" in found[extra]["fix"]
            )


def test_only_what_the_core_needs_is_installed(distributions: Distributions, tmp_path: Path) -> None:
    code = "from importlib.metadata import distributions; print(*{d.name.lower() for d in distributions()})"
    installed = set(distributions.run(tmp_path, "python", "-c", code).stdout.split())
    assert "paceline" in installed
    assert not installed & {"ray", "torch", "mlflow-skinny", "pytest", "pyarrow", "psycopg", "s3fs", "dask"}

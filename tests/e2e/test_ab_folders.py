"""`paceline ab` on a folder of A/B environments: real environments made by a small conda, real pytest in each."""

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import paceline
from wheels import make_wheel
from workplace import Workplace

FOLDER = {
    "AB_baseline.conda.yaml": """
# The environment that others are compared with.
channels:
  - conda-forge
dependencies:
  - python =3.11  # one '=' is any 3.11
  - pip
  - openssl >1.1.0g
  - pip:
    # nothing but comments
""",
    "AB_baseline.dask.yaml": "# Leave empty to change nothing.\ndask:\n  dataframe:\n    query-planning: True\n",
    "AB_baseline.cluster.yaml": "# Leave empty.\n",
}
CONFIG = """
repeat: {repeat}
test_null_hypothesis: false
targets:
  {targets}
markers: not slow
h2o_datasets:
  # - 0.5 GB (csv)
  - 5 GB (parquet)
max_parallel:
  ci_jobs: 5
"""
# Links the packages that it was made with into each environment, and needs no network.
CONDA = """#!{python}
import json, pathlib, subprocess, sys
*_, verb, _, prefix, _, file = sys.argv
with open({ledger!r}, "a") as ledger:
    print(verb, pathlib.Path(file).name, file=ledger)
if verb == "create":
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    (packages,) = pathlib.Path(prefix).glob("lib/python3*/site-packages")
    for path in json.loads({paths!r}):
        (packages / pathlib.Path(path).name).symlink_to(path)
"""

OURS = """
import html, os
from importlib.util import find_spec

import pytest

@pytest.mark.parametrize("kind", ["small"])
def test_sort(bench, kind):
    assert html.escape("<") == "&lt;"  # the standard one, whatever lies beside the program that runs us
    assert [name for name in ("spec", "report", "arms", "orjson", "pydantic") if find_spec(name)] == []
    bench(sorted, range(10), rounds=3)

def test_whole():
    pass

def test_part(benchmark_time, test_run_benchmark):
    with benchmark_time:
        pass
    test_run_benchmark.peak_memory = 3000 if os.environ["AB_VERSION"] == "AB_other" else 1000

def test_breaks_there(benchmark_time):
    with benchmark_time:
        assert os.environ["AB_VERSION"] != "AB_other"

@pytest.mark.slow
def test_slow():
    raise AssertionError("markers leave it out")
"""
# A suite that measures by itself, into a database of its own.
THEIRS = """
import os, sqlite3
import pytest

def pytest_addoption(parser):
    parser.addoption("--benchmark", action="store_true")

@pytest.fixture
def benchmark_memory(request):
    yield
    if request.config.getoption("--benchmark"):
        with sqlite3.connect(os.environ["DB_NAME"]) as connection:
            connection.execute("create table if not exists test_run (name, path, call_outcome, average_memory, note)")
            connection.execute(
                "insert into test_run values (?, 'test_it.py', 'passed', 5e6, 'text')", (request.node.name,)
            )
        connection.close()
"""


def closure(*names: str) -> list[Path]:
    """What the packages of these names, and those that they need, have in site-packages."""
    found: dict[str, set[Path]] = {}
    due = list(names)
    while due:
        name = due.pop().lower().replace("_", "-")
        if name not in found:
            one = distribution(name)
            tops = {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}
            found[name] = {Path(str(one.locate_file(top))) for top in tops}
            needs = [Requirement(text) for text in one.requires or ()]
            due += [need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]
    return sorted({path for paths in found.values() for path in paths if path.exists()})


def make_team(place: Workplace, packages: list[Path], *, repeat: int, targets: list[str]) -> dict[str, str]:
    """A folder with two arms, and the environment in which a conda is found that makes them of these packages."""
    for name, text in FOLDER.items():
        place.write(f"AB_environments/{name}", text)
        place.write(f"AB_environments/{name.replace('baseline', 'other')}", text)
    listed = "\n  ".join(f"- {target}" for target in targets)
    place.write("AB_environments/config.yaml", CONFIG.format(repeat=repeat, targets=listed))
    place.write("ci/environment-test.yml", "dependencies:\n  - pytest\n  - pytest-xdist\n")
    place.write(
        "setup.cfg", "[tool:pytest]\naddopts = --strict-markers --dist loadscope\nmarkers =\n  slow: long\n"
    )
    paths, ledger = json.dumps(list(map(str, packages))), str(place.path / "conda.log")
    conda = place.write("bin/conda", CONDA.format(python=sys.executable, paths=paths, ledger=ledger))
    conda.chmod(0o755)
    return {
        "PATH": f"{place.path / 'bin'}:{os.environ['PATH']}",
        "PACELINE_CACHE": str(place.path / "cache"),
        "PACELINE_DISTURBED": "ignore",
    }


def compared(result: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["case"], one["metric"]): one for one in result["comparisons"]}


def test_a_folder_as_teams_have_it_runs(place: Workplace) -> None:
    env = make_team(
        place, closure("pytest", "pytest-xdist", "pip"), repeat=2, targets=["tests/ours", "tests/theirs"]
    )
    place.write("tests/ours/test_it.py", OURS)
    place.write("tests/theirs/conftest.py", THEIRS)
    place.write("tests/theirs/test_it.py", "def test_it(benchmark_memory):\n    pass\n")
    done = place.run("ab", "AB_environments", "--out", "out", "--json", **env)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    found = compared(result)
    assert set(found) == {
        ("tests/ours", "failures"),
        ("tests/ours", "test_it.py::test_sort[small].duration"),
        ("tests/ours", "test_it.py::test_whole.call_duration"),
        ("tests/ours", "test_it.py::test_part.duration"),
        ("tests/ours", "test_it.py::test_part.peak_memory"),
        ("tests/ours", "test_it.py::test_breaks_there.duration"),
        ("tests/theirs", "failures"),
        ("tests/theirs", "test_it.py::test_it.average_memory"),
    }
    assert found["tests/ours", "failures"]["verdict"] == "worse"
    memory = found["tests/ours", "test_it.py::test_part.peak_memory"]
    assert (memory["unit"], memory["verdict"], memory["ratio"]) == ("bytes", "worse", pytest.approx(3))
    assert found["tests/theirs", "test_it.py::test_it.average_memory"]["baseline"] == 5e6
    assert found["tests/ours", "test_it.py::test_breaks_there.duration"]["blocks"] == 0
    for arm in result["arms"].values():
        assert not [
            name for name in arm["installed"] if name.startswith(("paceline", "orjson", "SQLAlchemy"))
        ]
    assert "AB_other.conda.yaml: with the packages of ci/environment-test.yml" in result["notes"]
    made = (place.path / "conda.log").read_text().splitlines()
    assert made == ["create AB_baseline.conda.yaml", "update environment-test.yml"]  # the arms are the same


def test_pip_installs_what_it_can_where_there_is_no_conda(place: Workplace) -> None:
    env = make_team(place, [], repeat=1, targets=["tests/test_it.py"])
    (place.path / "bin/conda").unlink()
    (place.path / "ci/environment-test.yml").unlink()
    (place.path / "setup.cfg").unlink()
    place.write("tests/test_it.py", "def test_it(benchmark_time):\n    with benchmark_time:\n        pass\n")
    (place.path / "links").mkdir()
    for path in closure("pytest"):
        (place.path / "links" / path.name).symlink_to(path)
    wheel = make_wheel(place.path, "pytest", "9.0", "")
    with zipfile.ZipFile(wheel) as old:
        files = {name: old.read(name) for name in old.namelist() if name != "pytest.py"}
    with zipfile.ZipFile(wheel, "w") as new:
        for name, content in {**files, "pytest.pth": f"{place.path / 'links'}\n".encode()}.items():
            new.writestr(name, content)
    for arm in ("baseline", "other"):
        text = f"dependencies: [python, nodejs, openssl >1.1.0g, {{pip: ['{wheel}']}}]\n"
        place.write(f"AB_environments/AB_{arm}.conda.yaml", text)
    result = json.loads(place.run("ab", "AB_environments", "--out", "out", "--json", **env).stdout)
    assert result["missing"] == [] and result["runs"] == 2
    notes = [note for note in result["notes"] if "conda is not installed here" in note]
    assert len(notes) == 2 and all("without nodejs, openssl; " in note for note in notes)
    assert {metric for _, metric in compared(result)} == {"failures", "test_it.duration"}


def test_an_arm_with_another_paceline_is_refused(place: Workplace) -> None:
    packages = closure("pytest", "pytest-xdist", "pip")
    place.write("old/paceline/__init__.py", '__version__ = "0.0.1"\n')
    place.write(
        "old/paceline-0.0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: paceline\nVersion: 0.0.1\n"
    )
    packages += sorted((place.path / "old").iterdir())
    env = make_team(place, packages, repeat=1, targets=["tests"])
    place.write("tests/test_it.py", OURS)
    done = place.run("ab", "AB_environments", "--out", "out", **env)
    assert done.returncode == 2
    assert (
        "AB_baseline.conda.yaml: it installs paceline 0.0.1, and arms are measured by the one" in done.stderr
    )


CLUSTER = """
import os

import numpy
from distributed import Client, LocalCluster

def hold(mib):
    return float(numpy.ones(mib << 17).sum())

def test_it(benchmark_all):
    mib = 200 if os.environ["AB_VERSION"] == "AB_other" else 20
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        with benchmark_all(client):
            assert client.submit(hold, mib).result() == mib << 17
"""


@pytest.mark.dask
def test_memory_and_task_times_of_dask_are_compared(place: Workplace) -> None:
    packages = closure("pytest", "pytest-xdist", "pip", "distributed", "dask", "numpy")
    env = make_team(place, packages, repeat=1, targets=["tests/test_it.py"])
    place.write("tests/test_it.py", CLUSTER)
    done = place.run("ab", "AB_environments", "--out", "out", "--json", **env)
    assert done.returncode == 2 and "no two blocks in common" in done.stderr  # one block decides nothing
    found = {metric: one for (_, metric), one in compared(json.loads(done.stdout)).items()}
    sizes = ("average_memory", "peak_memory", "kernel_peak_memory")
    names = ("duration", "compute_time", "transfer_time", "disk_spill_time", *sizes)
    assert {f"test_it.{name}" for name in names} <= set(found)
    assert all(found[f"test_it.{name}"]["unit"] == "bytes" for name in sizes)
    peak, compute = found["test_it.kernel_peak_memory"], found["test_it.compute_time"]
    assert peak["candidate"] > peak["baseline"] + (100 << 20)
    assert compute["candidate"] > compute["baseline"] > 0


HOME = Path(paceline.__file__).parent
PLUGIN = (
    "",
    ".measuring",
    ".database",
    ".failures",
    ".arm",
    ".pytest_benchmark",
    ".dask.collectors",
    ".dask.cluster_side",
)
IN_ARMS = {
    "paceline",
    "paceline.emit",
    "paceline.timing.bench",
    *(f"paceline.pytest_plugin{name}" for name in PLUGIN),
}


def test_what_runs_in_an_arm_needs_none_of_our_packages() -> None:
    allowed = {"pytest", "psutil", "distributed", "cloudpickle", *sys.stdlib_module_names, *IN_ARMS}
    for module in ("paceline.experiments.ab.pytest_target", *IN_ARMS):
        path = HOME.parent / module.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.parse(file.read_text(), feature_version=(3, 10)).body:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            ours = {name if name.startswith("paceline") else name.partition(".")[0] for name in names}
            assert ours - {"paceline.pytest_plugin.dask"} <= allowed, file


def test_an_arm_may_have_an_older_python(tmp_path: Path) -> None:
    places = [*map(Path, os.environ["PATH"].split(":")), *Path.home().glob(".pyenv/versions/3.10*/bin")]
    there = [path for place in places if (path := place / "python3.10").exists()]
    found = next(
        (one for one in there if not subprocess.run([one, "-V"], capture_output=True).returncode), None
    )
    if found is None:
        pytest.skip("there is no python3.10 on this machine")
    for path in closure("pytest"):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "paceline").symlink_to(HOME)
    # pytest needs it there, and we do not have it.
    (tmp_path / "exceptiongroup.py").write_text(
        "import typing\nT = typing.TypeVar('T')\n"
        "class BaseExceptionGroup(BaseException, typing.Generic[T]): ...\n"
        "class ExceptionGroup(BaseExceptionGroup[T], Exception): ...\n"
    )
    shutil.copy(HOME / "experiments/ab/pytest_target.py", tmp_path / "start.py")
    (tmp_path / "tests").mkdir()
    text = OURS.replace('"orjson", ', "").replace("import html, os", "import html, os, sys")
    (tmp_path / "tests/test_it.py").write_text(
        f"{text}\ndef test_python():\n    assert sys.version_info[:2] == (3, 10)\n"
    )
    words = [
        found,
        tmp_path / "start.py",
        "-m",
        "not slow",
        "--benchmark-results-path",
        tmp_path / "out",
        "tests",
    ]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "AB_VERSION": "AB_other"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert (metrics["num_tests"], metrics["failures"]) == (4, 1)
    assert len(metrics["test_it.py::test_sort[small].duration"]) == 3

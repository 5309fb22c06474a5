"""The Python that a case runs, and what is kept of it."""

import json
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paceline.model import Case
from paceline.run.interpreter import ForeignPython, foreign_python

OWN = sys.executable
SCRIPT = """
import os, pathlib
pathlib.Path(os.environ["PACELINE_RESULTS_PATH"], "metrics.json").write_text('{"value": 1}')
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of Python with one package, which ours has not."""
    path = tmp_path_factory.mktemp("environment")
    venv.create(path, with_pip=False, symlinks=True)
    install(path, "frobnicator")
    return path


def install(environment: Path, name: str) -> None:
    (site,) = environment.glob("lib/python*/site-packages")
    info = site / f"{name}-7.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 7.5\n")


def run_suite(directory: Path, *entries: Mapping[str, Any], **more: Any) -> Path:
    suite = {"results_dir": str(directory / "results"), "entries": entries, **more}
    (directory / "suite.json").write_text(json.dumps(suite))
    (directory / "script.py").write_text(SCRIPT)
    command = [OWN, "-m", "paceline", "run", "suite.json", "--no-history", "--session-name", "s"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "results/s"


def packages(session: Path, entry: str) -> list[str] | None:
    file = session / entry / "artifacts/pip-freeze.txt"
    return file.read_text().splitlines() if file.exists() else None


def entry(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, **keys}


def test_the_packages_of_an_entry_are_those_of_its_interpreter(tmp_path: Path, environment: Path) -> None:
    python = str(environment / "bin/python")
    session = run_suite(
        tmp_path,
        entry("ours", script="script.py"),
        entry("theirs", script="script.py", interpreter=python),
        entry("with_flags", script="script.py", interpreter=[python, "-u"]),
        entry("behind", script="script.py", interpreter=["env", "A=1", python]),
        entry("on_path", command=["python", "script.py"], env={"PATH": f"{environment}/bin:/usr/bin:/bin"}),
        entry("unknown", script="script.py", interpreter=["env", "python3"]),
        entry("no_python", command=["true"]),
    )
    ours = (session / "packages.txt").read_text().splitlines()
    assert len(ours) > 5 and "frobnicator==7.5" not in ours
    for name in ("ours", "no_python"):
        assert packages(session, name) == ours
    for name in ("theirs", "with_flags", "behind", "on_path"):
        assert packages(session, name) == ["frobnicator==7.5"], name
    assert packages(session, "unknown") is None
    record = json.loads((session / "theirs/record.json").read_text())
    assert "artifacts/pip-freeze.txt" in record["artifacts"]


def test_what_a_data_set_up_installs_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "environment"
    venv.create(path, with_pip=False, symlinks=True)
    install(path, "before")
    code = (
        "import pathlib, sysconfig; info = pathlib.Path(sysconfig.get_path('purelib'), 'after-1.dist-info'); "
        "info.mkdir(); (info / 'METADATA').write_text('Name: after\\nVersion: 1\\n')"
    )
    python = str(path / "bin/python")
    steps = [entry("one", command=[python, "-c", code]), entry("two", command=[python, "-c", ""])]
    session = run_suite(tmp_path, *steps)
    assert packages(session, "one") == ["before==7.5"]
    assert packages(session, "two") == ["after==1", "before==7.5"]


CASES: list[tuple[tuple[str, ...], ForeignPython | None]] = [
    ((OWN, "/s.py", "--python", "/usr/bin/python3"), None),
    (("/v/bin/python", "/s.py"), ForeignPython(("/v/bin/python",), "/v/bin/python")),
    (("/v/bin/python3.12", "-m", "x", "/s.py"), ForeignPython(("/v/bin/python3.12",), "/v/bin/python3.12")),
    (("bin/pypy3", "/s.py"), ForeignPython(("bin/pypy3",), "/work/bin/pypy3")),
    (("uv", "run", "python", "/s.py"), ForeignPython(("uv", "run", "python"), None)),
    (("taskset", "1", "/v/python", "/s.py"), ForeignPython(("taskset", "1", "/v/python"), "/v/python")),
    (("nowhere-python", "/s.py"), None),
    (("python-config", "/s.py"), None),
    (("/s.py", "python"), None),
    (("./bench", "/v/bin/python"), None),
    (("python9.99",), ForeignPython(("python9.99",), None)),
    ((), None),
]


@pytest.mark.parametrize(("argv", "expected"), CASES, ids=lambda value: " ".join(map(str, value or ("-",))))
def test_the_python_of_a_command(argv: tuple[str, ...], expected: ForeignPython | None) -> None:
    case = Case(name="c", entry="c", key="c", script="/s.py" if "/s.py" in argv else None, argv=argv)
    assert foreign_python(case, {"PATH": "/bin"}, "/work", OWN) == expected

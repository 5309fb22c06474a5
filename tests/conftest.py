"""What every test stands on: a clean environment and hypothesis settings that do not flake on a busy machine."""

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dealing import ByFile
from mlflow_server import MlflowServer
from workplace import Workplace

pytest_plugins = ["pytester"]

# The same examples every time, so that a failure says something about what was changed. `HYPOTHESIS_SEARCH=1 pytest`
# looks for new ones.
settings.register_profile(
    "paceline",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=not os.environ.get("HYPOTHESIS_SEARCH"),
)
settings.load_profile("paceline")

# The hundreds of commands that tests start would each compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The key that signs sinks' settings, and whatever else a user keeps, is not the developer's.
_state_home = tempfile.TemporaryDirectory(prefix="paceline-tests-")
os.environ["XDG_STATE_HOME"] = _state_home.name

# A shell that starts the tests in the background has them, and every program they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LOOKS_OF_OUTPUT = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make sure that `make test-clusters`, which looks for these marks in the files, misses no test."""
    clusters = {item.path for item in items if {"ray", "dask"} & {mark.name for mark in item.iter_markers()}}
    unseen = [str(path) for path in clusters if not re.search(r"mark\.(ray|dask)", path.read_text())]
    assert not unseen, f"`make test-clusters` would not find the marks of {unseen}: write them in that file"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the developer's shell, or of a Paceline that runs these tests, must not decide a test."""
    for name in list(os.environ):
        if name.startswith("PACELINE_") or name in _LOOKS_OF_OUTPUT:
            monkeypatch.delenv(name)
    # Other tests run beside each one, and would make its verdicts inconclusive.
    monkeypatch.setenv("PACELINE_DISTURBED", "ignore")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A directory with a suite, and the real command line to run it."""
    return Workplace(tmp_path)


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """A real MLflow server; tests take experiments of their own."""
    server = MlflowServer(tmp_path_factory.mktemp("mlflow"))
    try:
        yield server.start()
    finally:
        server.stop()

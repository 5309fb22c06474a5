"""Tests as cases of an entry `pytest: PATH`: which there are, and a run of one of them or of several in one process.

Runs with the Python of the entry, which may be older than ours and has none of Paceline's packages: nothing but pytest
is needed. Tests for pytest-benchmark get our fixture `benchmark`, whether theirs is installed or not.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

from paceline import emit, pytest_plugin
from paceline.pytest_plugin.measuring import (
    MEASURED,
    STAGES,
    Measured,
    Stage,
    how_measured,
    samples_of,
    warn_of_rounds,
)
from paceline.pytest_plugin.parameters import base_of, params_of
from paceline.pytest_plugin.pytest_benchmark import THEIR_OPTIONS
from paceline.timing.bench import Settings

_NOT_TAGS = frozenset({"parametrize", "usefixtures", "filterwarnings", "skip", "skipif", "xfail"})
_ALONE = (
    *("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:codspeed", "-p", "no:paceline"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
"""Plugins that would write files, own the fixture `benchmark`, or record the tests themselves."""
NOTHING_COLLECTED = 5
_RESULTS = "PACELINE_RESULTS_PATH"


class TheirOptions:
    """Options of pytest-benchmark, which a suite may have in its configuration; without its plugin they are unknown."""

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        group = parser.getgroup("options of pytest-benchmark")
        for name, kind in THEIR_OPTIONS.items():
            how: dict[str, Any] = {"type": kind} if isinstance(kind, type) else {"nargs": "?", "const": ""}
            group.addoption(name, **({"action": "store_true"} if kind == "flag" else how))

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if config.option.benchmark_only:
            items[:] = [item for item in items if "benchmark" in getattr(item, "fixturenames", ())]


def _settings(config: pytest.Config) -> Settings:
    options = config.option
    settings = Settings(seconds=options.benchmark_max_time or options.paceline_seconds)
    if options.benchmark_min_rounds:
        settings = replace(settings, least_rounds=options.benchmark_min_rounds)
    return replace(settings, lap_s=options.benchmark_min_time) if options.benchmark_min_time else settings


class Collected:
    """A pytest plugin that keeps what was collected, and what was not and why."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.root = ""
        self.faults: list[dict[str, Any]] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        self.items, self.root = list(items), str(session.config.rootpath)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.failed:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        text = report.longreprtext.strip().splitlines()
        said = [line.removeprefix("E").strip() for line in text if line.startswith("E ")]
        message = said[-1] if said else crash.message.splitlines()[0] if crash else text[-1] if text else ""
        place = _place_in(text, report.nodeid)
        self.faults.append({"file": place[0], "line": place[1], "message": message})


def _place_in(text: Sequence[str], nodeid: str) -> tuple[str, int]:
    """The last line of a traceback that names a file, else the file that could not be collected."""
    for line in reversed(text):
        file, _, rest = line.partition(":")
        number = rest.partition(":")[0]
        if file.endswith(".py") and number.isdecimal():
            return file, int(number)
    return nodeid.partition("::")[0], 0


def collect(file: str, *words: str) -> int:
    """Write the tests that pytest finds with these arguments, and what it could not collect, to a file."""
    found = Collected()
    code = int(pytest.main(["--collect-only", "-q", *_quiet(), *words], plugins=[*_plugins(), found]))
    tests = [_told(item) for item in found.items]
    is_empty = code == NOTHING_COLLECTED
    if not tests and not found.faults and code and not is_empty:
        return code
    with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123
        json.dump({"root": found.root, "tests": tests, "faults": found.faults}, stream)
    return 0


def _told(item: pytest.Item) -> dict[str, Any]:
    marks = dict.fromkeys(mark.name for mark in item.iter_markers())
    return {
        "id": item.nodeid,
        "base": base_of(item),
        "params": params_of(item),
        "marks": [name for name in marks if name not in _NOT_TAGS],
        "file": str(item.path),
        "line": (item.reportinfo()[1] or 0) + 1,
    }


def _plugins() -> list[object]:
    return [TheirOptions(), pytest_plugin]


def _quiet() -> list[str]:
    # Tests that run side by side disturb each other.
    return [*_ALONE, *(["-n", "0"] if find_spec("xdist") else [])]


class Runner:
    """A pytest plugin that runs the wanted tests and tells what came of each as soon as it has ended.

    `places` are the tests, each with the directory for its results; none is that of the process.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._stage = Stage()
        self._measured: dict[str, Measured] = {}
        self._outcomes: dict[str, tuple[str, str]] = {}
        self._calls: dict[str, float] = {}
        self.told: set[str] = set()
        self.failed: set[str] = set()
        self.collected = Collected()

    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        self._stage.settings = _settings(config)

    def pytest_collection(self) -> None:
        STAGES[-1] = self._stage

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.collected.pytest_collectreport(report)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = [item for item in items if item.nodeid not in self._places]
        items[:] = [item for item in items if item.nodeid in self._places]
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._stage.item = item

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        measured = item.stash.get(MEASURED, None)
        if measured is not None:
            self._measured[item.nodeid] = measured

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcomes.setdefault(report.nodeid, ("failed", _failure(report)))
        elif report.skipped:
            why = getattr(report, "wasxfail", None)
            said = f"failed as expected: {why}" if why is not None else _skip_reason(report)
            self._outcomes.setdefault(report.nodeid, ("skipped", said))
        elif report.when == "call":
            self._calls[report.nodeid] = report.duration

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.told.add(nodeid)
        with _results_in(self._places[nodeid]):
            status, reason = self._outcomes.get(nodeid, ("passed", ""))
            if status == "failed":
                self.failed.add(nodeid)
                emit.fail(reason)
            elif status == "skipped":
                emit.skip(reason)
            else:
                _emit(self._measured.get(nodeid, Measured()), self._calls.get(nodeid, 0.0))


def _emit(measured: Measured, call_s: float) -> None:
    """Tell what a test measured; one that marks nothing is measured as a whole."""
    warn_of_rounds(measured)
    found = {name: [float(one) for one in values] for name, values in samples_of(measured).items()}
    emit.metrics(found or {"call_duration": [call_s]})
    for name in found:
        if name.endswith(("_memory", "_memory_max")):
            emit.metric(name, found[name], unit="bytes")
    about = {"bench": how_measured(measured) or None, **measured.details}
    emit.params({name: value for name, value in about.items() if value is not None})
    for text in measured.warnings:
        emit.warn(text)


@contextmanager
def _results_in(directory: str) -> Iterator[None]:
    before = os.environ.get(_RESULTS, "")
    os.environ[_RESULTS] = directory or before
    try:
        yield
    finally:
        os.environ[_RESULTS] = before


def _failure(report: pytest.TestReport) -> str:
    """In which phase a test failed, with what and where, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext.strip().rpartition("\n")[2]
    where = f" ({os.path.basename(crash.path)}:{crash.lineno})" if crash is not None else ""  # noqa: PTH119
    return f"{report.when}: {str(text).partition(chr(10))[0]}{where}"


def _skip_reason(report: pytest.TestReport) -> str:
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
    return str(why).removeprefix("Skipped: ")


def run(test: str, *words: str) -> int:
    """Run a test in this process; `--also [ID,FILE] DIRECTORY` adds another, with the directory for its results.

    The other words are arguments of pytest. A test that failed has said so itself, if it shares the process.
    """
    places, given = {test: ""}, []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word != "--also":
            given.append(word)
            continue
        nodeid, file = json.loads(rest.pop(0))
        places[nodeid] = rest.pop(0)
        given += [file] if file not in given else []
    runner = Runner(places)
    code = int(pytest.main(["-q", "-rN", *_quiet(), *given], plugins=[*_plugins(), runner]))
    if test not in runner.told:
        faults = runner.collected.faults
        emit.fail(f"the test did not run: {faults[0]['message'] if faults else 'pytest did not find it'}")
        return code or 1
    return 1 if test in runner.failed and len(places) == 1 else 0

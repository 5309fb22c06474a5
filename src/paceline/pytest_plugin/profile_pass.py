"""Passes under profilers: a benchmark that passed is run once more for each, and nothing of these runs is measured."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodes import Node
from _pytest.runner import runtestprotocol

from paceline.pytest_plugin.fixtures import asks_for_ours
from paceline.pytest_plugin.measuring import MEASURED, Measured
from paceline.pytest_plugin.profiles import Profiling, profile_dir


class _Again:
    """Stands for the next item while a pass ends after which the same one comes again: wider fixtures stay alive."""

    def __init__(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._item = item
        self._nextitem = nextitem
        self.comes = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nextitem, name)

    def listchain(self) -> list[Node]:
        """Asked for when the pass is torn down: only what passed so far comes again."""
        measured = self._item.stash.get(MEASURED, None)
        reports = measured.reports if measured else {}
        self.comes = "call" in reports and all(report.passed for report in reports.values())
        if self.comes:
            return self._item.listchain()[:-1]
        return self._nextitem.listchain() if self._nextitem else []


class ProfilePass:
    """Runs each benchmark timed first, then under one profiler after the other."""

    def __init__(self, kinds: tuple[str, ...], directory: Path, session_id: str) -> None:
        self._kinds = kinds
        self._directory = directory / session_id
        self._current: Profiling | None = None

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not asks_for_ours(item):
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        again = _Again(item, nextitem)
        runtestprotocol(item, nextitem=again)  # type: ignore[arg-type]
        if again.comes:
            self._profile(item, nextitem)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _profile(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        profiling = Profiling(profile_dir(self._directory, item.nodeid))
        for position, kind in enumerate(self._kinds, start=1):
            again = _Again(item, nextitem)
            profiling.kind = kind
            self._run(item, profiling, nextitem if position == len(self._kinds) else again)
            if not again.comes:
                break
        profiling.finish()

    def _run(self, item: pytest.Item, profiling: Profiling, nextitem: Any) -> None:
        measured = item.stash[MEASURED] = Measured()
        measured.profiling = self._current = profiling
        try:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        finally:
            self._current = None
            del item.stash[MEASURED]
        for report in reports:
            if report.failed:
                profiling.warn(f"{profiling.kind}: the profiled pass failed in its {report.when}")
                if report.when == "teardown":
                    # Fixtures of the module end here, too, and nobody else tells of their failure.
                    item.ihook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        if self._current is None:
            yield
        else:
            with self._current.calling():
                yield

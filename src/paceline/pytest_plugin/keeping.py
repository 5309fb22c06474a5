"""Keeps what the tests measured: in a journal while they run, in the history when they are through."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import PacelineError
from paceline.history.session_info import SessionInfo
from paceline.history.urls import find_url
from paceline.model import Record, Status
from paceline.pytest_plugin import lines, sessions
from paceline.pytest_plugin.activation import Place, uuid_hex
from paceline.pytest_plugin.journal import Journal, abandoned, candidates, shown
from paceline.pytest_plugin.outcomes import PHASES
from paceline.pytest_plugin.profiles import with_profiles
from paceline.pytest_plugin.recording import LINE, RECORD
from paceline.pytest_plugin.summary import Summary, previous_values
from paceline.record.environment import Environment


class Keeper:
    """Stands where pytest was started; with xdist the reports of all workers come by here."""

    def __init__(self, config: pytest.Config, place: Place, session_id: str) -> None:
        self._rootpath = config.rootpath
        self._profiles = bool(config.option.paceline_profile)
        self._place = place
        self._session_id = session_id
        self._database = absolute(find_url(place.database), place.directory)
        self._environment: Environment | None = None
        self._session: SessionInfo | None = None
        self._journal: Journal | None = None
        self._running: dict[str, str] = {}
        self._heard: list[str | Record] = []
        self._summary = Summary(database=shown(self._database), directory=place.directory)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Look at the machine before tests, or workers that run them, make it busy."""
        self._environment = sessions.look_around(self._rootpath)
        self._session = sessions.session_of(
            self._session_id, self._environment, os.environ, self._place.directory
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """The id that xdist gives the whole run is known from its first worker on."""
        self._session_id = uuid_hex(str(node.workerinput["testrunuid"]))
        self._summary.workers = int(node.workerinput["workercount"])
        if self._session is not None:
            self._session = replace(self._session, id=self._session_id)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line, record = report.__dict__.pop(LINE, None), report.__dict__.pop(RECORD, None)
        outcome: str = report.outcome
        if line is not None and report.when == "setup":
            self._running[report.nodeid] = line
            self._write(line)
        elif line is not None:
            self._running.pop(report.nodeid, None)
            self._write(line)
            self._heard.append(record or line)
        elif report.nodeid in self._running:
            if report.when not in PHASES:  # A worker died, says xdist.
                self._give_up(report, report.longreprtext)
            elif outcome == "rerun":  # Of this attempt, pytest-rerunfailures shows no more.
                self._give_up(report, "failed, and run again")

    def _give_up(self, report: pytest.TestReport, reason: str) -> None:
        """Note that a test which started will have no record of its own."""
        start = self._running.pop(report.nodeid)
        end = lines.ended(start, Status.FAILED, reason, report.longreprtext)
        self._write(end)
        self._heard += (start, end)

    def _write(self, line: str) -> None:
        if self._journal is None:
            assert self._session is not None and self._environment is not None
            header = sessions.to_header(self._session, self._environment, shown(self._database))
            places = candidates(self._database, self._place.directory, self._session.id)
            self._journal = Journal(places, header)
        self._journal.write(line)

    def pytest_sessionfinish(self) -> None:
        journal, session, environment = self._journal, self._session, self._environment
        if journal is None or session is None or environment is None:
            return
        made = lines.records([*self._heard, *self._running.values()])
        if self._profiles:
            directory = self._place.profile_dir / self._session_id
            made = (with_profiles(record, directory) for record in made)
        self._summary.records = list(made)
        try:
            self._store(session, environment)
        except (PacelineError, OSError) as error:
            journal.close()
            self._summary.trouble = _trouble(error, journal.path)
        else:
            journal.remove()

    def _store(self, session: SessionInfo, environment: Environment) -> None:
        from paceline.history import open_store

        data = {**environment.data, "packages": list(environment.packages)}
        with open_store(self._database) as store:
            records: list[Record] = self._summary.records
            if records:
                self._summary.previous = previous_values(store, records, environment.class_id)
                store.add(session, data, records)
            for path, header, kept in abandoned(self._database, self._place.directory):
                try:
                    earlier, place = sessions.from_header(header)
                except (KeyError, TypeError):
                    continue  # A later version wrote it.
                found = list(lines.records(kept))
                store.add(earlier, place, found)
                self._summary.recovered += len(found)
                path.unlink(missing_ok=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._summary.write(terminalreporter)


def absolute(url: str, directory: Path) -> str:
    """A file is meant from where pytest was started, wherever a test goes."""
    return url if "://" in url or url.startswith("sqlite:") else str(directory / url)


def _trouble(error: Exception, journal: Path | None) -> str:
    if journal is None:
        return f"the results of this run are lost: {error}"
    return (
        f"{error}\n  The results are kept in {journal}; "
        "the next run with this database takes them in, or 'paceline history import'."
    )

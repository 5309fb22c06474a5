"""A run of pytest as a session: results in a journal while tests run, then in the history, at last on the screen."""

import os
import sys
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import PacelineError
from paceline.history.session_files import session_here
from paceline.history.session_info import SessionInfo
from paceline.model import Record, Status
from paceline.pytest_plugin.database import database_of
from paceline.pytest_plugin.journal import Journal, abandoned, candidates, end_of, records, shown
from paceline.pytest_plugin.measuring import STAGES
from paceline.pytest_plugin.profiles import ProfilePass, with_profiles
from paceline.pytest_plugin.recording import LINE, PHASES, RECORD, Recorder
from paceline.pytest_plugin.table import changes_since, lines_of, too_short
from paceline.record.codec import dump, load
from paceline.record.environment import Environment, capture
from paceline.record.redact import Redactor, secret_values


def activate(config: pytest.Config) -> None:
    """Register the parts that this process needs: a worker of xdist stores nothing, it sends."""
    # Workers know the id that xdist gives the whole run; without workers it is made here.
    given = getattr(config, "workerinput", {}).get("testrunuid")
    session_id = uuid_hex(given) if given else uuid.uuid4().hex
    stage = STAGES[-1]
    assert stage is not None
    stage.session_id = session_id
    config.pluginmanager.register(Recorder(config), "paceline-recorder")
    profile_dir = config.invocation_params.dir / config.option.paceline_profile_dir
    if config.option.paceline_profile:
        passes = ProfilePass(config.option.paceline_profile, profile_dir, session_id)
        config.pluginmanager.register(passes, "paceline-profiles")
    if not hasattr(config, "workerinput"):
        try:
            session = Session(config, profile_dir, session_id)
        except PacelineError as error:
            raise pytest.UsageError(str(error)) from error
        config.pluginmanager.register(session, "paceline-session")


def uuid_hex(text: str) -> str:
    """The id of a run; `--testrunuid` lets users give xdist any text."""
    try:
        return uuid.UUID(text).hex
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"paceline testrunuid {text}").hex


class Session:
    """Stands where pytest was started; with xdist the reports of all workers come by here."""

    def __init__(self, config: pytest.Config, profile_dir: Path, session_id: str) -> None:
        self._rootpath = config.rootpath
        self._directory = config.invocation_params.dir
        self._profile_dir = profile_dir if config.option.paceline_profile else None
        self._database = database_of(config)
        self._session = SessionInfo(id=session_id, name="", kind="pytest")
        self._environment: Environment | None = None
        self._journal: Journal | None = None
        self._running: dict[str, dict[str, Any]] = {}
        self._entries: list[dict[str, Any] | Record] = []
        self._summary = Summary(database=shown(self._database), directory=self._directory)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Look at the machine before tests, or workers that run them, make it busy."""
        redactor = Redactor(secret_values(os.environ))
        environment = capture(cwd=self._rootpath, redactor=redactor, command_line=sys.argv)
        self._environment = environment
        began = session_here(
            environment, prefix="pytest", kind="pytest", directory=self._directory, ident=self._session.id
        )
        self._session = replace(began, tool="pytest")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """The id that xdist gives the whole run is known from its first worker on."""
        self._session = replace(self._session, id=uuid_hex(str(node.workerinput["testrunuid"])))
        self._summary.workers = int(node.workerinput["workercount"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line, record = report.__dict__.pop(LINE, None), report.__dict__.pop(RECORD, None)
        outcome: str = report.outcome
        if line is not None and report.when == "setup":
            self._running[report.nodeid] = load(line.encode())
            self._write(line.encode())
        elif line is not None:
            self._running.pop(report.nodeid, None)
            self._write(line.encode())
            self._entries.append(record or load(line.encode()))
        elif report.nodeid in self._running:
            if report.when not in PHASES:  # A worker died, says xdist.
                self._give_up(report, report.longreprtext)
            elif outcome == "rerun":  # Of this attempt, pytest-rerunfailures shows no more.
                self._give_up(report, "failed, and run again")

    def _give_up(self, report: pytest.TestReport, reason: str) -> None:
        """Note that a test which started will have no record of its own."""
        start = self._running.pop(report.nodeid)
        end = end_of(start, Status.FAILED, reason, report.longreprtext)
        self._write(dump(end))
        self._entries += (start, end)

    def _write(self, line: bytes) -> None:
        if self._journal is None:
            header = {
                "database": shown(self._database),
                "session": asdict(self._session),
                "environment": self._environment_data(),
            }
            self._journal = Journal(candidates(self._database, self._directory, self._session.id), header)
        self._journal.write(line)

    def _environment_data(self) -> dict[str, Any]:
        assert self._environment is not None
        return {**self._environment.data, "packages": list(self._environment.packages)}

    def pytest_sessionfinish(self) -> None:
        journal = self._journal
        if journal is None:
            return
        made = records([*self._entries, *self._running.values()])
        if self._profile_dir is not None:
            directory = self._profile_dir / self._session.id
            made = (with_profiles(record, directory) for record in made)
        self._summary.records = list(made)
        try:
            self._store()
        except (PacelineError, OSError) as error:
            journal.close()
            self._summary.trouble = f"the results of this run are lost: {error}"
            if journal.path is not None:
                self._summary.trouble = (
                    f"{error}\n  The results are kept in {journal.path}; "
                    "the next run with this database takes them in, or 'paceline history import'."
                )
        else:
            journal.remove()

    def _store(self) -> None:
        from paceline.history import open_store

        assert self._environment is not None
        summary = self._summary
        with open_store(self._database) as store:
            if summary.records:
                summary.since = changes_since(store, summary.records, self._environment.class_id)
                store.add(self._session, self._environment_data(), summary.records)
            for path, header, entries in abandoned(self._database, self._directory):
                try:
                    session, environment = SessionInfo(**header["session"]), header["environment"]
                except (KeyError, TypeError):
                    continue  # A later version wrote it.
                found = list(records(entries))
                store.add(session, environment, found)
                summary.recovered += len(found)
                path.unlink(missing_ok=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._summary.write(terminalreporter)


@dataclass(slots=True, kw_only=True)
class Summary:
    """The last words of a run."""

    database: str
    directory: Path
    records: list[Record] = field(default_factory=list)
    since: dict[str, str] = field(default_factory=dict)
    recovered: int = 0
    workers: int = 1
    trouble: str = ""

    def write(self, terminal: pytest.TerminalReporter) -> None:
        if not (self.records or self.recovered or self.trouble):
            return
        database = Path(self.database)
        is_here = database.is_relative_to(self.directory)
        place = str(database.relative_to(self.directory)) if is_here else self.database
        terminal.write_sep("-", f"benchmarks: {len(self.records)} recorded in {place}")
        if self.records:
            for line in lines_of(self.records, {} if self.workers > 1 else self.since):
                terminal.write_line(line)
            for line in too_short(self.records):
                terminal.write_line(f"warning: {line}", yellow=True)
        if self.recovered:
            terminal.write_line(f"{self.recovered} results of a run that was cut short were taken in, too")
        if self.workers > 1:
            terminal.write_line(
                f"{self.workers} workers ran tests side by side: "
                "times are not comparable with those of a run without -n",
                yellow=True,
            )
        if self.trouble:
            terminal.write_line(
                f"warning: nothing was added to the history: {self.trouble}", yellow=True, bold=True
            )

"""Sessions that are on disk, read back from their files."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from paceline.cli.inputs import DEFAULT_CONFIG, ResultsDir
from paceline.cli.output import log_once
from paceline.errors import SessionError
from paceline.judge.requirements import why_inconclusive
from paceline.model import Case, CaseKind, Check, Finding, Plan, Report, Status
from paceline.record import below, codec
from paceline.record.directory import SessionDir
from paceline.record.layout import is_session
from paceline.record.remote.address import Location, parse_location
from paceline.record.remote.session import fetched_session, is_stored_session, session_names

DEFAULT_RESULTS_DIR = "results"
_RECENT = {"last": 0, "previous": 1}

results_dir_option = click.option(
    "--results-dir",
    metavar="DIR",
    type=ResultsDir(),
    help="Where sessions are kept, a directory or a URL such as s3://bucket/results. "
    f"[default: that of ./{DEFAULT_CONFIG}, else ./{DEFAULT_RESULTS_DIR}]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session's files, as far as they were written."""

    path: Path
    cases: tuple[Case, ...]
    """Those that were planned, in that order, then others that have a record."""
    counts: Counter[Status]
    started_at: str
    relative: tuple[Check, ...] = ()
    """Requirements that are relative to the history, checked."""

    @property
    def unfinished(self) -> int:
        """Cases that were to run and have no record: the session was cut short or still runs."""
        return len(self.cases) - self.counts.total()

    def report(self) -> Report:
        """The report that the session's records make."""
        missing = f"{self.unfinished:,} of {len(self.cases):,} cases have no record"
        return Report(
            plan=Plan(session=self.path.name, directory=self.path, cases=self.cases),
            records=SessionDir.open(self.path).records(self.cases),
            counts=self.counts,
            interrupted=self.counts[Status.INTERRUPTED] > 0,
            unfinished=missing if self.unfinished else "",
            findings=tuple(_findings(self.path)),
            unjudged=sum(not check.judged for check in self.relative),
            inconclusive=why_inconclusive(self.relative),
        )


def find_results_place(given: Location | None) -> Location:
    """The directory or URL asked for, else that of the suite here, else the default one."""
    if given is not None:
        return given
    if not Path(DEFAULT_CONFIG).is_file():
        return Path(DEFAULT_RESULTS_DIR)
    # Bring pydantic and YAML, which showing a session by its path does not need.
    from paceline.config.load import load
    from paceline.plan import find_results_place as results_place_of

    return results_place_of(load([Path(DEFAULT_CONFIG)]))


def find_artifacts_dir() -> Path | None:
    """Where the suite here has logs kept, if it says so."""
    if not Path(DEFAULT_CONFIG).is_file():
        return None
    from paceline.config.load import load
    from paceline.plan import find_artifacts_dir as artifacts_dir_of

    return artifacts_dir_of(load([Path(DEFAULT_CONFIG)]))


def find_session(given: str | None, results_dir: Location | None) -> Location:
    """The session of that path, URL or name; the newest without one."""
    if given is not None and ("/" in given or given in {".", ".."}):
        # Reads no configuration, so that a session can be shown from anywhere. Absolute, since '.' is not a name.
        place = parse_location(given)
        if isinstance(place, Path):
            place = Path(os.path.abspath(place))  # noqa: PTH100 - resolve() would follow links
        return place if _is_session(place) else _newest(place)
    results = find_results_place(results_dir)
    if given is None:
        return _newest(results)
    session = f"{results}/{given}" if isinstance(results, str) else results / given
    if _is_session(session):
        return session
    if isinstance(results, Path) and results_dir is None and is_session(Path(given)):
        return Path(given).absolute()  # from inside the results directory
    if given in _RECENT and (found := stored_sessions(results)[_RECENT[given] :]):
        return found[0]
    raise SessionError(f"no session {given!r} in {results}: 'paceline list' shows those there are")


def _is_session(place: Location) -> bool:
    return is_stored_session(place) if isinstance(place, str) else is_session(place)


def _newest(results: Location) -> Location:
    found = stored_sessions(results)
    if not found:
        raise SessionError(f"no session in {results}: run a suite first, or name another --results-dir")
    return found[0]


def stored_sessions(results: Location) -> list[Location]:
    """The sessions of a directory or an address, the one that was started or ended last first."""
    names = session_names(results)
    return [results / name if isinstance(results, Path) else f"{results}/{name}" for name in names]


@contextmanager
def files_of(place: Location, *, case: str | None = None) -> Iterator[Path]:
    """The directory with a session's files; from an object store its records come, and the output of one case."""
    if isinstance(place, Path):
        yield place
        return
    with fetched_session(place, case=case) as directory:
        yield directory


def read_session(path: Path) -> StoredSession:
    """What a session planned, and how the cases ended that have a record."""
    log_once()
    cases = {case.name: case for case in _planned_cases(path)}
    counts: Counter[Status] = Counter()
    started: list[str] = []
    relative: list[Check] = []
    for _, record in SessionDir(path).stored_records():
        cases[record.case.name] = record.case
        counts[record.status] += 1
        relative += (check for check in record.requirements if check.kind == "max_regression")
        started += [record.started_at] if record.started_at else []
    return StoredSession(
        path=path,
        cases=tuple(cases.values()),
        counts=counts,
        started_at=min(started, default=""),
        relative=tuple(relative),
    )


def _findings(path: Path) -> Iterator[Finding]:
    """What the session's own report says was found; the history may know better by now."""
    try:
        # The last part of the file, after records that may be many.
        whole = below.read(path, "report.json", codec.MAX_RECORD_BYTES)
        last = whole.rpartition(b'\n"findings": ')[2].rpartition(b"}")[0]
        found: Any = codec.load(last)
    except (OSError, ValueError):
        return
    if isinstance(found, list):
        yield from (codec.read_finding(one) for one in found)


def _planned_cases(path: Path) -> Iterator[Case]:
    """The names in the plan, in its order; none where the plan was not written."""
    try:
        plan: Any = codec.load(below.read(path, "plan.json", codec.MAX_RECORD_BYTES))
    except (OSError, ValueError):
        return
    kinds: tuple[tuple[str, CaseKind], ...] = (("setups", "data_setup"), ("cases", "entry"))
    for key, kind in kinds:
        listed = plan.get(key) if isinstance(plan, dict) else None
        for case in listed if isinstance(listed, list) else ():
            name = case.get("name") if isinstance(case, dict) else None
            if isinstance(name, str):
                yield Case(name=name, entry=name, key=name, kind=kind)

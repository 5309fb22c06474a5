"""Sessions that are on disk, read back from their files."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from paceline.cli.inputs import DEFAULT_CONFIG
from paceline.errors import SessionError
from paceline.model import Case, Plan, Record, Report, Status
from paceline.record import codec
from paceline.record.directory import SessionDir, newest
from paceline.record.layout import DATA_SETUP, RECORD, is_session

DEFAULT_RESULTS_DIR = "results"

results_dir_option = click.option(
    "--results-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help=f"Where sessions are kept. [default: that of ./{DEFAULT_CONFIG}, else ./{DEFAULT_RESULTS_DIR}]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session's files, as far as they were written."""

    path: Path
    cases: tuple[Case, ...]
    counts: Counter[Status]
    planned: int
    started_at: str

    @property
    def unfinished(self) -> int:
        """Cases that were to run and have no record: the session was cut short or still runs."""
        return max(0, self.planned - len(self.cases))

    def report(self) -> Report:
        """The report that the session's records make."""
        missing = f"{self.unfinished:,} of {self.planned:,} cases have no record"
        return Report(
            plan=Plan(session=self.path.name, directory=self.path, cases=self.cases),
            records=SessionDir.open(self.path).records(self.cases),
            counts=self.counts,
            interrupted=self.counts[Status.INTERRUPTED] > 0,
            unfinished=missing if self.unfinished else "",
        )


def find_results_dir(given: Path | None) -> Path:
    """The directory asked for, else that of the suite here, else the default one."""
    if given is not None:
        return given
    if not Path(DEFAULT_CONFIG).is_file():
        return Path(DEFAULT_RESULTS_DIR)
    # Bring pydantic and YAML, which showing a session by its path does not need.
    from paceline.config.load import load
    from paceline.plan import find_results_dir as results_dir_of

    return results_dir_of(load([Path(DEFAULT_CONFIG)]))


def find_session(given: str | None, results_dir: Path | None) -> Path:
    """The session of that path or name; the newest without one."""
    if given is not None and "/" in given and is_session(Path(given)):
        return Path(given)  # looks at no configuration, so that a session can be shown from anywhere
    directory = find_results_dir(results_dir)
    if given is None:
        found = newest(directory)
        if found is None:
            raise SessionError(f"no session in {directory}: run a suite first, or name another --results-dir")
        return found
    if not is_session(directory / given):
        raise SessionError(f"no session {given!r} in {directory}: 'paceline list' shows those there are")
    return directory / given


def read_session(path: Path) -> StoredSession:
    """What a session planned, and how the cases ended that have a record."""
    order = {name: position for position, name in enumerate(_planned_names(path))}
    cases: list[Case] = []
    counts: Counter[Status] = Counter()
    started: list[str] = []
    for record in _records(path):
        cases.append(record.case)
        counts[record.status] += 1
        started += [record.started_at] if record.started_at else []
    return StoredSession(
        path=path,
        cases=tuple(sorted(cases, key=lambda case: order.get(case.name, len(order)))),
        counts=counts,
        planned=len(order),
        started_at=min(started, default=""),
    )


def _records(path: Path) -> Iterator[Record]:
    for pattern in (f"{DATA_SETUP}/*/{RECORD}", f"*/{RECORD}"):
        for file in sorted(path.glob(pattern)):
            record = codec.read_record(file)
            if record is not None:
                yield record


def _planned_names(path: Path) -> Iterator[str]:
    """The names in the plan, in its order; none where the plan was not written."""
    try:
        plan: Any = codec.load((path / "plan.json").read_bytes())
    except (OSError, ValueError):
        return
    for kind in ("setups", "cases"):
        yield from (case["name"] for case in plan.get(kind, ()))

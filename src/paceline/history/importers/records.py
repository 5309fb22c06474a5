"""Records that have found no database yet, as lines of JSON.

Each line has a session, an environment and a record; or, in a journal that a run of pytest has left behind, the first
line has session and environment, and those after it a test that started, a record, or the word that none will come.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from uuid import UUID

from paceline.errors import HistoryError, PacelineError
from paceline.history.importers.batch import OnProblem, make_batch, make_case, make_record
from paceline.history.importers.document import Value, parse, read_bytes, read_head
from paceline.history.session_info import Batch, SessionInfo
from paceline.model import Record, Status
from paceline.record import codec

FORMAT = "records"
_JOURNAL = "paceline pytest journal"
_LOST = "the process ended while the test was running"
_MOST_AT_ONCE = 1000
_FIRST_LINE_BYTES = 64 << 20
_TEXTS = tuple(field.name for field in fields(SessionInfo) if field.name != "meta")


def found(path: Path) -> bool:
    """Whether a file's first line is a record of ours, or begins a journal."""
    line = read_head(path, _FIRST_LINE_BYTES).partition(b"\n")[0]
    if b'"session"' not in line or not (b'"record"' in line or _JOURNAL.encode() in line):
        return False
    try:
        data = codec.load(line)
    except ValueError:
        return False
    return isinstance(data, dict) and "session" in data and ("record" in data or _is_journal(data))


def _is_journal(data: Any) -> bool:
    return isinstance(data, dict) and data.get("format") == _JOURNAL


def batches(path: Path, on_problem: OnProblem) -> Iterator[Batch]:
    """The sessions in the order of their lines. A line that was torn is said and left out."""
    documents = _documents(path, on_problem)
    first = next(documents, None)
    if first is not None and _is_journal(first.data):
        yield make_batch(_session(first), _environment(first), _of_journal(documents, on_problem))
        return
    lines = _lines(chain([first] if first else [], documents), on_problem)
    for _, group in groupby(enumerate(lines), key=lambda one: (one[0] // _MOST_AT_ONCE, *_place(one[1]))):
        members = [line for _, line in group]
        session, environment, _ = members[0]
        yield Batch(session=session, environment=environment, records=tuple(line[2] for line in members))


def _documents(path: Path, on_problem: OnProblem) -> Iterator[Value]:
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = parse(line, f"{path}:{number}")
            yield Value(document.fields, document.file)
        except HistoryError as problem:
            on_problem(problem)


Line = tuple[SessionInfo, dict[str, Any], Record]


def _lines(documents: Iterable[Value], on_problem: OnProblem) -> Iterator[Line]:
    for document in documents:
        try:
            yield _session(document), _environment(document), _record(document)
        except HistoryError as problem:
            on_problem(problem)


def _place(line: Line) -> tuple[str, str]:
    return line[0].id, str(line[1].get("id"))


def _session(document: Value) -> SessionInfo:
    session = document["session"]
    texts = {name: session.get(name).text("") for name in _TEXTS if session.get(name).data is not None}
    if not _is_id(texts.get("id", "")) or "name" not in texts:
        raise session.wrong("has no id or no name", "delete the line")
    meta = session.get("meta")
    return SessionInfo(**texts, meta=meta.fields if meta.data else {})


def _is_id(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def _environment(document: Value) -> dict[str, Any]:
    environment = document.get("environment")
    return environment.fields if environment.data else {}


def _record(document: Value) -> Record:
    try:
        return codec.from_json(document["record"].data)
    except HistoryError:
        raise
    except PacelineError as error:
        raise document["record"].wrong(str(error), "delete the line, or update paceline") from error


def _of_journal(documents: Iterable[Value], on_problem: OnProblem) -> Iterator[Record]:
    """The records, and one for each test that started and of which nothing more was heard."""
    started: dict[str, Value] = {}
    for document in documents:
        try:
            if "started" in document.fields:
                started[document["started"]["name"].text()] = document["started"]
            elif "ended" in document.fields:
                end = document["ended"]
                yield _unfinished(started.pop(end["name"].text(), end), end)
            elif "record" in document.fields:
                record = _record(document)
                started.pop(record.case.name, None)
                yield record
        except HistoryError as problem:
            on_problem(problem)
    for start in started.values():
        yield _unfinished(start, Value({}, start.file))


def _unfinished(start: Value, end: Value) -> Record:
    status = end.get("status").text("interrupted")
    name = start["name"].text()
    return make_record(
        make_case(
            start.get("entry").text(name),
            start.get("params").scalars(),
            variant=start.get("variant").text("") or None,
        ),
        {},
        status=Status(status) if status in set(Status) else Status.INTERRUPTED,
        reason=end.get("reason").text(_LOST),
        started_at=start.get("started_at").text(""),
        details={
            "nodeid": name,
            "path": name.partition("::")[0],
            "test_name": start.get("test_name").text(""),
            "original_name": start.get("entry").text("").rpartition("::")[2],
            "setup_outcome": start.get("setup_outcome").text(""),
            "error": end.get("error").text(""),
        },
    )

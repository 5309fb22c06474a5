"""Where results are sent: a class with `open(plan)`, `record(record)` and `close(report)`, each a no-op by default.

A sink lives in a process of its own, apart from the run. Each of its calls is made until it returns, in the order of
the session; what is not delivered waits on disk for `paceline send` or the next session. A process may die between
a call's effect and the note that it was made, and the call is then made again with the same `context.key`: a sink
hands the key to its service, or looks by it whether the thing is there already.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from paceline.model import Case, Plan, Record, Report
from paceline.numbers import size
from paceline.record import below
from paceline.record.files import JsonLines, read_lines
from paceline.record.layout import entry_path
from paceline.record.redact import Redactor

if TYPE_CHECKING:
    from pydantic import BaseModel

LARGEST_UPLOAD_BYTES = 50 << 20
"""Of a file that is masked while it is sent; a larger one stays where it is."""

_LONGEST_ASKED_S = 3600.0
"""What a service asks for is kept to, but not for days."""

_DEADLINE_SHARE = 0.6
"""Of the call's time: the rest is for the request that is under way when it has passed."""

_LONGEST_CALL_S = 15.0
"""Half of what the end of a session waits for a sink by default."""


class Undeliverable(Exception):
    """This call can never succeed as it is: wrong options, an answer such as 400 or 404. It is not tried again."""


class TryLater(Exception):
    """The service is away or asks for patience; the call is made again after `after_s`, or a growing pause."""

    def __init__(self, why: str, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s if after_s is None else max(0.0, min(after_s, _LONGEST_ASKED_S))


class GoOn(TryLater):
    """A long call has come some way in its time; it is made again at once, and goes on from what it noted."""

    def __init__(self, why: str) -> None:
        super().__init__(why, after_s=0.0)


answer_listeners: list[Callable[[], None]] = []
"""Called by `note_answer`; a sink's process has one."""


def note_answer() -> None:
    """A service has answered, whatever it said: the end of a session waits for it, no longer for a first word only."""
    for listener in answer_listeners:
        listener()


def _say_nothing(text: str) -> None:
    """Nobody listens."""


class Notebook:
    """Facts by key; each is on the disk when `put` returns, and the last one counts."""

    def __init__(self, state_dir: Path, root: Path | None = None) -> None:
        self._path, self._root = state_dir / "notebook.jsonl", root or state_dir
        self._facts = {str(fact["key"]): fact for fact in read_lines(self._path, self._root) if "key" in fact}

    def get(self, key: str) -> dict[str, Any] | None:
        """The fact noted last under this key."""
        return self._facts.get(key)

    def put(self, key: str, **fact: Any) -> dict[str, Any]:
        """Note a fact in place of the earlier one."""
        noted = {**fact, "key": key}
        # For the owner's eyes: the address of an upload under way lets its holder write to it.
        with JsonLines(self._path, root=self._root, durable=True, mode=0o600) as log:
            log.append(noted)
        self._facts[key] = noted
        return noted

    def under(self, prefix: str) -> Mapping[str, dict[str, Any]]:
        """All facts whose key begins so, by the rest of it."""
        return {key[len(prefix) :]: fact for key, fact in self._facts.items() if key.startswith(prefix)}


# Not frozen: the key is another one for each call.
@dataclass(slots=True, kw_only=True)
class SinkContext:
    """What a sink may know besides its options.

    `key` is the same for every try of one call, and no other call anywhere has it. `state_dir` is private to this
    sink in this session and outlives processes. `say` shows the user a line, such as the link to what was made.
    """

    name: str
    session: str
    session_id: str
    session_dir: Path
    state_dir: Path
    environment: Mapping[str, Any] = field(default_factory=dict)
    report_url: str = ""
    key: str = ""
    timeout_s: float = 60.0
    say: Callable[[str], None] = _say_nothing
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    keep_secret: Callable[[str], None] = field(default=_say_nothing, repr=False)
    redactor: Callable[[], Redactor] = field(default=Redactor, repr=False)
    artifacts_dir: Path | None = None
    _notes: Notebook | None = field(default=None, init=False, repr=False)
    _left_out: set[str] = field(default_factory=set, init=False, repr=False)

    def secret(self, name: str, file: str | Path | None = None) -> str:
        """The value of the variable `name`, else the text of `file` or of the file that `<name>_FILE` names."""
        value = self.find_secret(name, file)
        if value is None:
            raise Undeliverable(
                f"set the environment variable {name}, or {name}_FILE to a file that holds it"
            )
        return value

    def find_secret(self, name: str, file: str | Path | None = None) -> str | None:
        """The same; None where there is none. What is found is masked in all that is said and kept."""
        value = self.environ.get(name) or _read_secret(file or self.environ.get(f"{name}_FILE"))
        if value:
            self.keep_secret(value)
        return value or None

    def entry_dir(self, case: Case) -> Path:
        """The directory with a case's logs and artifacts; `record.artifacts` are paths in it."""
        return entry_path(self.session_dir, case)

    def find_file(self, name: str) -> tuple[Path, str] | None:
        """Where a file of the session is, as a root and its name below: in the session, or in `artifacts_dir`.

        Only regular files count, and no link leads to one: others may have made the session.
        """
        elsewhere = [(self.artifacts_dir, f"{self.session_dir.name}/{name}")] if self.artifacts_dir else []
        places = [(self.session_dir, name), *elsewhere]
        return next(((root, path) for root, path in places if below.is_file(root, path)), None)

    def read_masked(self, name: str, limit: float = LARGEST_UPLOAD_BYTES) -> Iterator[bytes] | None:
        """A file of the session, piece by piece, with all known secrets masked.

        None if there is none, or it is larger than the limit, which is said.
        """
        place = self.find_file(name)
        status = below.status(*place) if place else None
        if place is None or status is None:
            return None
        if status.st_size > limit:
            if name not in self._left_out:
                self._left_out.add(name)
                self.say(f"{name} is left out: it is larger than {size(limit)}")
            return None
        return self._masked(*place, status.st_size)

    def _masked(self, root: Path, name: str, size_bytes: int) -> Iterator[bytes]:
        """What a file held when it was looked at: one that grows does so without end, perhaps."""
        stream = self.redactor().stream()
        with below.open_file(root, name) as file:
            while block := file.read(min(size_bytes, 1 << 20)):
                size_bytes -= len(block)
                yield stream.feed(block)
        yield stream.flush()

    @property
    def notes(self) -> Notebook:
        """What this sink has noted for itself in this session."""
        if self._notes is None:
            inside = self.state_dir.is_relative_to(self.session_dir)
            self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._notes = Notebook(self.state_dir, self.session_dir if inside else None)
        return self._notes

    def load_state(self) -> dict[str, Any]:
        """What `save_state` kept, in whichever process; empty at first."""
        return {name: fact["value"] for name, fact in self.notes.under("state ").items()}

    def save_state(self, **values: Any) -> None:
        """Add to what `load_state` gives; no secrets, for it is a plain file."""
        for name, value in values.items():
            self.notes.put(f"state {name}", value=json.loads(json.dumps(value)))


def _read_secret(path: str | Path | None) -> str | None:
    if not path:
        return None
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise Undeliverable(f"cannot read the secret in {path}: {error.strerror or error}") from error


class Sink:
    """The interface; derive from it or write a class with the same methods.

    `Options` is a pydantic model, or None for a plain mapping. `needs` names a module that must be installed, and
    the extra of paceline that brings it.
    """

    Options: ClassVar["type[BaseModel] | None"] = None
    needs: ClassVar[tuple[str, str] | None] = None

    def __init__(self, options: Any, context: SinkContext) -> None:
        self.options = options
        self.context = context

    def open(self, plan: Plan) -> None:
        """The session begins."""

    def reopen(self, plan: Plan) -> None:
        """In place of `open` where an earlier process has opened: delivery was cut short, or the session goes on."""

    def record(self, record: Record) -> None:
        """A case has its record."""

    def close(self, report: Report) -> None:
        """The session has ended; once more, with a new key, each time it was resumed."""

    def end(self) -> None:
        """This process is about to end, whatever is still waiting; let go of what it holds."""


class Deadline:
    """Ends a long call before it is ended from outside; whatever was noted on the way is not done again."""

    def __init__(self, timeout_s: float) -> None:
        self._end_s = monotonic() + min(timeout_s * _DEADLINE_SHARE, _LONGEST_CALL_S)

    def check(self, what: str) -> None:
        """Raise `GoOn` if the time has passed."""
        if monotonic() >= self._end_s:
            raise GoOn(f"{what}: more to send")

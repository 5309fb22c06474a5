"""Where results are sent: a class with `open(plan)`, `record(record)` and `close(report)`, each a no-op by default.

A sink lives in a process of its own, apart from the run. Each of its calls is made until it returns, in the order of
the session; what is not delivered waits on disk for `paceline send` or the next session. A process may die between
a call's effect and the note that it was made, and the call is then made again with the same `context.key`: a sink
hands the key to its service, or looks by it whether the thing is there already.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from paceline.model import Case, Plan, Record, Report
from paceline.record.files import write_atomic
from paceline.record.layout import entry_path

if TYPE_CHECKING:
    from pydantic import BaseModel

_STATE = "state.json"

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
        self.after_s = after_s


class GoOn(TryLater):
    """A long call has come some way in its time; it is made again at once, and goes on from what it noted."""

    def __init__(self, why: str) -> None:
        super().__init__(why, after_s=0.0)


def _say_nothing(text: str) -> None:
    """Nobody listens."""


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

    def load_state(self) -> dict[str, Any]:
        """What `save_state` kept, in whichever process; empty at first."""
        try:
            loaded = json.loads((self.state_dir / _STATE).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}

    def save_state(self, **values: Any) -> None:
        """Add to what `load_state` gives; no secrets, for it is a plain file."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        write_atomic(self.state_dir / _STATE, json.dumps({**self.load_state(), **values}).encode())


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

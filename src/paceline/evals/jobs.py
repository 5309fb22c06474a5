"""A stub on its way through the execution: what it needs, what befell it, and how it ended."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.evals.configs import BenchmarkStub
from paceline.evals.faults import FaultClass
from paceline.evals.interfaces import Waiting

State = Literal["completed", "skipped", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why an attempt gave no result."""

    fault_class: FaultClass
    message: str
    phase: str = ""
    error_type: str = ""
    returncode: int | None = None
    log_tail: str = ""
    traceback: str = ""
    device: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a stub ended, for good."""

    state: State
    facts: Mapping[str, Any] = field(default_factory=dict)
    fault: Fault | None = None
    started_at: str = ""
    seconds: float = 0.0
    load_s: float = 0.0


def stored_outcome(facts: Mapping[str, Any], state: State) -> Outcome:
    """How a stub ended earlier, by what its marker tells."""
    return Outcome(
        state=state,
        facts=facts,
        started_at=str(facts.get("started_at") or ""),
        seconds=float(facts.get("execution_time_s") or 0.0),
        load_s=float(facts.get("load_s") or 0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The session whose worker made a result; its name may be given again, and its directory be moved."""

    session: str
    started_at: str
    directory: str

    def facts(self) -> dict[str, str]:
        """As the completion marker has it."""
        return {
            "session": self.session,
            "session_started_at": self.started_at,
            "session_dir": self.directory,
        }

    def made(self, facts: Mapping[str, Any]) -> bool:
        """Whether a result is of this session."""
        told = facts.get("session"), facts.get("session_started_at")
        return told == (self.session, self.started_at)


def maker_of(facts: Mapping[str, Any]) -> Maker:
    """Who made a result, as far as its marker tells."""
    names = ("session", "session_started_at", "session_dir")
    session, started_at, directory = (str(facts.get(name) or "") for name in names)
    return Maker(session=session, started_at=started_at, directory=directory)


@dataclass(slots=True, kw_only=True)
class Job:
    """A stub that is to run; the supervisor alone changes it."""

    number: int
    stub: BenchmarkStub
    model_key: str
    payload: Mapping[str, Any]
    """What a worker is told besides the number of the lease."""
    maker: Maker
    expected_s: float | None = None
    memory_bytes: int = 0
    alone: bool = False
    faults: Counter[FaultClass] = field(default_factory=Counter)
    attempt: int = 0
    outcome: Outcome | None = None

    def waiting(self) -> Waiting:
        """The job as a scheduler sees it."""
        return Waiting(
            number=self.number,
            model_key=self.model_key,
            expected_s=self.expected_s,
            memory_bytes=self.memory_bytes,
            alone=self.alone,
        )

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


@dataclass(slots=True, kw_only=True)
class Job:
    """A stub that is to run; the supervisor alone changes it."""

    number: int
    stub: BenchmarkStub
    model_key: str
    payload: Mapping[str, Any]
    """What a worker is told besides the number of the lease."""
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

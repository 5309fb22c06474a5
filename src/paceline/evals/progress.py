"""How far an execution is, as a value that does not change under its reader."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionProgress:
    """Counts of all stubs, and what every device does now."""

    total_stubs: int
    skipped_stubs: int = 0
    completed_stubs: int = 0
    failed_stubs: int = 0
    cancelled_stubs: int = 0
    current_executions: Mapping[int | str, str] = field(default_factory=dict)
    elapsed_s: float = 0.0
    eta_s: float | None = None
    """Until all is done, at the pace so far; None before anything is known of the pace."""

    @property
    def ended_stubs(self) -> int:
        return self.skipped_stubs + self.completed_stubs + self.failed_stubs + self.cancelled_stubs

    @property
    def waiting_stubs(self) -> int:
        return self.total_stubs - self.ended_stubs

    @property
    def completion_percentage(self) -> float:
        return 100.0 * self.ended_stubs / self.total_stubs if self.total_stubs else 100.0

"""How far an execution is, as a value that does not change under its reader."""

from collections.abc import Iterable, Mapping
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
    """Until all is done, as `Pace` tells it; None before anything is known of the pace."""

    @property
    def ended_stubs(self) -> int:
        return self.skipped_stubs + self.completed_stubs + self.failed_stubs + self.cancelled_stubs

    @property
    def waiting_stubs(self) -> int:
        return self.total_stubs - self.ended_stubs

    @property
    def completion_percentage(self) -> float:
        return 100.0 * self.ended_stubs / self.total_stubs if self.total_stubs else 100.0


class Pace:
    """How long the rest takes: by what stubs took in earlier executions, and how fast this one gets on.

    A stub that nothing is known of counts as the mean of the others. What running stubs have answered counts too, so
    that there is an estimate before the first has ended.
    """

    def __init__(self, expected_s: Mapping[int, float | None]) -> None:
        known = [seconds for seconds in expected_s.values() if seconds]
        usual = sum(known) / len(known) if known else 1.0
        self._work = {number: seconds or usual for number, seconds in expected_s.items()}
        self._left = sum(self._work.values())
        self._done = 0.0

    def end(self, number: int, *, ran: bool) -> None:
        """A stub has ended; one that did not run says nothing of the pace."""
        work = self._work.pop(number, 0.0)
        self._left -= work
        self._done += work if ran else 0.0

    def eta_s(self, elapsed_s: float, running: Iterable[tuple[int, float]]) -> float | None:
        """Seconds until all is done; `running` are numbers of stubs with the share of each that is answered."""
        if not self._work:
            return 0.0
        answered = sum(self._work.get(number, 0.0) * share for number, share in running)
        done = self._done + answered
        return elapsed_s / done * max(0.0, self._left - answered) if done else None

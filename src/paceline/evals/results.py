"""How far an execution is, and what it hands back: the results of all stubs, what failed, the summary, a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from paceline.evals.configs import BenchmarkStub
from paceline.record.layout import RESULTS_TABLE

if TYPE_CHECKING:
    from paceline.evals.comparison import Comparison


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """The result of one stub; `state` says whether this execution made it or found it."""

    stub: BenchmarkStub
    metrics: Mapping[str, Any]
    """As in `metrics.json`: primary, overall_score, metrics, density, num_samples."""
    execution_time: float
    result_dir: str
    state: Literal["completed", "skipped"] = "completed"
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_old(self) -> bool:
        """Whether an earlier execution made it."""
        return self.state == "skipped"

    @property
    def score(self) -> float:
        return float(self.metrics["overall_score"])

    @property
    def density(self) -> float | None:
        return self.metrics.get("density")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFailure:
    """A stub that gave no result, and why the last attempt at it did not."""

    stub: BenchmarkStub
    error_type: str
    error_message: str
    execution_time: float
    attempts: int = 1
    log_tail: str = field(default="", repr=False)
    traceback: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResults:
    """Aggregated results of an execution. `individual_results` has the skipped stubs too, read back from disk."""

    execution_summary: Mapping[str, Any]
    individual_results: Sequence[BenchmarkResult]
    failed_executions: Sequence[BenchmarkFailure]
    execution_time: float
    directory: Path = Path()
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        return not self.failed_executions and not self.interrupted

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a result."""
        from paceline.evals.table import result_row

        return [result_row(result, result.state) for result in self.individual_results]

    def to_dataframe(self) -> Any:
        """The results as a pandas table, one row a stub."""
        from paceline.evals.table import to_dataframe

        return to_dataframe(self.rows())

    def compare(self, baseline: str = "dense", **options: Any) -> "Comparison":
        """Each attention against the baseline, on the same samples."""
        from paceline.evals.comparison import compare

        return compare(self.individual_results, baseline=baseline, **options)


def write_csv(results: ExecutionResults, directory: Path) -> None:
    """`results.csv`: one row a result, all metrics in columns."""
    from paceline.evals.table import as_csv

    (directory / RESULTS_TABLE).write_text(as_csv(results.rows()), encoding="utf-8", newline="")

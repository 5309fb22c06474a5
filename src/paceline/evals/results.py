"""What an execution hands back: the results of all stubs, what failed, and the summary that is also on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from paceline.errors import MissingExtra
from paceline.evals.configs import BenchmarkStub

if TYPE_CHECKING:
    from paceline.evals.comparison import Comparison


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
        return [_row(result) for result in self.individual_results]

    def to_dataframe(self) -> Any:
        """The results as a pandas table, one row a stub."""
        try:
            import pandas as pd  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise MissingExtra("the results as a pandas table", "evals") from error
        return pd.DataFrame(self.rows())

    def compare(self, baseline: str = "dense", **options: Any) -> "Comparison":
        """Each attention against the baseline, on the same samples."""
        from paceline.evals.comparison import compare

        return compare(self.individual_results, baseline=baseline, **options)


def _row(result: BenchmarkResult) -> dict[str, Any]:
    stub, metrics = result.stub, result.metrics
    values = {f"metric.{name}": value["value"] for name, value in metrics["metrics"].items()}
    return {
        "model": stub.model_name,
        "attention": stub.sparse_config_name,
        "benchmark": stub.benchmark_name,
        "subset": stub.subset,
        "state": result.state,
        "primary": metrics["primary"],
        "score": result.score,
        "density": result.density,
        "num_samples": metrics["num_samples"],
        "execution_time_s": result.execution_time,
        "result_dir": result.result_dir,
        **values,
    }
